import { describe, expect, it } from "vitest";
import { RemoteStream } from "../src";
import { fakeConnection } from "./fakes";

const setUp = () => {
  const fake = fakeConnection();
  const { connection, last } = fake;
  const states: string[] = [];
  connection.changed.subscribe(() => states.push(connection.state));
  const log: string[] = [];
  const stream: RemoteStream<"session/control"> = new RemoteStream(connection, "session/control", {
    request: () => ({}),
    item: (item) => {
      log.push(item.type);
      if (item.type === "baseline") stream.accept();
    },
    failed: (error) => log.push(`failed ${error.code}`),
  });
  connection.start();
  stream.start();
  const control = () => last().opening("session/control").streamId;
  return { ...fake, states, stream, log, control };
};

describe("a connection", () => {
  it("says hello before it opens anything else", () => {
    const { last } = setUp();
    last().onopen?.();
    expect(last().sent).toMatchObject([{ type: "open", endpoint: "host/hello" }]);
    last().hello("g1");
    expect(last().sent.at(-1)).toMatchObject({ type: "open", endpoint: "session/control" });
  });

  it("reconnects after a pause and opens its streams again", () => {
    const { last, states, timers, sockets, connection } = setUp();
    last().hello("g1");
    last().close();
    expect(connection.generation).toBeNull();
    timers.at(-1)?.();
    expect(sockets).toHaveLength(2);
    last().hello("g2");
    expect(states).toEqual(["connected", "reconnecting", "connected"]);
    expect(last().sent.at(-1)).toMatchObject({ type: "open", endpoint: "session/control" });
  });

  it("refuses a Host of another major version", () => {
    const { last, connection } = setUp();
    last().onopen?.();
    const protocol = { name: "orrery", major: 99, minor: 0 };
    const value = { type: "ready", protocol, capabilities: [] };
    last().say({ type: "item", streamId: last().opening("host/hello").streamId, value });
    expect(connection.state).toBe("refused");
    expect(connection.refusal?.code).toBe("client/protocol-version");
  });

  it("closes on a frame that is none", () => {
    const { last, connection } = setUp();
    last().hello("g1");
    last().onmessage?.({ data: "nonsense" });
    expect(connection.state).toBe("reconnecting");
  });
});

describe("a stream", () => {
  it("retries once at once while the generation lives, then gives up", () => {
    const { last, control, log } = setUp();
    last().hello("g1");
    const baseline = { type: "baseline", value: {} };
    last().say({ type: "item", streamId: control(), value: baseline });
    const first = control();
    last().say({ type: "end", streamId: first });
    expect(control()).not.toBe(first);
    const overflow = { code: "gateway/overflow", message: "m", details: {}, retryable: true };
    last().say({ type: "error", streamId: control(), error: overflow });
    expect(log).toEqual(["baseline", "failed gateway/overflow"]);
  });

  it("gets its retry back with every good opening", () => {
    const { last, control, log } = setUp();
    last().hello("g1");
    for (let k = 0; k < 4; k++) {
      last().say({ type: "item", streamId: control(), value: { type: "baseline", value: {} } });
      last().say({ type: "end", streamId: control() });
    }
    expect(log).toEqual(["baseline", "baseline", "baseline", "baseline"]);
  });

  it("ends at once when the Host refuses it", () => {
    const { last, control, log } = setUp();
    last().hello("g1");
    const error = { code: "session/not-found", message: "m", details: {}, retryable: false };
    last().say({ type: "error", streamId: control(), error });
    expect(log).toEqual(["failed session/not-found"]);
  });

  it("ends when it ends before it began", () => {
    const { last, control, log } = setUp();
    last().hello("g1");
    last().say({ type: "end", streamId: control() });
    expect(log).toEqual(["failed client/protocol"]);
  });

  it("hears nothing more after it was disposed", () => {
    const { last, control, log, stream } = setUp();
    last().hello("g1");
    const id = control();
    stream.dispose();
    expect(last().sent.at(-1)).toEqual({ type: "cancel", streamId: id });
    last().say({ type: "item", streamId: id, value: { type: "baseline", value: {} } });
    expect(log).toEqual([]);
  });
});
