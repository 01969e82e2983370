/**
 * How bytes travel: unary calls over `fetch`, streams over one WebSocket for each generation.
 * Owns framing and the mapping of failures to layers; retrying is left to its users.
 */
import {
  asRemoteError,
  businessError,
  carrierError,
  protocolError,
  type RemoteError,
} from "./errors";
import type { ServerFrame, StreamOperations, UnaryOperations } from "./generated/contract";

export type UnaryName = keyof UnaryOperations;
export type StreamName = keyof StreamOperations;

/** Calls a unary operation; rejects with a RemoteError. */
export type Call = <N extends UnaryName>(
  name: N,
  request: UnaryOperations[N]["request"],
  signal?: AbortSignal,
) => Promise<UnaryOperations[N]["response"]>;

/** Where the Host is and, outside a browser, how to prove who is calling. */
export interface HostLocation {
  /** Such as `http://127.0.0.1:7317`, without a trailing slash; empty for the page's own origin. */
  origin: string;
  /** The bearer token of a program. A browser has a cookie instead. */
  token?: string;
  fetch?: typeof fetch;
}

/** Unary calls over HTTP. */
export function httpCall(host: HostLocation): Call {
  const send = host.fetch ?? ((input, init) => fetch(input, init));
  return async (name, request, signal) => {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (host.token !== undefined) headers.authorization = `Bearer ${host.token}`;
    let status: number;
    let text: string;
    try {
      const response = await send(`${host.origin}/api/${name}`, {
        method: "POST",
        headers,
        body: JSON.stringify(request),
        ...(signal ? { signal } : {}),
      });
      status = response.status;
      text = await response.text();
    } catch (thrown) {
      if (signal?.aborted) throw carrierError("the call was cancelled", "client/cancelled");
      throw carrierError(`the Host cannot be reached: ${asRemoteError(thrown).message}`);
    }
    return readAnswer(status, text) as UnaryOperations[typeof name]["response"];
  };
}

/** Reads the answer to a unary call; throws what it says went wrong. */
export function readAnswer(status: number, text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    if (status === 401) {
      throw businessError({ code: "gateway/unauthenticated", message: text.trim() });
    }
    throw carrierError(`the Host answered ${status} without JSON`, "client/bad-answer");
  }
  if (status >= 200 && status < 300) return value;
  const error = (value as { error?: unknown } | null)?.error;
  if (error === undefined) throw carrierError(`the Host answered ${status}`, "client/bad-answer");
  throw businessError(error);
}

/** What happens on one logical stream. After `failed` or `ended` nothing follows. */
export interface StreamSink {
  item(value: unknown): void;
  failed(error: RemoteError): void;
  ended(): void;
}

/** The part of a WebSocket that is used; lets tests bring their own. */
export interface Socket {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
}

/** One WebSocket that carries many streams. Lives for one generation. */
export class Mux {
  #socket: Socket;
  #open = false;
  #closed = false;
  #next = 1;
  #waiting: string[] = [];
  #streams = new Map<string, StreamSink>();
  #onClose: () => void;

  constructor(socket: Socket, onClose: () => void) {
    this.#socket = socket;
    this.#onClose = onClose;
    socket.onopen = () => {
      this.#open = true;
      for (const text of this.#waiting.splice(0)) socket.send(text);
    };
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onclose = () => this.#finish();
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Opens a stream; the result cancels it, after which the sink hears nothing more. */
  open(endpoint: string, request: unknown, sink: StreamSink): () => void {
    if (this.#closed) {
      queueMicrotask(() => sink.failed(carrierError("the connection is closed")));
      return () => {};
    }
    const streamId = String(this.#next++);
    this.#streams.set(streamId, sink);
    this.#send({ type: "open", streamId, endpoint, request });
    return () => {
      if (this.#streams.delete(streamId) && !this.#closed) this.#send({ type: "cancel", streamId });
    };
  }

  /** Closes the socket; every stream fails as on a broken line. */
  close(code = 1000, reason = ""): void {
    if (this.#closed) return;
    this.#socket.close(code, reason);
    this.#finish();
  }

  #send(frame: object): void {
    const text = JSON.stringify(frame);
    if (this.#open) this.#socket.send(text);
    else this.#waiting.push(text);
  }

  #receive(data: unknown): void {
    if (this.#closed) return;
    let frame: ServerFrame;
    try {
      frame = readServerFrame(data);
    } catch {
      this.close(4002, "invalid frame");
      return;
    }
    const sink = this.#streams.get(frame.streamId);
    // A late item of a stream that was cancelled meanwhile.
    if (!sink) return;
    if (frame.type === "item") {
      sink.item(frame.value);
      return;
    }
    this.#streams.delete(frame.streamId);
    if (frame.type === "error") sink.failed(businessError(frame.error));
    else sink.ended();
  }

  #finish(): void {
    if (this.#closed) return;
    this.#closed = true;
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    this.#onClose();
    for (const sink of streams) sink.failed(carrierError("the connection was lost"));
  }
}

/** Reads a frame of the Host; throws when it is none. */
export function readServerFrame(data: unknown): ServerFrame {
  if (typeof data !== "string") throw protocolError("a frame is not text");
  const frame = JSON.parse(data) as Partial<ServerFrame> | null;
  const known = frame?.type === "item" || frame?.type === "error" || frame?.type === "end";
  if (!known || typeof frame.streamId !== "string") throw protocolError("a frame is malformed");
  return frame as ServerFrame;
}

/** The stream socket of a Host. */
export function streamSocket(host: HostLocation, pageOrigin = ""): Socket {
  const origin = (host.origin || pageOrigin).replace(/^http/, "ws");
  return new WebSocket(`${origin}/api/streams`) as unknown as Socket;
}
