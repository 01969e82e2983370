/** Searching what was said: after a pause in typing, one question at a time. */
import type { RemoteError, SearchResponse } from "@orrery/client";
import { asRemoteError } from "@orrery/client";
import { useEffect, useState } from "react";
import { useClient, useConnection } from "./hooks";

/** How long typing must rest, in milliseconds. */
const REST_MS = 250;
/** How soon it is asked again while logs are still being indexed, in milliseconds. */
const AGAIN_MS = 1500;
/** The longest query that the Host takes, in UTF-16 units. */
const LONGEST = 500;

export interface Search {
  /** What the answer is about; empty before there is one. */
  query: string;
  answer: SearchResponse | null;
  error: RemoteError | null;
}

const NOTHING: Search = { query: "", answer: null, error: null };

/** A query as the Host takes it: no NUL, not too long, no half characters at its end. */
export function tidyQuery(typed: string): string {
  const cut = typed.replaceAll("\0", "").trim().slice(0, LONGEST);
  return cut.replace(/[\uD800-\uDBFF]$/, "");
}

/** What was found for what is typed; the last answer stays until the next one is there. */
export function useSearch(typed: string): Search {
  const { call } = useClient();
  const connection = useConnection();
  const [search, setSearch] = useState<Search>(NOTHING);
  const query = tidyQuery(typed);
  useEffect(() => {
    if (query === "") {
      setSearch(NOTHING);
      return;
    }
    if (connection !== "connected") return;
    const aborted = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const ask = async () => {
      try {
        const answer = await call("session/search", { query }, aborted.signal);
        if (aborted.signal.aborted) return;
        setSearch({ query, answer, error: null });
        if (answer.indexing) timer = setTimeout(ask, AGAIN_MS);
      } catch (thrown) {
        // An answer to an older question, or none at all, concerns nobody.
        if (!aborted.signal.aborted) {
          setSearch({ query, answer: null, error: asRemoteError(thrown) });
        }
      }
    };
    timer = setTimeout(ask, REST_MS);
    return () => {
      aborted.abort();
      clearTimeout(timer);
    };
  }, [call, connection, query]);
  return search;
}
