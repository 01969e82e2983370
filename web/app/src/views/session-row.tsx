/** One session in the sidebar: how it is doing, its title, its age; renaming and forking. */
import type { SessionSummary } from "@orrery/client";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { forkSession } from "../lib/fork";
import { ago } from "../lib/format";
import { go, useClient, useInteractions, useProjections } from "../lib/hooks";
import { putAway } from "../lib/put-away";
import { titleOf } from "../lib/title";
import { Menu } from "./controls";

interface SessionRowProps {
  row: SessionSummary;
  now: number;
  current: boolean;
  onNavigate: () => void;
}

type Status = "asking" | "running" | "finished" | "idle";

const STATUS_WORDS: Record<Status, string> = {
  asking: "waits for you",
  running: "running",
  finished: "finished, not seen yet",
  idle: "idle",
};

export function SessionRow({ row, now, current, onNavigate }: SessionRowProps): ReactNode {
  const client = useClient();
  const values = useProjections(row.sessionId);
  const status = useStatus(row, current);
  const [renaming, setRenaming] = useState(false);
  const title = titleOf(values, row) ?? (row.blank ? "New session" : "Untitled session");
  const open = () => {
    go({ kind: "session", id: row.sessionId });
    onNavigate();
  };
  const rename = (next: string) => {
    setRenaming(false);
    const tidy = next.trim();
    if (tidy !== "" && tidy !== title) void client.session(row.sessionId).rename(tidy);
  };
  const away = async (verb: "archive" | "unarchive" | "delete") => {
    const done = await putAway(client, verb, row.sessionId, title);
    if (done && current && verb !== "unarchive") go({ kind: "new", cwd: row.cwd ?? null });
  };
  return (
    <li
      className={`session-row ${current ? "current" : ""}`}
      data-testid="session-row"
      data-session={row.sessionId}
    >
      {renaming ? (
        <input
          className="inline-edit"
          defaultValue={title}
          aria-label="Session title"
          data-testid="rename-input"
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
        <a
          href={`#/s/${encodeURIComponent(row.sessionId)}`}
          className="session-link"
          aria-current={current ? "page" : undefined}
          title={title}
          onClick={(event) => {
            if (event.metaKey || event.ctrlKey || event.shiftKey) return;
            event.preventDefault();
            open();
          }}
          onDoubleClick={() => setRenaming(true)}
        >
          <span className={`dot ${status}`} aria-hidden="true" />
          <span className="session-title">{title}</span>
          <span className="visually-hidden">, {STATUS_WORDS[status]}</span>
          <time className="session-age">{ago(row.updatedAt, now)}</time>
        </a>
      )}
      {!renaming && (
        <Menu
          label={`Session ${title}`}
          items={[
            { label: "Rename", icon: "pencil", run: () => setRenaming(true) },
            {
              label: "Fork",
              icon: "fork",
              run: () => void forkSession(client, row.sessionId, title),
            },
            row.archived
              ? { label: "Show again", icon: "archive", run: () => void away("unarchive") }
              : { label: "Archive", icon: "archive", run: () => void away("archive") },
            { label: "Delete", icon: "trash", danger: true, run: () => void away("delete") },
          ]}
        />
      )}
    </li>
  );
}

/** How a session is doing; one that finishes while nobody looks is marked until somebody does. */
function useStatus(row: SessionSummary, current: boolean): Status {
  const asks = useInteractions(row.sessionId).some((one) => one.state === "pending");
  const wasRunning = useRef(row.running);
  const [unseen, setUnseen] = useState(false);
  useEffect(() => {
    if (current || row.running) setUnseen(false);
    else if (wasRunning.current) setUnseen(true);
    wasRunning.current = row.running;
  }, [row.running, current]);
  if (asks) return "asking";
  if (row.running) return "running";
  return unseen ? "finished" : "idle";
}
