/** What a search found in messages and titles, below the rows whose titles match. */
import type { SearchHit } from "@orrery/client";
import type { ReactNode } from "react";
import { placeOfRow } from "../lib/agents";
import { excerpt } from "../lib/excerpt";
import { baseName } from "../lib/format";
import { go, useClient, useProjections } from "../lib/hooks";
import type { Search } from "../lib/search";
import { titleOf } from "../lib/title";
import { ErrorLine, Spinner } from "./controls";

interface SearchResultsProps {
  search: Search;
  /** What is typed now; the answer may still be about something else. */
  wanted: string;
  onNavigate: () => void;
}

export function SearchResults({ search, wanted, onNavigate }: SearchResultsProps): ReactNode {
  const { query, answer, error } = search;
  const waiting = query !== wanted;
  return (
    <section
      className="found-list"
      aria-label="Found in messages"
      aria-busy={waiting}
      data-testid="search-results"
    >
      <h2>In what was said {waiting && <Spinner />}</h2>
      {error && <ErrorLine what="Messages cannot be searched." error={error} />}
      {answer && answer.items.length > 0 && (
        <ul>
          {answer.items.map((hit) => (
            <Hit key={hit.sessionId} hit={hit} onNavigate={onNavigate} />
          ))}
        </ul>
      )}
      {answer && answer.items.length === 0 && !waiting && !answer.indexing && (
        <p className="side-note">No message holds “{query}”.</p>
      )}
      {answer?.hasMore && <p className="side-note">There are more: narrow the search.</p>}
      {answer?.indexing && (
        <p className="side-note" data-testid="indexing">
          Older sessions are still being read; more may turn up.
        </p>
      )}
    </section>
  );
}

function Hit({ hit, onNavigate }: { hit: SearchHit; onNavigate: () => void }): ReactNode {
  const client = useClient();
  const values = useProjections(hit.sessionId);
  const row = client.catalogue.row(hit.sessionId);
  const isTitle = hit.match.type === "session/title";
  const title = titleOf(values, row) ?? (isTitle ? hit.snippet : "An older session");
  const { text, ranges } = excerpt(hit.snippet, hit.highlights);
  const open = () => {
    const at = isTitle ? undefined : hit.match.seq;
    if (row) go(placeOfRow(row, at));
    else go({ kind: "session", id: hit.sessionId, ...(at === undefined ? {} : { at }) });
    onNavigate();
  };
  return (
    <li>
      <button
        type="button"
        className="found-link"
        data-testid="search-hit"
        data-session={hit.sessionId}
        onClick={open}
      >
        <span className="found-title">
          <span>{title}</span>
          {row?.cwd && <span className="found-folder">{baseName(row.cwd)}</span>}
        </span>
        <span className="found-snippet">{marked(text, ranges)}</span>
      </button>
    </li>
  );
}

/** A text with some of its ranges, in UTF-16 units, marked. */
export function marked(text: string, ranges: readonly (readonly number[])[]): ReactNode[] {
  const parts: ReactNode[] = [];
  let at = 0;
  for (const [start = 0, end = 0] of ranges) {
    if (start < at || end <= start) continue;
    parts.push(text.slice(at, start), <mark key={start}>{text.slice(start, end)}</mark>);
    at = end;
  }
  parts.push(text.slice(at));
  return parts;
}
