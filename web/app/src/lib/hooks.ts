/** React's side of the client: context, subscriptions, the address bar. */
import type {
  CatalogueView,
  Interaction,
  OrreryClient,
  RemoteError,
  SessionJob,
  SessionObject,
  SessionView,
  SubagentMode,
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

/** The background jobs of a session; the same array until one changes. */
export function useJobs(sessionId: string): readonly SessionJob[] {
  const { control } = useClient();
  return useSyncExternalStore(control.changed.subscribe, () => control.jobs(sessionId));
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
  | { kind: "agent"; parent: string; id: string; mode: SubagentMode; at?: number }
  | { kind: "new"; cwd: string | null };

/** The address of a place behind the `#`. */
export function hashOf(to: Place): string {
  const at = to.kind !== "new" && to.at !== undefined ? `?at=${to.at}` : "";
  const parts =
    to.kind === "session"
      ? ["s", to.id]
      : to.kind === "agent"
        ? ["a", to.parent, to.id, to.mode]
        : ["new", ...(to.cwd ? [to.cwd] : [])];
  return `#/${parts.map(encodeURIComponent).join("/")}${at}`;
}

export function placeOf(hash: string): Place {
  const [, head, rest] = hash.match(/^#\/(s|a|new)(?:\/(.*))?$/) ?? [];
  if ((head === "s" || head === "a") && rest) {
    const [path = "", at = ""] = rest.split("?at=");
    const [first = "", id = "", mode] = path.split("/").map(decodeURIComponent);
    const seq = /^\d+$/.test(at) ? { at: Number(at) } : {};
    if (head === "s") return { kind: "session", id: first, ...seq };
    if (id && (mode === "one-shot" || mode === "continuable")) {
      return { kind: "agent", parent: first, id, mode, ...seq };
    }
  }
  return { kind: "new", cwd: head === "new" && rest ? decodeURIComponent(rest) : null };
}

const placeChanged = new Emitter();
let place = placeOf(location.hash);

function arrive(): void {
  place = placeOf(location.hash);
  placeChanged.emit();
}
addEventListener("hashchange", arrive);
addEventListener("popstate", arrive);

export function usePlace(): Place {
  return useSyncExternalStore(placeChanged.subscribe, () => place);
}

/** Goes there; `instead` leaves the place before out of the way back. */
export function go(to: Place, instead = false): void {
  const hash = hashOf(to);
  if (hash === location.hash) return;
  // Unlike setting the hash this takes effect at once, not with a later event.
  if (instead) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
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
