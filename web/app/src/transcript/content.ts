/** Readers of payloads. The log is open: whatever has another shape reads as absent. */

export type Fields = Readonly<Record<string, unknown>>;

export function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The text of content blocks, tool results included. */
export function blockText(content: unknown): string {
  const parts: string[] = [];
  for (const item of list(content)) {
    const block = fields(item);
    const own = text(block.text);
    if (block.type === "text" && own !== undefined) parts.push(own);
    else if (block.type === "tool-result") parts.push(blockText(block.content));
    else if (block.type === "image") parts.push("[image]");
  }
  return parts.join("\n");
}

/** The arguments of a tool call as an object; empty while they are incomplete. */
export function parseArgs(args: string): Fields {
  try {
    return fields(JSON.parse(args));
  } catch {
    return {};
  }
}
