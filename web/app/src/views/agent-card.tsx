/** A call that delegates, as a card that shows how its child is doing while it works. */
import type { SessionSummary } from "@orrery/client";
import { memo, type ReactNode, useState } from "react";
import { labelOf, placeOfRow } from "../lib/agents";
import { duration } from "../lib/format";
import { useNow } from "../lib/hooks";
import { parseArgs, text } from "../transcript/content";
import type { ToolNode } from "../transcript/model";
import { Spinner } from "./controls";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { PlaceLink } from "./place-link";

interface AgentCardProps {
  node: ToolNode;
  child: SessionSummary | undefined;
}

export const AgentCard = memo(function AgentCard({ node, child }: AgentCardProps) {
  const [open, setOpen] = useState(node.state === "failed");
  const args = parseArgs(node.args);
  const label = labelOf(node) || "a task";
  const works = node.state === "running" || child?.running === true;
  const place = child && placeOfRow(child);
  // What a background call answers with is an id; the answer comes as a notice.
  const told = text(node.meta.kind) === "foreground" || node.state === "failed";
  return (
    <section
      className={`tool agent ${node.state} ${open ? "open" : ""}`}
      data-testid="agent-card"
      data-state={works ? "working" : node.state}
      data-session={child?.sessionId}
      aria-label={`Subagent: ${label}`}
    >
      <div className="agent-line">
        <button
          type="button"
          className="tool-head"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <span className="tool-icon">
            {works ? <Spinner /> : <Icon name="agents" size={15} />}
          </span>
          <span className="tool-verb">Subagent</span>
          <span className="tool-target">{label}</span>
          <span className="tool-state">
            <AgentState node={node} child={child} works={works} />
          </span>
          <Icon name="chevron" size={13} />
        </button>
        {place && (
          <PlaceLink to={place} className="button small agent-open" testId="agent-open">
            Open
          </PlaceLink>
        )}
      </div>
      {open && (
        <div className="tool-body agent-body">
          <h4>Task</h4>
          <div className="agent-task">{text(args.prompt) ?? ""}</div>
          {told && node.output !== "" && (
            <>
              <h4>{node.state === "failed" ? "What went wrong" : "Answer"}</h4>
              <Markdown text={node.output} live={false} />
            </>
          )}
        </div>
      )}
    </section>
  );
});

function AgentState(props: {
  node: ToolNode;
  child: SessionSummary | undefined;
  works: boolean;
}): ReactNode {
  const { node, child, works } = props;
  if (works) return <Ticking since={child?.createdAt ?? node.startedAt} />;
  if (node.state === "failed") {
    return <span className="badge red">{node.errorCode ?? "failed"}</span>;
  }
  if (node.state === "interrupted") return <span className="badge">interrupted</span>;
  if (text(node.meta.kind) !== "foreground") return "at rest";
  if (node.finishedAt === undefined) return null;
  return duration(node.finishedAt - node.startedAt);
}

/** How long something has been going on, to the second. */
export function Ticking({ since }: { since: number }): ReactNode {
  const now = useNow(1000);
  return <span className="ticking">{duration(Math.max(0, now - since))}</span>;
}
