/** Messages that wait, above the composer: edit, steer, remove; resume a parked queue. */
import type { QueueRow, SessionObject, Submission } from "@orrery/client";
import { type ReactNode, useState } from "react";
import { useSession } from "../lib/hooks";
import { IconButton } from "./controls";
import { Icon } from "./icons";

interface QueueDockProps {
  session: SessionObject;
  running: boolean;
  /** Request ids that the conversation shows already. */
  shown: ReadonlySet<string>;
}

export function QueueDock({ session, running, shown }: QueueDockProps): ReactNode {
  const { queue, pending } = useSession(session);
  const rows = queue.rows.filter(
    (row) => row.placement !== "context" && !(row.rpcId !== undefined && shown.has(row.rpcId)),
  );
  const listed = new Set(rows.map((row) => row.rpcId));
  const echoes = pending.filter(
    (echo) =>
      echo.placement !== "transcript" && !listed.has(echo.requestId) && !shown.has(echo.requestId),
  );
  const count = rows.length + echoes.length;
  if (count === 0) return null;
  const parked = queue.parked && !running;
  return (
    <section className="queue" aria-label="Waiting messages">
      <header className="queue-head">
        <span>
          {parked
            ? "Parked: these wait because the last turn did not finish"
            : count === 1
              ? "1 message waits"
              : `${count} messages wait`}
        </span>
        {parked && !session.subagent && (
          <button
            type="button"
            className="button small primary"
            data-testid="queue-resume"
            onClick={() => void session.resumeQueue()}
          >
            Resume
          </button>
        )}
      </header>
      <ul>
        {rows.map((row) => (
          <Row key={row.id} row={row} session={session} running={running} />
        ))}
        {echoes.map((echo) => (
          <EchoRow key={echo.requestId} echo={echo} />
        ))}
      </ul>
    </section>
  );
}

interface RowProps {
  row: QueueRow;
  session: SessionObject;
  running: boolean;
}

function Row({ row, session, running }: RowProps): ReactNode {
  const [editing, setEditing] = useState(false);
  const save = (text: string) => {
    setEditing(false);
    if (text.trim() === "" || text === row.text) return;
    void session.updateQueue(row.id, { kind: "edit", content: [{ type: "text", text }] });
  };
  return (
    <li className="queue-item" data-testid="queue-item" data-placement={row.placement}>
      <Placement steering={row.placement === "steering"} />
      {editing ? (
        <input
          className="inline-edit"
          defaultValue={row.text ?? ""}
          aria-label="Edit the waiting message"
          data-testid="queue-edit-input"
          // biome-ignore lint/a11y/noAutofocus: a person has just asked to type here
          autoFocus
          onBlur={(event) => save(event.target.value)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            if (event.key === "Enter") event.currentTarget.blur();
            if (event.key === "Escape") setEditing(false);
          }}
        />
      ) : (
        <span className="queue-text">
          {row.preview}
          {row.imageCount > 0 && <em> {row.imageCount} image(s)</em>}
        </span>
      )}
      {!editing && !session.subagent && (
        <span className="queue-actions">
          {running && row.placement === "queued" && (
            <IconButton
              icon="steer"
              size={14}
              label="Steer: join the running turn"
              testId="queue-steer"
              onClick={() => void session.updateQueue(row.id, { kind: "steer" })}
            />
          )}
          {row.text !== null && (
            <IconButton
              icon="pencil"
              size={14}
              label="Edit"
              testId="queue-edit"
              onClick={() => setEditing(true)}
            />
          )}
          <IconButton
            icon="close"
            size={14}
            label="Remove"
            testId="queue-remove"
            onClick={() => void session.updateQueue(row.id, { kind: "remove" })}
          />
        </span>
      )}
    </li>
  );
}

function EchoRow({ echo }: { echo: Submission }): ReactNode {
  return (
    <li className="queue-item echo">
      <Placement steering={echo.placement === "steering"} />
      <span className="queue-text">{echo.text.slice(0, 200)}</span>
      <span className="side-note">sending…</span>
    </li>
  );
}

function Placement({ steering }: { steering: boolean }): ReactNode {
  return (
    <span className={`badge ${steering ? "blue" : ""}`}>
      <Icon name={steering ? "steer" : "list"} size={11} /> {steering ? "next step" : "next turn"}
    </span>
  );
}
