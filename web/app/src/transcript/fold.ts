/**
 * The fold of log entries into rows. Rows are replaced, never changed, so that a row that stays the
 * same is not drawn again. Leaves to others: when to fold (`store`) and how a row looks (`views`).
 */
import type { Entry, ModelChoice, SessionWireEvent } from "@orrery/client";
import { blockText, type Fields, fields, list, number, text } from "./content";
import type { AssistantNode, Block, Node, ToolNode, TranscriptView, UserNode } from "./model";
import { endNotice, retryNotice } from "./notices";

export class TranscriptFold {
  #nodes: Node[] = [];
  #index = new Map<string, number>();
  #rpcIds = new Set<string>();
  #openTurn = false;
  #turnStart: number | undefined;
  #usage = { input: 0, output: 0 };
  #permission: string | undefined;
  #model: ModelChoice | undefined;
  #approvals = new Map<string, string>();
  #asked = new Map<string, { id: string; reason: string | undefined; outcome: undefined }>();
  #view: TranscriptView | null = null;

  apply(entries: readonly Entry[]): void {
    for (const { record } of entries) {
      if (record.type === "event") this.#event(record.event);
      else this.#row(record.event.type, record.event.data, record.event.time);
    }
    if (entries.length > 0) this.#view = null;
  }

  view(): TranscriptView {
    this.#view ??= {
      nodes: [...this.#nodes],
      openTurn: this.#openTurn,
      rpcIds: new Set(this.#rpcIds),
      permission: this.#permission,
      model: this.#model,
    };
    return this.#view;
  }

  #event(event: SessionWireEvent): void {
    const data = fields(event.data);
    switch (event.type) {
      case "turn/start":
        this.#openTurn = true;
        this.#turnStart = event.time;
        this.#usage = { input: 0, output: 0 };
        break;
      case "turn/end":
        this.#turnEnd(event, data);
        break;
      case "user/message":
        this.#userMessage(event, data);
        break;
      case "assistant/chunk":
        this.#chunk(stepKey(data), fields(data.chunk), event.time);
        break;
      case "assistant/message":
        this.#assistantMessage(event, data);
        break;
      case "tool/call":
        this.#toolCall(event, data);
        break;
      case "tool/result":
        this.#toolResult(event, data);
        break;
      case "approval/asked":
        this.#approvalAsked(data);
        break;
      case "approval/decided":
        this.#approvalDecided(data);
        break;
      case "llm/retry":
        this.#retry(event, data);
        break;
      case "compaction/prune":
      case "compaction/summary":
        this.#put({
          kind: "notice",
          key: `e${event.seq}`,
          tone: "info",
          title: "Earlier messages were condensed",
          detail: "The model now sees a summary of them; the log keeps everything.",
          code: undefined,
        });
        break;
      case "permission/preset":
        this.#permission = text(data.preset) ?? this.#permission;
        break;
      case "request/header":
        this.#model = usedModel(fields(data.header)) ?? this.#model;
        break;
      case "model/selection":
        this.#model = choiceOf(data) ?? this.#model;
        break;
      default:
        break;
    }
  }

  /** A packed row is taken in as one piece: its members differ only in time. */
  #row(type: string, data: object, time: number): void {
    const row = fields(data);
    const { index } = row;
    if (type === "chunkrow/tool-call-chunks") {
      const argumentsDelta = list(row.args).join("");
      const chunk = { type: "tool-call-delta", index, id: row.id, name: row.name, argumentsDelta };
      this.#chunk(stepKey(row), chunk, time);
      return;
    }
    const kind = type === "chunkrow/reasoning-chunks" ? "reasoning-delta" : "text-delta";
    this.#chunk(stepKey(row), { type: kind, index, text: list(row.texts).join("") }, time);
  }

  #userMessage(event: SessionWireEvent, data: Fields): void {
    const source = fields(data.source);
    const key = `e${event.seq}`;
    const content = blockText(data.content);
    // A replacement is for the model's eyes; the notice about it stands in the log beside it.
    if (event.surfaceOp !== undefined && event.surfaceOp !== "append") return;
    if (source.kind !== "user") {
      const plugin = text(source.plugin) ?? text(source.kind) ?? "context";
      this.#put({
        kind: "context",
        key,
        title: contextTitle(text(source.kind), text(source.form)),
        summary: text(source.summary) ?? shortName(plugin),
        text: content,
      });
      return;
    }
    const rpcId = text(source.rpcId);
    if (rpcId !== undefined) this.#rpcIds.add(rpcId);
    const images = list(data.content).filter((block) => fields(block).type === "image").length;
    const spoken = list(data.content)
      .map((block) => text(fields(block).text))
      .filter((part) => part !== undefined)
      .join("\n");
    const node: UserNode = {
      kind: "user",
      key,
      seq: event.seq,
      id: text(data.id) ?? key,
      rpcId,
      time: event.time,
      text: spoken,
      images,
    };
    this.#put(node);
  }

  #chunk(key: string, chunk: Fields, time: number): void {
    const index = number(chunk.index);
    if (index === undefined) return;
    const node = this.#assistant(key, time);
    if (!node.streaming) return;
    const blocks = [...node.blocks];
    const before = blocks[index];
    switch (chunk.type) {
      case "block-start":
        blocks[index] = emptyBlock(text(chunk.blockType));
        break;
      case "text-delta":
      case "reasoning-delta": {
        const kind = chunk.type === "text-delta" ? "text" : "reasoning";
        const old = before && before.kind !== "call" ? before.text : "";
        blocks[index] = { kind, text: old + (text(chunk.text) ?? ""), open: true };
        break;
      }
      case "tool-call-delta": {
        const old = before?.kind === "call" ? before : { name: "", chars: 0 };
        const chars = old.chars + (text(chunk.argumentsDelta) ?? "").length;
        blocks[index] = { kind: "call", name: text(chunk.name) ?? old.name, chars, open: true };
        break;
      }
      case "block-end":
        blocks[index] = finalBlock(fields(chunk.block)) ?? before ?? emptyBlock("text");
        break;
      default:
        return;
    }
    // A stream may begin in the middle of an answer when the window does.
    for (let at = 0; at < blocks.length; at++) blocks[at] ??= emptyBlock("text");
    this.#put({ ...node, blocks });
  }

  #assistantMessage(event: SessionWireEvent, data: Fields): void {
    const key = stepKey(data);
    const node = this.#assistant(key, event.time);
    const blocks = list(fields(data.message).content)
      .map((block) => finalBlock(fields(block)))
      .filter((block) => block !== undefined);
    const interrupted = data.interrupted === true;
    const { seq, time } = event;
    this.#put({ ...node, seq, blocks, streaming: false, interrupted, time });
    const usage = fields(data.usage);
    this.#usage.input +=
      (number(usage.inputTokens) ?? 0) +
      (number(usage.cacheReadTokens) ?? 0) +
      (number(usage.cacheWriteTokens) ?? 0);
    this.#usage.output += number(usage.outputTokens) ?? 0;
  }

  #toolCall(event: SessionWireEvent, data: Fields): void {
    const callId = text(data.callId) ?? `e${event.seq}`;
    this.#put({
      kind: "tool",
      key: `t${callId}.${event.seq}`,
      callId,
      name: text(data.name) ?? "tool",
      args: text(data.arguments) ?? "",
      state: "running",
      output: "",
      errorCode: undefined,
      meta: {},
      startedAt: event.time,
      finishedAt: undefined,
      approval: this.#asked.get(callId),
    });
  }

  #toolResult(event: SessionWireEvent, data: Fields): void {
    if (event.surfaceOp !== undefined && event.surfaceOp !== "append") return;
    const message = fields(data.message);
    const block = fields(list(message.content)[0]);
    const callId = text(block.toolCallId) ?? text(fields(message.source).callId) ?? "";
    const error = fields(data.error);
    const code = text(error.code) ?? text(error.name);
    const failed = block.isError === true || data.error !== undefined;
    const node = this.#tool(callId);
    // What a crash cut off neither failed nor was done: nobody knows.
    const unknown = code === "TOOL_OUTCOME_UNKNOWN";
    const result = {
      state: unknown ? ("interrupted" as const) : failed ? ("failed" as const) : ("done" as const),
      output: blockText(block.content),
      errorCode: code,
      meta: fields(data.meta),
      finishedAt: event.time,
    };
    if (node) this.#put({ ...node, ...result });
    else {
      // The call lies before the window.
      const head = { kind: "tool" as const, key: `t${callId}.${event.seq}`, callId, name: "tool" };
      this.#put({ ...head, args: "", startedAt: event.time, approval: undefined, ...result });
    }
  }

  #approvalAsked(data: Fields): void {
    const id = text(data.id);
    const callId = text(data.callId);
    if (id === undefined || callId === undefined) return;
    this.#approvals.set(id, callId);
    const approval = { id, reason: text(data.reason), outcome: undefined };
    this.#asked.set(callId, approval);
    const node = this.#tool(callId);
    if (node) this.#put({ ...node, approval });
  }

  #approvalDecided(data: Fields): void {
    const callId = this.#approvals.get(text(data.id) ?? "");
    if (callId !== undefined) this.#asked.delete(callId);
    const node = callId === undefined ? undefined : this.#tool(callId);
    if (node?.approval) {
      this.#put({ ...node, approval: { ...node.approval, outcome: text(data.outcome) } });
    }
  }

  #retry(event: SessionWireEvent, data: Fields): void {
    const index = this.#index.get(stepKey(data));
    const node = index === undefined ? undefined : this.#nodes[index];
    if (node?.kind === "assistant" && node.streaming) this.#put({ ...node, blocks: [] });
    this.#put(retryNotice(`r${stepKey(data)}`, data, event.time));
  }

  #turnEnd(event: SessionWireEvent, data: Fields): void {
    this.#openTurn = false;
    for (const node of this.#nodes) {
      if (node.kind === "tool" && node.state === "running") {
        this.#put({ ...node, state: "interrupted", finishedAt: event.time });
      } else if (node.kind === "assistant" && node.streaming) {
        this.#put({ ...node, streaming: false, interrupted: true });
      }
    }
    const reason = fields(data.reason);
    const notice = endNotice(`e${event.seq}`, reason);
    if (notice) this.#put(notice);
    else {
      this.#put({
        kind: "turn",
        key: `e${event.seq}`,
        seq: event.seq,
        durationMs: this.#turnStart === undefined ? undefined : event.time - this.#turnStart,
        inputTokens: this.#usage.input,
        outputTokens: this.#usage.output,
        model: this.#model?.model,
        text: this.#lastAnswer(),
      });
    }
    this.#turnStart = undefined;
  }

  #lastAnswer(): string {
    const answer = this.#nodes.findLast((node) => node.kind === "assistant");
    if (answer?.kind !== "assistant") return "";
    const spoken = answer.blocks.filter((block) => block.kind === "text");
    return spoken.map((block) => (block.kind === "text" ? block.text : "")).join("\n\n");
  }

  #assistant(key: string, time: number): AssistantNode {
    const index = this.#index.get(key);
    const node = index === undefined ? undefined : this.#nodes[index];
    if (node?.kind === "assistant") return node;
    return {
      kind: "assistant",
      key,
      seq: undefined,
      time,
      blocks: [],
      streaming: true,
      interrupted: false,
    };
  }

  /** The newest call with this id: servers re-use ids. */
  #tool(callId: string): ToolNode | undefined {
    const node = this.#nodes.findLast((one) => one.kind === "tool" && one.callId === callId);
    return node?.kind === "tool" ? node : undefined;
  }

  #put(node: Node): void {
    const index = this.#index.get(node.key);
    if (index !== undefined) {
      this.#nodes[index] = node;
      return;
    }
    this.#index.set(node.key, this.#nodes.length);
    this.#nodes.push(node);
  }
}

/** The model of a request; an effort that nobody chose is left out. */
function usedModel(header: Fields): ModelChoice | undefined {
  const choice = choiceOf(fields(header.config));
  if (!choice || fields(header.adapterDefaults).reasoningEffort !== true) return choice;
  return { provider: choice.provider, model: choice.model };
}

function choiceOf(data: Fields): ModelChoice | undefined {
  const provider = text(data.provider);
  const model = text(data.model);
  if (!provider || !model) return undefined;
  const reasoningEffort = text(data.reasoningEffort);
  return { provider, model, ...(reasoningEffort ? { reasoningEffort } : {}) };
}

function stepKey(data: Fields): string {
  return `a${number(data.turn) ?? 0}.${number(data.step) ?? 0}`;
}

function emptyBlock(kind: string | undefined): Block {
  if (kind === "tool-call") return { kind: "call", name: "", chars: 0, open: true };
  return { kind: kind === "reasoning" ? "reasoning" : "text", text: "", open: true };
}

function finalBlock(block: Fields): Block | undefined {
  if (block.type === "text" || block.type === "reasoning") {
    return { kind: block.type, text: text(block.text) ?? "", open: false };
  }
  if (block.type === "tool-call") {
    const chars = (text(block.arguments) ?? "").length;
    return { kind: "call", name: text(block.name) ?? "", chars, open: false };
  }
  return undefined;
}

function contextTitle(kind: string | undefined, form: string | undefined): string {
  if (kind === "subagent-settled") return "Subagent";
  if (kind === "agent-message") return "Message from an agent";
  switch (form) {
    case "instructions":
      return "Instructions";
    case "catalog":
      return "Catalogue";
    case "snapshot":
      return "Context";
    case "notice":
      return "Notice";
    case "relay":
      return "Relayed message";
    case "recall":
      return "Recalled";
    default:
      return "Context";
  }
}

function shortName(plugin: string): string {
  return plugin.split("/").at(-1) ?? plugin;
}
