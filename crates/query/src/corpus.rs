//! The corpus: all sessions, live and on disk, as one body of logs (`subagent.md` 3.1 to 3.4).
//!
//! Live wins over disk, silently and for its own id only (decision D13). Asking about a live session
//! never touches the disk for more than the events that memory has let go of. Nothing here writes,
//! and nothing wakes a session.
//!
//! Each call takes a token by which its caller may take it back: nothing new is started then, what
//! was started is waited for, and the answer is `SESSION_QUERY_ABORTED`.

pub mod events;
pub mod family;
pub mod filter;
pub mod lease;
pub mod lineage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt as _;
use orrery_projection::Registry;
use orrery_projection::checkpoint::CheckpointStore;
use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};
use orrery_storage::Store;
use tokio_util::sync::CancellationToken;

use crate::error::QueryError;
use crate::live::LiveSessions;
use filter::SessionFilter;
pub use lease::{Lease, Projections};

/// How many logs are read at once for one call.
const READ_AT_ONCE: usize = 4;

/// One session of the corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its header.
    pub header: SessionHeader,
    /// Its exact inherited cut.
    pub inherited: SessionLogOffset,
    /// Whether it is live in this process.
    pub live: bool,
    /// Whether its log lies on disk.
    pub persisted: bool,
}

/// A whole session, as one reader sees it.
#[derive(Debug, Clone)]
pub struct WholeSession {
    /// The header.
    pub header: SessionHeader,
    /// The exact inherited cut.
    pub inherited: SessionLogOffset,
    /// Every event; an interrupted turn is closed in memory.
    pub events: Vec<SharedEvent>,
}

/// A title that was looked up.
#[derive(Debug)]
pub struct TitleAnswer {
    /// The session.
    pub id: SessionId,
    /// Its title, or none; or why it cannot be told.
    pub title: Result<Option<String>, QueryError>,
}

/// All sessions. Copies share everything.
#[derive(Debug, Clone)]
pub struct Corpus {
    store: Store,
    registry: Arc<Registry>,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    live: Arc<dyn LiveSessions>,
}

/// Fails once the caller has taken its question back.
fn still_wanted(signal: &CancellationToken) -> Result<(), QueryError> {
    if signal.is_cancelled() {
        Err(QueryError::Aborted)
    } else {
        Ok(())
    }
}

impl Corpus {
    /// Reads nothing yet.
    pub fn new(
        store: Store,
        registry: Arc<Registry>,
        checkpoints: Option<Arc<dyn CheckpointStore>>,
        live: Arc<dyn LiveSessions>,
    ) -> Self {
        Self {
            store,
            registry,
            checkpoints,
            live,
        }
    }

    /// All sessions: the newest first, ties by id.
    ///
    /// # Errors
    /// `PERSISTENCE_FAILED` when the sessions root cannot be read. One bad log is left out; the list
    /// of storage's diagnostics has it (decision D7).
    pub async fn list_sessions(
        &self,
        signal: &CancellationToken,
    ) -> Result<Vec<SessionRecord>, QueryError> {
        let mut records: Vec<SessionRecord> = self.records(signal).await?.into_values().collect();
        records.sort_by(|a, b| {
            let newest = b.header.created_at.cmp(&a.header.created_at);
            newest.then_with(|| a.header.id.cmp(&b.header.id))
        });
        Ok(records)
    }

    /// The sessions that pass all filters, in the order of [`Corpus::list_sessions`].
    ///
    /// # Errors
    /// `INVALID_FILTER`, and those of the list.
    pub async fn filter_sessions(
        &self,
        filters: &[SessionFilter],
        signal: &CancellationToken,
    ) -> Result<Vec<SessionRecord>, QueryError> {
        for filter in filters {
            filter.check()?;
        }
        let mut records = self.list_sessions(signal).await?;
        records.retain(|record| filters.iter().all(|filter| filter.passes(record)));
        Ok(records)
    }

    /// All sessions by id.
    async fn records(
        &self,
        signal: &CancellationToken,
    ) -> Result<BTreeMap<SessionId, SessionRecord>, QueryError> {
        still_wanted(signal)?;
        let catalogue = self.store.catalogue().await.map_err(QueryError::Storage)?;
        still_wanted(signal)?;
        let stored = catalogue.entries().map(|entry| SessionRecord {
            header: entry.header.clone(),
            inherited: entry.inherited,
            live: false,
            persisted: true,
        });
        let mut records: BTreeMap<SessionId, SessionRecord> = stored
            .map(|record| (record.header.id.clone(), record))
            .collect();
        for log in self.live.all() {
            let id = log.header().id.clone();
            let record = SessionRecord {
                header: log.header().clone(),
                inherited: log.inherited(),
                live: true,
                persisted: records.contains_key(&id),
            };
            records.insert(id, record);
        }
        Ok(records)
    }

    /// Observes one session: what the answer shows stays as it was.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `CORRUPT_SESSION`, `SOURCE_CONFLICT`, `PERSISTENCE_FAILED`.
    pub async fn observe(
        &self,
        id: &SessionId,
        projections: Projections<'_>,
        signal: &CancellationToken,
    ) -> Result<Lease, QueryError> {
        still_wanted(signal)?;
        let lease = match self.live.get(id) {
            Some(log) => Lease::live(log, self.store.clone(), projections),
            None => {
                let (registry, checkpoints) = (&self.registry, self.checkpoints.as_ref());
                let read = Lease::stored(&self.store, registry, checkpoints, id, projections).await;
                // Who came to life while its log was read is preferred.
                match self.live.get(id) {
                    Some(log) => Lease::live(log, self.store.clone(), projections),
                    None => read?,
                }
            }
        };
        still_wanted(signal)?;
        Ok(lease)
    }

    /// Reads a session whole.
    ///
    /// # Errors
    /// Those of [`Corpus::observe`].
    pub async fn read_session(
        &self,
        id: &SessionId,
        signal: &CancellationToken,
    ) -> Result<WholeSession, QueryError> {
        let lease = self.observe(id, Projections::None, signal).await?;
        let events = lease.events(SessionLogOffset::ZERO..lease.end()).await?;
        still_wanted(signal)?;
        Ok(WholeSession {
            header: lease.header().clone(),
            inherited: lease.inherited(),
            events,
        })
    }

    /// The titles of some sessions, each once, in the order in which the ids first occur; a session
    /// that cannot be read does not hide the others.
    ///
    /// # Errors
    /// `ABORTED` only.
    pub async fn read_titles(
        &self,
        ids: &[SessionId],
        signal: &CancellationToken,
    ) -> Result<Vec<TitleAnswer>, QueryError> {
        let mut seen = HashSet::new();
        let wanted: Vec<SessionId> = ids.iter().filter(|id| seen.insert(*id)).cloned().collect();
        let answers: Vec<TitleAnswer> = futures_util::stream::iter(wanted)
            .map(|id| async move {
                let title = self.read_title(&id, signal).await;
                TitleAnswer { id, title }
            })
            .buffered(READ_AT_ONCE)
            .collect()
            .await;
        still_wanted(signal)?;
        Ok(answers)
    }

    /// One session's title.
    ///
    /// # Errors
    /// Those of [`Corpus::observe`].
    pub async fn read_title(
        &self,
        id: &SessionId,
        signal: &CancellationToken,
    ) -> Result<Option<String>, QueryError> {
        const TITLE: &[&str] = &["title"];
        let lease = self.observe(id, Projections::Keys(TITLE), signal).await?;
        let value = lease
            .projections()
            .and_then(|snapshot| snapshot.values.get("title"));
        Ok(value.and_then(|title| title.parse::<Option<String>>().ok().flatten()))
    }
}
