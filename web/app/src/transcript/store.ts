/** The rows of one session for React: folds what the window brings, at most once a frame. */
import { Emitter, type FrameScheduler, nextFrame, type SessionObject } from "@orrery/client";
import { TranscriptFold } from "./fold";
import type { TranscriptView } from "./model";

export class TranscriptStore {
  #changed = new Emitter();
  #fold = new TranscriptFold();
  #view: TranscriptView;
  #scheduled = false;

  constructor(session: SessionObject, schedule: FrameScheduler = nextFrame) {
    this.#fold.apply(session.entries);
    this.#view = this.#fold.view();
    session.windowChanged.subscribe((change) => {
      if (change.kind === "append") {
        this.#fold.apply(change.entries);
        if (this.#scheduled) return;
        this.#scheduled = true;
        schedule(() => {
          this.#scheduled = false;
          this.#publish();
        });
        return;
      }
      this.#fold = new TranscriptFold();
      this.#fold.apply(session.entries);
      this.#publish();
    });
  }

  subscribe = (listener: () => void): (() => void) => this.#changed.subscribe(listener);

  view = (): TranscriptView => this.#view;

  #publish(): void {
    this.#view = this.#fold.view();
    this.#changed.emit();
  }
}

const stores = new WeakMap<SessionObject, TranscriptStore>();

/** The rows of a session; one store for each session object. */
export function transcriptOf(session: SessionObject): TranscriptStore {
  let store = stores.get(session);
  if (!store) {
    store = new TranscriptStore(session);
    stores.set(session, store);
  }
  return store;
}
