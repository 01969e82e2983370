/** Scrolling of a conversation: follow the bottom, keep the place when older rows come. */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

/** How near to the bottom counts as being there, in pixels. */
const NEAR = 60;

export interface Following {
  scroller: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  /** Whether the newest row is in view. */
  atBottom: boolean;
  toBottom: (smooth?: boolean) => void;
  /** Puts one row into the middle of the view and stays there. */
  toRow: (row: Element) => void;
  onScroll: () => void;
  /** Called before older rows are asked for; the result lets go when none came. */
  holdPlace: () => () => void;
}

/** `firstKey` names the oldest row: when it changes, older rows have come above. */
export function useFollowing(firstKey: string | undefined): Following {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const held = useRef<{ row: Element; top: number } | null>(null);
  const lastTop = useRef(0);
  const [atBottom, setAtBottom] = useState(true);

  const toBottom = useCallback((smooth = false) => {
    const element = scroller.current;
    if (!element) return;
    following.current = true;
    setAtBottom(true);
    element.scrollTo({ top: element.scrollHeight, behavior: smooth ? "smooth" : "instant" });
  }, []);

  const toRow = useCallback((row: Element) => {
    following.current = false;
    setAtBottom(false);
    row.scrollIntoView({ block: "center", behavior: "instant" });
  }, []);

  const onScroll = useCallback(() => {
    const element = scroller.current;
    if (!element) return;
    const near = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    // Growing rows and a shrinking frame leave the place alone; only a person goes upwards.
    const upwards = element.scrollTop < lastTop.current;
    lastTop.current = element.scrollTop;
    if (near) following.current = true;
    else if (upwards) following.current = false;
    setAtBottom(near || following.current);
  }, []);

  const holdPlace = useCallback(() => {
    const frame = scroller.current?.getBoundingClientRect().top ?? 0;
    const rows = [...(content.current?.children ?? [])].filter((one) => one.tagName !== "BUTTON");
    const row = rows.find((one) => one.getBoundingClientRect().bottom > frame);
    held.current = row ? { row, top: row.getBoundingClientRect().top } : null;
    return () => {
      held.current = null;
    };
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element || !held.current) return;
    const { row, top } = held.current;
    element.scrollTop += row.getBoundingClientRect().top - top;
    held.current = null;
  }, [firstKey]);

  useEffect(() => {
    const box = content.current;
    const element = scroller.current;
    if (!box || !element) return;
    const observer = new ResizeObserver(() => {
      if (following.current && !held.current) element.scrollTop = element.scrollHeight;
    });
    observer.observe(box);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  return { scroller, content, atBottom, toBottom, toRow, onScroll, holdPlace };
}
