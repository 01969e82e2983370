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
  onScroll: () => void;
  /** Called before older rows are asked for. */
  holdPlace: () => void;
}

/** `firstKey` names the oldest row: when it changes, older rows have come above. */
export function useFollowing(firstKey: string | undefined): Following {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const held = useRef<{ height: number; top: number } | null>(null);
  const lastTop = useRef(0);
  const [atBottom, setAtBottom] = useState(true);

  const toBottom = useCallback((smooth = false) => {
    const element = scroller.current;
    if (!element) return;
    following.current = true;
    setAtBottom(true);
    element.scrollTo({ top: element.scrollHeight, behavior: smooth ? "smooth" : "instant" });
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
    const element = scroller.current;
    if (element) held.current = { height: element.scrollHeight, top: element.scrollTop };
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element || !held.current) return;
    element.scrollTop = held.current.top + element.scrollHeight - held.current.height;
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

  return { scroller, content, atBottom, toBottom, onScroll, holdPlace };
}
