/** Records as they are received: their range of seqs, and the expansion of packed rows. */
import { protocolError } from "./errors";
import type { ChunkRowData, HistoryRecord, SessionWireEvent } from "./generated/contract";

/** A record with the range of events that it stands for. */
export interface Entry {
  readonly first: number;
  readonly last: number;
  readonly record: HistoryRecord;
}

/** The number of members of a packed row; throws when the row is malformed. */
export function memberCount(type: string, data: ChunkRowData): number {
  const members = type === "chunkrow/tool-call-chunks" ? data.args : data.texts;
  const known =
    type === "chunkrow/text-chunks" ||
    type === "chunkrow/reasoning-chunks" ||
    type === "chunkrow/tool-call-chunks";
  if (!known || !Array.isArray(members) || !Array.isArray(data.dt)) {
    throw protocolError(`a packed row of type ${type} is malformed`);
  }
  if (members.length < 1 || data.dt.length !== members.length - 1) {
    throw protocolError("a packed row has mismatched lengths");
  }
  return members.length;
}

/** Gives a record its range. */
export function entryOf(record: HistoryRecord): Entry {
  const { seq } = record.event;
  if (!Number.isSafeInteger(seq) || seq < 0) throw protocolError("a record has no valid seq");
  if (record.type === "event") return { first: seq, last: seq, record };
  const count = memberCount(record.event.type, record.event.data);
  return { first: seq, last: seq + count - 1, record };
}

/** An entry of one event. */
export function eventEntry(event: SessionWireEvent): Entry {
  return entryOf({ type: "event", event });
}

/** The single events that a record stands for, in order. */
export function expand(record: HistoryRecord): SessionWireEvent[] {
  if (record.type === "event") return [record.event];
  const { type, seq, data } = record.event;
  const count = memberCount(type, data);
  const events: SessionWireEvent[] = [];
  let time = record.event.time;
  for (let k = 0; k < count; k++) {
    if (k > 0) time += data.dt[k - 1] ?? 0;
    const { turn, step } = data;
    events.push({
      type: "assistant/chunk",
      seq: seq + k,
      time,
      data: { turn, step, chunk: chunkOf(type, data, k) },
    });
  }
  return events;
}

function chunkOf(type: string, data: ChunkRowData, k: number): object {
  const { index } = data;
  if (type === "chunkrow/tool-call-chunks") {
    const name = data.name === undefined ? {} : { name: data.name };
    return {
      type: "tool-call-delta",
      index,
      id: data.id,
      ...name,
      argumentsDelta: data.args?.[k] ?? "",
    };
  }
  const kind = type === "chunkrow/text-chunks" ? "text-delta" : "reasoning-delta";
  return { type: kind, index, text: data.texts?.[k] ?? "" };
}
