/** Small controls that many views use: icon buttons, menus, dialogs, error lines. */
import type { RemoteError } from "@orrery/client";
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { Icon, type IconName } from "./icons";

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick: () => void;
  testId?: string;
  className?: string;
  disabled?: boolean;
  size?: number;
}

export function IconButton(props: IconButtonProps): ReactNode {
  const { icon, label, onClick, testId, className = "", disabled, size } = props;
  return (
    <button
      type="button"
      className={`icon-button ${className}`}
      aria-label={label}
      title={label}
      onClick={onClick}
      disabled={disabled}
      data-testid={testId}
    >
      <Icon name={icon} {...(size === undefined ? {} : { size })} />
    </button>
  );
}

/** Closes something when a person clicks elsewhere or presses Escape. */
export function useDismiss(open: boolean, close: () => void) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) close();
    };
    const onEscape = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
      box.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("keydown", onEscape, true);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("keydown", onEscape, true);
    };
  }, [open, close]);
  return box;
}

export interface MenuItem {
  label: string;
  icon: IconName;
  run: () => void;
  danger?: boolean;
}

export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }): ReactNode {
  const [open, setOpen] = useState(false);
  const close = useCallback(() => setOpen(false), []);
  const box = useDismiss(open, close);
  const move = (event: React.KeyboardEvent) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const buttons = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const step = event.key === "ArrowDown" ? 1 : -1;
    buttons.at((at + step + buttons.length) % buttons.length)?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys belong to the button and its list
    <div className={`menu ${open ? "open" : ""}`} ref={box} onKeyDown={open ? move : undefined}>
      <button
        type="button"
        className="icon-button"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Icon name="more" />
      </button>
      {open && (
        <div className="menu-list" role="menu" aria-label={label}>
          {items.map((item) => (
            <button
              key={item.label}
              type="button"
              role="menuitem"
              className={item.danger ? "danger" : ""}
              onClick={() => {
                close();
                item.run();
              }}
            >
              <Icon name={item.icon} /> {item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  testId?: string;
  className?: string;
}

/** A modal dialog; the browser keeps the focus inside. */
export function Dialog({
  title,
  onClose,
  children,
  testId,
  className = "",
}: DialogProps): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`dialog ${className}`}
      aria-label={title}
      data-testid={testId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onPointerDown={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className="dialog-body">
        <header className="dialog-head">
          <h2>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A failure by code and message. */
export function ErrorLine(props: {
  error: RemoteError;
  what?: string;
  onDismiss?: () => void;
  onRetry?: () => void;
}): ReactNode {
  const { error, what, onDismiss, onRetry } = props;
  return (
    <div className="error-line" role="alert" data-testid="error">
      <Icon name="alert" />
      <div className="error-text">
        {what && <strong>{what} </strong>}
        {error.message} <code>{error.code}</code>
      </div>
      {onRetry && (
        <button type="button" className="button small" onClick={onRetry}>
          Try again
        </button>
      )}
      {onDismiss && <IconButton icon="close" label="Dismiss" onClick={onDismiss} />}
    </div>
  );
}

/** A button that copies a text and says so for a second. */
export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }): ReactNode {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1000);
    } catch {
      setDone(false);
    }
  };
  return (
    <IconButton
      icon={done ? "check" : "copy"}
      label={done ? "Copied" : label}
      onClick={() => void copy()}
      size={14}
    />
  );
}

export function Spinner(): ReactNode {
  return <span className="spinner" aria-hidden="true" />;
}
