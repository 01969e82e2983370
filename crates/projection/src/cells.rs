//! The current values of one session: one cell for each unit, driven event by event
//! (`subagent.md` 1.4).
//!
//! The same cells serve a live session, driven by its append path, and a cold one, fed from its
//! log, from its first event or from where a checkpoint stands ([`restore`]).

pub mod restore;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use orrery_session::{Event, Json, SessionHeader, SessionLogOffset, SessionSeq, SessionSeqCursor};
use serde::Serialize;

use crate::registry::Registry;
use crate::unit::{ErasedState, ErasedUnit, Unit, UnitState};

/// A value that clients see has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The unit.
    pub key: &'static str,
    /// Its new view.
    pub value: Json,
    /// The event that changed it.
    pub seq: SessionSeq,
}

/// The views of a session at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The last event that is folded in; -1 for none.
    pub as_of_seq: SessionSeqCursor,
    /// The views by key; host-only and poisoned units are absent.
    pub values: BTreeMap<&'static str, Json>,
}

#[derive(Debug)]
struct Cell {
    unit: Arc<dyn ErasedUnit>,
    /// `None` once the unit has panicked on this session.
    state: Option<ErasedState>,
    /// The last event that is folded in.
    observed: SessionSeqCursor,
}

impl Cell {
    fn new(unit: Arc<dyn ErasedUnit>, header: &SessionHeader, inherited: SessionLogOffset) -> Self {
        // A unit that panics here has no value from the start.
        let state = catch_unwind(AssertUnwindSafe(|| unit.init(header, inherited))).ok();
        Self {
            unit,
            state,
            observed: SessionSeqCursor::START,
        }
    }

    /// Folds an event in; gives the states before and after when it changed something.
    fn apply(&mut self, event: &Event, session: &str) -> Option<(ErasedState, ErasedState)> {
        if !self.unit.event_types().contains(event.event_type()) {
            return None;
        }
        let before = Arc::clone(self.state.as_ref()?);
        let unit = &self.unit;
        match catch_unwind(AssertUnwindSafe(|| unit.apply(&before, event))) {
            Ok(None) => None,
            Ok(Some(after)) => {
                self.state = Some(Arc::clone(&after));
                Some((before, after))
            }
            Err(_panic) => {
                self.poison(session, event.seq());
                None
            }
        }
    }

    /// Reported once: a poisoned cell is never driven again.
    fn poison(&mut self, session: &str, seq: SessionSeq) {
        tracing::error!(
            session,
            unit = self.unit.key(),
            seq = seq.get(),
            "projection unit panicked; its value is dropped for this session"
        );
        self.state = None;
    }

    fn view(&self) -> Option<Json> {
        let state = self.state.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| self.unit.view(state)))
            .ok()
            .flatten()
    }
}

/// One session's cells.
#[derive(Debug)]
pub struct Cells {
    session: String,
    registry: Registry,
    /// The state of the registry that the cells are in step with.
    generation: u64,
    cells: Vec<Cell>,
    observed: SessionSeqCursor,
}

impl Cells {
    /// Cells of all registered units, before any event.
    pub fn new(registry: &Registry, header: &SessionHeader, inherited: SessionLogOffset) -> Self {
        Self::of_units(registry, registry.units(), header, inherited)
    }

    /// Cells of the units with these keys only.
    pub fn selected(
        registry: &Registry,
        keys: &[&str],
        header: &SessionHeader,
        inherited: SessionLogOffset,
    ) -> Self {
        let mut units = registry.units();
        units.retain(|unit| keys.contains(&unit.key()));
        Self::of_units(registry, units, header, inherited)
    }

    fn of_units(
        registry: &Registry,
        units: Vec<Arc<dyn ErasedUnit>>,
        header: &SessionHeader,
        inherited: SessionLogOffset,
    ) -> Self {
        Self {
            session: header.id.to_string(),
            registry: registry.clone(),
            generation: registry.generation(),
            cells: units
                .into_iter()
                .map(|unit| Cell::new(unit, header, inherited))
                .collect(),
            observed: SessionSeqCursor::START,
        }
    }

    /// Puts a unit into a state that is known from elsewhere: what it was folded from need not be
    /// fed. Nothing happens when the unit is not among these cells.
    pub fn install<U: Unit>(&mut self, unit: &U, state: U::State) {
        if let Some(cell) = self
            .cells
            .iter_mut()
            .find(|cell| cell.unit.key() == Unit::key(unit))
        {
            cell.state = Some(Arc::new(state));
        }
    }

    /// Drops the cells of units that are registered no more.
    fn keep_up(&mut self) {
        let generation = self.registry.generation();
        if generation != self.generation {
            self.generation = generation;
            let registry = &self.registry;
            self.cells.retain(|cell| registry.holds(&cell.unit));
        }
    }

    /// Folds one event in; gives the views that changed. An event that is folded in already
    /// changes nothing.
    pub fn drive(&mut self, event: &Event) -> Vec<Changed> {
        self.keep_up();
        let cursor = event.seq().offset_after().cursor();
        let mut changed = Vec::new();
        for cell in &mut self.cells {
            if cursor <= cell.observed {
                continue;
            }
            cell.observed = cursor;
            let Some((before, after)) = cell.apply(event, &self.session) else {
                continue;
            };
            let unit = &cell.unit;
            let views = catch_unwind(AssertUnwindSafe(|| (unit.view(&before), unit.view(&after))));
            match views {
                Ok((before, Some(after))) if before.as_ref() != Some(&after) => {
                    changed.push(Changed {
                        key: unit.key(),
                        value: after,
                        seq: event.seq(),
                    });
                }
                Ok(_) => {}
                Err(_panic) => cell.poison(&self.session, event.seq()),
            }
        }
        self.observed = self.observed.max(cursor);
        changed
    }

    /// Folds events in, without telling what changed.
    pub fn feed<'a>(&mut self, events: impl IntoIterator<Item = &'a (impl AsRef<Event> + 'a)>) {
        self.keep_up();
        for event in events {
            let event = event.as_ref();
            let cursor = event.seq().offset_after().cursor();
            for cell in &mut self.cells {
                if cursor > cell.observed {
                    cell.observed = cursor;
                    // Nobody watches: only the state is wanted.
                    drop(cell.apply(event, &self.session));
                }
            }
            self.observed = self.observed.max(cursor);
        }
    }

    /// Declares that everything up to `end` has been seen: events that no unit listens to need not
    /// be fed.
    pub fn advance_to(&mut self, end: SessionLogOffset) {
        let cursor = end.cursor();
        for cell in &mut self.cells {
            cell.observed = cell.observed.max(cursor);
        }
        self.observed = self.observed.max(cursor);
    }

    /// Declares that no event up to `end` concerns a unit: its state is that of the log's end.
    /// Nothing happens when the unit is not among these cells.
    pub fn settle(&mut self, key: &str, end: SessionLogOffset) {
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.unit.key() == key) {
            cell.observed = cell.observed.max(end.cursor());
        }
    }

    /// The units that are registered and have no cell here: they came after these cells, or were
    /// not selected.
    pub fn missing(&self) -> Vec<&'static str> {
        let mut keys = self.registry.keys();
        keys.retain(|key| !self.cells.iter().any(|cell| cell.unit.key() == *key));
        keys
    }

    /// Gives a unit that is registered and has no cell here one, folded from the log's first event
    /// on. `events` must reach as far as the other cells do.
    pub fn adopt<'a>(
        &mut self,
        key: &str,
        header: &SessionHeader,
        inherited: SessionLogOffset,
        events: impl IntoIterator<Item = &'a (impl AsRef<Event> + 'a)>,
    ) {
        self.keep_up();
        let mut units = self.registry.units();
        units.retain(|unit| unit.key() == key);
        let known = |cell: &Cell| cell.unit.key() == key;
        let (Some(unit), false) = (units.pop(), self.cells.iter().any(known)) else {
            return;
        };
        let mut cell = Cell::new(unit, header, inherited);
        for event in events {
            drop(cell.apply(event.as_ref(), &self.session));
        }
        cell.observed = self.observed;
        self.cells.push(cell);
    }

    /// The views now, of all units.
    pub fn snapshot(&self) -> Snapshot {
        self.views(|_| true)
    }

    /// The views now, of the units with these keys.
    pub fn snapshot_of(&self, keys: &[&str]) -> Snapshot {
        self.views(|key| keys.contains(&key))
    }

    fn views(&self, wanted: impl Fn(&str) -> bool) -> Snapshot {
        let cells = self.present().filter(|cell| wanted(cell.unit.key()));
        Snapshot {
            as_of_seq: self.observed,
            values: cells
                .filter_map(|cell| Some((cell.unit.key(), cell.view()?)))
                .collect(),
        }
    }

    /// The cells of units that are still registered.
    fn present(&self) -> impl Iterator<Item = &Cell> {
        let in_step = self.registry.generation() == self.generation;
        self.cells
            .iter()
            .filter(move |cell| in_step || self.registry.holds(&cell.unit))
    }

    /// The state of the unit with this key, to be shared; `None` when it is not registered or
    /// poisoned.
    pub fn shared_state(&self, key: &str) -> Option<UnitState> {
        let cell = self.present().find(|cell| cell.unit.key() == key)?;
        cell.state.clone().map(UnitState)
    }

    /// The state of a unit; `None` when it is not registered or poisoned.
    pub fn state_of<U: Unit>(&self, unit: &U) -> Option<&U::State> {
        let cell = self
            .present()
            .find(|cell| cell.unit.key() == Unit::key(unit))?;
        cell.state.as_ref()?.downcast_ref()
    }
}
