/** What was just done, at the bottom of the page, with a way to take it back. */
import type { ReactNode } from "react";
import { showToast, useToast } from "../lib/toast";
import { IconButton } from "./controls";

export function ToastView(): ReactNode {
  const toast = useToast();
  if (!toast) return null;
  const { text, undo } = toast;
  return (
    <div className="toast" role="status" data-testid="toast">
      <span>{text}</span>
      {undo && (
        <button
          type="button"
          className="link-button"
          data-testid="undo"
          onClick={() => {
            showToast(null);
            undo();
          }}
        >
          Undo
        </button>
      )}
      <IconButton icon="close" size={14} label="Dismiss" onClick={() => showToast(null)} />
    </div>
  );
}
