//! History: pages and the follow stream (`controller.md` 2, decisions D18 and D21).
//!
//! Looking never activates. A follower holds a cursor and pulls: from the live tail while the
//! session is live, and when it is cold it waits for it to come to life. Nothing is queued for it,
//! so nothing can be lost, doubled or reordered.

use std::collections::VecDeque;

use orrery_agent::SessionHandle;
use orrery_agent::live::OnDisk;
use orrery_api::content::{Address, ProjectionValues};
use orrery_api::error::ApiError;
use orrery_api::frames::follow_event_text;
use orrery_api::history::{
    FollowItem, FollowRequest, FollowSnapshot, HistoryRecord, PageRequest, PageResponse,
};
use orrery_query::Page;
use orrery_session::chunk_row::{Record, Spelling};
use orrery_session::{Json, JsonError, SessionId, SessionLogOffset, SharedEvent};
use tokio::sync::watch;

use super::{Controller, Found, failures, on_disk};

/// How many events a follower takes at once.
const PULL: usize = 256;

/// One item of a follow stream, serialised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowPiece {
    /// The item as JSON text.
    pub json: String,
    /// The last seq that it includes; -1 for the snapshot of an empty log.
    pub seq: i64,
}

/// A followed log, item by item.
#[derive(Debug)]
pub struct FollowFeed {
    controller: Controller,
    changes: watch::Receiver<u64>,
    id: SessionId,
    opening: Option<FollowPiece>,
    next: SessionLogOffset,
    live: Option<SessionHandle>,
    pulled: VecDeque<SharedEvent>,
}

impl Controller {
    /// Older history.
    pub async fn page(&self, request: PageRequest) -> Result<PageResponse, ApiError> {
        let messages = messages(request.max_messages)?;
        let found = self.addressed(&request.address).await?;
        let through = request.through_seq.offset();
        if through > found.end() {
            let message = "lies beyond the end of the log";
            return Err(ApiError::bad_request("throughSeq", message));
        }
        let end = request
            .before_seq
            .map_or(through, |seq| through.min(seq.offset_before()));
        let Page { records, has_more } = self.page_of(&found, end, messages).await?;
        Ok(PageResponse {
            records: wire_records(&records)?,
            has_more,
        })
    }

    /// Follows a log: its tail, then every event as it is appended.
    pub async fn follow(&self, request: FollowRequest) -> Result<FollowFeed, ApiError> {
        let messages = messages(request.max_messages)?;
        // Watching begins before looking, so that nothing falls in between.
        let changes = self.inner.live.changes();
        let found = self.addressed(&request.address).await?;
        let (opening, next) = match request.after_seq {
            None => {
                let (piece, end) = self.snapshot(&found, messages).await?;
                (Some(piece), end)
            }
            Some(after) => {
                if after.offset_after() > found.end() {
                    let message = "lies beyond the end of the log";
                    return Err(ApiError::bad_request("afterSeq", message));
                }
                (None, after.offset_after())
            }
        };
        let id = request.address.target().clone();
        let mut feed = FollowFeed {
            controller: self.clone(),
            changes,
            id,
            opening,
            next,
            live: None,
            pulled: VecDeque::new(),
        };
        match found {
            Found::Live(handle) => feed.live = Some(handle),
            Found::Cold(cold) => {
                let rest = cold.events(next..cold.end()).await;
                feed.pulled
                    .extend(rest.map_err(|error| failures::of_query(&error))?);
            }
        }
        Ok(feed)
    }

    /// The opening of a follow stream.
    async fn snapshot(
        &self,
        found: &Found,
        messages: usize,
    ) -> Result<(FollowPiece, SessionLogOffset), ApiError> {
        let end = found.end();
        let Page { records, has_more } = self.page_of(found, end, messages).await?;
        let (inherited, projections) = match found {
            Found::Live(handle) => {
                let state = handle.live().state_now();
                let values = state
                    .projections
                    .iter()
                    .map(|(key, cell)| ((*key).to_owned(), cell.value.clone()))
                    .collect();
                let as_of_seq = state.as_of.min(end.cursor());
                (
                    handle.live().inherited(),
                    ProjectionValues { as_of_seq, values },
                )
            }
            Found::Cold(cold) => {
                let snapshot = cold.cells.snapshot();
                let values = snapshot
                    .values
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect();
                (
                    cold.inherited(),
                    ProjectionValues {
                        as_of_seq: end.cursor(),
                        values,
                    },
                )
            }
        };
        let item = FollowItem::Snapshot(FollowSnapshot {
            header: Json::from_value(found.header()).map_err(|e| unreadable(&e))?,
            inherited_event_count: inherited.get(),
            cursor: end.cursor(),
            records: wire_records(&records)?,
            has_more,
            projections,
        });
        let json = Json::from_value(&item)
            .map_err(|e| unreadable(&e))?
            .text()
            .to_owned();
        Ok((
            FollowPiece {
                json,
                seq: end.cursor().get(),
            },
            end,
        ))
    }

    /// The log that an address names, if the caller may read it so (`controller.md` 2.1).
    async fn addressed(&self, address: &Address) -> Result<Found, ApiError> {
        match address {
            Address::Session { session_id } => {
                let found = self.look(session_id).await?;
                let header = found.header();
                if header.cwd.is_none() {
                    return Err(ApiError::session_not_found(session_id.as_str()));
                }
                if header.is_subagent() {
                    return Err(ApiError::agent_busy(
                        "use the subagent address of this session",
                    ));
                }
                Ok(found)
            }
            Address::Subagent {
                parent_session_id,
                child_session_id,
                mode,
            } => {
                self.addressed_child(parent_session_id, child_session_id, *mode)
                    .await
            }
        }
    }
}

fn messages(asked: Option<u32>) -> Result<usize, ApiError> {
    match asked.unwrap_or(orrery_api::DEFAULT_PAGE_MESSAGES) {
        0 => Err(ApiError::bad_request("maxMessages", "must be at least 1")),
        count => Ok(count as usize),
    }
}

fn wire_records(records: &[Record]) -> Result<Vec<HistoryRecord>, ApiError> {
    records
        .iter()
        .map(|record| match record {
            Record::Event(event) => Json::from_text(event.text()).map(HistoryRecord::event),
            Record::Chunks(row) => {
                Json::from_text(&row.to_json(Spelling::Wire)).map(HistoryRecord::chunks)
            }
        })
        .collect::<Result<_, _>>()
        .map_err(|e| unreadable(&e))
}

fn unreadable(error: &JsonError) -> ApiError {
    tracing::error!(%error, "a logged event cannot be sent");
    ApiError::internal()
}

impl FollowFeed {
    /// The next item; waits for one.
    ///
    /// # Errors
    /// When the log has a gap, which no client could tell from a loss.
    pub async fn next(&mut self) -> Result<FollowPiece, ApiError> {
        if let Some(opening) = self.opening.take() {
            return Ok(opening);
        }
        loop {
            if let Some(event) = self.pulled.pop_front() {
                return self.piece(&event);
            }
            match self.live.clone() {
                Some(handle) => self.pull(&handle).await?,
                None => self.wait_for_life().await?,
            }
        }
    }

    fn piece(&mut self, event: &SharedEvent) -> Result<FollowPiece, ApiError> {
        if event.seq().offset_before() != self.next {
            tracing::error!(session = %self.id, expected = %self.next, found = %event.seq(), "gap");
            return Err(ApiError::internal());
        }
        self.next = event.seq().offset_after();
        let seq = self.next.cursor().get();
        Ok(FollowPiece {
            json: follow_event_text(event.text()),
            seq,
        })
    }

    /// Takes what the live tail has, or waits for it to move.
    async fn pull(&mut self, handle: &SessionHandle) -> Result<(), ApiError> {
        let mut head = handle.live().head();
        let next = self.next;
        // An error means that the session's task is gone; what it published is still there.
        drop(head.wait_for(|head| head.end > next || head.closed).await);
        let events = match handle.live().events_from(next, PULL) {
            Ok(events) => events,
            Err(OnDisk { before }) => {
                let to = before.min(next.advance(PULL));
                let view = self.controller.view(&self.id).await?;
                on_disk(move || view.events(next..to)).await?
            }
        };
        if events.is_empty() {
            // Closed and read to its end: from here on the session is cold again.
            self.live = None;
        }
        self.pulled.extend(events);
        Ok(())
    }

    async fn wait_for_life(&mut self) -> Result<(), ApiError> {
        loop {
            if let Some(handle) = self.controller.inner.live.get(&self.id) {
                self.live = Some(handle);
                return Ok(());
            }
            if self.changes.changed().await.is_err() {
                return Err(ApiError::cancelled());
            }
        }
    }
}
