/**
 * One session as a client knows it: its window of the log, its queue, what was sent and not seen
 * yet, and the calls that concern it. Leaves to others: rendering, and which sessions exist.
 */
import type { Call } from "./carrier";
import type { Connection } from "./connection";
import type { Control } from "./control";
import { asRemoteError, type RemoteError } from "./errors";
import { EventStream } from "./event-stream";
import type {
  Address,
  DeliveryMode,
  ModelChoice,
  PromptContentPart,
  QueueAction,
  SessionHeaderView,
  SessionSummary,
  SessionWireEvent,
} from "./generated/contract";
import type { Change } from "./journal";
import { Emitter, type FrameScheduler } from "./observable";
import { QueueMirror, type QueueView } from "./queue-mirror";
import type { Entry } from "./records";
import { mintRequestId, type Submission, Submissions } from "./submissions";

export type OpenState = "cold" | "loading" | "open" | "error";

export interface SessionView {
  readonly openState: OpenState;
  readonly openError: RemoteError | null;
  readonly hasMore: boolean;
  readonly loadingOlder: boolean;
  readonly queue: QueueView;
  readonly pending: readonly Submission[];
  readonly blank: boolean;
  readonly promptAttempted: boolean;
  /** The last call of a person that failed, until the next one. */
  readonly failure: { op: string; error: RemoteError } | null;
}

export interface SessionServices {
  connection: Connection;
  call: Call;
  control: Control;
  row: (sessionId: string) => SessionSummary | undefined;
  schedule: FrameScheduler;
  now: () => number;
}

/** How many messages are asked for at once on the way to an old event. */
const REACH_MESSAGES = 500;

/** Where a subagent's log is reached: through its parent. */
export type SubagentAddress = Extract<Address, { kind: "subagent" }>;

export class SessionObject {
  readonly sessionId: string;
  /** Set for a subagent: its parent speaks for it. */
  readonly subagent: SubagentAddress | null;
  readonly changed = new Emitter();
  /** Changes of the window, in order and without holes. */
  readonly windowChanged = new Emitter<Change>();
  #services: SessionServices;
  #stream: EventStream | null = null;
  #entries: Entry[] = [];
  #header: SessionHeaderView | null = null;
  #queue = new QueueMirror();
  #submissions: Submissions;
  #view: SessionView;
  #withdraw: Array<() => void> = [];
  #older: Promise<void> | null = null;

  constructor(
    sessionId: string,
    services: SessionServices,
    subagent: SubagentAddress | null = null,
  ) {
    this.sessionId = sessionId;
    this.subagent = subagent;
    this.#services = services;
    this.#submissions = new Submissions(services.schedule);
    this.#queue.replace(services.control.queue(sessionId));
    this.#view = {
      openState: "cold",
      openError: null,
      hasMore: false,
      loadingOlder: false,
      queue: this.#queue.view,
      pending: this.#submissions.entries,
      blank: services.row(sessionId)?.blank ?? true,
      promptAttempted: false,
      failure: null,
    };
    this.#withdraw.push(
      this.#submissions.changed.subscribe(() => this.#set({ pending: this.#submissions.entries })),
      services.control.queueChanged.subscribe((id) => {
        if (id === sessionId) this.#queueFrame();
      }),
    );
  }

  get view(): SessionView {
    return this.#view;
  }

  /** The window, oldest first. Read it together with `windowChanged`; do not keep it. */
  get entries(): readonly Entry[] {
    return this.#entries;
  }

  get header(): SessionHeaderView | null {
    return this.#header;
  }

  /** Follows the log; does nothing while it is followed already. */
  open(): void {
    if (this.#view.openState === "loading" || this.#view.openState === "open") return;
    this.#stream?.dispose();
    const { connection, call, control } = this.#services;
    const address = this.subagent ?? ({ kind: "session", sessionId: this.sessionId } as const);
    const stream: EventStream = new EventStream(connection, call, address, {
      snapshot: (snapshot, newProcess) => {
        this.#header = snapshot.header;
        const store = control.projections(this.sessionId);
        if (newProcess) store.controlBaseline(snapshot.projections);
        else store.baseline(snapshot.projections);
      },
      change: (change) => {
        if (this.#stream === stream) this.#apply(change);
      },
      failed: (error) => {
        if (this.#stream === stream) this.#set({ openState: "error", openError: error });
      },
    });
    this.#stream = stream;
    this.#set({ openState: "loading", openError: null });
    stream.start();
  }

  /** Stops following; the window stays. */
  close(): void {
    this.#stream?.dispose();
    this.#stream = null;
    this.#set({ openState: "cold", loadingOlder: false });
  }

  /** Loads older entries; who asks meanwhile waits for the same ones. */
  loadOlder(maxMessages?: number): Promise<void> {
    const { openState, hasMore } = this.#view;
    if (this.#older) return this.#older;
    if (!this.#stream || openState !== "open" || !hasMore) return Promise.resolve();
    this.#older = this.#loadOlder(this.#stream, maxMessages).finally(() => {
      this.#older = null;
    });
    return this.#older;
  }

  async #loadOlder(stream: EventStream, maxMessages: number | undefined): Promise<void> {
    this.#set({ loadingOlder: true });
    try {
      await stream.loadOlder(maxMessages);
    } catch (thrown) {
      this.#set({ failure: { op: "older", error: asRemoteError(thrown) } });
    } finally {
      this.#set({ loadingOlder: false });
    }
  }

  /** Loads older entries until the window reaches back to an event; whether it does. */
  async reach(seq: number): Promise<boolean> {
    for (;;) {
      const first = this.#entries[0]?.first;
      if (first === undefined || this.#view.openState !== "open") return false;
      if (first <= seq) return true;
      await this.loadOlder(REACH_MESSAGES);
      if (this.#entries[0]?.first === first) return false;
    }
  }

  /** Says something. The echo shows at once; resolves to whether the Host took it. */
  async send(text: string, mode: DeliveryMode, running: boolean): Promise<boolean> {
    const requestId = mintRequestId();
    const time = this.#services.now();
    this.#submissions.begin({ requestId, mode, running, text, time });
    this.#set({ promptAttempted: true, failure: null });
    const content: PromptContentPart[] = [{ type: "text", text }];
    const clientTimeZone = timeZone();
    const zone = clientTimeZone === undefined ? {} : { clientTimeZone };
    const { sessionId, subagent } = this;
    const { call } = this.#services;
    const ok = await this.#run("send", async () => {
      if (!subagent) {
        await call("session/prompt", { requestId, sessionId, mode, content, ...zone });
        return;
      }
      const { parentSessionId, childSessionId } = subagent;
      const to = { parentSessionId, childSessionId, mode: "continuable" } as const;
      await call("subagent/prompt", { requestId, ...to, delivery: mode, content, ...zone });
    });
    if (ok) this.#set({ blank: false });
    else this.#submissions.fail(requestId);
    return ok;
  }

  stop(): Promise<boolean> {
    const { sessionId, subagent } = this;
    const { call } = this.#services;
    return this.#run("stop", async () => {
      if (!subagent) {
        await call("session/cancel", { sessionId });
        return;
      }
      const { parentSessionId, childSessionId, mode } = subagent;
      await call("subagent/interrupt", { parentSessionId, childSessionId, mode });
    });
  }

  updateQueue(itemId: string, action: QueueAction): Promise<boolean> {
    return this.#run("queue", async () => {
      try {
        await this.#services.call("session/updateQueue", {
          sessionId: this.sessionId,
          itemId,
          action,
        });
      } catch (thrown) {
        // The row moved on by itself; the next frame shows where to.
        const { code } = asRemoteError(thrown);
        const converged =
          code === "session/queue-item-not-found" || code === "session/steer-unavailable";
        if (!converged) throw thrown;
      }
    });
  }

  resumeQueue(): Promise<boolean> {
    return this.#run("queue", () =>
      this.#services.call("session/resumeQueue", { sessionId: this.sessionId }),
    );
  }

  rename(title: string): Promise<boolean> {
    return this.#run("rename", async () => {
      const { sessionId } = this;
      const answer = await this.#services.call("session/rename", { sessionId, title });
      this.#services.control.projections(sessionId).push("title", answer.title, answer.seq);
    });
  }

  selectModel(choice: ModelChoice): Promise<boolean> {
    return this.#run("model", () =>
      this.#services.call("session/selectModel", { sessionId: this.sessionId, ...choice }),
    );
  }

  clearFailure(): void {
    if (this.#view.failure) this.#set({ failure: null });
  }

  dispose(): void {
    for (const withdraw of this.#withdraw.splice(0)) withdraw();
    this.#submissions.dispose();
    this.#stream?.dispose();
    this.#stream = null;
  }

  async #run(op: string, call: () => Promise<unknown>): Promise<boolean> {
    this.clearFailure();
    try {
      await call();
      return true;
    } catch (thrown) {
      this.#set({ failure: { op, error: asRemoteError(thrown) } });
      return false;
    }
  }

  #apply(change: Change): void {
    if (change.kind === "append") this.#entries.push(...change.entries);
    else if (change.kind === "replace") this.#entries = [...change.entries];
    else this.#entries = [...change.entries, ...this.#entries];
    this.windowChanged.emit(change);
    if (change.kind !== "prepend") this.#observe(change.entries);
    const hasMore = change.kind === "append" ? this.#view.hasMore : change.hasMore;
    if (this.#view.openState !== "open" || hasMore !== this.#view.hasMore) {
      this.#set({ openState: "open", openError: null, hasMore });
    }
  }

  /** An older page cannot confirm what was just sent, so only these changes come here. */
  #observe(entries: readonly Entry[]): void {
    for (const { record } of entries) {
      if (record.type !== "event" || record.event.type !== "user/message") continue;
      const { id, rpcId } = userMessage(record.event);
      if (rpcId !== undefined) this.#submissions.observe(rpcId);
      if (id !== undefined && this.#queue.handOver(id)) this.#set({ queue: this.#queue.view });
    }
  }

  #queueFrame(): void {
    const queue = this.#services.control.queue(this.sessionId);
    this.#queue.replace(queue);
    if (this.#queue.view !== this.#view.queue) this.#set({ queue: this.#queue.view });
    for (const { rpcId } of this.#queue.view.rows) {
      if (rpcId !== undefined) this.#submissions.observe(rpcId);
    }
  }

  #set(change: Partial<SessionView>): void {
    this.#view = { ...this.#view, ...change };
    this.changed.emit();
  }
}

function userMessage(event: SessionWireEvent): { id?: string; rpcId?: string } {
  const message = event.data as { id?: unknown; source?: { rpcId?: unknown } } | null;
  return {
    ...(typeof message?.id === "string" ? { id: message.id } : {}),
    ...(typeof message?.source?.rpcId === "string" ? { rpcId: message.source.rpcId } : {}),
  };
}

/** The reader's time zone, where it has the form that the Host takes. */
function timeZone(): string | undefined {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone === "UTC" || zone?.includes("/") ? zone : undefined;
}
