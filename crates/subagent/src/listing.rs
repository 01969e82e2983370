//! The list of subagents (`subagent.md` 5): who they are, from the cheapest source that knows.
//!
//! A ladder of three rungs. A live child is asked for the state of its `subagent` unit: no log is
//! read. A cold one that inherited nothing is answered from its checkpoint, where that names it. Any
//! other is observed once, reading the frames that hold descriptors and nothing else (decision D14).
//! The list writes nothing and remembers nothing (decision D15): what could not be read is tried
//! again by the next one.
//!
//! It knows no provider and no agent: children of a provider that is gone stay listed.

mod error;
mod ladder;
mod row;
#[cfg(test)]
mod tests;
mod tree;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_projection::Registry;
use orrery_projection::checkpoint::CheckpointStore;
use orrery_query::{Corpus, LiveSessions};
use orrery_session::{Origin, SessionId};
use tokio_util::sync::CancellationToken;

pub use error::ListError;
use ladder::Ladder;
pub use row::{Activity, ChildRow, Descendant, Reason, Row};

/// What a list is made from. A service that is missing gives its error, except for the checkpoints,
/// without which a list only takes longer (`subagent.md` 5.1).
#[derive(Debug, Clone)]
pub struct Services {
    /// The projection units.
    pub projections: Option<Arc<Registry>>,
    /// The sessions that are live here.
    pub sessions: Option<Arc<dyn LiveSessions>>,
    /// All sessions.
    pub corpus: Option<Corpus>,
    /// What is kept of cold ones.
    pub checkpoints: Option<Arc<dyn CheckpointStore>>,
    /// How many cold logs are read at once; `session.cold_read_concurrency`.
    pub cold_reads: NonZeroUsize,
}

/// What listing has cost since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListingCost {
    /// Lists that were begun.
    pub lists: u64,
    /// Children answered by their live state.
    pub from_live: u64,
    /// Children answered from a checkpoint.
    pub from_checkpoints: u64,
    /// Logs that were observed.
    pub observations: u64,
}

#[derive(Debug, Default)]
struct Counters {
    lists: AtomicU64,
    from_live: AtomicU64,
    from_checkpoints: AtomicU64,
    observations: AtomicU64,
}

/// Lists subagents. Copies share everything.
#[derive(Debug, Clone)]
pub struct Lister {
    services: Services,
    counters: Arc<Counters>,
}

/// A list, and whether its parent is there.
#[derive(Debug)]
pub struct Listed<R> {
    /// The rows.
    pub rows: Vec<R>,
    /// Whether there is such a session, live or on disk; a list of an unknown one is empty.
    pub parent_known: bool,
}

impl Lister {
    /// Reads nothing yet.
    pub fn new(services: Services) -> Self {
        Self {
            services,
            counters: Arc::default(),
        }
    }

    /// What listing has cost so far.
    pub fn cost(&self) -> ListingCost {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ListingCost {
            lists: read(&self.counters.lists),
            from_live: read(&self.counters.from_live),
            from_checkpoints: read(&self.counters.from_checkpoints),
            observations: read(&self.counters.observations),
        }
    }

    /// The direct children of a session, the oldest first.
    ///
    /// # Errors
    /// A service that is missing, `CANCELLED`, and what enumerating the sessions failed with. What
    /// is wrong with one child is its row (`subagent.md` 5.7).
    pub async fn children(
        &self,
        parent: &SessionId,
        signal: &CancellationToken,
    ) -> Result<Listed<Row>, ListError> {
        let ladder = self.ladder(signal)?;
        let family = ladder.family().await?;
        let candidates = family
            .children(parent)
            .into_iter()
            .filter(|member| member.header.origin == Some(Origin::Subagent))
            .collect();
        let rows = ladder.rows(&family, candidates).await?;
        Ok(Listed {
            rows: rows.into_iter().flatten().collect(),
            parent_known: family.knows(parent),
        })
    }

    /// All subagents below a session, parents before their children.
    ///
    /// # Errors
    /// Those of [`Lister::children`].
    pub async fn descendants(
        &self,
        root: &SessionId,
        signal: &CancellationToken,
    ) -> Result<Listed<Descendant>, ListError> {
        let ladder = self.ladder(signal)?;
        let family = ladder.family().await?;
        let (places, candidates) = tree::below(&family, root).into_iter().unzip();
        let rows = ladder.rows(&family, candidates).await?;
        let places: Vec<tree::Place> = places;
        let rows = places.into_iter().zip(rows).filter_map(|(place, row)| {
            Some(Descendant {
                row: row?,
                parent: place.parent,
                depth: place.depth,
            })
        });
        Ok(Listed {
            rows: rows.collect(),
            parent_known: family.knows(root),
        })
    }

    /// The services in the order in which a missing one is told of (`subagent.md` 5.1).
    fn ladder<'a>(&'a self, signal: &'a CancellationToken) -> Result<Ladder<'a>, ListError> {
        let services = &self.services;
        let registry = services.projections.as_deref();
        let registry = registry.ok_or(ListError::ProjectionsUnavailable)?;
        let sessions = services.sessions.as_deref();
        let sessions = sessions.ok_or(ListError::SessionStoreUnavailable)?;
        if signal.is_cancelled() {
            return Err(ListError::Cancelled);
        }
        let corpus = services.corpus.as_ref();
        let corpus = corpus.ok_or(ListError::QueryUnavailable)?;
        self.counters.lists.fetch_add(1, Ordering::Relaxed);
        Ok(Ladder {
            registry,
            sessions,
            corpus,
            checkpoints: services.checkpoints.as_ref(),
            cold_reads: services.cold_reads,
            counters: &self.counters,
            signal,
        })
    }
}
