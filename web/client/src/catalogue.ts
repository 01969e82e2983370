/** Session rows, kept up to date by `session/catalog`; older ones on demand by `session/list`. */
import type { Call } from "./carrier";
import type { Connection } from "./connection";
import { asRemoteError, type RemoteError } from "./errors";
import type { SessionDiagnostic, SessionSummary } from "./generated/contract";
import { Emitter } from "./observable";
import { SnapshotStream } from "./snapshot-stream";

export interface CatalogueView {
  /** False until the first baseline: an empty list means nothing before. */
  readonly ready: boolean;
  /** Newest first, then by id. */
  readonly items: readonly SessionSummary[];
  readonly diagnostics: readonly SessionDiagnostic[];
  readonly hasMore: boolean;
  readonly error: RemoteError | null;
}

/** The order of rows. */
export function compareRows(a: SessionSummary, b: SessionSummary): number {
  if (a.updatedAt !== b.updatedAt) return b.updatedAt - a.updatedAt;
  return a.sessionId < b.sessionId ? -1 : a.sessionId > b.sessionId ? 1 : 0;
}

export class Catalogue {
  readonly changed = new Emitter();
  readonly rowChanged = new Emitter<SessionSummary>();
  #call: Call;
  #rows = new Map<string, SessionSummary>();
  /** Rows beyond the baseline, as they were when they were asked for. */
  #older = new Map<string, SessionSummary>();
  #cursor: string | undefined;
  #loading = false;
  #view: CatalogueView = { ready: false, items: [], diagnostics: [], hasMore: false, error: null };
  #stream: SnapshotStream<"session/catalog">;

  constructor(connection: Connection, call: Call, limit: number) {
    this.#call = call;
    this.#stream = new SnapshotStream(
      connection,
      "session/catalog",
      { limit },
      {
        baseline: ({ value }) => {
          const before = this.#rows;
          this.#rows = new Map();
          for (const row of value.items) this.#put(row, before.get(row.sessionId));
          const { diagnostics } = value;
          const hasMore = this.#older.size > 0 ? this.#cursor !== undefined : value.hasMore;
          this.#publish({ ready: true, diagnostics, hasMore });
        },
        update: (item) => {
          if (item.type === "upsert") this.#put(item.item, this.#rows.get(item.item.sessionId));
          else if (item.type === "remove") {
            this.#rows.delete(item.sessionId);
            this.#older.delete(item.sessionId);
          }
          this.#publish(item.type === "diagnostics" ? { diagnostics: item.diagnostics } : {});
        },
        failed: (error) => this.#publish({ error }),
      },
    );
  }

  get view(): CatalogueView {
    return this.#view;
  }

  row(sessionId: string): SessionSummary | undefined {
    return this.#rows.get(sessionId) ?? this.#older.get(sessionId);
  }

  /** Loads rows beyond the baseline. One call at a time; a failure shows in the view. */
  async loadOlder(): Promise<void> {
    if (this.#loading || !this.#view.hasMore) return;
    this.#loading = true;
    try {
      const cursor = this.#cursor === undefined ? {} : { cursor: this.#cursor };
      const page = await this.#call("session/list", { limit: 500, ...cursor });
      for (const row of page.items) {
        this.#older.set(row.sessionId, row);
        if (!this.#rows.has(row.sessionId)) this.rowChanged.emit(row);
      }
      this.#cursor = page.nextCursor;
      this.#publish({ hasMore: page.nextCursor !== undefined, error: null });
    } catch (thrown) {
      this.#publish({ error: asRemoteError(thrown) });
    } finally {
      this.#loading = false;
    }
  }

  start(): void {
    this.#stream.start();
  }

  dispose(): void {
    this.#stream.dispose();
  }

  #put(row: SessionSummary, before: SessionSummary | undefined): void {
    // A row keeps its identity while nothing about it changes.
    const kept = before && JSON.stringify(before) === JSON.stringify(row) ? before : row;
    this.#rows.set(row.sessionId, kept);
    if (kept !== before) this.rowChanged.emit(kept);
  }

  #publish(change: Partial<CatalogueView>): void {
    const rows = new Map([...this.#older, ...this.#rows]);
    this.#view = { ...this.#view, items: [...rows.values()].sort(compareRows), ...change };
    this.changed.emit();
  }
}
