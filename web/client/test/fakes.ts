/** A Host at the other end of a socket, played by the test. */
import { type Call, type ClientFrame, Connection, type Socket } from "../src";

export class FakeSocket implements Socket {
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  sent: ClientFrame[] = [];

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.onclose?.();
  }

  say(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  /** The last opening of `endpoint`. */
  opening(endpoint: string): { streamId: string; request: unknown } {
    const open = this.sent.findLast(
      (frame) => frame.type === "open" && frame.endpoint === endpoint,
    );
    if (open?.type !== "open") throw new Error(`${endpoint} was not opened`);
    return open;
  }

  /** Says one item on the last stream of `endpoint`. */
  item(endpoint: string, value: object): void {
    this.say({ type: "item", streamId: this.opening(endpoint).streamId, value });
  }

  hello(generation: string, capabilities: string[] = []): void {
    this.onopen?.();
    const protocol = { name: "orrery", major: 1, minor: 0 };
    const ready = { clientId: "c", protocol, capabilities, hostId: "h", generation, home: "/" };
    this.item("host/hello", { type: "ready", ...ready });
  }
}

/** A connection whose sockets and timers belong to the test. */
export function fakeConnection() {
  const sockets: FakeSocket[] = [];
  const timers: Array<() => void> = [];
  const connection = new Connection({
    socket: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket;
    },
    random: () => 0,
    setTimer: (run) => timers.push(run) - 1,
    clearTimer: (timer) => {
      timers[timer as number] = () => {};
    },
  });
  const last = (): FakeSocket => {
    const socket = sockets.at(-1);
    if (!socket) throw new Error("nothing was connected");
    return socket;
  };
  /** Loses the line and connects again. */
  const reconnect = (generation: string, capabilities: string[] = []) => {
    last().close();
    timers.at(-1)?.();
    last().hello(generation, capabilities);
  };
  return { connection, sockets, timers, last, reconnect };
}

/** Unary calls that wait for the test to answer them. */
export function fakeCalls() {
  const calls: Array<{
    name: string;
    request: never;
    answer: (value: unknown) => void;
    refuse: (error: unknown) => void;
  }> = [];
  const call = ((name: string, request: never) =>
    new Promise<unknown>((answer, refuse) =>
      calls.push({ name, request, answer, refuse }),
    )) as Call;
  return { call, calls };
}

/** Lets promises that are settled already be heard. */
export const settle = () => new Promise((resolve) => setTimeout(resolve, 0));
