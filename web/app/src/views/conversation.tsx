/** One session: its rows, what it asks, what waits, and where a person types. */
import type { ModelChoice, SessionObject, SessionSummary } from "@orrery/client";
import { asRemoteError, businessError, type RemoteError } from "@orrery/client";
import { memo, type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { childrenOfCalls, delegates, identityOf } from "../lib/agents";
import { followSession } from "../lib/follow";
import { forkSession } from "../lib/fork";
import {
  useCatalogue,
  useClient,
  useConnection,
  useControlError,
  useInteractions,
  useProjections,
  useSession,
  useTranscript,
  useUnsaved,
} from "../lib/hooks";
import { permissionOf } from "../lib/permission";
import { titleOf } from "../lib/title";
import { fields, text } from "../transcript/content";
import type { Node, ToolNode } from "../transcript/model";
import { AgentCard } from "./agent-card";
import { Agents } from "./agents";
import { Composer } from "./composer";
import { ErrorLine, Spinner } from "./controls";
import { DemoBanner } from "./demo-banner";
import { Header } from "./header";
import { Icon } from "./icons";
import { Interactions } from "./interactions";
import { Jobs } from "./jobs";
import { AssistantMessage, ContextRow, Notice, TurnEnd, UserBubble, UserMessage } from "./message";
import { ModelPicker, nextModel, useModelCatalog } from "./model-picker";
import { QueueDock } from "./queue-dock";
import { useFollowing } from "./scroll";
import { ToolCard } from "./tool-card";
import { UnsavedBanner } from "./unsaved-banner";

interface ConversationProps {
  session: SessionObject;
  /** The event to show first. */
  at: number | undefined;
  onMenu: () => void;
}

/** One task and done: what stands where a person would type. */
const ONE_SHOT = "This subagent did one task for its parent. It cannot be spoken to again.";

export function Conversation({ session, at, onMenu }: ConversationProps): ReactNode {
  const client = useClient();
  const connection = useConnection();
  const catalogue = useCatalogue();
  const { sessionId } = session;
  const row = client.catalogue.row(sessionId);
  const view = useSession(session);
  const transcript = useTranscript(session);
  const projections = useProjections(sessionId);
  const interactions = useInteractions(sessionId);
  const unsaved = useUnsaved(sessionId);
  const controlError = useControlError();
  const models = useModelCatalog();
  const [error, setError] = useState<RemoteError | null>(null);
  useEffect(() => followSession(session), [session]);
  useEffect(
    () =>
      client.connection.news.subscribe(({ event, args }) => {
        const { sessionId: about, message } = fields(args);
        if (event !== "session/error" || about !== sessionId) return;
        setError(businessError({ code: event, message: String(message) }));
      }),
    [client, sessionId],
  );

  const running = isRunning(row, transcript.openTurn);
  const title = titleOf(projections, row);
  const choice = nextModel(projections, transcript.model, models.value);
  const pendingCalls = useMemo(() => {
    const pending = interactions.filter((one) => one.state === "pending");
    return new Set(pending.map(({ request }) => ("toolName" in request ? request.callId : "")));
  }, [interactions]);
  const asks = interactions.some((one) => one.state === "pending");
  const { subagent } = session;
  const label = identityOf(row)?.label ?? text(fields(projections.subagent).label);
  const named = subagent ? (label ?? title ?? "Subagent") : title;
  const heading = named ?? (row || view.openState !== "error" ? "New session" : "Session");
  useDocumentTitle(heading, asks);

  const fork = useCallback(
    async (atSeq?: number) => setError(await forkSession(client, sessionId, title, atSeq)),
    [client, sessionId, title],
  );
  const choose = async (next: ModelChoice) => {
    if (await session.selectModel(next)) models.reload();
  };
  const callOf = (callId: string | undefined): ToolNode | undefined => {
    const node = transcript.nodes.findLast((one) => one.kind === "tool" && one.callId === callId);
    return node?.kind === "tool" ? node : undefined;
  };
  const gone = catalogue.ready && !row && view.openState === "error";
  const blocked =
    connection === "connected" ? null : "There is no connection to the Host right now";

  return (
    <main className="main">
      <Header
        title={heading}
        cwd={row?.cwd ?? session.header?.cwd}
        onMenu={onMenu}
        above={subagent ? subagent.parentSessionId : null}
        onRename={subagent ? undefined : (next) => void session.rename(next)}
        onFork={() => void fork()}
      >
        <Jobs sessionId={sessionId} />
        <Agents sessionId={sessionId} />
      </Header>
      <Rows
        session={session}
        at={at}
        cwd={row?.cwd ?? session.header?.cwd}
        running={running}
        pendingCalls={pendingCalls}
        onFork={fork}
      />
      {!gone && (
        <div className="dock">
          <div className="column">
            <DemoBanner choice={choice} short />
            <UnsavedBanner reason={unsaved} />
            {error && <ErrorLine error={error} onDismiss={() => setError(null)} />}
            {controlError && (
              <ErrorLine
                what="Requests and queues are not up to date."
                error={controlError}
                onRetry={() => location.reload()}
              />
            )}
            {view.failure && (
              <ErrorLine
                what={FAILED[view.failure.op]}
                error={view.failure.error}
                onDismiss={() => session.clearFailure()}
              />
            )}
            <Interactions interactions={interactions} callOf={callOf} />
            <QueueDock session={session} running={running} shown={transcript.rpcIds} />
            {subagent?.mode === "one-shot" ? (
              <OneShot running={running} />
            ) : (
              <Composer
                key={sessionId}
                draftId={sessionId}
                running={running}
                blocked={blocked}
                placeholder={
                  running
                    ? "Add to the queue, or steer…"
                    : subagent
                      ? "Message this subagent"
                      : "Message the agent"
                }
                permission={permissionOf(projections, transcript.permission)}
                picker={
                  subagent ? null : (
                    <ModelPicker
                      loaded={models}
                      choice={choice}
                      onChoose={(next) => void choose(next)}
                    />
                  )
                }
                onSend={(said, mode) => session.send(said, mode, running)}
                onStop={() => void session.stop()}
              />
            )}
          </div>
        </div>
      )}
    </main>
  );
}

/** Why nobody can type here, and how to stop it none the less. */
function OneShot({ running }: { running: boolean }): ReactNode {
  return (
    <p className="side-note one-shot" data-testid="one-shot">
      {running
        ? "This subagent does one task for its parent, which waits for it. Stop the parent to stop it."
        : ONE_SHOT}
    </p>
  );
}

/** How long a row that was searched for stands out. */
const FOUND_MS = 4000;

const FAILED: Record<string, string> = {
  send: "Not sent.",
  stop: "Not stopped.",
  queue: "The queue was not changed.",
  rename: "Not renamed.",
  model: "The model was not changed.",
  older: "Older messages could not be loaded.",
};

/** The row tells; the log tells sooner when the row is live. */
function isRunning(row: SessionSummary | undefined, openTurn: boolean): boolean {
  return row ? row.running || (row.live && openTurn) : openTurn;
}

function useDocumentTitle(title: string, asks: boolean): void {
  useEffect(() => {
    document.title = `${asks ? "(!) " : ""}${title} · Orrery`;
    return () => {
      document.title = "Orrery";
    };
  }, [title, asks]);
}

interface RowsProps {
  session: SessionObject;
  at: number | undefined;
  cwd: string | undefined;
  running: boolean;
  pendingCalls: ReadonlySet<string | undefined>;
  onFork: (seq: number) => void;
}

function Rows({ session, at, cwd, running, pendingCalls, onFork }: RowsProps): ReactNode {
  const view = useSession(session);
  const transcript = useTranscript(session);
  const { nodes, rpcIds } = transcript;
  const made = useMadeChildren(session.sessionId, nodes);
  const follow = useFollowing(nodes[0]?.key);
  const echoes = view.pending.filter(
    (echo) => echo.placement === "transcript" && !rpcIds.has(echo.requestId),
  );
  const lastEcho = echoes.at(-1)?.requestId;
  const { toBottom, toRow, content } = follow;
  // What a person has just said is what they want to see.
  useEffect(() => {
    if (lastEcho !== undefined) toBottom();
  }, [lastEcho, toBottom]);
  useEffect(() => {
    if (view.openState === "open") toBottom();
  }, [view.openState, toBottom]);
  useEffect(() => {
    if (view.openState !== "open" || at === undefined) return;
    let current = true;
    void session.reach(at).then(() => {
      // Two frames later, when what came is drawn and the bottom was let go of.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          const row = current ? content.current?.querySelector(`[data-seq="${at}"]`) : null;
          if (!row) return;
          toRow(row);
          row.classList.add("found");
          setTimeout(() => row.classList.remove("found"), FOUND_MS);
        }),
      );
    });
    return () => {
      current = false;
    };
  }, [session, at, view.openState, toRow, content]);

  const loadOlder = () => {
    const letGo = follow.holdPlace();
    // One frame later, when what came is drawn.
    void session.loadOlder().finally(() => requestAnimationFrame(letGo));
  };
  const empty = view.openState === "open" && nodes.length === 0 && echoes.length === 0;
  return (
    <div className="rows-frame">
      <div
        className="rows"
        ref={follow.scroller}
        onScroll={follow.onScroll}
        data-testid="conversation"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region needs the keyboard
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-live="off"
      >
        <div className="column" ref={follow.content}>
          {view.hasMore && (
            <button
              type="button"
              className="button small older"
              data-testid="load-older"
              disabled={view.loadingOlder}
              onClick={loadOlder}
            >
              {view.loadingOlder ? <Spinner /> : <Icon name="up" size={14} />} Load older messages
            </button>
          )}
          {view.openState === "loading" && nodes.length === 0 && <Skeleton />}
          {view.openState === "error" && view.openError && (
            <ErrorLine
              what="This session cannot be shown."
              error={asRemoteError(view.openError)}
              onRetry={() => session.open()}
            />
          )}
          {empty && (
            <div className="empty">
              <p>Nothing here yet. Say what should be done.</p>
            </div>
          )}
          {nodes.map((node) => (
            <Row
              key={node.key}
              node={node}
              cwd={cwd}
              waiting={
                node.kind === "tool" && node.state === "running" && pendingCalls.has(node.callId)
              }
              child={made.get(node.key)}
              onFork={onFork}
            />
          ))}
          {echoes.map((echo) => (
            <UserBubble key={echo.requestId} text={echo.text} time={echo.time} echo />
          ))}
          {running && awaits(nodes) && (
            <div className="row working" aria-live="polite">
              <span className="shimmer">Working…</span>
            </div>
          )}
        </div>
      </div>
      {!follow.atBottom && (
        <button
          type="button"
          className="to-bottom"
          data-testid="to-bottom"
          onClick={() => follow.toBottom(true)}
        >
          <Icon name="toBottom" size={14} /> Back to bottom
        </button>
      )}
    </div>
  );
}

/** Whether a running turn shows no sign of life of its own. */
function awaits(nodes: readonly Node[]): boolean {
  const last = nodes.findLast((node) => node.kind !== "context");
  if (last?.kind === "tool") return last.state !== "running";
  if (last?.kind === "assistant") return !last.streaming || last.blocks.length === 0;
  return true;
}

/** The child of each call that delegates. */
function useMadeChildren(
  sessionId: string,
  nodes: readonly Node[],
): ReadonlyMap<string, SessionSummary> {
  const { items } = useCatalogue();
  return useMemo(() => {
    const children = items.filter(
      (row) => row.origin === "subagent" && row.parentSessionId === sessionId,
    );
    return childrenOfCalls(nodes, children);
  }, [items, nodes, sessionId]);
}

interface RowProps {
  node: Node;
  child: SessionSummary | undefined;
  cwd: string | undefined;
  waiting: boolean;
  onFork: (seq: number) => void;
}

const Row = memo(function Row({ node, child, cwd, waiting, onFork }: RowProps): ReactNode {
  switch (node.kind) {
    case "user":
      return <UserMessage node={node} />;
    case "assistant":
      return <AssistantMessage node={node} />;
    case "tool":
      if (delegates(node.name)) return <AgentCard node={node} child={child} />;
      return <ToolCard node={node} cwd={cwd} waiting={waiting} />;
    case "context":
      return <ContextRow node={node} />;
    case "notice":
      return <Notice node={node} />;
    case "turn":
      return <TurnEnd node={node} onFork={onFork} />;
  }
});

function Skeleton(): ReactNode {
  return (
    <div className="skeleton" role="status" aria-label="Loading the conversation">
      <span />
      <span />
      <span />
    </div>
  );
}
