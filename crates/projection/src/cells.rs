//! The current values of one session: one cell for each unit, driven event by event.
//!
//! The same cells serve a live session, driven by its append path, and a cold one, fed from its
//! log.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use orrery_session::{Event, Json, SessionHeader, SessionLogOffset, SessionSeq, SessionSeqCursor};
use serde::Serialize;

use crate::registry::Registry;
use crate::unit::{ErasedState, ErasedUnit, Unit};

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
}

/// One session's cells.
#[derive(Debug)]
pub struct Cells {
    session: String,
    cells: Vec<Cell>,
    observed: SessionSeqCursor,
}

impl Cells {
    /// Cells of all registered units, before any event.
    pub fn new(registry: &Registry, header: &SessionHeader, inherited: SessionLogOffset) -> Self {
        Self::of_units(registry.units(), header, inherited)
    }

    /// Cells of the units with these keys only.
    pub fn selected(
        registry: &Registry,
        keys: &[&str],
        header: &SessionHeader,
        inherited: SessionLogOffset,
    ) -> Self {
        let units = registry.units().filter(|unit| keys.contains(&unit.key()));
        Self::of_units(units, header, inherited)
    }

    fn of_units<'a>(
        units: impl Iterator<Item = &'a Arc<dyn ErasedUnit>>,
        header: &SessionHeader,
        inherited: SessionLogOffset,
    ) -> Self {
        let cells = units
            .map(|unit| Cell {
                unit: Arc::clone(unit),
                state: Some(unit.init(header, inherited)),
            })
            .collect();
        Self {
            session: header.id.to_string(),
            cells,
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

    /// Folds one event in; gives the views that changed. An event that is folded in already
    /// changes nothing.
    pub fn drive(&mut self, event: &Event) -> Vec<Changed> {
        let cursor = event.seq().offset_after().cursor();
        if cursor <= self.observed {
            return Vec::new();
        }
        self.observed = cursor;
        let mut changed = Vec::new();
        for cell in &mut self.cells {
            if !cell.unit.event_types().contains(event.event_type()) {
                continue;
            }
            let Some(state) = &cell.state else { continue };
            let unit = &cell.unit;
            let folded = catch_unwind(AssertUnwindSafe(|| {
                let before = unit.view(state);
                let next = unit.apply(state, event)?;
                let after = unit.view(&next);
                Some((next, after.filter(|after| before.as_ref() != Some(after))))
            }));
            match folded {
                Ok(None) => {}
                Ok(Some((next, view))) => {
                    cell.state = Some(next);
                    if let Some(value) = view {
                        changed.push(Changed {
                            key: unit.key(),
                            value,
                            seq: event.seq(),
                        });
                    }
                }
                Err(_panic) => {
                    // Reported once: a poisoned cell is never driven again.
                    tracing::error!(
                        session = %self.session,
                        unit = unit.key(),
                        seq = event.seq().get(),
                        "projection unit panicked; its value is dropped for this session"
                    );
                    cell.state = None;
                }
            }
        }
        changed
    }

    /// Folds events in, without telling what changed.
    pub fn feed<'a>(&mut self, events: impl IntoIterator<Item = &'a (impl AsRef<Event> + 'a)>) {
        for event in events {
            // The caller reads the whole with `snapshot`.
            drop(self.drive(event.as_ref()));
        }
    }

    /// Declares that everything up to `end` has been seen: events that no unit listens to need not
    /// be fed.
    pub fn advance_to(&mut self, end: SessionLogOffset) {
        self.observed = self.observed.max(end.cursor());
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
        let mut values = BTreeMap::new();
        for cell in self.cells.iter().filter(|cell| wanted(cell.unit.key())) {
            let Some(state) = &cell.state else { continue };
            let view = catch_unwind(AssertUnwindSafe(|| cell.unit.view(state)));
            if let Ok(Some(view)) = view {
                values.insert(cell.unit.key(), view);
            }
        }
        Snapshot {
            as_of_seq: self.observed,
            values,
        }
    }

    /// The state of a unit; `None` when it is not registered or poisoned.
    pub fn state_of<U: Unit>(&self, unit: &U) -> Option<&U::State> {
        let cell = self
            .cells
            .iter()
            .find(|cell| cell.unit.key() == Unit::key(unit))?;
        cell.state.as_ref()?.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::{EventType, SessionId, Timestamp};

    use super::*;

    #[derive(Debug)]
    struct Turns;
    impl Unit for Turns {
        type State = u64;
        fn key(&self) -> &'static str {
            "turns"
        }
        fn state_version(&self) -> u64 {
            1
        }
        fn event_types(&self) -> &'static [EventType] {
            &[EventType::TurnStart, EventType::TurnEnd]
        }
        fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> u64 {
            0
        }
        fn apply(&self, state: &u64, event: &Event) -> Option<u64> {
            assert!(!event.data().contains("poison"));
            (*event.event_type() == EventType::TurnStart).then_some(state + 1)
        }
        fn view(&self, state: &u64) -> Option<Json> {
            Json::from_value(state).ok()
        }
    }

    fn cells() -> Cells {
        let mut registry = Registry::default();
        registry.register(Turns).unwrap();
        registry.register(crate::units::Title).unwrap();
        let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0));
        Cells::new(&registry, &header, SessionLogOffset::ZERO)
    }

    fn event(seq: u64, event_type: &str, data: &str) -> Event {
        let text = format!(r#"{{"type":"{event_type}","seq":{seq},"time":0,"data":{data}}}"#);
        Event::from_json(&text).unwrap()
    }

    #[test]
    fn only_events_of_declared_types_reach_a_unit_and_only_changes_are_told() {
        let mut cells = cells();
        assert!(cells.drive(&event(0, "step/start", "{}")).is_empty());
        assert_eq!(
            cells.drive(&event(1, "turn/start", "{}"))[0].value.text(),
            "1"
        );
        assert!(cells.drive(&event(1, "turn/start", "{}")).is_empty());
        assert!(cells.drive(&event(2, "turn/end", "{}")).is_empty());
        assert_eq!(cells.snapshot().as_of_seq.get(), 2);
        assert_eq!(cells.state_of(&Turns), Some(&1));
    }

    #[test]
    fn a_panicking_unit_loses_its_own_value_only() {
        let mut cells = cells();
        cells.drive(&event(0, "turn/start", r#"{"poison":1}"#));
        let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
        cells.drive(&event(1, "session/title", title));
        let snapshot = cells.snapshot();
        assert!(!snapshot.values.contains_key("turns"));
        assert_eq!(snapshot.values["title"].text(), "\"t\"");
    }

    #[test]
    fn another_version_of_a_registered_unit_is_refused() {
        #[derive(Debug)]
        struct Newer;
        impl Unit for Newer {
            type State = u64;
            fn key(&self) -> &'static str {
                "turns"
            }
            fn state_version(&self) -> u64 {
                2
            }
            fn event_types(&self) -> &'static [EventType] {
                &[]
            }
            fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> u64 {
                0
            }
            fn apply(&self, _: &u64, _: &Event) -> Option<u64> {
                None
            }
            fn view(&self, _: &u64) -> Option<Json> {
                None
            }
        }
        let mut registry = Registry::default();
        registry.register(Turns).unwrap();
        assert!(registry.register(Turns).is_ok());
        assert!(registry.register(Newer).is_err());
    }
}
