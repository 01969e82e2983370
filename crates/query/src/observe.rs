//! Observations: a cold log as a reader sees it, folded, with an interrupted turn closed in memory
//! (`session.md` 2.11 and 2.12, `subagent.md` 3.4).
//!
//! The last few are kept, each valid as long as the file's revision stands. Observers of one
//! session at one time share one read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use orrery_projection::units::{ListMetadata, ListMetadataState};
use orrery_projection::{Cells, Registry, Unit};
use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};
use orrery_storage::store::blocking;
use orrery_storage::{LogView, Revision, StorageError, Store};
use tokio::sync::OnceCell;

use crate::page::{Page, tail_page_of};

/// How many observations are kept.
const KEPT: usize = 5;

/// Why a session cannot be observed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No such session.
    #[error("no session {id}")]
    NotFound {
        /// The id.
        id: SessionId,
    },
    /// Its log is damaged.
    #[error("session {id} cannot be read: {why}")]
    Corrupt {
        /// The session.
        id: SessionId,
        /// What is wrong.
        why: String,
    },
    /// Storage failed.
    #[error(transparent)]
    Storage(StorageError),
}

impl QueryError {
    /// The stable code (`subagent.md` 3.5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "SESSION_QUERY_SESSION_NOT_FOUND",
            Self::Corrupt { .. } => "SESSION_QUERY_CORRUPT_SESSION",
            Self::Storage(_) => "SESSION_QUERY_PERSISTENCE_FAILED",
        }
    }

    fn of_storage(id: &SessionId, error: StorageError) -> Self {
        match error {
            StorageError::NotFound { id } => Self::NotFound { id },
            StorageError::Corrupt { .. } | StorageError::Unsupported { .. } => Self::Corrupt {
                id: id.clone(),
                why: error.to_string(),
            },
            other if other.is_missing_file() => Self::NotFound { id: id.clone() },
            other => Self::Storage(other),
        }
    }
}

/// Which projections an observation folds: those that are always wanted, and those that matter
/// only when the log's index says that there is something to fold.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Always.
    pub always: &'static [&'static str],
    /// While messages wait.
    pub while_queued: &'static [&'static str],
    /// While questions for approval are undecided.
    pub while_asking: &'static [&'static str],
}

/// A cold session at one revision: read piece by piece, never whole unless somebody asks.
#[derive(Debug)]
pub struct Observation {
    view: Arc<LogView>,
    /// The wanted projections at the end of the log.
    pub cells: Cells,
}

impl Observation {
    /// The header.
    pub fn header(&self) -> &SessionHeader {
        self.view.header()
    }

    /// The exact inherited cut.
    pub fn inherited(&self) -> SessionLogOffset {
        self.view.inherited()
    }

    /// The boundary behind the last event, closers of an interrupted turn included.
    pub fn end(&self) -> SessionLogOffset {
        self.view.end()
    }

    /// The events of a range.
    ///
    /// # Errors
    /// When a needed frame is damaged.
    pub async fn events(
        &self,
        range: Range<SessionLogOffset>,
    ) -> Result<Vec<SharedEvent>, QueryError> {
        let view = Arc::clone(&self.view);
        let read = blocking(move || view.events(range)).await;
        read.map_err(|error| QueryError::of_storage(&self.header().id, error))
    }

    /// The newest messages before a boundary.
    ///
    /// # Errors
    /// When a needed frame is damaged.
    pub async fn page(
        &self,
        end: SessionLogOffset,
        max_messages: usize,
    ) -> Result<Page, QueryError> {
        let view = Arc::clone(&self.view);
        let read = blocking(move || tail_page_of(&view, &[], end, max_messages)).await;
        read.map_err(|error| QueryError::of_storage(&self.header().id, error))
    }
}

/// Folds the wanted projections of a log, decoding only the frames that they need.
///
/// # Errors
/// When a needed frame is damaged, or an event that may not be skipped is of an unknown type.
pub fn fold(registry: &Registry, wanted: &Wanted, view: &LogView) -> Result<Cells, StorageError> {
    let facts = view.facts();
    if facts.required_unknown {
        return Err(StorageError::Unsupported {
            path: view.path().to_owned(),
            why: "it holds events of a type that a newer build knows".to_owned(),
        });
    }
    let mut keys: Vec<&str> = wanted.always.to_vec();
    if facts.queued > 0 || facts.steering > 0 {
        keys.extend(wanted.while_queued);
    }
    if facts.pending_approvals > 0 {
        keys.extend(wanted.while_asking);
    }
    let mut cells = Cells::selected(registry, &keys, view.header(), view.inherited());
    let metadata = ListMetadataState {
        blank: facts.blank,
        last_prompt_at: facts.last_prompt_at,
    };
    cells.install(&ListMetadata, metadata);
    keys.retain(|key| *key != Unit::key(&ListMetadata));
    cells.feed(&view.events_of(&registry.event_types(&keys))?);
    cells.advance_to(view.end());
    Ok(cells)
}

type Shared = Arc<OnceCell<Result<Arc<Observation>, QueryError>>>;

#[derive(Debug)]
struct Kept {
    id: SessionId,
    revision: Revision,
    observation: Shared,
}

/// The observations of one store.
#[derive(Debug, Clone)]
pub struct Observations {
    store: Store,
    registry: Arc<Registry>,
    wanted: Wanted,
    /// Most recently used first.
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

impl Observations {
    /// No observations yet.
    pub fn new(store: Store, registry: Arc<Registry>, wanted: Wanted) -> Self {
        Self {
            store,
            registry,
            wanted,
            kept: Arc::default(),
        }
    }

    /// Observes a session as it lies on disk.
    pub async fn observe(&self, id: &SessionId) -> Result<Arc<Observation>, QueryError> {
        let entry = self
            .store
            .find(id)
            .await
            .map_err(|error| QueryError::of_storage(id, error))?;
        let shared = self.shared(id, entry.revision);
        let result = shared.get_or_init(|| self.read(id)).await.clone();
        if result.is_err() {
            self.forget(id);
        }
        result
    }

    /// The place of an observation, which whoever comes first fills.
    fn shared(&self, id: &SessionId, revision: Revision) -> Shared {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept
            .iter()
            .position(|k| k.id == *id && k.revision == revision);
        let entry = match known.and_then(|at| kept.remove(at)) {
            Some(entry) => entry,
            None => {
                kept.retain(|k| k.id != *id);
                Kept {
                    id: id.clone(),
                    revision,
                    observation: Shared::default(),
                }
            }
        };
        let observation = Arc::clone(&entry.observation);
        kept.push_front(entry);
        kept.truncate(KEPT);
        observation
    }

    fn forget(&self, id: &SessionId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|k| k.id != *id);
    }

    async fn read(&self, id: &SessionId) -> Result<Arc<Observation>, QueryError> {
        let failed = |error| QueryError::of_storage(id, error);
        let view = Arc::new(self.store.view(id).await.map_err(failed)?);
        let (registry, wanted, read) = (Arc::clone(&self.registry), self.wanted, Arc::clone(&view));
        let cells = blocking(move || fold(&registry, &wanted, &read))
            .await
            .map_err(failed)?;
        Ok(Arc::new(Observation { view, cells }))
    }
}
