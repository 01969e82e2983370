/**
 * The durable log of one address as a window without holes: a state machine without I/O.
 *
 * What it is told are openings, live entries and pages; what it wants are effects. Nothing
 * discontinuous is ever published. Leaves to others: streams and calls (`event-stream`).
 */
import { protocolError, type RemoteError } from "./errors";
import type { Entry } from "./records";

/** The cursor of an empty log. */
export const EMPTY_CURSOR = -1;

export type Change =
  | { kind: "replace"; entries: readonly Entry[]; hasMore: boolean }
  | { kind: "prepend"; entries: readonly Entry[]; hasMore: boolean }
  | { kind: "append"; entries: readonly Entry[] };

export type Effect =
  | { kind: "publish"; change: Change }
  /** The opening was good. */
  | { kind: "accept" }
  /** Read the page that ends at `throughSeq`; answer with `page` or `pageFailed`. */
  | { kind: "readTail"; token: number; throughSeq: number }
  | { kind: "fail"; error: RemoteError };

export interface Opening {
  cursor: number;
  entries: readonly Entry[];
  hasMore: boolean;
  /** Whether the Host is a new process, which may have lost what was not flushed yet. */
  newProcess?: boolean;
}

export interface Page {
  entries: readonly Entry[];
  hasMore: boolean;
}

export interface OlderRequest {
  token: number;
  throughSeq: number;
  beforeSeq: number;
}

export type Phase = "opening" | "live" | "repairing" | "failed" | "disposed";

export class Journal {
  #phase: Phase = "opening";
  #window = false;
  #cursor = EMPTY_CURSOR;
  #firstLoaded = 0;
  #hasMore = false;
  #held: Entry[] = [];
  #target = EMPTY_CURSOR;
  #reads = 0;
  #token = 0;
  #older: number | null = null;

  get phase(): Phase {
    return this.#phase;
  }

  /** The last seq of the window. */
  get cursor(): number {
    return this.#cursor;
  }

  /** Whether there is a window at all. */
  get hasWindow(): boolean {
    return this.#window;
  }

  get hasMore(): boolean {
    return this.#hasMore;
  }

  /** A generation begins: nothing of the old one counts any more, the window stays. */
  begin(): void {
    if (this.#done) return;
    this.#phase = "opening";
    this.#held = [];
    this.#token++;
  }

  /** The opening snapshot of a generation. */
  opening(opening: Opening): Effect[] {
    if (this.#done) return [];
    if (this.#phase !== "opening") return this.#fail("the stream was already opened");
    const broken = checkPage(opening.entries, opening.cursor);
    if (broken) return this.#fail(broken);
    if (this.#window && !opening.newProcess && opening.cursor < this.#cursor) {
      return this.#fail("the stream resumed behind the last applied entry");
    }
    this.#phase = "live";
    return [this.#replace(opening.entries, opening.cursor, opening.hasMore), { kind: "accept" }];
  }

  /** A generation that continues after the window's cursor, without a snapshot. */
  resumed(): Effect[] {
    if (this.#done) return [];
    if (this.#phase !== "opening") return this.#fail("the stream was already opened");
    if (!this.#window) return this.#fail("the stream is not open");
    this.#phase = "live";
    return [{ kind: "accept" }];
  }

  /** One live entry. */
  live(entry: Entry): Effect[] {
    if (this.#done) return [];
    if (this.#phase === "opening") return this.#fail("the stream is not open");
    if (entry.last < entry.first) return this.#fail("an entry's range is inverted");
    if (this.#phase === "repairing") {
      this.#held.push(entry);
      this.#target = Math.max(this.#target, entry.last);
      return [];
    }
    if (entry.last <= this.#cursor) return [];
    if (entry.first <= this.#cursor) return this.#fail("an entry overlaps the window");
    if (entry.first === this.#cursor + 1) {
      this.#cursor = entry.last;
      return [{ kind: "publish", change: { kind: "append", entries: [entry] } }];
    }
    this.#phase = "repairing";
    this.#held = [entry];
    this.#target = entry.last;
    this.#reads = 0;
    return [this.#readTail()];
  }

  /** The page that a `readTail` asked for. */
  page(token: number, page: Page): Effect[] {
    if (token !== this.#token || this.#phase !== "repairing") return [];
    const end = page.entries.at(-1)?.last ?? EMPTY_CURSOR;
    const broken = checkPage(page.entries, end);
    if (broken) return this.#fail(broken);
    const merged = [...page.entries];
    let cursor = end;
    const held = [...this.#held].sort((a, b) => a.first - b.first);
    for (const entry of held) {
      if (entry.last <= cursor) continue;
      if (entry.first <= cursor) return this.#fail("an entry overlaps the page");
      if (entry.first !== cursor + 1) break;
      merged.push(entry);
      cursor = entry.last;
    }
    if (cursor < this.#target) {
      if (this.#reads < 2) return [this.#readTail()];
      return this.#fail("the page did not reach its opening cursor");
    }
    this.#held = [];
    this.#phase = "live";
    return [this.#replace(merged, cursor, page.hasMore)];
  }

  /** The page could not be read. Its generation is still alive, so this is the end. */
  pageFailed(token: number, error: RemoteError): Effect[] {
    if (token !== this.#token || this.#phase !== "repairing") return [];
    this.#phase = "failed";
    return [{ kind: "fail", error }];
  }

  /** Wants older entries; null when there are none, one is on its way, or nothing is open. */
  older(): OlderRequest | null {
    const open = this.#phase === "live" || this.#phase === "repairing";
    if (!open || !this.#hasMore || this.#older !== null || this.#firstLoaded === 0) return null;
    this.#older = ++olderTokens;
    return { token: this.#older, throughSeq: this.#cursor, beforeSeq: this.#firstLoaded };
  }

  /** The older page. `touched` tells whether it was one that fits. */
  olderPage(token: number, page: Page): { effects: Effect[]; touched: boolean } {
    // The window was replaced meanwhile; the page belongs to the old one.
    if (token !== this.#older || this.#done) return { effects: [], touched: true };
    this.#older = null;
    const entries = page.entries.filter((entry) => entry.first < this.#firstLoaded);
    const end = entries.at(-1)?.last;
    const fits = end === this.#firstLoaded - 1 && checkPage(entries, end) === null;
    if (!fits) {
      this.#hasMore = false;
      const change: Change = { kind: "prepend", entries: [], hasMore: false };
      return { effects: [{ kind: "publish", change }], touched: false };
    }
    this.#firstLoaded = entries[0]?.first ?? this.#firstLoaded;
    this.#hasMore = page.hasMore;
    const change: Change = { kind: "prepend", entries, hasMore: page.hasMore };
    return { effects: [{ kind: "publish", change }], touched: true };
  }

  /** The older page could not be read; the window stays. */
  olderFailed(token: number): void {
    if (token === this.#older) this.#older = null;
  }

  dispose(): void {
    this.#phase = "disposed";
    this.#token++;
    this.#older = null;
  }

  get #done(): boolean {
    return this.#phase === "failed" || this.#phase === "disposed";
  }

  #readTail(): Effect {
    this.#reads++;
    return { kind: "readTail", token: ++this.#token, throughSeq: this.#target };
  }

  #replace(entries: readonly Entry[], cursor: number, hasMore: boolean): Effect {
    this.#window = true;
    this.#cursor = cursor;
    this.#firstLoaded = entries[0]?.first ?? cursor + 1;
    this.#hasMore = hasMore;
    this.#older = null;
    return { kind: "publish", change: { kind: "replace", entries, hasMore } };
  }

  #fail(message: string): Effect[] {
    this.#phase = "failed";
    return [{ kind: "fail", error: protocolError(message) }];
  }
}

let olderTokens = 0;

/** What is wrong with a page that should end at `cursor`; null when nothing is. */
export function checkPage(entries: readonly Entry[], cursor: number): string | null {
  let previous: Entry | null = null;
  for (const entry of entries) {
    if (entry.last < entry.first) return "an entry's range is inverted";
    if (previous && entry.first !== previous.last + 1) {
      return "the page contains discontinuous entries";
    }
    previous = entry;
  }
  const end = previous ? previous.last : EMPTY_CURSOR;
  return end === cursor ? null : "the page did not end at its requested cursor";
}
