/** The page before a session exists: where to work, with which model, and the first message. */
import type { DeliveryMode, ModelChoice } from "@orrery/client";
import { asRemoteError, mintRequestId, type RemoteError } from "@orrery/client";
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { writeDraft } from "../lib/draft";
import { baseName, tilde } from "../lib/format";
import { go, useCatalogue, useClient, useConnection, useWorkspaces } from "../lib/hooks";
import { permissionOf } from "../lib/permission";
import { Composer } from "./composer";
import { ErrorLine, useDismiss } from "./controls";
import { DemoBanner } from "./demo-banner";
import { Header } from "./header";
import { Icon, Logo } from "./icons";
import { ModelPicker, nextModel, useModelCatalog } from "./model-picker";

const NOTHING = {};

interface NewSessionProps {
  cwd: string | null;
  onMenu: () => void;
  onAddFolder: () => void;
}

export function NewSession({ cwd, onMenu, onAddFolder }: NewSessionProps): ReactNode {
  const client = useClient();
  const connection = useConnection();
  const models = useModelCatalog();
  const folders = useFolders(cwd);
  const folder = cwd ?? folders[0] ?? null;
  const [choice, setChoice] = useState<ModelChoice | null>(null);
  const [error, setError] = useState<RemoteError | null>(null);
  const model = choice ?? nextModel(NOTHING, undefined, models.value);
  // The same id for each try in one folder, so that a retry makes no second session.
  const identity = useRef<{ folder: string | null; id: string } | null>(null);
  useEffect(() => {
    document.title = "New session · Orrery";
  }, []);

  const start = async (text: string, mode: DeliveryMode): Promise<boolean> => {
    setError(null);
    if (identity.current?.folder !== folder || identity.current === null) {
      identity.current = { folder, id: `session-${mintRequestId()}` };
    }
    const { id } = identity.current;
    try {
      const where = folder === null ? {} : { cwd: folder };
      await client.call("session/create", { sessionId: id, ...where });
    } catch (thrown) {
      setError(asRemoteError(thrown));
      return false;
    }
    const session = client.session(id);
    if (choice && !(await session.selectModel(choice))) {
      setError(session.view.failure?.error ?? null);
      return false;
    }
    session.open();
    const sent = session.send(text, mode, false);
    go({ kind: "session", id });
    // The page of the session is up by now and shows what went wrong.
    if (!(await sent)) writeDraft(id, text);
    return true;
  };

  return (
    <main className="main">
      <Header title="New session" onMenu={onMenu} />
      <div className="hero">
        <div className="hero-inner">
          <Logo size={44} />
          <h2>What should be done?</h2>
          <FolderChoice folder={folder} folders={folders} onAdd={onAddFolder} />
          <DemoBanner choice={model} />
          {error && (
            <ErrorLine what="Not started." error={error} onDismiss={() => setError(null)} />
          )}
          <Composer
            draftId="new"
            running={false}
            blocked={connection === "connected" ? null : "There is no connection to the Host"}
            placeholder={folder ? `Work in ${baseName(folder)}…` : "Message the agent"}
            permission={permissionOf(NOTHING, undefined)}
            picker={<ModelPicker loaded={models} choice={model} onChoose={setChoice} />}
            onSend={start}
            onStop={() => {}}
          />
          <p className="hero-hint">
            <kbd>Enter</kbd> sends, <kbd>Shift</kbd>+<kbd>Enter</kbd> makes a new line.
          </p>
        </div>
      </div>
    </main>
  );
}

/** Folders to offer: the chosen one, workspaces, folders of sessions. */
function useFolders(cwd: string | null): string[] {
  const workspaces = useWorkspaces();
  const { items } = useCatalogue();
  const recent = items.find((row) => row.cwd && row.origin === undefined)?.cwd;
  const paths = [
    cwd,
    recent,
    ...(workspaces.value ?? []).map((workspace) => workspace.path),
    ...items.filter((row) => row.origin === undefined && !row.archived).map((row) => row.cwd),
  ];
  return [...new Set(paths.filter((path): path is string => Boolean(path)))];
}

interface FolderChoiceProps {
  folder: string | null;
  folders: readonly string[];
  onAdd: () => void;
}

function FolderChoice({ folder, folders, onAdd }: FolderChoiceProps): ReactNode {
  const { connection } = useClient();
  const [open, setOpen] = useState(false);
  const close = useCallback(() => setOpen(false), []);
  const box = useDismiss(open, close);
  const home = connection.lastReady?.home;
  if (folders.length === 0) {
    return (
      <button type="button" className="button" onClick={onAdd} data-testid="choose-folder">
        <Icon name="folder" /> Choose a folder to work in
      </button>
    );
  }
  return (
    <div className="picker" ref={box}>
      <button
        type="button"
        className="chip large"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={`Folder: ${folder}`}
        data-testid="choose-folder"
        onClick={() => setOpen(!open)}
      >
        <Icon name="folder" size={15} />
        <span className="chip-text">{folder ? tilde(folder, home) : "Choose a folder"}</span>
        <Icon name="down" size={12} />
      </button>
      {open && (
        <div className="menu-list folder-menu" role="menu" aria-label="Folders">
          {folders.slice(0, 12).map((path) => (
            <button
              key={path}
              type="button"
              role="menuitem"
              onClick={() => {
                close();
                go({ kind: "new", cwd: path });
              }}
            >
              <Icon name={path === folder ? "check" : "folder"} />
              <span className="chip-text">{tilde(path, home)}</span>
            </button>
          ))}
          <button
            type="button"
            role="menuitem"
            onClick={() => {
              close();
              onAdd();
            }}
          >
            <Icon name="plus" /> Add a folder…
          </button>
        </div>
      )}
    </div>
  );
}
