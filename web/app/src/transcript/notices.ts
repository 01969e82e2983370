/** Words for how a turn ended when it did not simply complete, and for retries. */
import { type Fields, fields, number, text } from "./content";
import type { NoticeNode } from "./model";

/** The notice of a turn's end; undefined when it completed. */
export function endNotice(key: string, reason: Fields): NoticeNode | undefined {
  const notice = (
    tone: NoticeNode["tone"],
    title: string,
    detail = "",
    code?: string,
  ): NoticeNode => ({ kind: "notice", key, tone, title, detail, code });
  switch (reason.kind) {
    case "completed":
      return undefined;
    case "aborted":
      return aborted(fields(reason.reason), notice);
    case "blocked":
      return notice("warn", "Blocked", "The turn could not go on. Waiting messages are parked.");
    case "error": {
      const error = fields(reason.error);
      const message = text(error.message) ?? "The turn failed.";
      return notice("error", "The turn failed", message, text(error.code));
    }
    case "max-tokens":
      return notice(
        "warn",
        "Length limit reached",
        "The model stopped at its output limit. Send “continue” to let it go on.",
      );
    case "interrupted":
      return notice(
        "warn",
        "Interrupted",
        "The Host stopped before this turn ended. Everything up to here was kept.",
      );
    default:
      return notice("info", "Turn ended", String(reason.kind ?? ""));
  }
}

function aborted(
  reason: Fields,
  notice: (tone: NoticeNode["tone"], title: string, detail?: string) => NoticeNode,
): NoticeNode {
  switch (reason.kind) {
    case "user":
      return notice("info", "Stopped", "You stopped this turn.");
    case "parent":
      return notice("info", "Stopped", "The session above stopped this turn.");
    case "disposed":
      return notice("warn", "Stopped", "The Host was shut down during this turn.");
    case "hook":
      return notice("warn", "Stopped by a hook", text(reason.reason) ?? "");
    default:
      return notice("info", "Stopped");
  }
}

/** The notice of a model call that is tried again. */
export function retryNotice(key: string, data: Fields, time: number): NoticeNode {
  const failure = fields(data.failure);
  const retry = number(data.retry) ?? 1;
  const most = number(data.maxRetries);
  const at = new Date(time + (number(data.delayMs) ?? 0));
  const clock = at.toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  return {
    kind: "notice",
    key,
    tone: "warn",
    title: `Retry ${retry}${most === undefined ? "" : ` of ${most}`} at ${clock}`,
    detail: text(failure.message) ?? "The model's server did not answer.",
    code: text(failure.code),
  };
}
