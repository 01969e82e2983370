/**
 * One logical stream over the generations of a connection.
 *
 * Only a broken line is retried: at once and once while the generation lives, otherwise with the
 * next generation. Everything else ends the stream visibly, so that nothing retries for ever.
 */
import type { StreamName } from "./carrier";
import type { Connection, Generation } from "./connection";
import { asRemoteError, carrierError, protocolError, type RemoteError } from "./errors";
import type { StreamOperations } from "./generated/contract";

export interface RemoteStreamHandler<N extends StreamName> {
  /** Says what to ask for; called before each opening. */
  request(generation: Generation): StreamOperations[N]["request"];
  /** The next item. Throwing ends the stream. */
  item(item: StreamOperations[N]["response"], generation: Generation): void;
  /** The stream broke; it may be opened again. */
  interrupted?(error: RemoteError): void;
  /** May turn a failure into one more opening by returning true. */
  recover?(error: RemoteError): boolean;
  /** The stream is over. */
  failed(error: RemoteError): void;
}

export class RemoteStream<N extends StreamName> {
  #connection: Connection;
  #endpoint: N;
  #handler: RemoteStreamHandler<N>;
  #cancel: (() => void) | null = null;
  #attempt = 0;
  #accepted = false;
  #started = false;
  #over = false;
  /** Grows with each opening, so that what an older one still says is not heard. */
  #opening = 0;

  constructor(connection: Connection, endpoint: N, handler: RemoteStreamHandler<N>) {
    this.#connection = connection;
    this.#endpoint = endpoint;
    this.#handler = handler;
  }

  start(): void {
    if (this.#started || this.#over) return;
    this.#started = true;
    this.#wait();
  }

  /**
   * The opening was good. With `proven` the next broken line gets its retry again; without, the
   * Host has not sent anything yet and must not be asked for ever.
   */
  accept(proven = true): void {
    this.#accepted = true;
    if (proven) this.#attempt = 0;
  }

  /** Opens the stream afresh. */
  restart(): void {
    if (this.#over) return;
    this.#stop();
    this.#attempt = 0;
    this.#wait();
  }

  dispose(): void {
    this.#over = true;
    this.#stop();
  }

  #stop(): void {
    this.#opening++;
    this.#cancel?.();
    this.#cancel = null;
  }

  #wait(): void {
    const opening = this.#opening;
    const withdraw = this.#connection.whenReady((generation) => {
      if (opening === this.#opening && !this.#over) this.#open(generation);
    });
    // An opening that happened at once has set its own way to cancel.
    if (opening === this.#opening) this.#cancel = withdraw;
  }

  #open(generation: Generation): void {
    const opening = ++this.#opening;
    this.#accepted = false;
    const current = () => opening === this.#opening && !this.#over;
    let request: StreamOperations[N]["request"];
    try {
      request = this.#handler.request(generation);
    } catch (thrown) {
      this.#fail(asRemoteError(thrown));
      return;
    }
    this.#cancel = generation.mux.open(this.#endpoint, request, {
      item: (value) => {
        if (!current()) return;
        try {
          this.#handler.item(value as StreamOperations[N]["response"], generation);
        } catch (thrown) {
          this.#fail(asRemoteError(thrown));
        }
      },
      failed: (error) => {
        if (current()) this.#broken(error, generation);
      },
      ended: () => {
        if (!current()) return;
        if (this.#accepted) this.#broken(carrierError("the Host ended the stream"), generation);
        else this.#fail(protocolError("the stream ended before it began"));
      },
    });
  }

  #broken(error: RemoteError, generation: Generation): void {
    // The Host dropped a stream that it could not supply; opening again is the cure.
    const retryable = error.layer === "carrier" || error.code === "gateway/overflow";
    if (!retryable) {
      if (this.#handler.recover?.(error)) this.restart();
      else this.#fail(error);
      return;
    }
    this.#handler.interrupted?.(error);
    const alive = this.#connection.generation === generation && !generation.mux.closed;
    if (!alive) {
      this.#attempt = 0;
      this.#stop();
      this.#wait();
      return;
    }
    if (this.#attempt > 0) {
      this.#fail(error);
      return;
    }
    this.#attempt++;
    this.#open(generation);
  }

  #fail(error: RemoteError): void {
    if (this.#over) return;
    this.dispose();
    this.#handler.failed(error);
  }
}
