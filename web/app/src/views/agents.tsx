/** The agents of a session as a tree: fetched when it is opened, each branch when it is unfolded. */
import type { OrreryClient, SubagentEntry } from "@orrery/client";
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { DIAGNOSTICS } from "../lib/agents";
import { amount, duration } from "../lib/format";
import { useCatalogue, useClient, useLoaded, useProjections } from "../lib/hooks";
import { fields, number } from "../transcript/content";
import { Ticking } from "./agent-card";
import { ErrorLine, IconButton, Spinner } from "./controls";
import { Icon } from "./icons";
import { PlaceLink } from "./place-link";
import { Popover } from "./popover";

export function Agents({ sessionId }: { sessionId: string }): ReactNode {
  const { items } = useCatalogue();
  const children = useMemo(
    () => items.filter((row) => row.origin === "subagent" && row.parentSessionId === sessionId),
    [items, sessionId],
  );
  const known = useClient().catalogue.row(sessionId)?.childCount ?? 0;
  const count = Math.max(known, children.length);
  if (count === 0) return null;
  const working = children.filter((row) => row.running).length;
  const note = working > 0 ? `${working} of ${count} at work` : String(count);
  return (
    <Popover icon="agents" label="Subagents" note={note} busy={working > 0} testId="agents">
      {(close) => <Branch parent={sessionId} onNavigate={close} />}
    </Popover>
  );
}

/** The children of one session. Fetched again when one comes or goes. */
function Branch({ parent, onNavigate }: { parent: string; onNavigate: () => void }): ReactNode {
  const { items } = useCatalogue();
  const load = useCallback(
    async (client: OrreryClient) =>
      (await client.call("subagent/list", { parentSessionId: parent })).entries,
    [parent],
  );
  const { value, error, reload } = useLoaded(load);
  const rows = items.filter((row) => row.parentSessionId === parent);
  // A child is told by its identity, which comes a moment after its row.
  const signature = rows
    .map((row) => `${row.sessionId} ${row.live} ${Boolean(row.projections?.values.subagent)}`)
    .join();
  const [seen, setSeen] = useState(signature);
  useEffect(() => {
    if (seen === signature) return;
    setSeen(signature);
    reload();
  }, [seen, signature, reload]);
  if (error && !value) return <ErrorLine error={error} onRetry={reload} />;
  if (!value) return <Spinner />;
  if (value.length === 0) return <p className="side-note">None yet.</p>;
  return (
    <ul className="agents">
      {value.map((entry) => (
        <Agent key={entry.id} entry={entry} parent={parent} onNavigate={onNavigate} />
      ))}
    </ul>
  );
}

interface AgentProps {
  entry: SubagentEntry;
  parent: string;
  onNavigate: () => void;
}

function Agent({ entry, parent, onNavigate }: AgentProps): ReactNode {
  const { catalogue } = useClient();
  useCatalogue();
  const [open, setOpen] = useState(false);
  const row = catalogue.row(entry.id);
  if (entry.kind === "diagnostic") {
    return (
      <li className="agent-item" data-testid="agent-diagnostic">
        <span className="agent-row">
          <Icon name="alert" size={13} />
          <span className="agent-name">{entry.id}</span>
          <span className="badge amber">{entry.reason}</span>
        </span>
        <p className="side-note">{DIAGNOSTICS[entry.reason]}</p>
      </li>
    );
  }
  const place = { kind: "agent", parent, id: entry.id, mode: entry.mode } as const;
  const running = row?.running === true;
  const state = running ? "at work" : entry.mode === "one-shot" ? "done" : "at rest";
  return (
    <li className="agent-item" data-testid="agent-row" data-session={entry.id}>
      <span className="agent-row">
        {entry.hasChildren ? (
          <IconButton
            icon={open ? "down" : "chevron"}
            size={12}
            label={open ? "Hide its subagents" : "Show its subagents"}
            onClick={() => setOpen(!open)}
          />
        ) : (
          <span className="agent-gap" />
        )}
        <span className={`dot ${running ? "running" : "idle"}`} aria-hidden="true" />
        <PlaceLink to={place} className="agent-name" onGo={onNavigate}>
          {entry.label ?? entry.id}
        </PlaceLink>
        <span className="agent-facts">
          <Facts sessionId={entry.id} since={row?.createdAt} running={running} state={state} />
        </span>
      </span>
      {open && <Branch parent={entry.id} onNavigate={onNavigate} />}
    </li>
  );
}

/** How long it has worked and what it used, where that is known; a cold one tells its state only. */
function Facts(props: {
  sessionId: string;
  since: number | undefined;
  running: boolean;
  state: string;
}): ReactNode {
  const { sessionId, since, running, state } = props;
  const values = useProjections(sessionId);
  const timing = fields(values.subagentTiming);
  const begun = number(fields(timing.active).since) ?? since;
  const settled = number(timing.settledMs);
  const tokens = number(fields(values.tokenUsage).outputTokens);
  return (
    <>
      {tokens !== undefined && tokens > 0 && <span>{amount(tokens)} tokens</span>}
      {running && begun !== undefined ? (
        <Ticking since={begun - (settled ?? 0)} />
      ) : (
        settled !== undefined && settled > 0 && <span>{duration(settled)}</span>
      )}
      <span>{state}</span>
    </>
  );
}
