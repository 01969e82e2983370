/** What a session is called. */
import type { SessionSummary } from "@orrery/client";
import { text } from "../transcript/content";

/** The title, from the freshest source that has one; undefined when none does. */
export function titleOf(
  values: Readonly<Record<string, unknown>> | undefined,
  row: SessionSummary | undefined,
): string | undefined {
  const title = text(values?.title) ?? text(row?.projections?.values.title);
  return title?.trim() ? title : undefined;
}
