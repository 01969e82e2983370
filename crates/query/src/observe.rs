//! Observations: a cold log as a reader sees it, folded, with an interrupted turn closed in memory
//! (`session.md` 2.11 and 2.12, `subagent.md` 3.4).
//!
//! The last few are kept, each valid as long as the file's revision stands. Observers of one
//! session at one time share one read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use orrery_projection::checkpoint::{CheckpointRecord, CheckpointStore};
use orrery_projection::{Cells, Registry};
use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};
use orrery_storage::store::blocking;
use orrery_storage::{LogView, Revision, Store};
use tokio::sync::OnceCell;

use crate::error::QueryError;
use crate::fold::{Wanted, fold};
use crate::page::{Page, tail_page_of};

/// How many observations are kept.
const KEPT: usize = 5;

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
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    wanted: Wanted<'static>,
    /// Most recently used first.
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

impl Observations {
    /// No observations yet. Folds go on from `checkpoints` where there are any.
    pub fn new(
        store: Store,
        registry: Arc<Registry>,
        checkpoints: Option<Arc<dyn CheckpointStore>>,
        wanted: Wanted<'static>,
    ) -> Self {
        Self {
            store,
            registry,
            checkpoints,
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
        let checkpoints = self.checkpoints.clone();
        let folded = blocking(move || {
            let record = checkpoints.and_then(|store| kept(store.as_ref(), &read.header().id));
            fold(&registry, &wanted, &read, record.as_ref())
        });
        let cells = folded.await.map_err(failed)?.cells;
        Ok(Arc::new(Observation { view, cells }))
    }
}

/// A session's record; a store that fails costs time only.
fn kept(store: &dyn CheckpointStore, id: &SessionId) -> Option<CheckpointRecord> {
    store.load(id).unwrap_or_else(|error| {
        tracing::warn!(session = %id, %error, "folding without checkpoints");
        None
    })
}
