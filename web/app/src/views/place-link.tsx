/** A link to a place of the page: a plain click goes there at once, any other does what links do. */
import type { ReactNode } from "react";
import { go, hashOf, type Place } from "../lib/hooks";

interface PlaceLinkProps {
  to: Place;
  className: string;
  testId?: string;
  /** Called before going. */
  onGo?: () => void;
  children: ReactNode;
}

export function PlaceLink({ to, className, testId, onGo, children }: PlaceLinkProps): ReactNode {
  return (
    <a
      className={className}
      href={hashOf(to)}
      data-testid={testId}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        onGo?.();
        go(to);
      }}
    >
      {children}
    </a>
  );
}
