/** Where a person types: sending, steering, stopping, the next model, the permission in force. */
import type { DeliveryMode } from "@orrery/client";
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { useDraft } from "../lib/draft";
import type { Permission } from "../lib/permission";
import { Icon } from "./icons";

interface ComposerProps {
  /** Under which name the draft is kept. */
  draftId: string;
  running: boolean;
  /** Why nothing can be sent right now. */
  blocked: string | null;
  placeholder: string;
  permission: Permission;
  picker: ReactNode;
  /** Resolves to whether it was taken; the text comes back when it was not. */
  onSend: (text: string, mode: DeliveryMode) => Promise<boolean>;
  onStop: () => void;
}

export function Composer(props: ComposerProps): ReactNode {
  const { draftId, running, blocked, placeholder, permission, picker, onSend, onStop } = props;
  const [draft, setDraft] = useDraft(draftId);
  const area = useRef<HTMLTextAreaElement>(null);
  const latest = useRef(draft);
  latest.current = draft;
  const ready = draft.trim() !== "" && blocked === null;

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    // Grows with the text; the style sheet sets the limit.
    element.style.height = "auto";
    element.style.height = draft === "" ? "" : `${element.scrollHeight}px`;
  }, [draft]);

  useEffect(() => {
    // On a touch screen the focus would open the keyboard.
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, []);

  const send = async (mode: DeliveryMode) => {
    if (!ready) return;
    const text = draft;
    setDraft("");
    const taken = await onSend(text, mode);
    if (!taken && latest.current === "") setDraft(text);
    area.current?.focus();
  };

  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    // The Enter that ends a composition belongs to the input method; 229 is how Safari says so.
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    const opposite = event.ctrlKey || event.metaKey;
    void send(running && opposite ? "steer" : "queue");
  };

  return (
    <div className="composer">
      <textarea
        ref={area}
        value={draft}
        rows={1}
        placeholder={placeholder}
        aria-label="Message"
        data-testid="composer-input"
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="composer-bar">
        {picker}
        <span
          className={`chip quiet ${permission.id}`}
          title={permission.detail}
          data-testid="permission"
        >
          <Icon name={permission.id === "read-only" ? "eye" : "lock"} size={14} />
          <span className="chip-text">{permission.label}</span>
        </span>
        <span className="composer-space" />
        {running && ready && (
          <button
            type="button"
            className="button small"
            data-testid="steer"
            title="Joins the running turn at its next step (Ctrl+Enter)"
            onClick={() => void send("steer")}
          >
            <Icon name="steer" size={14} /> Steer
          </button>
        )}
        {running && (
          <button
            type="button"
            className="round stop"
            aria-label="Stop"
            title="Stop"
            data-testid="stop"
            onClick={onStop}
          >
            <span className="stop-square" aria-hidden="true" />
          </button>
        )}
        {(!running || ready) && (
          <button
            type="button"
            className="round send"
            aria-label={running ? "Queue for the next turn" : "Send"}
            title={blocked ?? (running ? "Queue for the next turn (Enter)" : "Send (Enter)")}
            disabled={!ready}
            data-testid="send"
            onClick={() => void send("queue")}
          >
            <Icon name="send" size={17} />
          </button>
        )}
      </div>
    </div>
  );
}
