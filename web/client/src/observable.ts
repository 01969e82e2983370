/** Listeners of one thing. Owns nothing but the list; a listener may leave while it is called. */
export class Emitter<T = void> {
  #listeners = new Set<(value: T) => void>();

  /** Adds a listener; the result takes it away again. */
  subscribe = (listener: (value: T) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  emit(value: T): void {
    for (const listener of [...this.#listeners]) listener(value);
  }
}

/** Runs something at the next frame. Injected, so that tests can step it. */
export type FrameScheduler = (run: () => void) => void;

/** The browser's animation frame; a zero-delay timer where there is none or the page is hidden. */
export const nextFrame: FrameScheduler = (run) => {
  const hidden = typeof document !== "undefined" && document.visibilityState === "hidden";
  if (typeof requestAnimationFrame === "function" && !hidden) requestAnimationFrame(run);
  else setTimeout(run, 0);
};
