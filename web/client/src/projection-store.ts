/** Projections of one session: whole values with watermarks, where newer always wins. */
import type { ProjectionValues } from "./generated/contract";
import { Emitter } from "./observable";

interface Cell {
  readonly value: unknown;
  readonly seq: number;
}

export class ProjectionStore {
  readonly changed = new Emitter();
  #cells = new Map<string, Cell>();
  #values: Readonly<Record<string, unknown>> = {};

  /** All values; the same object until one changes. */
  get values(): Readonly<Record<string, unknown>> {
    return this.#values;
  }

  get(key: string): unknown {
    return this.#cells.get(key)?.value;
  }

  /** A pushed value: applies only when it is newer. */
  push(key: string, value: unknown, seq: number): void {
    const cell = this.#cells.get(key);
    if (cell && seq <= cell.seq) return;
    this.#cells.set(key, { value, seq });
    this.#publish();
  }

  /** Every value at one cut: older cells give way, also to absence; newer ones stay. */
  baseline({ asOfSeq, values }: ProjectionValues): void {
    for (const [key, cell] of this.#cells) {
      if (!(key in values) && cell.seq <= asOfSeq) this.#cells.delete(key);
    }
    for (const [key, value] of Object.entries(values)) {
      const cell = this.#cells.get(key);
      if (!cell || asOfSeq >= cell.seq) this.#cells.set(key, { value, seq: asOfSeq });
    }
    this.#publish();
  }

  /** A baseline of the process: what lies beyond its cut came from a Host that is gone. */
  controlBaseline(baseline: ProjectionValues): void {
    for (const [key, cell] of this.#cells) {
      if (cell.seq > baseline.asOfSeq) this.#cells.delete(key);
    }
    this.baseline(baseline);
  }

  /** Some values at one cut, as a list row has them: absence says nothing. */
  hint({ asOfSeq, values }: ProjectionValues): void {
    let changed = false;
    for (const [key, value] of Object.entries(values)) {
      const cell = this.#cells.get(key);
      if (cell && asOfSeq <= cell.seq) continue;
      this.#cells.set(key, { value, seq: asOfSeq });
      changed = true;
    }
    if (changed) this.#publish();
  }

  #publish(): void {
    this.#values = Object.fromEntries([...this.#cells].map(([key, cell]) => [key, cell.value]));
    this.changed.emit();
  }
}
