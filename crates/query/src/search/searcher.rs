//! Searching: a question becomes phrases, hits become text again (`subagent.md` 3.7).
//!
//! Every hit is compared with its event before it is shown, so that an index that is behind, or
//! wrong, costs a hit and never shows one that is none.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt as _;
use orrery_session::{EventType, SessionId, SessionSeq, Timestamp};
use orrery_storage::Store;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::filling::Filling;
use super::index::{IndexError, IndexHit, IndexQuery, Phrase, SearchIndex, Standing};
use super::snippet::{SNIPPET_CHARS, Snippet, snippet};
use super::text::text_of;
use super::words;
use crate::error::QueryError;
use crate::live::LiveSessions;

/// How many hits a page has unless somebody asks otherwise.
pub const DEFAULT_LIMIT: usize = 20;
/// The most that a page may have.
pub const MAX_LIMIT: usize = 100;
/// How many hits are read at once.
const READ_AT_ONCE: usize = 4;
/// A backlog up to this many sessions is worked off before a search answers.
const SMALL_BACKLOG: usize = 16;
/// How long what was found about the logs on disk is believed.
const FRESH: Duration = Duration::from_secs(1);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchRequest {
    /// The text to look for: literal, operators and quotes are data.
    pub query: String,
    /// Only events of these types.
    pub types: Option<Vec<EventType>>,
    /// Only events that stand so.
    pub standings: Option<Vec<Standing>>,
    /// Only these sessions.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// Only events in this range.
    pub seqs: Option<RangeInclusive<SessionSeq>>,
    /// Only events of this time.
    pub times: Option<RangeInclusive<Timestamp>>,
    /// Whether only the best hit of each session counts.
    pub one_per_session: bool,
    /// How many hits; [`DEFAULT_LIMIT`] when absent, at most [`MAX_LIMIT`].
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// One event that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The session.
    pub session: SessionId,
    /// The event.
    pub seq: SessionSeq,
    /// Its type.
    pub event_type: EventType,
    /// When it happened.
    pub time: Timestamp,
    /// Where it stands with the model.
    pub standing: Standing,
    /// Its text around the first match.
    pub snippet: Snippet,
}

/// Some hits, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPage {
    /// The hits.
    pub items: Vec<Found>,
    /// Where to go on; `None` at the end.
    pub next_cursor: Option<String>,
    /// Whether some logs are not searchable yet.
    pub indexing: bool,
}

/// What a cursor says; opaque to callers.
#[derive(Debug, Serialize, Deserialize)]
struct Cursor {
    version: u8,
    request: u32,
    generation: String,
    offset: usize,
}

/// Searches an index that it keeps up with the logs. Copies share it.
#[derive(Debug, Clone)]
pub struct Searcher {
    store: Store,
    filling: Filling,
    looked: Arc<Mutex<Option<Looked>>>,
}

/// Whether there is search, and why there is none.
#[derive(Debug, Clone)]
pub enum Search {
    /// There is.
    On(Searcher),
    /// Nobody wants it.
    Off,
    /// The index cannot be kept, for this reason.
    Failed(String),
}

impl Search {
    /// What searches.
    ///
    /// # Errors
    /// `SEARCH_DISABLED` and `INDEX_FAILED`, both before any question is looked at.
    pub fn on(&self) -> Result<&Searcher, QueryError> {
        match self {
            Self::On(searcher) => Ok(searcher),
            Self::Off => Err(QueryError::SearchDisabled),
            Self::Failed(why) => Err(IndexError(why.clone()).into()),
        }
    }
}

/// What the last look at the logs on disk found.
#[derive(Debug, Clone)]
struct Looked {
    at: Instant,
    /// How many logs were behind.
    behind: usize,
    /// Behind which file of the index: another one may lack everything.
    instance: String,
}

impl Searcher {
    /// Nothing is read yet.
    pub fn new(store: Store, live: Arc<dyn LiveSessions>, index: Arc<dyn SearchIndex>) -> Self {
        Self {
            filling: Filling::new(store.clone(), live, index),
            store,
            looked: Arc::default(),
        }
    }

    /// Reads everything that is not indexed, telling how many sessions are left, until `go_on` says
    /// stop.
    ///
    /// # Errors
    /// When the index or the sessions root cannot be used.
    pub async fn catch_up(&self, mut go_on: impl FnMut(usize) -> bool) -> Result<(), QueryError> {
        for attempt in 0.. {
            let backlog = self.filling.backlog().await?;
            let instance = backlog.instance().to_owned();
            self.note(backlog.len(), &instance).await;
            match self.filling.work_off(backlog, &mut go_on).await {
                Ok(()) => {
                    self.note(0, &instance).await;
                    break;
                }
                // The file may have been deleted under our hands: a new one is fed from the start.
                Err(_) if attempt == 0 => self.filling.forget(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the last look found logs that are not indexed yet.
    pub async fn is_behind(&self) -> bool {
        self.looked
            .lock()
            .await
            .as_ref()
            .is_none_or(|looked| looked.behind > 0)
    }

    async fn note(&self, behind: usize, instance: &str) {
        *self.looked.lock().await = Some(Looked {
            at: Instant::now(),
            behind,
            instance: instance.to_owned(),
        });
    }

    /// Brings in what is cheap to bring in; says whether more is missing.
    async fn refresh(&self) -> Result<bool, QueryError> {
        let instance = self.filling.look().await?;
        let known = self.looked.lock().await.clone();
        let backlog = match known.filter(|looked| looked.instance == instance) {
            // Somebody is at it, and is not waited for: what is there answers, and says so.
            Some(looked) if looked.behind > SMALL_BACKLOG => return Ok(true),
            // Somebody just was: only what live sessions said since is looked at.
            Some(looked) if looked.at.elapsed() < FRESH => self.filling.live_backlog().await?,
            _ => {
                let backlog = self.filling.backlog().await?;
                self.note(backlog.len(), backlog.instance()).await;
                backlog
            }
        };
        if backlog.len() > SMALL_BACKLOG {
            return Ok(true);
        }
        self.filling.work_off(backlog, |_| true).await?;
        let mut looked = self.looked.lock().await;
        if let Some(looked) = looked.as_mut().filter(|l| l.behind <= SMALL_BACKLOG) {
            looked.behind = 0;
        }
        Ok(looked.as_ref().is_none_or(|looked| looked.behind > 0))
    }

    /// The best hits.
    ///
    /// # Errors
    /// `INVALID_QUERY`, `INVALID_LIMIT`, `INVALID_CURSOR`, `STALE_CURSOR`, and `INDEX_FAILED` when
    /// the index cannot be used.
    pub async fn search(&self, request: &SearchRequest) -> Result<FoundPage, QueryError> {
        match self.search_once(request).await {
            Err(QueryError::Index(error)) => {
                tracing::debug!(%error, "the search index is looked at anew");
                self.filling.forget();
                *self.looked.lock().await = None;
                self.search_once(request).await
            }
            answer => answer,
        }
    }

    async fn search_once(&self, request: &SearchRequest) -> Result<FoundPage, QueryError> {
        let phrases = phrases_of(&request.query)?;
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(QueryError::InvalidLimit { max: MAX_LIMIT });
        }
        let indexing = self.refresh().await?;
        let index = Arc::clone(self.filling.index());
        let generation = blocking(move || index.generation()).await?;
        let fingerprint = fingerprint(request);
        let offset = match &request.cursor {
            None => 0,
            Some(text) => {
                let cursor = read_cursor(text, fingerprint)?;
                if cursor.generation != generation.0 {
                    return Err(QueryError::StaleCursor);
                }
                cursor.offset
            }
        };
        if phrases.is_empty() {
            return Ok(FoundPage {
                items: Vec::new(),
                next_cursor: None,
                indexing,
            });
        }
        let query = IndexQuery {
            phrases: phrases.clone(),
            types: request.types.clone(),
            standings: request.standings.clone(),
            sessions: request.sessions.clone(),
            seqs: request.seqs.clone(),
            times: request.times.clone(),
            one_per_session: request.one_per_session,
            offset,
            limit: limit + 1,
        };
        let index = Arc::clone(self.filling.index());
        let mut hits = blocking(move || index.search(&query)).await?;
        let more = hits.len() > limit;
        hits.truncate(limit);
        let phrases: Arc<[Phrase]> = phrases.into();
        let items = futures_util::stream::iter(hits)
            .map(|hit| self.shown(hit, Arc::clone(&phrases)))
            .buffered(READ_AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await;
        let next_cursor = more.then(|| {
            let cursor = Cursor {
                version: 1,
                request: fingerprint,
                generation: generation.0,
                offset: offset + limit,
            };
            URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
        });
        Ok(FoundPage {
            items,
            next_cursor,
            indexing,
        })
    }

    /// A hit as it is shown; `None` when its event says something else.
    async fn shown(&self, hit: IndexHit, phrases: Arc<[Phrase]>) -> Option<Found> {
        let view = self.store.view(&hit.session).await.ok()?;
        let read = tokio::task::spawn_blocking(move || {
            let range = hit.seq.offset_before()..hit.seq.offset_after();
            let event = view.events(range).ok()?.into_iter().next()?;
            let text = text_of(&event).filter(|_| *event.event_type() == hit.event_type)?;
            let matches = words::find(&text, &phrases);
            (!matches.is_empty()).then(|| Found {
                session: hit.session,
                seq: hit.seq,
                event_type: hit.event_type,
                time: event.time(),
                standing: hit.standing,
                snippet: snippet(&text, &matches, SNIPPET_CHARS),
            })
        });
        // A panic was reported where it happened; the hit is lost, the search goes on.
        read.await.ok().flatten()
    }
}

/// The phrases of a question; none when it holds no word at all.
fn phrases_of(query: &str) -> Result<Vec<Phrase>, QueryError> {
    if query.contains('\0') {
        let why = "contains a NUL character";
        return Err(QueryError::InvalidQuery { why });
    }
    if query.trim().is_empty() {
        return Err(QueryError::InvalidQuery { why: "is empty" });
    }
    Ok(words::of_query(query))
}

/// Tells requests apart: a cursor continues the one that it came from.
fn fingerprint(request: &SearchRequest) -> u32 {
    let asked = SearchRequest {
        cursor: None,
        limit: None,
        ..request.clone()
    };
    crc32fast::hash(format!("{asked:?}").as_bytes())
}

fn read_cursor(text: &str, fingerprint: u32) -> Result<Cursor, QueryError> {
    let invalid = QueryError::InvalidCursor;
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(text) else {
        return Err(invalid);
    };
    match serde_json::from_slice::<Cursor>(&bytes) {
        Ok(cursor) if cursor.version == 1 && cursor.request == fingerprint => Ok(cursor),
        _ => Err(invalid),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, QueryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(IndexError(error.to_string()).into()),
    }
}
