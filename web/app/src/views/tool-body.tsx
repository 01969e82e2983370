/** The words and the inside of a tool card, by tool. Whatever has another shape is shown as JSON. */
import { type ReactNode, useState } from "react";
import { relative, visible } from "../lib/format";
import { type Fields, number, text } from "../transcript/content";
import type { ToolNode } from "../transcript/model";
import { CopyButton } from "./controls";
import type { IconName } from "./icons";
import { Highlighted } from "./markdown";

interface Description {
  icon: IconName;
  verb: string;
  target: string;
  note?: string | undefined;
}

/** What was done to what, in a few words. */
export function describe(
  node: ToolNode,
  args: Fields,
  cwd: string | undefined,
  waiting = false,
): Description {
  const path = text(node.meta.path) ?? text(args.path) ?? text(args.file_path) ?? text(args.file);
  const place = path === undefined ? "" : visible(relative(path, cwd));
  // A command that failed did run; any other call that failed changed and found nothing.
  const undone =
    node.approval?.outcome === "rejected" || (node.state === "failed" && node.name !== "bash");
  const word = (now: string, then: string, wish: string) => {
    if (waiting || undone) return wish;
    return node.state === "running" ? now : then;
  };
  switch (node.name) {
    case "list":
      return {
        icon: "list",
        verb: word("Listing", "Listed", "List"),
        target: place === "" || place === "." ? "./" : place,
      };
    case "read":
      return {
        icon: "file",
        verb: word("Reading", "Read", "Read"),
        target: place,
        note: lineRange(node),
      };
    case "write":
      return {
        icon: "edit",
        verb: word("Writing", "Wrote", "Write"),
        target: place,
        note: undone ? undefined : diffStat(node, args),
      };
    case "edit":
      return {
        icon: "edit",
        verb: word("Editing", "Edited", "Edit"),
        target: place,
        note: undone ? undefined : diffStat(node, args),
      };
    case "glob":
      return {
        icon: "glob",
        verb: word("Finding", "Found", "Find"),
        target: visible(text(args.pattern) ?? place),
      };
    case "grep": {
      const where = place ? ` in ${place}` : "";
      const target = `${visible(text(args.pattern) ?? "")}${where}`;
      return { icon: "search", verb: word("Searching", "Searched", "Search"), target };
    }
    case "bash": {
      const command = text(args.command) ?? text(node.meta.command) ?? "";
      const code = number(node.meta.exitCode);
      const note = code !== undefined && code !== 0 ? `exit ${code}` : undefined;
      return {
        icon: "terminal",
        verb: word("Running", "Ran", "Run"),
        target: visible(firstLine(command)),
        note,
      };
    }
    default:
      return { icon: "bolt", verb: node.name, target: visible(firstLine(summary(args))) };
  }
}

/** The unified diff of a call that changes a file. */
export function diffOf(node: ToolNode, args: Fields): string | undefined {
  const diff = text(node.meta.diff);
  if (diff !== undefined && diff !== "") return diff;
  const before = text(args.old_string) ?? text(args.oldText) ?? text(args.old);
  const after = text(args.new_string) ?? text(args.newText) ?? text(args.new);
  if (node.name !== "edit" || before === undefined || after === undefined) return undefined;
  const lines = (whole: string, mark: string) => whole.split("\n").map((line) => `${mark}${line}`);
  return [...lines(before, "-"), ...lines(after, "+")].join("\n");
}

export function CallBody(props: {
  node: ToolNode;
  args: Fields;
  diff: string | undefined;
}): ReactNode {
  const { node, args, diff } = props;
  const output = plain(node.output);
  const failed = node.state === "failed";
  if (diff !== undefined) {
    return (
      <>
        {failed && <Output text={output} />}
        {failed && <p className="tool-hint">This change was asked for and not made:</p>}
        <Diff diff={diff} />
      </>
    );
  }
  switch (node.name) {
    case "bash": {
      const command = text(args.command) ?? text(node.meta.command) ?? node.args;
      return (
        <>
          <div className="command">
            <pre>
              <span className="prompt">$ </span>
              <Highlighted code={visible(command)} lang="bash" ready={node.state !== "running"} />
            </pre>
            <CopyButton text={command} label="Copy command" />
          </div>
          <Output text={output} empty={node.state === "done" ? "(no output)" : undefined} />
          {node.meta.truncated === true && <p className="tool-hint">The output was shortened.</p>}
        </>
      );
    }
    case "write": {
      const content = text(args.content);
      return <Output text={failed || content === undefined ? output : visible(content)} />;
    }
    case "list":
    case "read":
    case "glob":
    case "grep":
      return <Output text={output} empty={node.state === "done" ? "(nothing)" : undefined} />;
    default:
      return (
        <>
          {node.args && node.args !== "{}" && <Output text={visible(pretty(node.args))} />}
          <Output text={pretty(output)} />
        </>
      );
  }
}

const SHOWN_LINES = 200;

/** Output, its end first when it is long. */
function Output({ text: whole, empty }: { text: string; empty?: string | undefined }): ReactNode {
  const [all, setAll] = useState(false);
  if (whole.trim() === "") return empty ? <p className="tool-hint">{empty}</p> : null;
  const lines = whole.replace(/\n$/, "").split("\n");
  const hidden = all ? 0 : Math.max(0, lines.length - SHOWN_LINES);
  return (
    <>
      {hidden > 0 && (
        <button type="button" className="link-button" onClick={() => setAll(true)}>
          Show {hidden} earlier lines
        </button>
      )}
      <pre className="output">{lines.slice(hidden).join("\n")}</pre>
    </>
  );
}

function Diff({ diff }: { diff: string }): ReactNode {
  const [all, setAll] = useState(false);
  const lines = diffLines(diff);
  const shown = all ? lines : lines.slice(0, 400);
  return (
    <div className="diff" role="img" aria-label="Changes">
      {shown.map((line, index) => (
        <div key={index} className={lineClass(line)}>
          <span className="diff-mark">{line.startsWith("@@") ? "" : line.slice(0, 1)}</span>
          <span>{line.startsWith("@@") ? line : visible(line.slice(1)) || " "}</span>
        </div>
      ))}
      {shown.length < lines.length && (
        <button type="button" className="link-button" onClick={() => setAll(true)}>
          Show {lines.length - shown.length} more lines
        </button>
      )}
    </div>
  );
}

/** The lines of a diff without its head, which names the file once more. */
export function diffLines(diff: string): string[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  const hunk = lines.findIndex((line) => line.startsWith("@@"));
  return lines.slice(Math.max(0, hunk)).filter((line) => !line.startsWith("\\ No newline"));
}

function lineClass(line: string): string {
  if (line.startsWith("@@")) return "diff-line hunk";
  if (line.startsWith("+")) return "diff-line added";
  return line.startsWith("-") ? "diff-line removed" : "diff-line";
}

function diffStat(node: ToolNode, args: Fields): string | undefined {
  const diff = diffOf(node, args);
  if (diff === undefined) return undefined;
  const lines = diffLines(diff);
  const added = lines.filter((line) => line.startsWith("+")).length;
  const removed = lines.filter((line) => line.startsWith("-")).length;
  return `+${added} −${removed}`;
}

function lineRange(node: ToolNode): string | undefined {
  const first = number(node.meta.firstLine);
  const count = number(node.meta.lines);
  if (first === undefined || count === undefined || count === 0) return undefined;
  return count === 1 ? `line ${first}` : `lines ${first}–${first + count - 1}`;
}

function firstLine(whole: string): string {
  const [line = "", ...rest] = whole.trim().split("\n");
  return rest.length > 0 ? `${line} …` : line;
}

function summary(args: Fields): string {
  const values = Object.values(args).filter((value) => typeof value === "string");
  return values.length > 0 ? String(values[0]) : "";
}

function pretty(whole: string): string {
  try {
    return JSON.stringify(JSON.parse(whole), null, 2);
  } catch {
    return whole;
  }
}

/** Text without the colours and cursor moves of a terminal. */
export function plain(whole: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters meant
  return whole.replace(/\u001b(\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(\u0007|\u001b\\))/g, "");
}
