/** Which logs are followed: the few that were looked at last. */
import type { SessionObject } from "@orrery/client";

const KEPT = 4;

let recent: SessionObject[] = [];

/** Follows a session; the one that was looked at longest ago is let go. */
export function followSession(session: SessionObject): void {
  recent = [session, ...recent.filter((one) => one !== session)];
  for (const old of recent.splice(KEPT)) old.close();
  session.open();
}
