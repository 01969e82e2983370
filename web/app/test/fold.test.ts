import { type Entry, entryOf, type HistoryRecord } from "@orrery/client";
import { describe, expect, it } from "vitest";
import { TranscriptFold } from "../src/transcript/fold";
import type { AssistantNode, Node, ToolNode } from "../src/transcript/model";

/** A log whose events are given as type and data. */
class Log {
  #seq = 0;
  entries: Entry[] = [];
  add(type: string, data: unknown, more: object = {}): this {
    const seq = this.#seq++;
    this.entries.push(
      entryOf({ type: "event", event: { type, seq, time: seq * 1000, data, ...more } }),
    );
    return this;
  }
  row(type: string, data: object, count: number): this {
    const event = { type, seq: this.#seq, time: this.#seq * 1000, data };
    this.#seq += count;
    this.entries.push(entryOf({ type: "chunks", event } as HistoryRecord));
    return this;
  }
  fold(): readonly Node[] {
    const fold = new TranscriptFold();
    fold.apply(this.entries);
    return fold.view().nodes;
  }
}

const append = { surfaceOp: "append" };
const chunk = (value: object) => ({ turn: 1, step: 1, chunk: value });
const result = (callId: string, text: string, more: object = {}) => ({
  turn: 1,
  step: 1,
  message: {
    role: "user",
    source: { kind: "tool", callId },
    content: [{ type: "tool-result", toolCallId: callId, content: [{ type: "text", text }] }],
  },
  ...more,
});
const call = (callId: string, name: string, args: object) => ({
  turn: 1,
  step: 1,
  callId,
  name,
  arguments: JSON.stringify(args),
});
const end = (reason: object) => ({ turn: 1, reason });
const message = (kind: string, text: string, source: object = {}) => ({
  id: `m-${text}`,
  role: "user",
  content: [{ type: "text", text }],
  source: { kind, ...source },
});

describe("the rows of a conversation", () => {
  it("tell people from context that the house injects", () => {
    const nodes = new Log()
      .add("user/message", message("user", "hi", { rpcId: "r" }), append)
      .add("user/message", message("plugin", "cwd", { plugin: "a/env", form: "snapshot" }), append)
      .fold();
    expect(nodes).toMatchObject([
      { kind: "user", text: "hi", rpcId: "r" },
      { kind: "context", title: "Context", summary: "env", text: "cwd" },
    ]);
  });

  it("grow while an answer streams and settle on the whole message", () => {
    const log = new Log()
      .add("turn/start", { turn: 1 })
      .add("assistant/chunk", chunk({ type: "block-start", index: 0, blockType: "reasoning" }))
      .add("assistant/chunk", chunk({ type: "reasoning-delta", index: 0, text: "hm" }))
      .row(
        "chunkrow/text-chunks",
        { turn: 1, step: 1, index: 1, dt: [1, 1], texts: ["a", "b", "c"] },
        3,
      );
    const streaming = log.fold()[0] as AssistantNode;
    expect(streaming.streaming).toBe(true);
    expect(streaming.blocks).toMatchObject([
      { kind: "reasoning", text: "hm" },
      { kind: "text", text: "abc" },
    ]);
    log.add(
      "assistant/message",
      { turn: 1, step: 1, message: { content: [{ type: "text", text: "abc!" }] } },
      append,
    );
    expect(log.fold()).toMatchObject([
      { streaming: false, blocks: [{ kind: "text", text: "abc!" }] },
    ]);
  });

  it("join a call with its approval and its result", () => {
    const log = new Log()
      .add("tool/call", call("c", "bash", { command: "ls" }))
      .add("approval/asked", { id: "a", toolName: "bash", callId: "c", reason: "asks" })
      .add("approval/decided", { id: "a", outcome: "allowed-once" })
      .add("tool/result", result("c", "out", { meta: { exitCode: 0 } }), append);
    expect(log.fold()).toMatchObject([
      {
        kind: "tool",
        state: "done",
        output: "out",
        meta: { exitCode: 0 },
        approval: { id: "a", outcome: "allowed-once" },
      },
    ]);
  });

  it("keep two calls apart that a server gave the same id", () => {
    const nodes = new Log()
      .add("tool/call", call("c", "read", {}))
      .add("tool/result", result("c", "one"), append)
      .add("tool/call", call("c", "read", {}))
      .add("tool/result", result("c", "two"), append)
      .fold();
    expect(nodes.map((node) => (node as ToolNode).output)).toEqual(["one", "two"]);
  });

  it("show a failed result and a result whose call lies before the window", () => {
    const nodes = new Log()
      .add(
        "tool/result",
        result("old", "gone", { error: { name: "E", code: "TOOL_FAILED" } }),
        append,
      )
      .fold();
    expect(nodes).toMatchObject([{ state: "failed", name: "tool", errorCode: "TOOL_FAILED" }]);
  });

  it("say how a turn ended, and settle what was open", () => {
    const log = () =>
      new Log()
        .add("turn/start", { turn: 1 })
        .add("assistant/chunk", chunk({ type: "text-delta", index: 0, text: "half" }))
        .add("tool/call", call("c", "bash", {}));
    expect(
      log()
        .add("turn/end", end({ kind: "interrupted" }))
        .fold(),
    ).toMatchObject([
      { streaming: false, interrupted: true },
      { state: "interrupted" },
      { kind: "notice", title: "Interrupted", tone: "warn" },
    ]);
    const error = { kind: "error", error: { code: "AUTH", message: "no key" } };
    expect(log().add("turn/end", end(error)).fold().at(-1)).toMatchObject({
      tone: "error",
      detail: "no key",
      code: "AUTH",
    });
    const aborted = { kind: "aborted", reason: { kind: "user" } };
    expect(log().add("turn/end", end(aborted)).fold().at(-1)).toMatchObject({ title: "Stopped" });
    expect(
      log()
        .add("turn/end", end({ kind: "max-tokens" }))
        .fold()
        .at(-1),
    ).toMatchObject({
      title: "Length limit reached",
    });
    expect(
      log()
        .add("turn/end", end({ kind: "completed" }))
        .fold()
        .at(-1),
    ).toMatchObject({
      kind: "turn",
      durationMs: 3000,
    });
  });

  it("start an answer over when the model is asked again", () => {
    const nodes = new Log()
      .add("assistant/chunk", chunk({ type: "text-delta", index: 0, text: "lost" }))
      .add("llm/retry", {
        turn: 1,
        step: 1,
        retry: 1,
        maxRetries: 3,
        delayMs: 0,
        failure: { message: "busy", code: "RATE_LIMIT" },
      })
      .add("assistant/chunk", chunk({ type: "text-delta", index: 0, text: "again" }))
      .fold();
    expect(nodes).toMatchObject([
      { kind: "assistant", blocks: [{ text: "again" }] },
      { kind: "notice", detail: "busy", code: "RATE_LIMIT" },
    ]);
  });

  it("keep a row's identity while it stays the same", () => {
    const fold = new TranscriptFold();
    const log = new Log().add("user/message", message("user", "hi"), append);
    fold.apply(log.entries);
    const before = fold.view();
    fold.apply(new Log().entries);
    expect(fold.view()).toBe(before);
    const more = new Log().add("x", {}).add("user/message", message("user", "again"), append);
    fold.apply(more.entries.slice(1));
    expect(fold.view().nodes[0]).toBe(before.nodes[0]);
  });

  it("ignore events that they do not know, whatever their shape", () => {
    const nodes = new Log().add("new/thing", null).add("tool/result", 7).add("turn/end", {}).fold();
    expect(nodes.length).toBeLessThanOrEqual(2);
  });
});
