/** React's side of the client: context, subscriptions, the address bar. */
import type {
  CatalogueView,
  Interaction,
  OrreryClient,
  RemoteError,
  SessionObject,
  SessionView,
  Workspace,
} from "@orrery/client";
import { asRemoteError, Emitter } from "@orrery/client";
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { TranscriptView } from "../transcript/model";
import { transcriptOf } from "../transcript/store";

export const ClientContext = createContext<OrreryClient | null>(null);

export function useClient(): OrreryClient {
  const client = useContext(ClientContext);
  if (!client) throw new Error("no client above");
  return client;
}

export function useCatalogue(): CatalogueView {
  const { catalogue } = useClient();
  return useSyncExternalStore(catalogue.changed.subscribe, () => catalogue.view);
}

export function useConnection() {
  const { connection } = useClient();
  return useSyncExternalStore(connection.changed.subscribe, () => connection.state);
}

export function useSession(session: SessionObject): SessionView {
  return useSyncExternalStore(session.changed.subscribe, () => session.view);
}

export function useTranscript(session: SessionObject): TranscriptView {
  const store = transcriptOf(session);
  return useSyncExternalStore(store.subscribe, store.view);
}

export function useInteractions(sessionId: string): readonly Interaction[] {
  const { control } = useClient();
  return useSyncExternalStore(control.changed.subscribe, () => control.interactions(sessionId));
}

/** What saving the session fails with; null while all is well. */
export function useUnsaved(sessionId: string): string | null {
  const { control } = useClient();
  return useSyncExternalStore(
    control.changed.subscribe,
    () => control.persistence(sessionId)?.degraded ?? null,
  );
}

/** Why the control stream is over; null while it is not. */
export function useControlError(): RemoteError | null {
  const { control } = useClient();
  return useSyncExternalStore(control.changed.subscribe, () => control.error);
}

/** The projections of a session; the same object until one changes. */
export function useProjections(sessionId: string): Readonly<Record<string, unknown>> {
  const store = useClient().control.projections(sessionId);
  return useSyncExternalStore(store.changed.subscribe, () => store.values);
}

export interface Loaded<T> {
  value: T | null;
  error: RemoteError | null;
  reload: () => void;
}

/** A value that is fetched once the Host is there, and again with each generation of it. */
export function useLoaded<T>(load: (client: OrreryClient) => Promise<T>): Loaded<T> {
  const client = useClient();
  const state = useConnection();
  const [round, setRound] = useState(0);
  const [loaded, setLoaded] = useState<{ value: T | null; error: RemoteError | null }>({
    value: null,
    error: null,
  });
  useEffect(() => {
    if (state !== "connected") return;
    let current = true;
    load(client).then(
      (value) => current && setLoaded({ value, error: null }),
      (thrown) =>
        current && setLoaded((old) => ({ value: old.value, error: asRemoteError(thrown) })),
    );
    return () => {
      current = false;
    };
  }, [client, state, round, load]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { ...loaded, reload };
}

const workspacesChanged = new Emitter();

/** Tells every view that the list of workspaces is another one now. */
export function announceWorkspaces(): void {
  workspacesChanged.emit();
}

const loadWorkspaces = async (client: OrreryClient): Promise<readonly Workspace[]> =>
  (await client.call("workspace/list", {})).items;

export function useWorkspaces(): Loaded<readonly Workspace[]> {
  const loaded = useLoaded(loadWorkspaces);
  const { reload, value } = loaded;
  const { items } = useCatalogue();
  const asked = useRef("");
  useEffect(() => workspacesChanged.subscribe(reload), [reload]);
  // Somebody else may have added a folder: a row then names a workspace that is not known here.
  const unknown = value
    ? items.find((row) => row.workspaceId && !value.some((w) => w.workspaceId === row.workspaceId))
    : undefined;
  const unknownId = unknown?.workspaceId ?? "";
  useEffect(() => {
    if (unknownId === "" || asked.current === unknownId) return;
    asked.current = unknownId;
    reload();
  }, [unknownId, reload]);
  return loaded;
}

/** Where the page is: a session, perhaps at one of its events, or a new one in a folder. */
export type Place =
  | { kind: "session"; id: string; at?: number }
  | { kind: "new"; cwd: string | null };

function readPlace(): Place {
  const [, head, rest] = location.hash.match(/^#\/(s|new)(?:\/(.*))?$/) ?? [];
  if (head === "s" && rest) {
    const [id = "", at = ""] = rest.split("?at=");
    const seq = /^\d+$/.test(at) ? { at: Number(at) } : {};
    return { kind: "session", id: decodeURIComponent(id), ...seq };
  }
  return { kind: "new", cwd: head === "new" && rest ? decodeURIComponent(rest) : null };
}

const placeChanged = new Emitter();
let place = readPlace();

function arrive(): void {
  place = readPlace();
  placeChanged.emit();
}
addEventListener("hashchange", arrive);
addEventListener("popstate", arrive);

export function usePlace(): Place {
  return useSyncExternalStore(placeChanged.subscribe, () => place);
}

export function go(to: Place): void {
  const id = to.kind === "session" ? to.id : (to.cwd ?? "");
  const head = to.kind === "session" ? "s" : "new";
  const at = to.kind === "session" && to.at !== undefined ? `?at=${to.at}` : "";
  const hash = id ? `#/${head}/${encodeURIComponent(id)}${at}` : `#/${head}`;
  if (hash === location.hash) return;
  // Unlike setting the hash this takes effect at once, not with a later event.
  history.pushState(null, "", hash);
  arrive();
}

/** The present time, renewed every so often. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
