/** Says that a session cannot be saved just now: nothing is lost, and it is tried again. */
import type { ReactNode } from "react";
import { Icon } from "./icons";

export function UnsavedBanner({ reason }: { reason: string | null }): ReactNode {
  if (reason === null) return null;
  return (
    <p className="unsaved-banner" role="alert" data-testid="unsaved-banner">
      <Icon name="alert" size={15} />
      <span>
        <strong>This session cannot be saved just now.</strong> What is missing on disk is kept in
        memory and written as soon as that works again. <code>{reason}</code>
      </span>
    </p>
  );
}
