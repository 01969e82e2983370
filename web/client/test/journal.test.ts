import { describe, expect, it } from "vitest";
import { type Effect, Journal, type Page } from "../src/journal";
import { type Entry, entryOf, eventEntry } from "../src/records";

const event = (seq: number): Entry =>
  eventEntry({ type: "step/start", seq, time: seq, data: { turn: 1, step: 1 } });

const row = (seq: number, count: number): Entry =>
  entryOf({
    type: "chunks",
    event: {
      type: "chunkrow/text-chunks",
      seq,
      time: 0,
      data: {
        turn: 1,
        step: 1,
        index: 0,
        dt: Array(count - 1).fill(1),
        texts: Array(count).fill("x"),
      },
    },
  });

const range = (first: number, last: number): Entry[] =>
  Array.from({ length: last - first + 1 }, (_, k) => event(first + k));

const page = (entries: Entry[], hasMore = false): Page => ({ entries, hasMore });

/** What was published, as `kind first..last`. */
const told = (effects: Effect[]): string[] =>
  effects.map((effect) => {
    if (effect.kind === "fail") return `fail: ${effect.error.message}`;
    if (effect.kind !== "publish") return effect.kind;
    const { entries } = effect.change;
    return `${effect.change.kind} ${entries[0]?.first}..${entries.at(-1)?.last}`;
  });

const opened = (entries: Entry[], hasMore = false): Journal => {
  const journal = new Journal();
  journal.opening({ cursor: entries.at(-1)?.last ?? -1, entries, hasMore });
  return journal;
};

const token = (effects: Effect[]): number => {
  const effect = effects.find((one) => one.kind === "readTail");
  return effect?.kind === "readTail" ? effect.token : -1;
};

describe("opening", () => {
  it("publishes one replace and accepts the generation", () => {
    const journal = new Journal();
    const effects = journal.opening({ cursor: 2, entries: range(0, 2), hasMore: false });
    expect(told(effects)).toEqual(["replace 0..2", "accept"]);
  });

  it("takes an empty log", () => {
    const effects = new Journal().opening({ cursor: -1, entries: [], hasMore: false });
    expect(told(effects)).toEqual(["replace undefined..undefined", "accept"]);
  });

  it("counts a packed row as the range that it stands for", () => {
    const journal = opened([event(0), row(1, 4)]);
    expect(told(journal.live(event(5)))).toEqual(["append 5..5"]);
  });

  it("refuses a page that does not end at the cursor", () => {
    const effects = new Journal().opening({ cursor: 3, entries: range(0, 2), hasMore: false });
    expect(told(effects)).toEqual(["fail: the page did not end at its requested cursor"]);
  });

  it("refuses a page with a hole", () => {
    const entries = [event(0), event(2)];
    const effects = new Journal().opening({ cursor: 2, entries, hasMore: false });
    expect(told(effects)).toEqual(["fail: the page contains discontinuous entries"]);
  });

  it("refuses a live entry before the opening and a second opening after it", () => {
    expect(told(new Journal().live(event(0)))).toEqual(["fail: the stream is not open"]);
    const again = opened(range(0, 1)).opening({ cursor: 1, entries: range(0, 1), hasMore: false });
    expect(told(again)).toEqual(["fail: the stream was already opened"]);
  });

  it("refuses to go back behind the last applied entry within one process", () => {
    const journal = opened(range(0, 5));
    journal.begin();
    const effects = journal.opening({ cursor: 4, entries: range(0, 4), hasMore: false });
    expect(told(effects)).toEqual(["fail: the stream resumed behind the last applied entry"]);
  });

  it("takes a shorter log from a new process, which may have lost its unflushed tail", () => {
    const journal = opened(range(0, 5));
    journal.begin();
    const opening = { cursor: 4, entries: range(0, 4), hasMore: false, newProcess: true };
    expect(told(journal.opening(opening))).toEqual(["replace 0..4", "accept"]);
  });

  it("continues after the window without a snapshot", () => {
    const journal = opened(range(0, 5));
    journal.begin();
    expect(told(journal.resumed())).toEqual(["accept"]);
    expect(told(journal.live(event(6)))).toEqual(["append 6..6"]);
  });
});

describe("live entries", () => {
  it("drops what is there already", () => {
    expect(opened(range(0, 5)).live(event(5))).toEqual([]);
  });

  it("fails on a partial overlap", () => {
    expect(told(opened(range(0, 5)).live(row(4, 4)))).toEqual([
      "fail: an entry overlaps the window",
    ]);
  });

  it("appends the next one", () => {
    expect(told(opened(range(0, 5)).live(event(6)))).toEqual(["append 6..6"]);
  });

  it("repairs a gap with one replace and shows no hole meanwhile", () => {
    const journal = opened(range(0, 5));
    const gap = journal.live(event(9));
    expect(gap).toMatchObject([{ kind: "readTail", throughSeq: 9 }]);
    expect(journal.live(event(10))).toEqual([]);
    const effects = journal.page(token(gap), page(range(2, 9), true));
    expect(told(effects)).toEqual(["replace 2..10"]);
    expect(told(journal.live(event(11)))).toEqual(["append 11..11"]);
  });

  it("reads once more when the page and the queue do not connect, then gives up", () => {
    const journal = opened(range(0, 5));
    const gap = journal.live(event(9));
    journal.live(event(12));
    const second = journal.page(token(gap), page(range(2, 9)));
    expect(second).toMatchObject([{ kind: "readTail", throughSeq: 12 }]);
    const effects = journal.page(token(second), page(range(2, 10)));
    expect(told(effects)).toEqual(["fail: the page did not reach its opening cursor"]);
  });

  it("sorts what it held back and drops what the page covers", () => {
    const journal = opened(range(0, 5));
    const gap = journal.live(event(9));
    journal.live(event(11));
    journal.live(event(10));
    journal.live(event(8));
    expect(told(journal.page(token(gap), page(range(5, 9))))).toEqual(["replace 5..11"]);
  });

  it("abandons a repair when a new generation opens", () => {
    const journal = opened(range(0, 5));
    const gap = journal.live(event(9));
    journal.begin();
    expect(journal.page(token(gap), page(range(2, 9)))).toEqual([]);
    const opening = { cursor: 9, entries: range(3, 9), hasMore: true };
    expect(told(journal.opening(opening))).toEqual(["replace 3..9", "accept"]);
  });
});

describe("older pages", () => {
  it("asks for what ends before the window, one at a time", () => {
    const journal = opened(range(10, 12), true);
    expect(journal.older()).toMatchObject({ throughSeq: 12, beforeSeq: 10 });
    expect(journal.older()).toBeNull();
  });

  it("asks for nothing when there is nothing", () => {
    expect(opened(range(0, 2)).older()).toBeNull();
    expect(new Journal().older()).toBeNull();
  });

  it("publishes a page that touches the window, without what overlaps", () => {
    const journal = opened(range(10, 12), true);
    const request = journal.older();
    const { effects, touched } = journal.olderPage(request?.token ?? -1, page(range(5, 11), true));
    expect(touched).toBe(true);
    expect(told(effects)).toEqual(["prepend 5..9"]);
    expect(journal.older()).toMatchObject({ beforeSeq: 5 });
  });

  it("ends the past when a page does not touch the window", () => {
    const journal = opened(range(10, 12), true);
    const request = journal.older();
    const { effects, touched } = journal.olderPage(request?.token ?? -1, page(range(5, 7), true));
    expect(touched).toBe(false);
    expect(effects).toMatchObject([{ change: { kind: "prepend", entries: [], hasMore: false } }]);
    expect(journal.hasMore).toBe(false);
  });

  it("discards a page that comes after the window was replaced", () => {
    const journal = opened(range(10, 12), true);
    const request = journal.older();
    journal.begin();
    journal.opening({ cursor: 12, entries: range(10, 12), hasMore: true });
    expect(journal.olderPage(request?.token ?? -1, page(range(5, 9)))).toEqual({
      effects: [],
      touched: true,
    });
    expect(journal.older()).not.toBeNull();
  });
});
