/**
 * The log of one address: `session/follow` and `session/page` joined by the journal.
 * Owns the choice between a snapshot and `afterSeq`; leaves continuity to `journal`.
 */
import type { Call } from "./carrier";
import type { Connection } from "./connection";
import { asRemoteError, protocolError, type RemoteError } from "./errors";
import type { Address, FollowSnapshot, PageResponse } from "./generated/contract";
import { type Change, type Effect, Journal, type Page } from "./journal";
import { entryOf, eventEntry } from "./records";
import { RemoteStream } from "./remote-stream";

/** How many messages a page holds. */
export const PAGE_MESSAGES = 50;

export interface EventStreamHandler {
  /** A snapshot came, perhaps of a new process; called before its `replace` is published. */
  snapshot?(snapshot: FollowSnapshot, newProcess: boolean): void;
  change(change: Change): void;
  failed(error: RemoteError): void;
}

export class EventStream {
  readonly journal = new Journal();
  #call: Call;
  #address: Address;
  #handler: EventStreamHandler;
  #stream: RemoteStream<"session/follow">;
  /** The Host process that the window came from. */
  #process: string | null = null;
  #newProcess = false;
  #resuming = false;
  #mayResume = true;

  constructor(connection: Connection, call: Call, address: Address, handler: EventStreamHandler) {
    this.#call = call;
    this.#address = address;
    this.#handler = handler;
    this.#stream = new RemoteStream(connection, "session/follow", {
      request: (generation) => {
        const { ready } = generation;
        this.journal.begin();
        this.#newProcess = this.#process !== null && this.#process !== ready.generation;
        this.#process = ready.generation;
        // Another process may have lost its unflushed tail and written other events in its place.
        this.#resuming =
          this.#mayResume &&
          !this.#newProcess &&
          this.journal.hasWindow &&
          this.journal.cursor >= 0 &&
          ready.capabilities.includes("follow.after-seq");
        if (this.#resuming) {
          this.#run(this.journal.resumed());
          return { address: this.#address, afterSeq: this.journal.cursor };
        }
        return { address: this.#address, maxMessages: PAGE_MESSAGES };
      },
      item: (item) => {
        if (item.type === "event") {
          this.#stream.accept();
          this.#run(this.journal.live(eventEntry(item.event)));
        } else if (item.type === "snapshot") this.#snapshot(item);
        else throw protocolError("the stream sent an unknown item");
      },
      interrupted: (error) => {
        // What cannot be supplied from the cursor on is not asked for again.
        if (error.code === "gateway/overflow") this.#mayResume = false;
      },
      recover: (error) => {
        const retry = this.#resuming && error.code === "gateway/bad-request";
        if (retry) this.#mayResume = false;
        return retry;
      },
      failed: (error) => this.#fail(error),
    });
  }

  start(): void {
    this.#stream.start();
  }

  /** Loads older entries; resolves when they are published or there are none. */
  async loadOlder(maxMessages = PAGE_MESSAGES): Promise<void> {
    const request = this.journal.older();
    if (!request) return;
    const { token, ...range } = request;
    let page: Page;
    try {
      page = readPage(await this.#page({ ...range, maxMessages }));
    } catch (thrown) {
      this.journal.olderFailed(token);
      throw asRemoteError(thrown);
    }
    const { effects, touched } = this.journal.olderPage(token, page);
    this.#run(effects);
    if (!touched) throw protocolError("the older page does not touch the window");
  }

  dispose(): void {
    this.journal.dispose();
    this.#stream.dispose();
  }

  #snapshot(snapshot: FollowSnapshot): void {
    const entries = snapshot.records.map(entryOf);
    const { cursor, hasMore } = snapshot;
    const effects = this.journal.opening({
      cursor,
      entries,
      hasMore,
      newProcess: this.#newProcess,
    });
    this.#mayResume = true;
    if (this.journal.phase === "live") this.#handler.snapshot?.(snapshot, this.#newProcess);
    this.#run(effects);
  }

  #page(range: {
    throughSeq: number;
    beforeSeq?: number;
    maxMessages?: number;
  }): Promise<PageResponse> {
    const request = { address: this.#address, maxMessages: PAGE_MESSAGES, ...range };
    return this.#call("session/page", request);
  }

  #run(effects: Effect[]): void {
    for (const effect of effects) {
      if (effect.kind === "publish") this.#handler.change(effect.change);
      else if (effect.kind === "accept") this.#stream.accept(!this.#resuming);
      else if (effect.kind === "fail") this.#fail(effect.error);
      else this.#repair(effect.token, effect.throughSeq);
    }
  }

  #repair(token: number, throughSeq: number): void {
    this.#page({ throughSeq }).then(
      (page) => {
        let read: Page;
        try {
          read = readPage(page);
        } catch (thrown) {
          this.#run(this.journal.pageFailed(token, asRemoteError(thrown)));
          return;
        }
        this.#run(this.journal.page(token, read));
      },
      (thrown) => {
        const error = asRemoteError(thrown);
        // The line broke: the next generation brings a new opening.
        if (error.layer !== "carrier") this.#run(this.journal.pageFailed(token, error));
        else this.#stream.restart();
      },
    );
  }

  #fail(error: RemoteError): void {
    this.dispose();
    this.#handler.failed(error);
  }
}

function readPage(page: PageResponse): Page {
  return { entries: page.records.map(entryOf), hasMore: page.hasMore };
}
