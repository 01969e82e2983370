//! Folding a cold log: from its checkpoint where there is one, decoding only the frames that hold
//! what the wanted units listen to (decisions D3, D10, `subagent.md` 1.6 and 2.5).

use orrery_projection::cells::restore::Tail;
use orrery_projection::checkpoint::{Checkpoint, CheckpointIdentity, CheckpointRecord};
use orrery_projection::units::{ListMetadata, ListMetadataState};
use orrery_projection::{Cells, Registry, Unit};
use orrery_session::{SessionLogOffset, SharedEvent};
use orrery_storage::{LogView, StorageError};

/// Which projections are folded of a cold log.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Those that are read for.
    pub always: &'a [&'static str],
    /// Those whose state is the initial one unless messages wait, which the log's index knows.
    pub while_queued: &'a [&'static str],
    /// Those whose state is the initial one unless questions are undecided, which it knows too.
    pub while_asking: &'a [&'static str],
}

impl<'a> Wanted<'a> {
    /// These keys, whatever the index knows.
    pub const fn only(keys: &'a [&'static str]) -> Self {
        Self {
            always: keys,
            while_queued: &[],
            while_asking: &[],
        }
    }

    /// All keys.
    pub fn keys(&self) -> Vec<&'static str> {
        [self.always, self.while_queued, self.while_asking].concat()
    }
}

/// The wanted projections of a cold log.
#[derive(Debug)]
pub struct Folded {
    /// At the log's end, an interrupted turn closed.
    pub cells: Cells,
    /// At the end of what lies on disk: what may be kept. `None` where a state is no JSON.
    pub stored: Option<Checkpoint>,
}

/// Folds the wanted projections of a log. A record of another log, or one that cannot be used, costs
/// the reading that it would have saved.
///
/// # Errors
/// When a needed frame is damaged, or an event that may not be skipped is of an unknown type.
pub fn fold(
    registry: &Registry,
    wanted: &Wanted<'_>,
    view: &LogView,
    record: Option<&CheckpointRecord>,
) -> Result<Folded, StorageError> {
    let facts = view.facts();
    if facts.required_unknown {
        return Err(StorageError::Unsupported {
            path: view.path().to_owned(),
            why: "it holds events of a type that a newer build knows".to_owned(),
        });
    }
    let mut settled = vec![Unit::key(&ListMetadata)];
    if facts.queued == 0 && facts.steering == 0 {
        settled.extend(wanted.while_queued);
    }
    if facts.pending_approvals == 0 {
        settled.extend(wanted.while_asking);
    }
    let keys = wanted.keys();
    let read: Vec<&str> = keys
        .iter()
        .copied()
        .filter(|key| !settled.contains(key))
        .collect();
    let identity = CheckpointIdentity::of(view.header(), view.inherited());
    let mut rows = record
        .filter(|record| record.identity == identity)
        .map(|record| record.rows.clone())
        .unwrap_or_default();
    // What the index says needs no row.
    rows.retain(|key, _| read.contains(&key.as_str()));
    let stored_end = view.stored_end();
    let fresh = || {
        let mut cells = Cells::selected(registry, &keys, view.header(), view.inherited());
        let metadata = ListMetadataState {
            blank: facts.blank,
            last_prompt_at: facts.last_prompt_at,
        };
        cells.install(&ListMetadata, metadata);
        for key in &settled {
            cells.settle(key, stored_end);
        }
        cells
    };
    let types = registry.event_types(&read);
    let mut cells = fresh();
    let mut closers = None;
    for rows in [rows, Checkpoint::new()] {
        let base = registry
            .restore_floor(&rows, &read)
            .unwrap_or(SessionLogOffset::ZERO)
            .min(stored_end);
        let mut events = view.events_of_within(&types, base..view.end())?;
        let stored =
            events.partition_point(|event: &SharedEvent| event.seq().offset_before() < stored_end);
        let added = events.split_off(stored);
        let tail = Tail {
            base,
            end: stored_end,
            events: &events,
        };
        match cells.hydrate(&rows, tail) {
            Ok(()) => {
                closers = Some(added);
                break;
            }
            Err(error) => {
                let session = &view.header().id;
                tracing::debug!(%session, %error, "the log is read again from its start");
                cells = fresh();
            }
        }
    }
    let stored = cells.checkpoint().ok();
    cells.feed(&closers.unwrap_or_default());
    cells.advance_to(view.end());
    Ok(Folded { cells, stored })
}
