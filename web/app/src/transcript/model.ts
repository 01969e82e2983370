/** What a conversation shows: rows derived from the log, in its order. */
import type { ModelChoice } from "@orrery/client";

export interface TextBlock {
  kind: "text" | "reasoning";
  text: string;
  open: boolean;
}

export interface CallBlock {
  kind: "call";
  name: string;
  chars: number;
  open: boolean;
}

export type Block = TextBlock | CallBlock;

export interface UserNode {
  kind: "user";
  key: string;
  /** The message's event. */
  seq: number;
  id: string;
  rpcId: string | undefined;
  time: number;
  text: string;
  images: number;
}

/** Text that the house put before the model. */
export interface ContextNode {
  kind: "context";
  key: string;
  title: string;
  summary: string;
  text: string;
}

export interface AssistantNode {
  kind: "assistant";
  key: string;
  /** The message's event, once it is there. */
  seq: number | undefined;
  time: number;
  blocks: readonly Block[];
  streaming: boolean;
  interrupted: boolean;
}

export type ToolState = "running" | "done" | "failed" | "interrupted";

export interface ToolNode {
  kind: "tool";
  key: string;
  callId: string;
  name: string;
  /** The model's raw text; not always JSON. */
  args: string;
  state: ToolState;
  output: string;
  errorCode: string | undefined;
  meta: Readonly<Record<string, unknown>>;
  startedAt: number;
  finishedAt: number | undefined;
  approval: { id: string; reason: string | undefined; outcome: string | undefined } | undefined;
}

export type Tone = "info" | "warn" | "error";

export interface NoticeNode {
  kind: "notice";
  key: string;
  tone: Tone;
  title: string;
  detail: string;
  code: string | undefined;
}

/** The end of a turn that went well. */
export interface TurnNode {
  kind: "turn";
  key: string;
  seq: number;
  durationMs: number | undefined;
  outputTokens: number;
  inputTokens: number;
  model: string | undefined;
  text: string;
}

export type Node = UserNode | ContextNode | AssistantNode | ToolNode | NoticeNode | TurnNode;

export interface TranscriptView {
  readonly nodes: readonly Node[];
  /** Whether a turn has begun and not ended. */
  readonly openTurn: boolean;
  /** Request ids that are shown already, so that an echo is not shown beside them. */
  readonly rpcIds: ReadonlySet<string>;
  /** The permission preset that the window mentions last. */
  readonly permission: string | undefined;
  /** The model that the window chose or used last. */
  readonly model: ModelChoice | undefined;
}
