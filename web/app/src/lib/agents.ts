/** Subagents as the page knows them: rows of the catalogue, and which call made which. */
import type { SessionSummary, SubagentDiagnosticReason, SubagentMode } from "@orrery/client";
import { type Fields, fields, parseArgs, text } from "../transcript/content";
import type { Node, ToolNode } from "../transcript/model";
import type { Place } from "./hooks";

/** What a row says of the subagent that it is. */
export interface AgentIdentity {
  mode: SubagentMode;
  label: string | undefined;
}

/** Tools that delegate: one for each way a child begins. */
export function delegates(tool: string): boolean {
  return tool === "subagent" || tool.startsWith("subagent_");
}

/** Who a row says it is; undefined for a session that is no subagent, or not told yet. */
export function identityOf(row: SessionSummary | undefined): AgentIdentity | undefined {
  if (row?.origin !== "subagent") return undefined;
  const view: Fields = fields(row.projections?.values.subagent);
  if (view.mode !== "one-shot" && view.mode !== "continuable") return undefined;
  return { mode: view.mode, label: text(view.label) };
}

/** Where a row is shown: a subagent only by its parent's address. */
export function placeOfRow(row: SessionSummary, at?: number): Place {
  const identity = identityOf(row);
  const seq = at === undefined ? {} : { at };
  if (!identity || row.parentSessionId === undefined) {
    return { kind: "session", id: row.sessionId, ...seq };
  }
  const { mode } = identity;
  return { kind: "agent", parent: row.parentSessionId, id: row.sessionId, mode, ...seq };
}

/**
 * The child that each call of a conversation made, by the key of the call's row. A call that
 * answered names it; one that still waits has the oldest child of its label that no other call has
 * and that is not older than the call.
 */
export function childrenOfCalls(
  nodes: readonly Node[],
  children: readonly SessionSummary[],
): ReadonlyMap<string, SessionSummary> {
  const calls = nodes.filter(
    (node): node is ToolNode => node.kind === "tool" && delegates(node.name),
  );
  const made = new Map<string, SessionSummary>();
  const byId = new Map(children.map((row) => [row.sessionId, row]));
  for (const call of calls) {
    const row = byId.get(text(call.meta.subagentId) ?? "");
    if (row) made.set(call.key, row);
  }
  const taken = new Set([...made.values()].map((row) => row.sessionId));
  const free = children
    .filter((row) => !taken.has(row.sessionId))
    .sort((a, b) => a.createdAt - b.createdAt);
  for (const call of calls) {
    if (made.has(call.key) || text(call.meta.subagentId) !== undefined) continue;
    const label = labelOf(call);
    const row = free.find(
      (one) =>
        !taken.has(one.sessionId) &&
        one.createdAt >= call.startedAt &&
        one.createdAt <= (call.finishedAt ?? Number.POSITIVE_INFINITY) &&
        identityOf(one)?.label === label,
    );
    if (!row) continue;
    made.set(call.key, row);
    taken.add(row.sessionId);
  }
  return made;
}

/** What a call names its task, as the Host does: in one line of at most 80 characters. */
export function labelOf(call: ToolNode): string {
  const description = text(parseArgs(call.args).description) ?? "";
  return [...description.split(/\s+/).filter(Boolean).join(" ")].slice(0, 80).join("");
}

/** Why a child cannot be shown, for a person. */
export const DIAGNOSTICS: Record<SubagentDiagnosticReason, string> = {
  corrupt: "Its log does not say what it is: it was killed before it began, or is damaged.",
  unsupported: "It was made by a newer version.",
  unavailable: "Its log cannot be read right now.",
};
