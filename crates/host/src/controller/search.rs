//! `session/search`: text in titles and messages of the sessions that a list shows
//! (`controller.md` 1.6, decision D27), and keeping the index up with the logs.

use std::collections::HashSet;
use std::time::Duration;

use orrery_api::error::ApiError;
use orrery_api::session::{SearchHit, SearchMatch, SearchRequest, SearchResponse};
use orrery_query::QueryError;
use orrery_query::search::{self, Found, Searcher, Standing};
use orrery_session::{EventType, SessionId};
use tokio::sync::watch;

use super::{Controller, failures};

/// The most sessions that a search shows.
const SHOWN: usize = 20;
/// The longest query, in UTF-16 units.
const LONGEST_QUERY: usize = 500;
/// How often the index is asked for one search, pages and new beginnings together.
const CALLS: usize = 100;
/// How long a session may go on talking before what it said is indexed.
const SETTLING: Duration = Duration::from_secs(2);
/// How often the disk is looked at for what other processes did.
const RESCAN: Duration = Duration::from_secs(15);

impl Controller {
    /// Searches titles and messages.
    ///
    /// # Errors
    /// When search is off or there is no index; when the query is empty, too long or holds a NUL.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchResponse, ApiError> {
        let searcher = self.searcher()?;
        let query = request.query.trim();
        let wrong = if query.is_empty() {
            Some("must not be empty")
        } else if query.contains('\0') {
            Some("must not contain a NUL character")
        } else if query.encode_utf16().count() > LONGEST_QUERY {
            Some("must be at most 500 UTF-16 units long")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(ApiError::bad_request("query", wrong));
        }
        let mut asked = search::SearchRequest {
            query: query.to_owned(),
            types: Some(vec![
                EventType::UserMessage,
                EventType::AssistantMessage,
                EventType::SessionTitle,
            ]),
            // A title is never shown to the model, and only the newest one is indexed.
            standings: Some(vec![Standing::Current, Standing::LogOnly]),
            one_per_session: true,
            ..search::SearchRequest::default()
        };
        let archived: HashSet<SessionId> = self.inner.state.get().archived.into_iter().collect();
        let mut seen = HashSet::new();
        let mut items: Vec<SearchHit> = Vec::new();
        let mut indexing = false;
        for _ in 0..CALLS {
            let page = match searcher.search(&asked).await {
                Ok(page) => page,
                Err(QueryError::StaleCursor) => {
                    // The pages no longer fit together: from the start.
                    asked.cursor = None;
                    items.clear();
                    seen.clear();
                    continue;
                }
                Err(error) => return Err(failures::of_query(&error)),
            };
            indexing |= page.indexing;
            for found in page.items {
                if archived.contains(&found.session) || !self.listed(&found.session).await {
                    continue;
                }
                if seen.insert(found.session.clone()) {
                    items.push(hit(found));
                }
            }
            match page.next_cursor {
                Some(cursor) if items.len() <= SHOWN => asked.cursor = Some(cursor),
                _ => break,
            }
        }
        let has_more = items.len() > SHOWN;
        items.truncate(SHOWN);
        Ok(SearchResponse {
            items,
            has_more,
            indexing,
        })
    }

    /// Reads everything that is not searchable yet, telling how many sessions are left.
    ///
    /// # Errors
    /// When search is off, there is no index, or it cannot be written.
    pub async fn index_all(&self, mut progress: impl FnMut(usize)) -> Result<(), ApiError> {
        let closing = self.inner.closing.clone();
        let caught_up = self.searcher()?.catch_up(|left| {
            progress(left);
            !closing.is_cancelled()
        });
        caught_up.await.map_err(|error| failures::of_query(&error))
    }

    /// How many sessions the background still has to read before they can be found.
    pub fn unsearchable(&self) -> watch::Receiver<usize> {
        self.inner.unsearchable.subscribe()
    }

    /// Keeps the search index up with the logs, in the background, until the shutdown.
    pub fn keep_searchable(&self) {
        if self.inner.search.on().is_err() {
            return;
        }
        let controller = self.clone();
        self.inner.tasks.spawn(async move {
            let closing = controller.inner.closing.clone();
            let mut changes = controller.changes();
            loop {
                let unsearchable = &controller.inner.unsearchable;
                let tell = |left| {
                    unsearchable.send_replace(left);
                };
                if let Err(error) = controller.index_all(tell).await {
                    tracing::warn!(%error, "the search index is behind");
                }
                unsearchable.send_replace(0);
                tokio::select! {
                    () = closing.cancelled() => break,
                    () = tokio::time::sleep(RESCAN) => {}
                    changed = changes.changed() => {
                        if changed.is_err() {
                            break;
                        }
                        tokio::select! {
                            () = closing.cancelled() => break,
                            () = tokio::time::sleep(SETTLING) => {}
                        }
                        changes.mark_unchanged();
                    }
                }
            }
        });
    }

    fn searcher(&self) -> Result<&Searcher, ApiError> {
        let on = self.inner.search.on();
        on.map_err(|error| failures::of_query(&error))
    }

    /// Whether a list shows the session.
    async fn listed(&self, id: &SessionId) -> bool {
        if self.inner.live.get(id).is_some() {
            return true;
        }
        let entry = self.inner.store.find(id).await;
        entry.is_ok_and(|entry| entry.header.cwd.is_some())
    }
}

fn hit(found: Found) -> SearchHit {
    SearchHit {
        session_id: found.session,
        snippet: found.snippet.text,
        highlights: found
            .snippet
            .highlights
            .iter()
            .filter_map(|range| Some((range.start.try_into().ok()?, range.end.try_into().ok()?)))
            .collect(),
        r#match: SearchMatch {
            seq: found.seq,
            r#type: found.event_type.to_string(),
            surface: found.standing.as_str().to_owned(),
        },
    }
}
