//! An observation of one session that its holder may keep as long as it likes (`subagent.md` 3.4).
//!
//! Where the log ends is settled when the lease is taken; its events are read when somebody asks for
//! them. Letting go of the lease is all the disposal there is.

use std::ops::Range;
use std::sync::Arc;

use orrery_projection::checkpoint::CheckpointStore;
use orrery_projection::{Registry, Snapshot};
use orrery_session::{
    EventType, SessionHeader, SessionId, SessionLogOffset, SessionSeqCursor, SharedEvent,
};
use orrery_storage::store::blocking;
use orrery_storage::{LogView, Revision, StorageError, Store};

use crate::error::QueryError;
use crate::fold::{Wanted, fold, own_fold};
use crate::live::LiveLog;

/// How often a live log may let go of events while they are being gathered.
const GATHERINGS: usize = 8;

/// Which projections an observation computes.
#[derive(Debug, Clone, Copy)]
pub enum Projections<'a> {
    /// All that clients see. Of a session on disk this may read the whole log.
    All,
    /// None: the log's frame only.
    None,
    /// These, reading the events that they listen to behind what checkpoints hold.
    Keys(&'a [&'static str]),
    /// These, of a session on disk as its own events alone make them: neither what it inherited is
    /// read for them, nor a checkpoint asked. What a live one shows has what it inherited in it.
    Own(&'a [&'static str]),
}

/// What an observation was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseSource {
    /// A session that is live in this process.
    Live,
    /// A log on disk.
    Prepared,
}

#[derive(Debug, Clone)]
enum Source {
    Live { log: Arc<dyn LiveLog>, store: Store },
    Prepared(Arc<LogView>),
}

/// One session at one moment. Copies share it.
#[derive(Debug, Clone)]
pub struct Lease {
    source: Source,
    end: SessionLogOffset,
    projections: Option<Arc<Snapshot>>,
}

impl Lease {
    pub(super) fn live(log: Arc<dyn LiveLog>, store: Store, wanted: Projections<'_>) -> Self {
        let end = log.end();
        let projections = match wanted {
            Projections::None => None,
            Projections::All => Some(log.projections()),
            Projections::Keys(keys) | Projections::Own(keys) => {
                let mut snapshot = log.projections();
                snapshot.values.retain(|key, _| keys.contains(key));
                Some(snapshot)
            }
        };
        Self {
            source: Source::Live { log, store },
            end,
            projections: projections.map(Arc::new),
        }
    }

    pub(super) async fn stored(
        store: &Store,
        registry: &Arc<Registry>,
        checkpoints: Option<&Arc<dyn CheckpointStore>>,
        id: &SessionId,
        wanted: Projections<'_>,
    ) -> Result<Self, QueryError> {
        let failed = |error| QueryError::of_storage(id, error);
        let keys = match wanted {
            Projections::None => Vec::new(),
            Projections::All => registry.view_schemas().into_keys().collect(),
            Projections::Keys(keys) | Projections::Own(keys) => keys.to_vec(),
        };
        let checkpoints = match wanted {
            Projections::Own(_) => None,
            _ => checkpoints.cloned(),
        };
        let own = matches!(wanted, Projections::Own(_));
        let registry = Arc::clone(registry);
        let read = store.look_into(id, move |view| {
            if keys.is_empty() {
                return Ok((Arc::new(view), None));
            }
            let snapshot = if own {
                own_fold(&registry, &keys, &view)?.snapshot_of(&keys)
            } else {
                // A store that fails costs time only.
                let record = checkpoints.and_then(|store| store.load(&view.header().id).ok()?);
                let wanted = Wanted::only(&keys);
                let folded = fold(&registry, &wanted, &view, record.as_ref())?;
                folded.cells.snapshot_of(&keys)
            };
            Ok((Arc::new(view), Some(Arc::new(snapshot))))
        });
        let (view, projections) = read.await.map_err(failed)?;
        Ok(Self {
            end: view.end(),
            source: Source::Prepared(view),
            projections,
        })
    }

    /// What it was made from.
    pub const fn source(&self) -> LeaseSource {
        match self.source {
            Source::Live { .. } => LeaseSource::Live,
            Source::Prepared(_) => LeaseSource::Prepared,
        }
    }

    /// The header.
    pub fn header(&self) -> &SessionHeader {
        match &self.source {
            Source::Live { log, .. } => log.header(),
            Source::Prepared(view) => view.header(),
        }
    }

    /// The exact inherited cut.
    pub fn inherited(&self) -> SessionLogOffset {
        match &self.source {
            Source::Live { log, .. } => log.inherited(),
            Source::Prepared(view) => view.inherited(),
        }
    }

    /// The boundary behind the last event, closers of an interrupted turn included.
    pub const fn end(&self) -> SessionLogOffset {
        self.end
    }

    /// The last event; -1 for none.
    pub fn cursor(&self) -> SessionSeqCursor {
        self.end.cursor()
    }

    /// Which state of the file it was made from; `None` of a live session.
    pub fn revision(&self) -> Option<Revision> {
        match &self.source {
            Source::Live { .. } => None,
            Source::Prepared(view) => Some(view.revision()),
        }
    }

    /// The projections that were asked for.
    pub fn projections(&self) -> Option<&Snapshot> {
        self.projections.as_deref()
    }

    /// The events of a range, no further than the lease reaches.
    ///
    /// # Errors
    /// When a needed frame is damaged, or the log changed under the hands of a live session.
    pub async fn events(
        &self,
        range: Range<SessionLogOffset>,
    ) -> Result<Vec<SharedEvent>, QueryError> {
        let range = range.start..range.end.min(self.end);
        let read = match &self.source {
            Source::Prepared(view) => {
                let view = Arc::clone(view);
                blocking(move || view.events(range)).await
            }
            Source::Live { log, store } => live_events(log.as_ref(), store, range).await,
        };
        read.map_err(|error| QueryError::of_storage(&self.header().id, error))
    }

    /// The events of these types, in order.
    ///
    /// # Errors
    /// Those of [`Lease::events`].
    pub async fn events_of(
        &self,
        types: &'static [EventType],
    ) -> Result<Vec<SharedEvent>, QueryError> {
        match &self.source {
            Source::Prepared(view) => {
                let view = Arc::clone(view);
                let read = blocking(move || {
                    let types: Vec<&EventType> = types.iter().collect();
                    view.events_of(&types)
                });
                let read = read.await;
                read.map_err(|error| QueryError::of_storage(&self.header().id, error))
            }
            Source::Live { .. } => {
                let mut events = self.events(SessionLogOffset::ZERO..self.end).await?;
                events.retain(|event| types.contains(event.event_type()));
                Ok(events)
            }
        }
    }
}

/// Events of a live log: the newest from memory, the rest from disk.
async fn live_events(
    log: &dyn LiveLog,
    store: &Store,
    range: Range<SessionLogOffset>,
) -> Result<Vec<SharedEvent>, StorageError> {
    let wanted = range.end.index().saturating_sub(range.start.index());
    for _ in 0..GATHERINGS {
        let held_from = log
            .held_from()
            .clamp(range.start, range.end.max(range.start));
        let mut events = if held_from > range.start {
            let view = store.view(&log.header().id).await?;
            let old = range.start..held_from;
            blocking(move || view.events(old)).await?
        } else {
            Vec::new()
        };
        events.extend(log.held(held_from..range.end));
        if events.len() == wanted {
            return Ok(events);
        }
        // It let go of some between the two looks: those are on disk now.
    }
    let path = store.root().to_owned();
    let why = "the session moved on while it was read; try again".to_owned();
    Err(StorageError::Changed { path, why })
}
