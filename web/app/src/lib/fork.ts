/** Forking: the new session is opened and named after its source. */
import type { OrreryClient } from "@orrery/client";
import { asRemoteError, type RemoteError } from "@orrery/client";
import { go } from "./hooks";

/** The source's title with a number that is one higher, in the style that it has already. */
export function forkTitle(title: string): string {
  const numbered = title.match(/^(.*?)(\s*)([(（])(\d+)([)）])\s*$/);
  if (!numbered) return `${title} (1)`;
  const [, head, gap, open, digits, close] = numbered;
  return `${head}${gap}${open}${Number(digits) + 1}${close}`;
}

/** Forks and goes there; resolves to what went wrong, or null. */
export async function forkSession(
  client: OrreryClient,
  sessionId: string,
  title: string | undefined,
  atSeq?: number,
): Promise<RemoteError | null> {
  try {
    const at = atSeq === undefined ? {} : { atSeq };
    const fork = await client.call("session/fork", { sessionId, ...at });
    go({ kind: "session", id: fork.sessionId });
    if (title !== undefined) void client.session(fork.sessionId).rename(forkTitle(title));
    return null;
  } catch (thrown) {
    return asRemoteError(thrown);
  }
}
