/** One thing that was just done, with a way to take it back. */
import { Emitter } from "@orrery/client";
import { useSyncExternalStore } from "react";

export interface Toast {
  text: string;
  /** What takes it back; absent for a failure. */
  undo?: () => void;
}

/** How long it stays. */
const SHOWN_MS = 10_000;

const changed = new Emitter();
let current: Toast | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows it in the place of the one before. */
export function showToast(toast: Toast | null): void {
  clearTimeout(timer);
  current = toast;
  if (toast) timer = setTimeout(() => showToast(null), SHOWN_MS);
  changed.emit();
}

export function useToast(): Toast | null {
  return useSyncExternalStore(changed.subscribe, () => current);
}
