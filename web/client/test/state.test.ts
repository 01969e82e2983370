import { describe, expect, it, vi } from "vitest";
import {
  backoffDelay,
  expand,
  ProjectionStore,
  QueueMirror,
  readAnswer,
  Submissions,
} from "../src";
import { BaselineGate } from "../src/snapshot-stream";

describe("packed rows", () => {
  it("expand into the events that they were packed from", () => {
    const events = expand({
      type: "chunks",
      event: {
        type: "chunkrow/tool-call-chunks",
        seq: 5,
        time: 100,
        data: {
          turn: 1,
          step: 2,
          index: 0,
          id: "c",
          name: "bash",
          dt: [3, -1],
          args: ["{", "a", "}"],
        },
      },
    });
    expect(events.map((event) => [event.seq, event.time])).toEqual([
      [5, 100],
      [6, 103],
      [7, 102],
    ]);
    expect(events[1]?.data).toEqual({
      turn: 1,
      step: 2,
      chunk: { type: "tool-call-delta", index: 0, id: "c", name: "bash", argumentsDelta: "a" },
    });
  });

  it("are refused whole when their lengths do not match", () => {
    const data = { turn: 1, step: 1, index: 0, dt: [], texts: ["a", "b"] };
    const event = { type: "chunkrow/text-chunks", seq: 0, time: 0, data };
    expect(() => expand({ type: "chunks", event })).toThrow("mismatched lengths");
  });
});

describe("projections", () => {
  it("apply a pushed value only when it is newer", () => {
    const store = new ProjectionStore();
    store.push("title", "b", 5);
    store.push("title", "a", 4);
    expect(store.get("title")).toBe("b");
  });

  it("keep newer values against a stale baseline and drop older ones that it lacks", () => {
    const store = new ProjectionStore();
    store.push("title", "new", 9);
    store.push("plan", 1, 3);
    store.baseline({ asOfSeq: 5, values: { title: "old" } });
    expect(store.values).toEqual({ title: "new" });
  });

  it("drop what lies beyond the baseline of a new process", () => {
    const store = new ProjectionStore();
    store.push("title", "phantom", 9);
    store.controlBaseline({ asOfSeq: 5, values: { title: "real" } });
    expect(store.values).toEqual({ title: "real" });
  });

  it("take hints upwards only and never clear by them", () => {
    const store = new ProjectionStore();
    store.push("plan", 1, 3);
    store.hint({ asOfSeq: 2, values: { plan: 0 } });
    store.hint({ asOfSeq: 7, values: { title: "t" } });
    expect(store.values).toEqual({ plan: 1, title: "t" });
  });
});

describe("the queue", () => {
  const item = (id: string, placement: "queued" | "steering", content: unknown[]) => ({
    id,
    placement,
    message: { id, content },
  });

  it("shows text for editing only when a row is all text", () => {
    const queue = new QueueMirror();
    queue.replace({
      parked: true,
      items: [
        item("a", "queued", [{ type: "text", text: "hello" }]),
        item("b", "queued", [{ type: "text", text: "see " }, { type: "image" }, { type: "file" }]),
      ],
    });
    const [a, b] = queue.view.rows;
    expect([a?.text, a?.preview, b?.text, b?.preview, b?.imageCount]).toEqual([
      "hello",
      "hello",
      null,
      "see [file]",
      1,
    ]);
    expect(queue.view.parked).toBe(true);
  });

  it("hands one steering row over to the log", () => {
    const queue = new QueueMirror();
    const steering = item("a", "steering", [{ type: "text", text: "x" }]);
    queue.replace({ parked: false, items: [steering, steering] });
    expect(queue.handOver("a")).toBe(true);
    expect(queue.view.rows).toHaveLength(1);
    expect(queue.handOver("zzz")).toBe(false);
  });

  it("keeps its identity while nothing changes", () => {
    const queue = new QueueMirror();
    const { view } = queue;
    queue.replace(undefined);
    expect(queue.view).toBe(view);
  });
});

describe("submissions", () => {
  const setUp = () => {
    const frames: Array<() => void> = [];
    const submissions = new Submissions((run) => frames.push(run));
    const onRetire = vi.fn();
    const begin = (running: boolean, mode: "queue" | "steer") =>
      submissions.begin({ requestId: "r", mode, running, text: "hi", time: 1, onRetire });
    return { frames, submissions, onRetire, begin };
  };

  it("show at once and leave one frame after they were seen", () => {
    const { frames, submissions, onRetire, begin } = setUp();
    begin(false, "queue");
    expect(submissions.entries).toMatchObject([{ placement: "transcript", text: "hi" }]);
    submissions.observe("r");
    submissions.observe("r");
    expect(submissions.entries).toHaveLength(1);
    expect(frames).toHaveLength(1);
    frames[0]?.();
    expect(submissions.entries).toHaveLength(0);
    expect(onRetire.mock.calls).toEqual([["observed"]]);
  });

  it("leave at once when they fail, and never twice", () => {
    const { submissions, onRetire, begin } = setUp();
    begin(true, "steer");
    expect(submissions.entries).toMatchObject([{ placement: "steering" }]);
    submissions.fail("r");
    submissions.observe("r");
    submissions.dispose();
    expect(onRetire.mock.calls).toEqual([["failed"]]);
  });

  it("count as seen when the page goes after they were seen", () => {
    const { frames, submissions, onRetire, begin } = setUp();
    begin(true, "queue");
    submissions.observe("r");
    submissions.fail("r");
    submissions.dispose();
    frames[0]?.();
    expect(onRetire.mock.calls).toEqual([["observed"]]);
  });
});

describe("snapshot streams", () => {
  it("want one baseline, and first", () => {
    const gate = new BaselineGate();
    expect(() => gate.check("queue")).toThrow("before its baseline");
    expect(gate.check("baseline")).toBe("baseline");
    expect(gate.check("queue")).toBe("update");
    expect(() => gate.check("baseline")).toThrow("second baseline");
    gate.begin();
    expect(gate.check("baseline")).toBe("baseline");
  });
});

describe("the carrier", () => {
  it("reads values and typed errors", () => {
    expect(readAnswer(200, '{"a":1}')).toEqual({ a: 1 });
    const body = '{"error":{"code":"session/not-found","message":"m","details":{"sessionId":"s"}}}';
    expect(() => readAnswer(404, body)).toThrowError(
      expect.objectContaining({ layer: "business", code: "session/not-found", message: "m" }),
    );
    expect(() => readAnswer(502, "<html>")).toThrowError(
      expect.objectContaining({ layer: "carrier" }),
    );
  });

  it("waits between half a cap and a cap that doubles to ten seconds", () => {
    const caps = [0, 1, 2, 3, 4, 5, 6, 50].map((attempt) => backoffDelay(attempt, () => 1));
    expect(caps).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
    expect(backoffDelay(0, () => 0)).toBe(250);
  });
});
