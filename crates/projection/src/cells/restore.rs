//! Checkpoints of cells, and cells from checkpoints: the arithmetic of `subagent.md` 1.6.
//!
//! A row stands for everything up to its seq; what is folded on top of it is the log behind. Rows
//! that cannot be used cost a fold from the first event, never a wrong value.

use std::collections::BTreeMap;

use orrery_session::{
    Json, SessionHeader, SessionLogOffset, SessionSeq, SessionSeqCursor, SharedEvent,
};

use super::{Cells, Snapshot};
use crate::checkpoint::{Checkpoint, CheckpointRow};
use crate::registry::Registry;
use crate::unit::ErasedUnit;

/// A unit's state cannot be kept: a fault of the unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the state of projection {key:?} does not survive JSON unchanged")]
pub struct StateNotJson {
    /// The unit.
    pub key: &'static str,
}

/// Why cells cannot be had from a checkpoint and the end of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A unit needs events from before those supplied.
    #[error("projection {key:?} has no row to start from; read the log again from seq 0")]
    NeedsWhole {
        /// The unit.
        key: &'static str,
    },
    /// A row of the right version holds no state of the unit.
    #[error(
        "the kept state of projection {key:?} is damaged; read the log again from seq 0, without the checkpoint"
    )]
    Damaged {
        /// The unit.
        key: &'static str,
    },
}

/// The end of a log, as far as it was read for a fold.
#[derive(Debug, Clone, Copy)]
pub struct Tail<'a> {
    /// Every event that matters from this boundary on is among the events.
    pub base: SessionLogOffset,
    /// The boundary behind the log's last event.
    pub end: SessionLogOffset,
    /// The events, in order; those that no unit listens to may be left out.
    pub events: &'a [SharedEvent],
}

impl Tail<'_> {
    /// Whether a row that stands at `seq` can be folded on from here. One past the end means that
    /// the log shrank.
    fn reaches(&self, seq: SessionSeqCursor) -> bool {
        self.base.cursor() <= seq && seq <= self.end.cursor()
    }
}

fn usable<'a>(unit: &dyn ErasedUnit, rows: &'a Checkpoint) -> Option<&'a CheckpointRow> {
    rows.get(unit.key())
        .filter(|row| row.ver == unit.state_version())
}

impl Registry {
    /// From which boundary a log has to be read so that these units can be folded on from `rows`:
    /// one event below the first that is missing, so that an empty tail still proves the log's end.
    /// `None` when none of the units is registered.
    pub fn restore_floor(&self, rows: &Checkpoint, keys: &[&str]) -> Option<SessionLogOffset> {
        let units = self.units();
        let needs = units.iter().filter(|unit| keys.contains(&unit.key()));
        needs
            .map(|unit| {
                usable(unit.as_ref(), rows).map_or(SessionLogOffset::ZERO, |row| row.seq.offset())
            })
            .min()
            .map(|need| need.last_seq().map_or(need, SessionSeq::offset_before))
    }

    /// Whether rows hold a state of each of these units, as it is at a boundary, in the version that
    /// is registered.
    pub fn holds_all(&self, rows: &Checkpoint, keys: &[&str], end: SessionLogOffset) -> bool {
        let units = self.units();
        keys.iter().all(|key| {
            let unit = units.iter().find(|unit| unit.key() == *key);
            unit.is_none_or(|unit| {
                usable(unit.as_ref(), rows).is_some_and(|row| row.seq.offset() == end)
            })
        })
    }

    /// The views of rows alone, without the log: what can be served of `keys`, at the lowest
    /// watermark among it; `None` when nothing can.
    pub fn view_checkpoint(&self, rows: &Checkpoint, keys: &[&str]) -> Option<Snapshot> {
        let mut values = BTreeMap::new();
        let mut as_of: Option<SessionSeqCursor> = None;
        for unit in self.units() {
            let key = unit.key();
            let Some(row) = usable(unit.as_ref(), rows).filter(|_| keys.contains(&key)) else {
                continue;
            };
            let viewed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                unit.view(&unit.decode(&row.val)?)
            }));
            if let Ok(Some(view)) = viewed {
                values.insert(key, view);
                as_of = Some(as_of.map_or(row.seq, |lowest| lowest.min(row.seq)));
            }
        }
        as_of.map(|as_of_seq| Snapshot { as_of_seq, values })
    }
}

impl Cells {
    /// The states of all units, host-only ones included; poisoned ones are left out.
    ///
    /// # Errors
    /// When a state is no JSON.
    pub fn checkpoint(&self) -> Result<Checkpoint, StateNotJson> {
        let mut rows = Checkpoint::new();
        for cell in self.present() {
            let Some(state) = &cell.state else { continue };
            let key = cell.unit.key();
            let val: Json = cell.unit.encode(state).ok_or(StateNotJson { key })?;
            let row = CheckpointRow {
                ver: cell.unit.state_version(),
                seq: cell.observed,
                val,
            };
            rows.insert(key.to_owned(), row);
        }
        Ok(rows)
    }

    /// Cells of these units at the end of a log, from rows and the log's tail.
    ///
    /// # Errors
    /// When the tail is too short for a unit, or a row is damaged: read the whole log, without rows.
    pub fn restore(
        registry: &Registry,
        keys: &[&str],
        header: &SessionHeader,
        inherited: SessionLogOffset,
        rows: &Checkpoint,
        tail: Tail<'_>,
    ) -> Result<Self, RestoreError> {
        let mut cells = Self::selected(registry, keys, header, inherited);
        cells.hydrate(rows, tail)?;
        Ok(cells)
    }

    /// Brings these cells to the end of a log, from rows and the log's tail. A cell that is ahead of
    /// its row keeps its own state.
    ///
    /// # Errors
    /// When the tail is too short for a unit, or a row is damaged. The cells are then as before.
    pub fn hydrate(&mut self, rows: &Checkpoint, tail: Tail<'_>) -> Result<(), RestoreError> {
        self.keep_up();
        let mut states = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let key = cell.unit.key();
            let row = usable(cell.unit.as_ref(), rows)
                .filter(|row| tail.reaches(row.seq) && row.seq >= cell.observed);
            states.push(match row {
                Some(row) => {
                    let damaged = || RestoreError::Damaged { key };
                    let state = cell.unit.decode(&row.val).ok_or_else(damaged)?;
                    Some((state, row.seq))
                }
                None if cell.observed >= tail.base.cursor() => None,
                None => return Err(RestoreError::NeedsWhole { key }),
            });
        }
        for (cell, known) in self.cells.iter_mut().zip(states) {
            if let Some((state, seq)) = known {
                cell.state = Some(state);
                cell.observed = seq;
            }
        }
        self.feed(tail.events);
        self.advance_to(tail.end);
        Ok(())
    }
}
