/** A button with a panel below it; what the panel shows is made only while it is open. */
import { type ReactNode, useCallback, useState } from "react";
import { useDismiss } from "./controls";
import { Icon, type IconName } from "./icons";

interface PopoverProps {
  icon: IconName;
  label: string;
  /** Beside the icon: a count, say. */
  note?: string | undefined;
  busy?: boolean;
  testId: string;
  children: (close: () => void) => ReactNode;
}

export function Popover({ icon, label, note, busy, testId, children }: PopoverProps): ReactNode {
  const [open, setOpen] = useState(false);
  const close = useCallback(() => setOpen(false), []);
  const box = useDismiss(open, close);
  return (
    <div className={`unfolding ${open ? "open" : ""}`} ref={box}>
      <button
        type="button"
        className={`chip ${busy ? "busy" : "quiet"}`}
        aria-label={note ? `${label}: ${note}` : label}
        title={label}
        aria-expanded={open}
        data-testid={testId}
        onClick={() => setOpen(!open)}
      >
        <Icon name={icon} size={14} />
        {note && <span>{note}</span>}
      </button>
      {open && (
        <section className="popover-panel" aria-label={label} data-testid={`${testId}-panel`}>
          <h2>{label}</h2>
          {children(close)}
        </section>
      )}
    </div>
  );
}
