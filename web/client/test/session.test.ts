import { describe, expect, it } from "vitest";
import { businessError, type Change, Control, EventStream, SessionObject } from "../src";
import { fakeCalls, fakeConnection, settle } from "./fakes";

const AFTER_SEQ = ["follow.after-seq"];
const address = { kind: "session", sessionId: "s" } as const;

const event = (seq: number, type = "step/start", data: object = {}) => ({
  type,
  seq,
  time: seq,
  data,
});
const records = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, k) => ({ type: "event", event: event(first + k) }));
const snapshot = (first: number, last: number, hasMore = false) => ({
  type: "snapshot",
  header: { version: 0, id: "s", createdAt: 1 },
  inheritedEventCount: 0,
  cursor: last,
  records: records(first, last),
  hasMore,
  projections: { asOfSeq: last, values: {} },
});

const told = (change: Change) => {
  const { kind, entries } = change;
  return `${kind} ${entries[0]?.first}..${entries.at(-1)?.last}`;
};

describe("an event stream", () => {
  const setUp = () => {
    const fake = fakeConnection();
    const { call, calls } = fakeCalls();
    const log: string[] = [];
    const stream = new EventStream(fake.connection, call, address, {
      change: (change) => log.push(told(change)),
      failed: (error) => log.push(`failed ${error.message}`),
    });
    fake.connection.start();
    stream.start();
    const say = (item: object) => fake.last().item("session/follow", item);
    const asked = () => fake.last().opening("session/follow").request;
    return { ...fake, calls, log, stream, say, asked };
  };

  it("continues after its cursor when the same process comes back", () => {
    const { last, reconnect, say, asked, log } = setUp();
    last().hello("g1", AFTER_SEQ);
    say(snapshot(0, 3));
    say({ type: "event", event: event(4) });
    reconnect("g1", AFTER_SEQ);
    expect(asked()).toEqual({ address, afterSeq: 4 });
    say({ type: "event", event: event(5) });
    expect(log).toEqual(["replace 0..3", "append 4..4", "append 5..5"]);
  });

  it("takes a snapshot from a new process, even a shorter one", () => {
    const { last, reconnect, say, asked, log } = setUp();
    last().hello("g1", AFTER_SEQ);
    say(snapshot(0, 9));
    reconnect("g2", AFTER_SEQ);
    expect(asked()).toEqual({ address, maxMessages: 50 });
    say(snapshot(0, 7));
    expect(log).toEqual(["replace 0..9", "replace 0..7"]);
  });

  it("asks for a snapshot where the Host cannot continue", () => {
    const { last, reconnect, say, asked, log } = setUp();
    last().hello("g1");
    say(snapshot(0, 3));
    reconnect("g1");
    expect(asked()).toEqual({ address, maxMessages: 50 });
    say(snapshot(0, 4));
    expect(log).toEqual(["replace 0..3", "replace 0..4"]);
  });

  it("falls back to a snapshot when its cursor is refused", () => {
    const { last, reconnect, asked, log, say } = setUp();
    last().hello("g1", AFTER_SEQ);
    say(snapshot(0, 3));
    reconnect("g1", AFTER_SEQ);
    const { streamId } = last().opening("session/follow");
    const error = { code: "gateway/bad-request", message: "m", details: {}, retryable: false };
    last().say({ type: "error", streamId, error });
    expect(asked()).toEqual({ address, maxMessages: 50 });
    say(snapshot(0, 5));
    expect(log).toEqual(["replace 0..3", "replace 0..5"]);
  });

  it("does not ask for ever for a range that the Host cannot supply", () => {
    const { last, reconnect, log, say, asked } = setUp();
    last().hello("g1", AFTER_SEQ);
    say(snapshot(0, 3));
    reconnect("g1", AFTER_SEQ);
    const error = { code: "gateway/overflow", message: "too far", details: {}, retryable: true };
    const overflow = () => {
      const { streamId } = last().opening("session/follow");
      last().say({ type: "error", streamId, error });
    };
    overflow();
    expect(asked()).toEqual({ address, maxMessages: 50 });
    overflow();
    expect(log).toEqual(["replace 0..3", "failed too far"]);
  });

  it("repairs a gap by one page", async () => {
    const { last, say, calls, log } = setUp();
    last().hello("g1");
    say(snapshot(0, 3));
    say({ type: "event", event: event(7) });
    expect(calls).toMatchObject([{ name: "session/page", request: { throughSeq: 7 } }]);
    say({ type: "event", event: event(8) });
    calls[0]?.answer({ records: records(2, 7), hasMore: true });
    await settle();
    expect(log).toEqual(["replace 0..3", "replace 2..8"]);
  });

  it("ends visibly when the page fails while the line is good", async () => {
    const { last, say, calls, log } = setUp();
    last().hello("g1");
    say(snapshot(0, 3));
    say({ type: "event", event: event(7) });
    calls[0]?.refuse(businessError({ code: "storage/unavailable", message: "no disk" }));
    await settle();
    expect(log).toEqual(["replace 0..3", "failed no disk"]);
  });

  it("loads older entries before the window", async () => {
    const { last, say, calls, log, stream } = setUp();
    last().hello("g1");
    say(snapshot(10, 12, true));
    const loading = stream.loadOlder();
    expect(calls).toMatchObject([{ request: { throughSeq: 12, beforeSeq: 10, maxMessages: 50 } }]);
    calls[0]?.answer({ records: records(4, 9), hasMore: true });
    await loading;
    expect(log).toEqual(["replace 10..12", "prepend 4..9"]);
  });
});

describe("a session", () => {
  const setUp = () => {
    const fake = fakeConnection();
    const { call, calls } = fakeCalls();
    const control = new Control(fake.connection);
    const frames: Array<() => void> = [];
    const session = new SessionObject("s", {
      connection: fake.connection,
      call,
      control,
      row: () => undefined,
      schedule: (run) => frames.push(run),
      now: () => 1,
    });
    fake.connection.start();
    control.start();
    session.open();
    fake.last().hello("g1");
    const interactions = {};
    const value = { queues: {}, jobs: {}, projections: {}, interactions };
    fake.last().item("session/control", { type: "baseline", value });
    fake.last().item("session/follow", snapshot(0, 1));
    const say = (item: object) => fake.last().item("session/follow", item);
    const requestId = () =>
      String((calls.at(-1)?.request as { requestId?: string } | undefined)?.requestId);
    return { ...fake, session, calls, frames, say, requestId };
  };

  it("shows what is sent at once and lets go of it when the log shows it", async () => {
    const { session, calls, frames, say, requestId } = setUp();
    const sent = session.send("hi", "queue", false);
    expect(session.view.pending).toMatchObject([{ text: "hi", placement: "transcript" }]);
    expect(session.view.promptAttempted).toBe(true);
    calls.at(-1)?.answer({ accepted: true, messageId: "m" });
    expect(await sent).toBe(true);
    expect(session.view.blank).toBe(false);
    expect(session.view.pending).toHaveLength(1);
    const source = { kind: "user", rpcId: requestId() };
    say({ type: "event", event: event(2, "user/message", { id: "m", source }) });
    expect(session.view.pending).toHaveLength(1);
    frames[0]?.();
    expect(session.view.pending).toHaveLength(0);
  });

  it("keeps a session blank whose first prompt was refused", async () => {
    const { session, calls } = setUp();
    const sent = session.send("hi", "queue", false);
    calls.at(-1)?.refuse(businessError({ code: "session/model-unavailable", message: "m" }));
    expect(await sent).toBe(false);
    expect(session.view).toMatchObject({
      blank: true,
      pending: [],
      failure: { op: "send", error: { code: "session/model-unavailable" } },
    });
  });

  it("says nothing when a queue row moved on by itself", async () => {
    const { session, calls } = setUp();
    const done = session.updateQueue("i", { kind: "steer" });
    calls.at(-1)?.refuse(businessError({ code: "session/steer-unavailable", message: "m" }));
    expect(await done).toBe(true);
    expect(session.view.failure).toBeNull();
  });

  it("hands a steering row over to the log", () => {
    const { session, last, say } = setUp();
    const item = { id: "m", placement: "steering", message: { id: "m", content: [] } };
    const queue = { type: "queue", sessionId: "s", parked: false, items: [item] };
    last().item("session/control", queue);
    expect(session.view.queue.rows).toHaveLength(1);
    say({ type: "event", event: event(2, "user/message", { id: "m", source: { kind: "user" } }) });
    expect(session.view.queue.rows).toHaveLength(0);
  });

  it("keeps its window while the line is broken", () => {
    const { session, reconnect, last } = setUp();
    const before = session.entries.length;
    last().close();
    expect(session.entries).toHaveLength(before);
    expect(session.view.openState).toBe("open");
    reconnect("g2");
    last().item("session/follow", snapshot(0, 4));
    expect(session.entries).toHaveLength(5);
  });
});
