/** The line above a conversation: title, folder, actions, how the connection is doing. */
import { type ReactNode, useState } from "react";
import { identityOf, placeOfRow } from "../lib/agents";
import { tilde } from "../lib/format";
import { useCatalogue, useClient, useConnection, useProjections } from "../lib/hooks";
import { titleOf } from "../lib/title";
import { IconButton, Menu } from "./controls";
import { Icon } from "./icons";
import { PlaceLink } from "./place-link";

interface HeaderProps {
  title: string;
  cwd?: string | undefined;
  onMenu: () => void;
  /** The session that a subagent works for. */
  above?: string | null;
  onRename?: ((title: string) => void) | undefined;
  onFork?: () => void;
  /** More about the session, beside how the connection is doing. */
  children?: ReactNode;
}

export function Header(props: HeaderProps): ReactNode {
  const { title, cwd, onMenu, above, onRename, onFork, children } = props;
  const { connection } = useClient();
  const [renaming, setRenaming] = useState(false);
  const rename = (next: string) => {
    setRenaming(false);
    if (next.trim() !== "" && next.trim() !== title) onRename?.(next.trim());
  };
  return (
    <header className="main-head">
      <IconButton icon="menu" label="Show sessions" onClick={onMenu} className="drawer-button" />
      {above && <Above sessionId={above} />}
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
      {children}
      <ConnectionState />
      {onFork && (
        <Menu
          label="Session actions"
          items={[
            ...(onRename
              ? [{ label: "Rename", icon: "pencil" as const, run: () => setRenaming(true) }]
              : []),
            { label: "Fork", icon: "fork", run: onFork },
          ]}
        />
      )}
    </header>
  );
}

/** The way up from a subagent, from the top session on. */
function Above({ sessionId }: { sessionId: string }): ReactNode {
  const client = useClient();
  useCatalogue();
  const row = client.catalogue.row(sessionId);
  const values = useProjections(sessionId);
  const identity = identityOf(row);
  const place = row ? placeOfRow(row) : ({ kind: "session", id: sessionId } as const);
  const grandparent = identity && row?.parentSessionId;
  return (
    <>
      {grandparent && <Above sessionId={grandparent} />}
      <PlaceLink to={place} className="crumb" testId="crumb">
        {identity?.label ?? titleOf(values, row) ?? "Session"}
      </PlaceLink>
      <Icon name="chevron" size={12} />
    </>
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
