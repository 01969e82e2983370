/** The line above a conversation: title, folder, actions, how the connection is doing. */
import { type ReactNode, useState } from "react";
import { tilde } from "../lib/format";
import { useClient, useConnection } from "../lib/hooks";
import { IconButton, Menu } from "./controls";
import { Icon } from "./icons";

interface HeaderProps {
  title: string;
  cwd?: string | undefined;
  onMenu: () => void;
  onRename?: (title: string) => void;
  onFork?: () => void;
}

export function Header({ title, cwd, onMenu, onRename, onFork }: HeaderProps): ReactNode {
  const { connection } = useClient();
  const [renaming, setRenaming] = useState(false);
  const rename = (next: string) => {
    setRenaming(false);
    if (next.trim() !== "" && next.trim() !== title) onRename?.(next.trim());
  };
  return (
    <header className="main-head">
      <IconButton icon="menu" label="Show sessions" onClick={onMenu} className="drawer-button" />
      {renaming ? (
        <input
          className="inline-edit title-edit"
          defaultValue={title}
          aria-label="Session title"
          // biome-ignore lint/a11y/noAutofocus: a person has just asked to type here
          autoFocus
          onFocus={(event) => event.target.select()}
          onBlur={(event) => rename(event.target.value)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            if (event.key === "Enter") event.currentTarget.blur();
            if (event.key === "Escape") setRenaming(false);
          }}
        />
      ) : (
        <h1 className="main-title" title={title}>
          {title}
        </h1>
      )}
      {cwd && (
        <span className="cwd" title={cwd}>
          <Icon name="folder" size={13} />
          {tilde(cwd, connection.lastReady?.home)}
        </span>
      )}
      <span className="head-space" />
      <ConnectionState />
      {onRename && onFork && (
        <Menu
          label="Session actions"
          items={[
            { label: "Rename", icon: "pencil", run: () => setRenaming(true) },
            { label: "Fork", icon: "fork", run: onFork },
          ]}
        />
      )}
    </header>
  );
}

const WORDS = {
  connecting: "Connecting…",
  connected: "Connected",
  reconnecting: "Reconnecting…",
  refused: "Signed out",
  stopped: "Disconnected",
} as const;

function ConnectionState(): ReactNode {
  const { connection } = useClient();
  const state = useConnection();
  const retry = state === "reconnecting" || state === "connecting" || state === "refused";
  return (
    <span
      className={`connection ${state}`}
      data-testid="connection-state"
      data-state={state}
      role="status"
      title={WORDS[state]}
    >
      <span className="dot" aria-hidden="true" />
      <span className={state === "connected" ? "visually-hidden" : ""}>{WORDS[state]}</span>
      {retry && (
        <button type="button" className="link-button" onClick={() => connection.retryNow()}>
          Retry now
        </button>
      )}
    </span>
  );
}
