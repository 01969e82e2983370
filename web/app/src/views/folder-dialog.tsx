/** Choosing a folder on the Host: walk, filter, or type a path; then it becomes a workspace. */
import type { ListDirectoryResponse, Workspace } from "@orrery/client";
import { asRemoteError, type RemoteError } from "@orrery/client";
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { untilde } from "../lib/format";
import { announceWorkspaces, useClient } from "../lib/hooks";
import { Dialog, ErrorLine, IconButton, Spinner } from "./controls";
import { Icon } from "./icons";

interface FolderDialogProps {
  onClose: () => void;
  onChosen: (workspace: Workspace) => void;
}

export function FolderDialog({ onClose, onChosen }: FolderDialogProps): ReactNode {
  const { call, connection } = useClient();
  const [listing, setListing] = useState<ListDirectoryResponse | null>(null);
  const [error, setError] = useState<RemoteError | null>(null);
  const [busy, setBusy] = useState(false);
  const [filter, setFilter] = useState("");
  /** The path as far as it is typed; `null` while the crumbs are shown. */
  const [typed, setTyped] = useState<string | null>(null);
  const [hidden, setHidden] = useState(false);
  const asked = useRef(0);
  const filterBox = useRef<HTMLInputElement>(null);

  const open = useCallback(
    async (asPath: string | undefined) => {
      const path = asPath === undefined ? undefined : untilde(asPath, connection.lastReady?.home);
      const mine = ++asked.current;
      setError(null);
      try {
        const next = await call("workspace/listDirectory", path === undefined ? {} : { path });
        if (mine !== asked.current) return;
        setListing(next);
        setFilter("");
        setTyped(null);
        filterBox.current?.focus();
      } catch (thrown) {
        if (mine === asked.current) setError(asRemoteError(thrown));
      }
    },
    [call, connection],
  );
  useEffect(() => void open(undefined), [open]);

  const choose = async () => {
    if (!listing || busy) return;
    const wish = typed?.trim();
    const path = wish ? untilde(wish, connection.lastReady?.home) : listing.path;
    setBusy(true);
    setError(null);
    try {
      const { workspace } = await call("workspace/add", { path });
      announceWorkspaces();
      onChosen(workspace);
    } catch (thrown) {
      setError(asRemoteError(thrown));
      setBusy(false);
    }
  };

  const wanted = filter.trim().toLowerCase();
  const entries = (listing?.entries ?? []).filter(
    (entry) =>
      (hidden || !entry.hidden || wanted.startsWith(".")) &&
      entry.name.toLowerCase().includes(wanted),
  );
  return (
    <Dialog title="Add a folder" onClose={onClose} testId="folder-dialog" className="folder-dialog">
      <div className="path-bar">
        {typed !== null || !listing ? (
          <form
            className="path-form"
            onSubmit={(event) => {
              event.preventDefault();
              const path = typed?.trim();
              if (path) void open(path);
            }}
          >
            <input
              name="path"
              className="text-input"
              value={typed ?? ""}
              onChange={(event) => setTyped(event.target.value)}
              aria-label="Folder path"
              data-testid="folder-path"
              autoFocus
              spellCheck={false}
            />
            <button type="submit" className="button small">
              Go
            </button>
          </form>
        ) : (
          <>
            <Crumbs path={listing.path} onOpen={(path) => void open(path)} />
            <IconButton
              icon="pencil"
              label="Type a path"
              onClick={() => setTyped(listing.path)}
              testId="folder-edit-path"
            />
          </>
        )}
      </div>
      <div className="folder-tools">
        <label className="search">
          <Icon name="search" size={14} />
          <input
            ref={filterBox}
            type="search"
            value={filter}
            placeholder="Filter folders"
            aria-label="Filter folders"
            data-testid="folder-filter"
            onChange={(event) => setFilter(event.target.value)}
            onKeyDown={(event) => {
              const first = entries[0];
              if (event.key === "Enter" && first) {
                event.preventDefault();
                void open(first.path);
              }
            }}
          />
        </label>
        <label className="check">
          <input
            type="checkbox"
            checked={hidden}
            onChange={(event) => setHidden(event.target.checked)}
          />
          Hidden
        </label>
      </div>
      {error && <ErrorLine error={error} onDismiss={() => setError(null)} />}
      <ul className="folder-list" aria-label="Folders" onKeyDown={moveFocus}>
        {listing?.parent != null && wanted === "" && (
          <li>
            <button type="button" onClick={() => void open(listing.parent ?? "/")}>
              <Icon name="up" /> ..
            </button>
          </li>
        )}
        {entries.map((entry) => (
          <li key={entry.path}>
            <button
              type="button"
              data-testid="folder-entry"
              className={entry.hidden ? "faint" : ""}
              onClick={() => void open(entry.path)}
            >
              <Icon name="folder" /> {entry.name}
            </button>
          </li>
        ))}
        {listing && entries.length === 0 && (
          <li className="side-note">{emptyWord(wanted !== "", listing.entries.length)}</li>
        )}
        {!listing && !error && (
          <li className="side-note">
            <Spinner /> Reading…
          </li>
        )}
        {listing?.truncated && (
          <li className="side-note">There are more; filter or type a path.</li>
        )}
      </ul>
      <footer className="dialog-foot">
        <span className="chosen-path" title={typed ?? listing?.path}>
          <bdi>{typed ?? listing?.path ?? ""}</bdi>
        </span>
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          className="button primary"
          disabled={!listing || busy}
          data-testid="folder-choose"
          onClick={() => void choose()}
        >
          Use this folder
        </button>
      </footer>
    </Dialog>
  );
}

function emptyWord(filtered: boolean, hidden: number): string {
  if (filtered) return "No folder matches.";
  return hidden > 0 ? "Only hidden folders in here." : "No folders in here.";
}

function Crumbs({ path, onOpen }: { path: string; onOpen: (path: string) => void }): ReactNode {
  const parts = path.split("/").filter(Boolean);
  const crumbs = parts.map((name, at) => ({ name, path: `/${parts.slice(0, at + 1).join("/")}` }));
  return (
    <div className="crumbs">
      <button type="button" onClick={() => onOpen("/")} aria-label="Root folder">
        /
      </button>
      {crumbs.map((crumb, at) => (
        <span key={crumb.path}>
          {at > 0 && <span className="crumb-gap">/</span>}
          <button
            type="button"
            onClick={() => onOpen(crumb.path)}
            aria-current={at === crumbs.length - 1 ? "location" : undefined}
          >
            {crumb.name}
          </button>
        </span>
      ))}
    </div>
  );
}

function moveFocus(event: React.KeyboardEvent<HTMLUListElement>): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  event.preventDefault();
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
  buttons[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
}
