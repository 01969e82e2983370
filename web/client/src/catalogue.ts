/** Session rows, kept up to date by `session/catalog`. */
import type { Connection } from "./connection";
import type { RemoteError } from "./errors";
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
  #rows = new Map<string, SessionSummary>();
  #view: CatalogueView = { ready: false, items: [], diagnostics: [], hasMore: false, error: null };
  #stream: SnapshotStream<"session/catalog">;

  constructor(connection: Connection, limit: number) {
    this.#stream = new SnapshotStream(
      connection,
      "session/catalog",
      { limit },
      {
        baseline: ({ value }) => {
          const before = this.#rows;
          this.#rows = new Map();
          for (const row of value.items) this.#put(row, before.get(row.sessionId));
          const { diagnostics, hasMore } = value;
          this.#publish({ ready: true, diagnostics, hasMore });
        },
        update: (item) => {
          if (item.type === "upsert") this.#put(item.item, this.#rows.get(item.item.sessionId));
          else if (item.type === "remove") this.#rows.delete(item.sessionId);
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
    return this.#rows.get(sessionId);
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
    this.#view = { ...this.#view, items: [...this.#rows.values()].sort(compareRows), ...change };
    this.changed.emit();
  }
}
