/** Unsent text, kept for each session in this browser. */
import { useCallback, useState } from "react";

const key = (id: string) => `orrery.draft.${id}`;

export function readDraft(id: string): string {
  return sessionStorage.getItem(key(id)) ?? "";
}

export function writeDraft(id: string, text: string): void {
  if (text === "") sessionStorage.removeItem(key(id));
  else sessionStorage.setItem(key(id), text);
}

/** The draft of a session. Give the component a key of its own for each session. */
export function useDraft(id: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => readDraft(id));
  const set = useCallback(
    (next: string) => {
      setText(next);
      writeDraft(id, next);
    },
    [id],
  );
  return [text, set];
}
