/** What was deleted, and a way to have it back. */
import type { OrreryClient, TrashedSession } from "@orrery/client";
import { type ReactNode, useState } from "react";
import { ago, tilde } from "../lib/format";
import { useClient, useLoaded, useNow } from "../lib/hooks";
import { putAway } from "../lib/put-away";
import { Dialog, ErrorLine, Spinner } from "./controls";

const loadTrash = async (client: OrreryClient): Promise<readonly TrashedSession[]> =>
  (await client.call("session/trash", {})).items;

export function TrashDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { value, error, reload } = useLoaded(loadTrash);
  return (
    <Dialog title="Trash" onClose={onClose} testId="trash">
      {error && <ErrorLine error={error} onRetry={reload} />}
      {!value && !error && <Spinner />}
      {value?.length === 0 && <p className="side-note">The trash is empty.</p>}
      <ul className="trash">
        {value?.map((item) => (
          <Item key={`${item.sessionId} ${item.deletedAt}`} item={item} onRestored={reload} />
        ))}
      </ul>
    </Dialog>
  );
}

function Item({ item, onRestored }: { item: TrashedSession; onRestored: () => void }): ReactNode {
  const client = useClient();
  const now = useNow(30_000);
  const [busy, setBusy] = useState(false);
  const title = item.title ?? "Untitled session";
  const restore = async () => {
    setBusy(true);
    if (await putAway(client, "restore", item.sessionId, title)) onRestored();
    setBusy(false);
  };
  return (
    <li data-testid="trashed" data-session={item.sessionId}>
      <span className="trash-words">
        <strong>{title}</strong>
        <span className="side-note">
          {tilde(item.cwd ?? "", client.connection.lastReady?.home)} · deleted{" "}
          {ago(item.deletedAt, now)}
        </span>
      </span>
      <button type="button" className="button small" disabled={busy} onClick={() => void restore()}>
        Restore
      </button>
    </li>
  );
}
