/** A tool call as a card: what was done to what, how it went, and the details on demand. */
import { memo, type ReactNode, useState } from "react";
import { duration } from "../lib/format";
import { parseArgs } from "../transcript/content";
import type { ToolNode } from "../transcript/model";
import { Spinner } from "./controls";
import { Icon } from "./icons";
import { CallBody, describe, diffOf } from "./tool-body";

interface ToolCardProps {
  node: ToolNode;
  cwd: string | undefined;
  /** Whether a person's decision is wanted right now. */
  waiting: boolean;
}

export const ToolCard = memo(function ToolCard({ node, cwd, waiting }: ToolCardProps) {
  const args = parseArgs(node.args);
  const { icon, verb, target, note } = describe(node, args, cwd, waiting);
  const diff = diffOf(node, args);
  const short = diff !== undefined && diff.split("\n").length <= 60;
  const [chosen, setChosen] = useState<boolean | null>(null);
  const open = chosen ?? (!waiting && (node.state === "failed" || short));
  const refused = node.approval?.outcome === "rejected";
  return (
    <section
      className={`tool ${node.state} ${open ? "open" : ""} ${waiting ? "waiting" : ""}`}
      data-testid="tool-card"
      data-tool={node.name}
      data-state={node.state}
      aria-label={`${verb} ${target}`}
    >
      <button
        type="button"
        className="tool-head"
        aria-expanded={open}
        onClick={() => setChosen(!open)}
      >
        <span className="tool-icon">
          {node.state === "running" && !waiting ? <Spinner /> : <Icon name={icon} size={15} />}
        </span>
        <span className="tool-verb">{verb}</span>
        <span className="tool-target">{target}</span>
        {note && <span className="tool-note">{note}</span>}
        <span className="tool-state">{stateWord(node, waiting, refused)}</span>
        <Icon name="chevron" size={13} />
      </button>
      {open && (
        <div className="tool-body">
          <CallBody node={node} args={args} diff={diff} />
        </div>
      )}
    </section>
  );
});

function stateWord(node: ToolNode, waiting: boolean, refused: boolean): ReactNode {
  if (waiting) return <span className="badge amber">needs approval</span>;
  if (refused) return <span className="badge">refused</span>;
  if (node.state === "interrupted") return <span className="badge">interrupted</span>;
  if (node.state === "failed") {
    return <span className="badge red">{node.errorCode ?? "failed"}</span>;
  }
  if (node.finishedAt === undefined) return null;
  const own = node.meta.durationMs;
  const took = typeof own === "number" ? own : node.finishedAt - node.startedAt;
  return took >= 1000 ? duration(took) : null;
}
