//! Observations: a cold log as a reader sees it, folded, with an interrupted turn closed in memory
//! (`session.md` 2.11 and 2.12, `subagent.md` 3.4).
//!
//! The last few are kept, each valid as long as the file's revision stands. Observers of one
//! session at one time share one read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use orrery_projection::{Cells, Registry};
use orrery_session::repair::closers;
use orrery_session::{
    ConstructError, SessionHeader, SessionId, SessionLog, SessionLogOffset, SharedEvent, Vocabulary,
};
use orrery_storage::{Revision, StorageError, Store};
use tokio::sync::OnceCell;

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

    fn of_log(id: &SessionId, error: &ConstructError) -> Self {
        Self::Corrupt {
            id: id.clone(),
            why: error.to_string(),
        }
    }
}

/// A cold session at one revision.
#[derive(Debug)]
pub struct Observation {
    /// The header.
    pub header: SessionHeader,
    /// The exact inherited cut.
    pub inherited: SessionLogOffset,
    /// All events, closers of an interrupted turn included.
    pub events: Vec<SharedEvent>,
    /// All projections at the end of the events.
    pub cells: Cells,
    /// Which state of the file this is.
    pub revision: Revision,
}

impl Observation {
    /// The boundary behind the last event.
    pub fn end(&self) -> SessionLogOffset {
        SessionLogOffset::of_len(self.events.len())
    }
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
    vocabulary: Vocabulary,
    /// Most recently used first.
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

impl Observations {
    /// No observations yet.
    pub fn new(store: Store, registry: Arc<Registry>, vocabulary: Vocabulary) -> Self {
        Self {
            store,
            registry,
            vocabulary,
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
        let stored = self
            .store
            .read(id)
            .await
            .map_err(|error| QueryError::of_storage(id, error))?;
        let (registry, vocabulary) = (Arc::clone(&self.registry), self.vocabulary.clone());
        let id = id.clone();
        let folded = tokio::task::spawn_blocking(move || {
            let mut events = stored.events;
            let added = closers(&events).map_err(|e| QueryError::Corrupt {
                id: id.clone(),
                why: e.to_string(),
            })?;
            events.extend(added);
            let log = SessionLog::read(stored.header, events, stored.inherited, vocabulary)
                .map_err(|error| QueryError::of_log(&id, &error))?;
            let header = log.header().clone();
            let inherited = log.inherited_event_count();
            let mut cells = Cells::new(&registry, &header, inherited);
            cells.feed(log.events());
            let events = log.events().to_vec();
            let revision = stored.revision;
            Ok(Arc::new(Observation {
                header,
                inherited,
                events,
                cells,
                revision,
            }))
        });
        match folded.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_cancelled) => Err(QueryError::Storage(StorageError::Closed)),
        }
    }
}
