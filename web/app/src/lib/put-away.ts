/** Archiving and deleting, each with its way back. */
import type { OrreryClient } from "@orrery/client";
import { asRemoteError } from "@orrery/client";
import { showToast } from "./toast";

type Verb = "archive" | "unarchive" | "delete" | "restore";

const DONE: Record<Verb, { text: string; back: Verb | null }> = {
  archive: { text: "was archived.", back: "unarchive" },
  unarchive: { text: "is in the list again.", back: null },
  delete: { text: "is in the trash, with all its subagents.", back: "restore" },
  restore: { text: "is back.", back: null },
};

/** Does it and says so, or says why not; resolves to whether it was done. */
export async function putAway(
  client: OrreryClient,
  verb: Verb,
  sessionId: string,
  title: string,
): Promise<boolean> {
  try {
    await client.call(`session/${verb}`, { sessionId });
  } catch (thrown) {
    showToast({ text: `“${title}” stays as it is: ${asRemoteError(thrown).message}` });
    return false;
  }
  const { text, back } = DONE[verb];
  const undo = back ? { undo: () => void putAway(client, back, sessionId, title) } : {};
  showToast({ text: `“${title}” ${text}`, ...undo });
  return true;
}
