import type { SessionSummary } from "@orrery/client";
import { beforeAll, describe, expect, it, vi } from "vitest";
import type { Node } from "../src/transcript/model";

// The place of the page is read from the address bar when the module is loaded.
beforeAll(() => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => {});
});
const load = () => import("../src/lib/agents");

function child(sessionId: string, label: string, createdAt: number): SessionSummary {
  const subagent = { mode: "one-shot", label, seq: 1 };
  return {
    sessionId,
    createdAt,
    updatedAt: createdAt,
    running: true,
    live: true,
    blank: false,
    archived: false,
    childCount: 0,
    origin: "subagent",
    parentSessionId: "p",
    projections: { asOfSeq: 1, values: { subagent } },
  };
}

function call(key: string, description: string, startedAt: number, meta = {}): Node {
  return {
    kind: "tool",
    key,
    callId: key,
    name: "subagent",
    args: JSON.stringify({ description, prompt: "…" }),
    state: Object.keys(meta).length > 0 ? "done" : "running",
    output: "",
    errorCode: undefined,
    meta,
    startedAt,
    finishedAt: Object.keys(meta).length > 0 ? startedAt + 100 : undefined,
    approval: undefined,
  };
}

const made = async (nodes: Node[], rows: SessionSummary[]) => {
  const { childrenOfCalls } = await load();
  return Object.fromEntries(
    [...childrenOfCalls(nodes, rows)].map(([k, row]) => [k, row.sessionId]),
  );
};

describe("the child of a call", () => {
  it("is the one that the answer names, whatever its label", async () => {
    const nodes = [call("a", "look", 10, { subagentId: "c2" })];
    expect(await made(nodes, [child("c1", "look", 11), child("c2", "other", 12)])).toEqual({
      a: "c2",
    });
  });

  it("is the oldest of its label that nobody else has while the call waits", async () => {
    const nodes = [call("a", "look", 10), call("b", " look ", 10), call("c", "read", 10)];
    const rows = [child("c3", "read", 14), child("c2", "look", 13), child("c1", "look", 12)];
    expect(await made(nodes, rows)).toEqual({ a: "c1", b: "c2", c: "c3" });
  });

  it("is none that was there before the call", async () => {
    expect(await made([call("a", "look", 10)], [child("old", "look", 5)])).toEqual({});
  });

  it("is not told before the child says who it is", async () => {
    const nameless = { ...child("c", "look", 11), projections: { asOfSeq: 0, values: {} } };
    expect(await made([call("a", "look", 10)], [nameless])).toEqual({});
  });
});

describe("a place", () => {
  it("reads back from its address", async () => {
    const { hashOf, placeOf } = await import("../src/lib/hooks");
    for (const place of [
      { kind: "session", id: "a/b c" },
      { kind: "session", id: "x", at: 12 },
      { kind: "agent", parent: "p?/", id: "ch ild", mode: "continuable" },
      { kind: "agent", parent: "p", id: "c", mode: "one-shot", at: 0 },
      { kind: "new", cwd: "/home/me/a b" },
      { kind: "new", cwd: null },
    ] as const) {
      expect(placeOf(hashOf(place))).toEqual(place);
    }
  });

  it("that makes no sense is a new session", async () => {
    const { placeOf } = await import("../src/lib/hooks");
    for (const hash of ["", "#/a/p", "#/a/p/c/sometimes", "#/x/1", "#/s/"]) {
      expect(placeOf(hash)).toEqual({ kind: "new", cwd: null });
    }
  });

  it("of a subagent's row is its parent's", async () => {
    const { placeOfRow } = await load();
    expect(placeOfRow(child("c", "look", 1), 7)).toEqual({
      kind: "agent",
      parent: "p",
      id: "c",
      mode: "one-shot",
      at: 7,
    });
  });
});
