/** A client of one Host: connection, catalogue, control and session objects put together. */
import { type Call, type HostLocation, httpCall, type Socket, streamSocket } from "./carrier";
import { Catalogue } from "./catalogue";
import { Connection } from "./connection";
import { Control } from "./control";
import { asRemoteError } from "./errors";
import type { SubagentMode } from "./generated/contract";
import { type FrameScheduler, nextFrame } from "./observable";
import { SessionObject, type SubagentAddress } from "./session";

export interface ClientOptions extends HostLocation {
  /** The page's own origin, when `origin` is empty. */
  pageOrigin?: string;
  /** Makes the stream socket; the browser's WebSocket when absent. */
  socket?: () => Socket;
  schedule?: FrameScheduler;
  catalogueLimit?: number;
}

export class OrreryClient {
  readonly call: Call;
  readonly connection: Connection;
  readonly catalogue: Catalogue;
  readonly control: Control;
  #sessions = new Map<string, SessionObject>();
  #schedule: FrameScheduler;

  constructor(options: ClientOptions) {
    this.call = httpCall(options);
    this.#schedule = options.schedule ?? nextFrame;
    this.connection = new Connection({
      socket: options.socket ?? (() => streamSocket(options, options.pageOrigin)),
      refusal: async () => {
        try {
          await this.call("host/stats", {});
          return null;
        } catch (thrown) {
          return asRemoteError(thrown);
        }
      },
    });
    this.catalogue = new Catalogue(this.connection, this.call, options.catalogueLimit ?? 200);
    this.control = new Control(this.connection);
    this.catalogue.rowChanged.subscribe((row) => {
      if (row.projections) this.control.projections(row.sessionId).hint(row.projections);
    });
  }

  start(): void {
    this.connection.start();
    this.catalogue.start();
    this.control.start();
  }

  stop(): void {
    this.catalogue.dispose();
    this.control.dispose();
    for (const session of this.#sessions.values()) session.dispose();
    this.#sessions.clear();
    this.connection.stop();
  }

  /** The session object of an id; one for each id. */
  session(sessionId: string): SessionObject {
    return this.#object(sessionId, sessionId, null);
  }

  /** The session object of a subagent, which its parent speaks for. */
  subagent(parentSessionId: string, childSessionId: string, mode: SubagentMode): SessionObject {
    const address = { kind: "subagent", parentSessionId, childSessionId, mode } as const;
    return this.#object(`${parentSessionId} ${childSessionId} ${mode}`, childSessionId, address);
  }

  #object(key: string, sessionId: string, address: SubagentAddress | null): SessionObject {
    let session = this.#sessions.get(key);
    if (!session) {
      const services = {
        connection: this.connection,
        call: this.call,
        control: this.control,
        row: (id: string) => this.catalogue.row(id),
        schedule: this.#schedule,
        now: Date.now,
      };
      session = new SessionObject(sessionId, services, address);
      this.#sessions.set(key, session);
    }
    return session;
  }
}
