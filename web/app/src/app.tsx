/** The page: sidebar and one place; what needs a person before anything works. */
import type { Workspace } from "@orrery/client";
import { type ReactNode, useCallback, useEffect, useState } from "react";
import { placeOfRow } from "./lib/agents";
import {
  go,
  hashOf,
  type Place,
  placeOf,
  useCatalogue,
  useClient,
  useConnection,
  usePlace,
} from "./lib/hooks";
import { Conversation } from "./views/conversation";
import { FolderDialog } from "./views/folder-dialog";
import { Logo } from "./views/icons";
import { NewSession } from "./views/new-session";
import { Sidebar } from "./views/sidebar";
import { ToastView } from "./views/toast";

export function App(): ReactNode {
  const client = useClient();
  const place = usePlace();
  const state = useConnection();
  const [drawer, setDrawer] = useState(false);
  const [adding, setAdding] = useState(false);
  const showDrawer = useCallback(() => setDrawer(true), []);
  useEffect(() => {
    if (!drawer) return;
    const onEscape = (event: KeyboardEvent) => {
      if (event.key === "Escape") setDrawer(false);
    };
    addEventListener("keydown", onEscape);
    return () => removeEventListener("keydown", onEscape);
  }, [drawer]);
  useEffect(() => {
    const online = () => client.connection.retryNow();
    const visible = () => {
      if (document.visibilityState === "visible") online();
    };
    addEventListener("online", online);
    document.addEventListener("visibilitychange", visible);
    return () => {
      removeEventListener("online", online);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [client]);

  if (state === "refused") return <Refused />;
  const chosen = (workspace: Workspace) => {
    setAdding(false);
    setDrawer(false);
    go({ kind: "new", cwd: workspace.path });
  };
  return (
    <div className={`app ${drawer ? "drawer-open" : ""}`}>
      <Sidebar onAddFolder={() => setAdding(true)} onNavigate={() => setDrawer(false)} />
      <button
        type="button"
        className="scrim"
        aria-label="Hide sessions"
        tabIndex={drawer ? 0 : -1}
        onClick={() => setDrawer(false)}
      />
      {place.kind === "session" && <AtSession place={place} onMenu={showDrawer} />}
      {place.kind === "agent" && (
        <Conversation
          key={place.id}
          session={client.subagent(place.parent, place.id, place.mode)}
          at={place.at}
          onMenu={showDrawer}
        />
      )}
      {place.kind === "new" && (
        <NewSession cwd={place.cwd} onMenu={showDrawer} onAddFolder={() => setAdding(true)} />
      )}
      <ToastView />
      {adding && <FolderDialog onClose={() => setAdding(false)} onChosen={chosen} />}
    </div>
  );
}

/** A session by its id; a subagent is led to its own place, where its parent speaks for it. */
function AtSession(props: {
  place: Extract<Place, { kind: "session" }>;
  onMenu: () => void;
}): ReactNode {
  const { place, onMenu } = props;
  const client = useClient();
  useCatalogue();
  const row = client.catalogue.row(place.id);
  const own = row ? placeOfRow(row, place.at) : place;
  const elsewhere = own.kind === "agent" ? hashOf(own) : null;
  useEffect(() => {
    if (elsewhere !== null) go(placeOf(elsewhere), true);
  }, [elsewhere]);
  if (elsewhere !== null) return null;
  const { id, at } = place;
  return <Conversation key={id} session={client.session(id)} at={at} onMenu={onMenu} />;
}

/** No credential, a foreign origin, or a Host of another version: only a person can help. */
function Refused(): ReactNode {
  const { connection } = useClient();
  const error = connection.refusal;
  const signedOut = error?.code === "gateway/unauthenticated";
  return (
    <main className="refused">
      <Logo size={44} />
      <h1>{signedOut ? "Sign in" : "This Host cannot be used"}</h1>
      {signedOut ? (
        <p>
          This browser has no valid sign-in. Run <code>orrery open</code>, or use the link that{" "}
          <code>orrery serve</code> printed when it started.
        </p>
      ) : (
        <p>{error?.message}</p>
      )}
      {error && <code className="faint">{error.code}</code>}
      <span data-testid="connection-state" data-state="refused" className="visually-hidden">
        Signed out
      </span>
      <button type="button" className="button primary" onClick={() => connection.retryNow()}>
        Try again
      </button>
    </main>
  );
}
