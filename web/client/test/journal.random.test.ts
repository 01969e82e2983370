import { expect, it } from "vitest";
import { type Effect, type Entry, eventEntry, Journal } from "../src";

/** A small generator of the same numbers for the same start. */
function numbers(start: number): (below: number) => number {
  let state = start * 2654435761;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9) >>> 0;
    return state % below;
  };
}

const event = (seq: number): Entry => eventEntry({ type: "x", seq, time: seq, data: {} });
const range = (first: number, last: number): Entry[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, k) => event(first + k));

/** What a consumer holds after it has applied every change. */
class Consumer {
  entries: Entry[] = [];
  failure: string | null = null;
  reads: Array<{ token: number; throughSeq: number }> = [];

  apply(effects: Effect[]): void {
    for (const effect of effects) {
      if (effect.kind === "fail") this.failure = effect.error.message;
      else if (effect.kind === "readTail") this.reads.push(effect);
      else if (effect.kind === "publish") {
        const { change } = effect;
        if (change.kind === "append") this.entries.push(...change.entries);
        else if (change.kind === "replace") this.entries = [...change.entries];
        else this.entries = [...change.entries, ...this.entries];
        this.#check();
      }
    }
  }

  #check(): void {
    this.entries.forEach((entry, at) => {
      expect(entry.first).toBe((this.entries[0]?.first ?? 0) + at);
    });
  }
}

it("shows no hole and loses nothing, whatever is lost, repeated or late on the way", () => {
  for (let round = 1; round <= 400; round++) {
    const below = numbers(round);
    const journal = new Journal();
    const consumer = new Consumer();
    let log = below(30);
    const open = () => {
      const first = below(log + 1);
      const entries = range(first, log - 1);
      const cursor = entries.at(-1)?.last ?? -1;
      // An empty page fits an empty log only.
      const opening = entries.length > 0 ? entries : range(0, log - 1);
      const end = opening.at(-1)?.last ?? cursor;
      consumer.apply(journal.opening({ cursor: end, entries: opening, hasMore: first > 0 }));
    };
    open();
    for (let step = 0; step < 60 && consumer.failure === null; step++) {
      const action = below(10);
      if (action < 5) {
        log++;
        if (below(4) > 0) consumer.apply(journal.live(event(log - 1)));
      } else if (action === 5 && log > 0) {
        consumer.apply(journal.live(event(below(log))));
      } else if (action === 6) {
        journal.begin();
        open();
      } else if (action === 7) {
        const older = journal.older();
        if (older) {
          const first = Math.max(0, older.beforeSeq - 1 - below(5));
          const page = { entries: range(first, older.beforeSeq - 1), hasMore: first > 0 };
          consumer.apply(journal.olderPage(older.token, page).effects);
        }
      } else {
        const read = consumer.reads.shift();
        if (read) {
          const entries = range(Math.max(0, read.throughSeq - below(12)), read.throughSeq);
          consumer.apply(journal.page(read.token, { entries, hasMore: true }));
        }
      }
    }
    // Losing more while a repair runs twice is the one thing that may end it, and visibly.
    if (consumer.failure !== null) {
      expect(consumer.failure).toBe("the page did not reach its opening cursor");
      continue;
    }
    journal.begin();
    open();
    expect(consumer.entries.at(-1)?.last ?? -1).toBe(log - 1);
  }
});
