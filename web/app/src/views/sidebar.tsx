/** The left column: new session, search, sessions by folder, theme. */
import type { SessionSummary, Workspace } from "@orrery/client";
import { asRemoteError, type RemoteError } from "@orrery/client";
import { type ReactNode, useMemo, useState } from "react";
import { baseName, tilde } from "../lib/format";
import {
  announceWorkspaces,
  go,
  useCatalogue,
  useClient,
  useConnection,
  useNow,
  usePlace,
  useWorkspaces,
} from "../lib/hooks";
import { tidyQuery, useSearch } from "../lib/search";
import { ErrorLine, IconButton, Menu } from "./controls";
import { Icon, Logo } from "./icons";
import { SearchResults } from "./search-results";
import { SessionRow } from "./session-row";
import { ThemeSwitch } from "./theme-switch";
import { TrashDialog } from "./trash-dialog";

/** How many rows of a folder are shown at first, besides those that are busy or looked at. */
const SHOWN = 8;

interface Group {
  key: string;
  title: string;
  path: string;
  workspace: Workspace | undefined;
  rows: SessionSummary[];
}

interface SidebarProps {
  onAddFolder: () => void;
  onNavigate: () => void;
}

export function Sidebar({ onAddFolder, onNavigate }: SidebarProps): ReactNode {
  const catalogue = useCatalogue();
  const workspaces = useWorkspaces();
  const client = useClient();
  const place = usePlace();
  const now = useNow(30_000);
  const [filter, setFilter] = useState("");
  const search = useSearch(filter);
  const [trash, setTrash] = useState(false);
  const current =
    place.kind === "session" ? place.id : place.kind === "agent" ? place.parent : null;
  const archived = catalogue.items.filter((row) => row.archived && row.origin !== "subagent");
  const groups = useMemo(
    () => groupRows(catalogue.items, workspaces.value ?? [], current),
    [catalogue.items, workspaces.value, current],
  );
  const wanted = filter.trim().toLowerCase();
  const title = (row: SessionSummary) => client.control.projections(row.sessionId).get("title");
  const matches = (row: SessionSummary) =>
    `${title(row) ?? row.projections?.values.title ?? "new session"} ${row.cwd ?? ""}`
      .toLowerCase()
      .includes(wanted);
  const startNew = (cwd: string | null) => {
    go({ kind: "new", cwd });
    onNavigate();
  };
  const cwdNow = current ? (client.catalogue.row(current)?.cwd ?? null) : null;
  const shown = wanted
    ? groups
        .map((group) => ({ ...group, rows: group.rows.filter(matches) }))
        .filter((group) => group.rows.length > 0)
    : groups;

  return (
    <nav className="sidebar" data-testid="sidebar" aria-label="Sessions">
      <header className="sidebar-head">
        <span className="brand">
          <Logo /> Orrery
        </span>
        <IconButton icon="folder" label="Add a folder" onClick={onAddFolder} testId="add-folder" />
      </header>
      <button
        type="button"
        className="button primary new-session"
        data-testid="new-session"
        onClick={() => startNew(cwdNow)}
      >
        <Icon name="plus" /> New session
      </button>
      <label className="search">
        <Icon name="search" size={14} />
        <input
          type="search"
          value={filter}
          placeholder="Search sessions"
          aria-label="Search sessions"
          data-testid="session-filter"
          onChange={(event) => setFilter(event.target.value)}
        />
      </label>
      <div className="groups">
        {catalogue.error && <ErrorLine error={catalogue.error} />}
        {shown.map((group) => (
          <GroupSection
            key={group.key}
            group={group}
            now={now}
            current={current}
            unfold={wanted !== ""}
            onNew={() => startNew(group.path)}
            onNavigate={onNavigate}
          />
        ))}
        <EmptyNote
          ready={catalogue.ready}
          groups={groups.length}
          shown={shown.length}
          filter={filter}
        />
        {wanted !== "" && (
          <SearchResults search={search} wanted={tidyQuery(filter)} onNavigate={onNavigate} />
        )}
        {catalogue.hasMore && wanted === "" && (
          <button
            type="button"
            className="link-button more"
            onClick={() => void client.catalogue.loadOlder()}
          >
            Load older sessions
          </button>
        )}
        {archived.length > 0 && wanted === "" && (
          <details className="archived" data-testid="archived">
            <summary>
              <Icon name="archive" size={13} /> {archived.length} archived
            </summary>
            <ul>
              {archived.map((row) => (
                <SessionRow
                  key={row.sessionId}
                  row={row}
                  now={now}
                  current={row.sessionId === current}
                  onNavigate={onNavigate}
                />
              ))}
            </ul>
          </details>
        )}
        {catalogue.diagnostics.length > 0 && <Diagnostics />}
      </div>
      <footer className="sidebar-foot">
        <ThemeSwitch />
        <IconButton icon="trash" label="Trash" testId="open-trash" onClick={() => setTrash(true)} />
      </footer>
      {trash && <TrashDialog onClose={() => setTrash(false)} />}
    </nav>
  );
}

function EmptyNote(props: {
  ready: boolean;
  groups: number;
  shown: number;
  filter: string;
}): ReactNode {
  const connection = useConnection();
  if (!props.ready) {
    return <p className="side-note">{connection === "refused" ? "" : "Loading sessions…"}</p>;
  }
  if (props.groups === 0) return <p className="side-note">No sessions yet. Start one above.</p>;
  if (props.shown === 0) {
    return <p className="side-note">No title or folder matches “{props.filter}”.</p>;
  }
  return null;
}

function Diagnostics(): ReactNode {
  const { diagnostics } = useCatalogue();
  return (
    <details className="diagnostics">
      <summary>
        <Icon name="alert" size={13} />
        {diagnostics.length === 1
          ? "1 log cannot be read"
          : `${diagnostics.length} logs cannot be read`}
      </summary>
      {diagnostics.map((one) => (
        <p key={one.path}>
          <code>{one.reason}</code> {one.path}: {one.message}
        </p>
      ))}
    </details>
  );
}

interface GroupProps {
  group: Group;
  now: number;
  current: string | null;
  unfold: boolean;
  onNew: () => void;
  onNavigate: () => void;
}

function GroupSection({ group, now, current, unfold, onNew, onNavigate }: GroupProps): ReactNode {
  const { connection, call } = useClient();
  const [folded, setFolded] = useState(false);
  const [all, setAll] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const [error, setError] = useState<RemoteError | null>(null);
  const { workspace } = group;
  const rows =
    all || unfold
      ? group.rows
      : group.rows.filter((row, at) => at < SHOWN || row.running || row.sessionId === current);
  const hidden = group.rows.length - rows.length;
  const act = async (action: () => Promise<unknown>) => {
    setError(null);
    try {
      await action();
      announceWorkspaces();
    } catch (thrown) {
      setError(asRemoteError(thrown));
    }
  };
  const rename = (title: string) => {
    setRenaming(false);
    if (!workspace || title === workspace.title || title.trim() === "") return;
    const { workspaceId } = workspace;
    void act(() => call("workspace/rename", { workspaceId, title }));
  };
  return (
    <section className="group" aria-label={group.title}>
      <header className="group-head" title={tilde(group.path, connection.lastReady?.home)}>
        {renaming ? (
          <input
            className="inline-edit"
            defaultValue={group.title}
            aria-label="Folder name"
            // biome-ignore lint/a11y/noAutofocus: a person has just asked to type here
            autoFocus
            onBlur={(event) => rename(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") event.currentTarget.blur();
              if (event.key === "Escape") setRenaming(false);
            }}
          />
        ) : (
          <button
            type="button"
            className="group-title"
            aria-expanded={!folded}
            onClick={() => setFolded(!folded)}
          >
            <Icon name="chevron" size={12} />
            <span>{group.title}</span>
          </button>
        )}
        <span className="group-actions">
          {workspace && (
            <Menu
              label={`Folder ${group.title}`}
              items={[
                { label: "Rename", icon: "pencil", run: () => setRenaming(true) },
                {
                  label: "Remove from list",
                  icon: "trash",
                  run: () =>
                    void act(() =>
                      call("workspace/remove", { workspaceId: workspace.workspaceId }),
                    ),
                },
              ]}
            />
          )}
          <IconButton icon="plus" label={`New session in ${group.title}`} onClick={onNew} />
        </span>
      </header>
      {error && <ErrorLine error={error} onDismiss={() => setError(null)} />}
      {!folded && (
        <ul>
          {rows.map((row) => (
            <SessionRow
              key={row.sessionId}
              row={row}
              now={now}
              current={row.sessionId === current}
              onNavigate={onNavigate}
            />
          ))}
          {group.rows.length === 0 && <li className="side-note">No sessions here yet.</li>}
          {hidden > 0 && (
            <li>
              <button type="button" className="link-button more" onClick={() => setAll(true)}>
                Show {hidden} more
              </button>
            </li>
          )}
        </ul>
      )}
    </section>
  );
}

/** Rows by folder: workspaces as they were added, then other folders by their newest row. */
export function groupRows(
  items: readonly SessionSummary[],
  workspaces: readonly Workspace[],
  current: string | null,
): Group[] {
  const groups = new Map<string, Group>();
  for (const workspace of workspaces) {
    const { path, title } = workspace;
    groups.set(path, { key: workspace.workspaceId, title, path, workspace, rows: [] });
  }
  for (const row of items) {
    const hidden = row.archived || row.origin === "subagent";
    const idleBlank = row.blank && !row.running && row.sessionId !== current;
    if (hidden || idleBlank) continue;
    const path = row.cwd ?? "";
    let group = groups.get(path);
    if (!group) {
      const title = path ? baseName(path) : "No folder";
      group = { key: `path:${path}`, title, path, workspace: undefined, rows: [] };
      groups.set(path, group);
    }
    group.rows.push(row);
  }
  return [...groups.values()];
}
