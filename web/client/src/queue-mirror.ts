/** The waiting messages of one session, as rows to show. Rows change only by what the Host says. */
import type { QueuePlacement, SessionQueue, SessionQueuedItem } from "./generated/contract";

export interface QueueRow {
  readonly id: string;
  readonly placement: QueuePlacement;
  readonly rpcId: string | undefined;
  /** The whole text; null when the row has anything else and cannot be edited. */
  readonly text: string | null;
  /** At most 200 code points. */
  readonly preview: string;
  readonly imageCount: number;
}

export interface QueueView {
  readonly parked: boolean;
  readonly rows: readonly QueueRow[];
}

export const EMPTY_QUEUE: QueueView = { parked: false, rows: [] };

interface Block {
  type?: unknown;
  text?: unknown;
}

/** A row of the Host's list. */
export function rowOf(item: SessionQueuedItem): QueueRow {
  const blocks = item.message.content as Block[];
  const isText = (block: Block) => block.type === "text" && typeof block.text === "string";
  const spoken = blocks
    .map((block) => {
      if (isText(block)) return String(block.text);
      return block.type === "image" ? "" : `[${String(block.type)}]`;
    })
    .join("");
  return {
    id: item.id,
    placement: item.placement,
    rpcId: item.rpcId,
    text: blocks.every(isText) ? blocks.map((block) => String(block.text)).join("\n") : null,
    preview: Array.from(spoken).slice(0, 200).join(""),
    imageCount: blocks.filter((block) => block.type === "image").length,
  };
}

export class QueueMirror {
  #view: QueueView = EMPTY_QUEUE;

  get view(): QueueView {
    return this.#view;
  }

  /** The whole list of the Host; absent means empty. */
  replace(queue: SessionQueue | undefined): void {
    const rows = queue?.items.map(rowOf) ?? [];
    const parked = queue?.parked ?? false;
    const same =
      parked === this.#view.parked && JSON.stringify(rows) === JSON.stringify(this.#view.rows);
    if (!same) this.#view = { parked, rows };
  }

  /**
   * A message became durable: hide its steering row now instead of showing it twice. At most one
   * row goes, since a later message may have the same id.
   */
  handOver(messageId: string): boolean {
    const { rows, parked } = this.#view;
    const index = rows.findIndex((row) => row.id === messageId && row.placement === "steering");
    if (index < 0) return false;
    this.#view = { parked, rows: rows.filter((_, at) => at !== index) };
    return true;
  }
}
