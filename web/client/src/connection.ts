/**
 * One connection to a Host over its generations: `host/hello` first, back-off between attempts.
 * Leaves to others: what runs over it (`remote-stream`), unary calls (`carrier`).
 */
import { Mux, type Socket } from "./carrier";
import { businessError, carrierError, protocolError, type RemoteError } from "./errors";
import { type HelloItem, PROTOCOL, type Ready } from "./generated/contract";
import { Emitter } from "./observable";

/** How long a Host may take to say hello. */
export const READY_TIMEOUT_MS = 15_000;

/** `refused` needs a person: no credential, or a Host of another major version. */
export type ConnectionState = "connecting" | "connected" | "reconnecting" | "refused" | "stopped";

/** One physical life of the connection. */
export interface Generation {
  readonly number: number;
  readonly ready: Ready;
  readonly mux: Mux;
}

/** The pause before attempt `attempt` (0-based): uniform in [cap/2, cap], cap doubling to 10 s. */
export function backoffDelay(attempt: number, random: () => number): number {
  const cap = Math.min(10_000, 500 * 2 ** Math.min(attempt, 10));
  return cap / 2 + random() * (cap / 2);
}

export interface ConnectionOptions {
  socket: () => Socket;
  /** Asked when a generation never became ready: resolves to why a person is needed, or null. */
  refusal?: () => Promise<RemoteError | null>;
  random?: () => number;
  setTimer?: (run: () => void, ms: number) => unknown;
  clearTimer?: (timer: never) => void;
}

export class Connection {
  readonly changed = new Emitter();
  /** One-way news of the Host. */
  readonly news = new Emitter<{ event: string; args: unknown }>();
  #options: Required<Omit<ConnectionOptions, "refusal">> & Pick<ConnectionOptions, "refusal">;
  #state: ConnectionState = "connecting";
  #generation: Generation | null = null;
  #lastReady: Ready | null = null;
  #refusal: RemoteError | null = null;
  #count = 0;
  #attempt = 0;
  #started = false;
  #mux: Mux | null = null;
  #timer: unknown = null;
  #waiters: Array<(generation: Generation) => void> = [];

  constructor(options: ConnectionOptions) {
    this.#options = {
      random: Math.random,
      setTimer: (run, ms) => setTimeout(run, ms),
      clearTimer: (timer) => clearTimeout(timer),
      ...options,
    };
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** The present generation, once its hello has come. */
  get generation(): Generation | null {
    return this.#generation;
  }

  /** What the Host last said about itself; stays while the line is broken. */
  get lastReady(): Ready | null {
    return this.#lastReady;
  }

  /** Why a person is needed, in state `refused`. */
  get refusal(): RemoteError | null {
    return this.#refusal;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#connect();
  }

  stop(): void {
    this.#started = false;
    this.#clear();
    this.#mux?.close();
    this.#set("stopped");
  }

  /** Tries again now instead of waiting out the pause. */
  retryNow(): void {
    if (!this.#started || this.#generation) return;
    this.#clear();
    this.#attempt = 0;
    this.#mux?.close();
    this.#clear();
    this.#connect();
  }

  /** Calls back with the present generation or the next one; the result withdraws. */
  whenReady(callback: (generation: Generation) => void): () => void {
    if (this.#generation) {
      callback(this.#generation);
      return () => {};
    }
    this.#waiters.push(callback);
    return () => {
      this.#waiters = this.#waiters.filter((waiter) => waiter !== callback);
    };
  }

  #connect(): void {
    let lost = false;
    const mux: Mux = new Mux(this.#options.socket(), () => {
      if (!lost) {
        lost = true;
        this.#lost(mux, null);
      }
    });
    this.#mux = mux;
    this.#timer = this.#options.setTimer(() => mux.close(4000, "no hello"), READY_TIMEOUT_MS);
    const over = (error: RemoteError | null) => {
      if (!lost) {
        lost = true;
        this.#lost(mux, error);
        mux.close();
      }
    };
    mux.open(
      "host/hello",
      {},
      {
        item: (value) => this.#hello(mux, value as HelloItem, over),
        failed: over,
        ended: () => over(carrierError("the Host ended this generation")),
      },
    );
  }

  #hello(mux: Mux, item: HelloItem, over: (error: RemoteError) => void): void {
    if (this.#generation?.mux === mux) {
      if (item.type === "emit") this.news.emit({ event: item.event, args: item.args });
      else over(protocolError("the Host said hello twice"));
      return;
    }
    if (item.type !== "ready") {
      over(protocolError("the Host did not say hello first"));
      return;
    }
    if (item.protocol.name !== PROTOCOL.name || item.protocol.major !== PROTOCOL.major) {
      const theirs = `${item.protocol.name} ${item.protocol.major}`;
      const message = `the Host speaks ${theirs}, this client ${PROTOCOL.name} ${PROTOCOL.major}`;
      over(businessError({ code: "client/protocol-version", message }));
      return;
    }
    this.#clear();
    this.#attempt = 0;
    this.#refusal = null;
    const generation = { number: ++this.#count, ready: item, mux };
    this.#generation = generation;
    this.#lastReady = item;
    this.#set("connected");
    // A listener may have stopped the connection just now.
    if (this.#generation !== generation) return;
    for (const waiter of this.#waiters.splice(0)) waiter(generation);
  }

  #lost(mux: Mux, error: RemoteError | null): void {
    if (this.#mux !== mux) return;
    this.#clear();
    this.#mux = null;
    const wasReady = this.#generation !== null;
    this.#generation = null;
    if (!this.#started) return;
    if (error && needsPerson(error)) {
      this.#refuse(error);
      return;
    }
    this.#set(this.#count > 0 ? "reconnecting" : "connecting");
    const wait = backoffDelay(this.#attempt++, this.#options.random);
    this.#timer = this.#options.setTimer(() => {
      this.#timer = null;
      this.#connect();
    }, wait);
    // A browser does not tell why an upgrade failed, so a plain call is asked.
    if (!wasReady && this.#options.refusal) {
      void this.#options.refusal().then((refusal) => {
        if (refusal && needsPerson(refusal) && this.#started && !this.#generation) {
          this.#refuse(refusal);
        }
      });
    }
  }

  #refuse(error: RemoteError): void {
    this.#clear();
    this.#refusal = error;
    const mux = this.#mux;
    this.#mux = null;
    mux?.close();
    this.#set("refused");
  }

  #set(state: ConnectionState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.changed.emit();
  }

  #clear(): void {
    if (this.#timer !== null) this.#options.clearTimer(this.#timer as never);
    this.#timer = null;
  }
}

function needsPerson(error: RemoteError): boolean {
  return (
    error.code === "gateway/unauthenticated" ||
    error.code === "gateway/untrusted-origin" ||
    error.code === "client/protocol-version"
  );
}
