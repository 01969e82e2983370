/**
 * What a person has sent and the log does not show yet. In memory only: it appears with the click
 * and leaves one frame after the log or the queue shows the same request id.
 */
import type { DeliveryMode } from "./generated/contract";
import { Emitter, type FrameScheduler } from "./observable";

export type EchoPlacement = "transcript" | "queued" | "steering";
export type Retirement = "observed" | "failed";

export interface Submission {
  readonly requestId: string;
  readonly placement: EchoPlacement;
  readonly time: number;
  readonly text: string;
}

export interface BeginSubmission {
  requestId: string;
  mode: DeliveryMode;
  running: boolean;
  text: string;
  time: number;
  onRetire?: (reason: Retirement) => void;
}

interface Pending {
  entry: Submission;
  settled: Retirement | null;
  onRetire: ((reason: Retirement) => void) | undefined;
}

export class Submissions {
  readonly changed = new Emitter();
  #schedule: FrameScheduler;
  #pending = new Map<string, Pending>();
  #entries: readonly Submission[] = [];

  constructor(schedule: FrameScheduler) {
    this.#schedule = schedule;
  }

  /** What to show; the same array until it changes. */
  get entries(): readonly Submission[] {
    return this.#entries;
  }

  /** Shows a submission at once. Where it shows is settled now and for good. */
  begin({ requestId, mode, running, text, time, onRetire }: BeginSubmission): void {
    const waiting = mode === "steer" ? "steering" : "queued";
    const placement = running ? waiting : "transcript";
    this.#pending.set(requestId, {
      entry: { requestId, placement, time, text },
      settled: null,
      onRetire,
    });
    this.#publish();
  }

  /** The log or the queue shows it: it leaves with the next frame. */
  observe(requestId: string): void {
    const pending = this.#pending.get(requestId);
    if (!pending || pending.settled) return;
    pending.settled = "observed";
    this.#schedule(() => {
      if (this.#pending.get(requestId) === pending) this.#retire(requestId, pending);
    });
  }

  /** It was refused or given up: it leaves now. */
  fail(requestId: string): void {
    const pending = this.#pending.get(requestId);
    if (!pending || pending.settled) return;
    pending.settled = "failed";
    this.#retire(requestId, pending);
  }

  /** Everything leaves; what was observed counts as such. */
  dispose(): void {
    for (const [requestId, pending] of [...this.#pending]) {
      pending.settled ??= "failed";
      this.#retire(requestId, pending);
    }
  }

  #retire(requestId: string, pending: Pending): void {
    this.#pending.delete(requestId);
    this.#publish();
    pending.onRetire?.(pending.settled ?? "failed");
  }

  #publish(): void {
    this.#entries = [...this.#pending.values()].map((pending) => pending.entry);
    this.changed.emit();
  }
}

/** A request id. Needs no secure context, where `crypto.randomUUID` is missing. */
export function mintRequestId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
