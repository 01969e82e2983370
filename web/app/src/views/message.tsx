/** Rows of the conversation that are not tool cards. */
import { memo, type ReactNode, useState } from "react";
import { amount, duration } from "../lib/format";
import type {
  AssistantNode,
  Block,
  ContextNode,
  NoticeNode,
  TurnNode,
  UserNode,
} from "../transcript/model";
import { CopyButton, IconButton } from "./controls";
import { Icon } from "./icons";
import { Markdown } from "./markdown";

export const UserMessage = memo(function UserMessage({ node }: { node: UserNode }) {
  return (
    <UserBubble text={node.text} time={node.time} seq={node.seq}>
      {node.images > 0 && (
        <div className="attachment-note">
          {node.images === 1 ? "1 image" : `${node.images} images`}
        </div>
      )}
    </UserBubble>
  );
});

export function UserBubble(props: {
  text: string;
  time: number;
  seq?: number;
  echo?: boolean;
  children?: ReactNode;
}): ReactNode {
  const { text, time, seq, echo, children } = props;
  const [whole, setWhole] = useState(false);
  const long = text.length > 1600 || text.split("\n").length > 18;
  return (
    <article
      className={`row user ${echo ? "echo" : ""}`}
      data-testid="message-user"
      data-seq={seq}
      aria-label="You said"
    >
      <div className="bubble">
        <div className={`bubble-text ${long && !whole ? "clipped" : ""}`}>{text}</div>
        {long && (
          <button type="button" className="link-button" onClick={() => setWhole(!whole)}>
            {whole ? "Show less" : "Show all"}
          </button>
        )}
        {children}
      </div>
      <div className="row-actions">
        {echo ? <span>sending…</span> : <time>{clock(time)}</time>}
        {!echo && <CopyButton text={text} label="Copy message" />}
      </div>
    </article>
  );
}

export const AssistantMessage = memo(function AssistantMessage({ node }: { node: AssistantNode }) {
  const blocks = node.blocks.map((block, index) => ({ block, key: `${node.key}.${index}` }));
  const visible = blocks.filter(({ block }) => isVisible(block, node.streaming));
  if (visible.length === 0 && !node.interrupted) return null;
  return (
    <article
      className="row assistant"
      data-testid="message-assistant"
      data-seq={node.seq}
      aria-label="The agent said"
    >
      {visible.map(({ block, key }) => {
        if (block.kind === "call") {
          return (
            <div key={key} className="preparing shimmer">
              Preparing {block.name || "a tool call"}
              {block.chars > 400 ? ` (${amount(block.chars)} characters)` : ""}…
            </div>
          );
        }
        const live = node.streaming && block === node.blocks.at(-1);
        if (block.kind === "reasoning")
          return <Reasoning key={key} text={block.text} live={live} />;
        return <Markdown key={key} text={block.text} live={live} />;
      })}
      {node.interrupted && <div className="cut-mark">The answer was cut off here.</div>}
    </article>
  );
});

function isVisible(block: Block, streaming: boolean): boolean {
  // A settled call has a card of its own.
  if (block.kind === "call") return streaming;
  return block.text.trim() !== "";
}

/** One line while it streams: the newest. Settled: the first. The whole on demand. */
function Reasoning({ text, live }: { text: string; live: boolean }): ReactNode {
  const [open, setOpen] = useState(false);
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const line = (live ? lines.at(-1) : lines[0]) ?? "";
  return (
    <div className={`reasoning ${open ? "open" : ""}`}>
      <button
        type="button"
        className="reasoning-head"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Icon name="chevron" size={13} />
        <span className={live ? "shimmer" : ""}>{live ? "Thinking" : "Thought"}</span>
        {!open && <span className="reasoning-line">{line.replace(/[*_`#]/g, "")}</span>}
      </button>
      {open && <div className="reasoning-text">{text}</div>}
    </div>
  );
}

export const ContextRow = memo(function ContextRow({ node }: { node: ContextNode }) {
  const [open, setOpen] = useState(false);
  return (
    <div className={`context-row ${open ? "open" : ""}`}>
      <button
        type="button"
        className="reasoning-head"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Icon name="chevron" size={13} />
        <span>{node.title}</span>
        <span className="reasoning-line">{node.summary}</span>
      </button>
      {open && <pre className="context-text">{node.text}</pre>}
    </div>
  );
});

export const Notice = memo(function Notice({ node }: { node: NoticeNode }) {
  return (
    <div className={`notice ${node.tone}`} role={node.tone === "error" ? "alert" : "note"}>
      <Icon name={node.tone === "info" ? "info" : "alert"} />
      <div>
        <strong>{node.title}</strong>
        {node.detail && <span className="notice-detail">{node.detail}</span>}
        {node.code && <code>{node.code}</code>}
      </div>
    </div>
  );
});

export const TurnEnd = memo(function TurnEnd(props: {
  node: TurnNode;
  onFork: (seq: number) => void;
}) {
  const { node, onFork } = props;
  const facts = [
    node.durationMs === undefined ? "" : duration(node.durationMs),
    node.outputTokens > 0 ? `${amount(node.inputTokens)} in, ${amount(node.outputTokens)} out` : "",
    node.model ?? "",
  ].filter(Boolean);
  return (
    <div className="turn-end">
      <span>{facts.join(" · ")}</span>
      <span className="turn-actions">
        {node.text && <CopyButton text={node.text} label="Copy answer" />}
        <IconButton icon="fork" size={14} label="Fork from here" onClick={() => onFork(node.seq)} />
      </span>
    </div>
  );
});

function clock(time: number): string {
  const date = new Date(time);
  const today = new Date().toDateString() === date.toDateString();
  const hour = { hour: "2-digit", minute: "2-digit" } as const;
  if (today) return date.toLocaleTimeString([], hour);
  return date.toLocaleString([], { month: "short", day: "numeric", ...hour });
}
