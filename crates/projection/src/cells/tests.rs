use orrery_session::{EventType, SessionId, SharedEvent, Timestamp};
use proptest::prelude::*;

use super::restore::{RestoreError, Tail};
use super::*;
use crate::HostOnly;
use crate::checkpoint::Checkpoint;
use crate::registry::RegisterError;

#[derive(Debug)]
struct Turns;
impl Unit for Turns {
    type State = u64;
    type View = u64;
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
    fn view(&self, state: &u64) -> Option<u64> {
        Some(*state)
    }
}

/// Remembers every seq that it was shown.
#[derive(Debug)]
struct Seen;
impl Unit for Seen {
    type State = Vec<u64>;
    type View = HostOnly;
    fn key(&self) -> &'static str {
        "seen"
    }
    fn state_version(&self) -> u64 {
        3
    }
    fn event_types(&self) -> &'static [EventType] {
        &[EventType::TurnStart, EventType::SessionTitle]
    }
    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> Vec<u64> {
        Vec::new()
    }
    fn apply(&self, state: &Vec<u64>, event: &Event) -> Option<Vec<u64>> {
        let mut next = state.clone();
        next.push(event.seq().get());
        Some(next)
    }
    fn view(&self, _: &Vec<u64>) -> Option<HostOnly> {
        None
    }
}

const KEYS: [&str; 3] = ["seen", "title", "turns"];

fn registry() -> (Registry, Vec<crate::Registration>) {
    let registry = Registry::default();
    let held = vec![
        registry.register(Turns).unwrap(),
        registry.register(Seen).unwrap(),
        registry.register(crate::units::Title).unwrap(),
    ];
    (registry, held)
}

fn header() -> SessionHeader {
    SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0))
}

fn cells(registry: &Registry) -> Cells {
    Cells::new(registry, &header(), SessionLogOffset::ZERO)
}

fn event(seq: u64, event_type: &str, data: &str) -> Event {
    let text = format!(r#"{{"type":"{event_type}","seq":{seq},"time":0,"data":{data}}}"#);
    Event::from_json(&text).unwrap()
}

fn offset(events: usize) -> SessionLogOffset {
    SessionLogOffset::of_len(events)
}

#[test]
fn only_events_of_declared_types_reach_a_unit_and_only_changes_are_told() {
    let (registry, _held) = registry();
    let mut cells = cells(&registry);
    assert!(cells.drive(&event(0, "step/start", "{}")).is_empty());
    assert_eq!(
        cells.drive(&event(1, "turn/start", "{}"))[0].value.text(),
        "1"
    );
    assert!(cells.drive(&event(1, "turn/start", "{}")).is_empty());
    assert!(cells.drive(&event(2, "turn/end", "{}")).is_empty());
    assert_eq!(cells.snapshot().as_of_seq.get(), 2);
    assert_eq!(cells.state_of(&Turns), Some(&1));
    assert_eq!(cells.state_of(&Seen), Some(&vec![1]));
    assert!(!cells.snapshot().values.contains_key("seen"));
}

#[test]
fn a_panicking_unit_loses_its_own_value_only() {
    let (registry, _held) = registry();
    let mut cells = cells(&registry);
    cells.drive(&event(0, "turn/start", r#"{"poison":1}"#));
    let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
    cells.drive(&event(1, "session/title", title));
    let snapshot = cells.snapshot();
    assert!(!snapshot.values.contains_key("turns"));
    assert_eq!(snapshot.values["title"].text(), "\"t\"");
    assert!(!cells.checkpoint().unwrap().contains_key("turns"));
}

#[test]
fn another_version_of_a_registered_unit_is_refused() {
    #[derive(Debug)]
    struct Other(u64);
    impl Unit for Other {
        type State = u64;
        type View = HostOnly;
        fn key(&self) -> &'static str {
            "turns"
        }
        fn state_version(&self) -> u64 {
            self.0
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
        fn view(&self, _: &u64) -> Option<HostOnly> {
            None
        }
    }
    let registry = Registry::default();
    let first = registry.register(Turns).unwrap();
    let second = registry.register(Turns).unwrap();
    let refused = registry.register(Other(2)).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("refusing to share it with stateVersion 2"),
        "{text}"
    );
    drop(first);
    assert!(registry.register(Other(2)).is_err());
    drop(second);
    let other = registry.register(Other(2)).unwrap();
    assert!(registry.register(Turns).is_err());
    drop(other);
    assert!(matches!(
        registry.register(Other(1 << 53)),
        Err(RegisterError::UnsafeVersion { .. })
    ));
    assert_eq!(registry.keys(), Vec::<&str>::new());
}

#[test]
fn a_unit_that_is_let_go_of_takes_its_cells_along_and_a_late_one_is_folded_from_the_start() {
    let registry = Registry::default();
    let turns = registry.register(Turns).unwrap();
    let mut cells = cells(&registry);
    let log = [event(0, "turn/start", "{}"), event(1, "turn/start", "{}")].map(SharedEvent::new);
    cells.drive(&log[0]);
    let _seen = registry.register(Seen).unwrap();
    cells.drive(&log[1]);
    assert_eq!(
        (cells.missing(), cells.state_of(&Seen)),
        (vec!["seen"], None)
    );
    cells.adopt("seen", &header(), SessionLogOffset::ZERO, &log);
    assert_eq!(cells.state_of(&Seen), Some(&vec![0, 1]));
    assert_eq!(cells.state_of(&Turns), Some(&2));
    drop(turns);
    assert_eq!(cells.state_of(&Turns), None);
    assert!(cells.snapshot().values.is_empty());
    // The same definition again is a new registration: the old cell does not come back.
    let _turns = registry.register(Turns).unwrap();
    cells.drive(&event(2, "turn/start", "{}"));
    assert_eq!(cells.state_of(&Turns), None);
    assert_eq!(cells.missing(), ["turns"]);
}

#[test]
fn views_have_schemas_and_host_only_units_have_none() {
    let (registry, _held) = registry();
    let schemas = registry.view_schemas();
    assert_eq!(
        schemas.keys().copied().collect::<Vec<_>>(),
        ["title", "turns"]
    );
    assert_eq!(schemas["turns"].get("type").unwrap(), "integer");
}

#[test]
fn the_floor_lies_one_event_below_what_is_missing() {
    let (registry, _held) = registry();
    let mut cells = cells(&registry);
    cells.feed(&[event(0, "turn/start", "{}"), event(1, "turn/end", "{}")].map(SharedEvent::new));
    cells.advance_to(offset(7));
    let mut rows = cells.checkpoint().unwrap();
    let floor = |rows: &Checkpoint, keys: &[&str]| {
        registry
            .restore_floor(rows, keys)
            .map(SessionLogOffset::get)
    };
    assert_eq!(floor(&rows, &KEYS), Some(6));
    assert_eq!(floor(&rows, &["nobody"]), None);
    rows.get_mut("turns").unwrap().seq = SessionSeqCursor::new(3).unwrap();
    assert_eq!(floor(&rows, &KEYS), Some(3));
    rows.get_mut("turns").unwrap().seq = SessionSeqCursor::START;
    assert_eq!(floor(&rows, &KEYS), Some(0));
    rows.get_mut("seen").unwrap().ver = 9;
    assert_eq!(
        (floor(&rows, &KEYS), floor(&rows, &["title"])),
        (Some(0), Some(6))
    );
}

#[test]
fn a_row_past_the_end_before_the_tail_or_of_another_version_is_not_used() {
    let (registry, _held) = registry();
    let mut cells = cells(&registry);
    let log: Vec<SharedEvent> = (0..6)
        .map(|seq| SharedEvent::new(event(seq, "turn/start", "{}")))
        .collect();
    cells.feed(&log);
    let rows = cells.checkpoint().unwrap();
    let restore = |rows: &Checkpoint, base: usize, end: usize| {
        let tail = Tail {
            base: offset(base),
            end: offset(end),
            events: &log[base..end],
        };
        let (id, cut) = (header(), SessionLogOffset::ZERO);
        Cells::restore(&registry, &KEYS, &id, cut, rows, tail)
            .map(|cells| cells.state_of(&Turns).copied())
    };
    assert_eq!(restore(&rows, 5, 6), Ok(Some(6)));
    assert_eq!(restore(&rows, 6, 6), Ok(Some(6)));
    let whole = RestoreError::NeedsWhole { key: "seen" };
    assert_eq!(restore(&rows, 2, 4), Err(whole.clone()), "the log shrank");
    assert_eq!(restore(&rows, 0, 4), Ok(Some(4)), "and is read again");
    let mut older = rows.clone();
    older.get_mut("seen").unwrap().seq = SessionSeqCursor::new(1).unwrap();
    assert_eq!(restore(&older, 4, 6), Err(whole));
    let mut damaged = rows;
    damaged.get_mut("turns").unwrap().val = Json::from_text("\"six\"").unwrap();
    let refused = Err(RestoreError::Damaged { key: "turns" });
    assert_eq!(restore(&damaged, 5, 6), refused);
    damaged.get_mut("turns").unwrap().ver = 2;
    assert_eq!(restore(&damaged, 0, 6), Ok(Some(6)));
}

#[test]
fn views_of_rows_are_served_without_the_log_at_the_lowest_watermark() {
    let (registry, _held) = registry();
    let mut cells = cells(&registry);
    cells.feed(&[SharedEvent::new(event(0, "turn/start", "{}"))]);
    let mut rows = cells.checkpoint().unwrap();
    rows.get_mut("title").unwrap().seq = SessionSeqCursor::START;
    let all = registry.view_checkpoint(&rows, &KEYS).unwrap();
    assert_eq!(all.as_of_seq, SessionSeqCursor::START);
    assert_eq!(
        all.values.keys().copied().collect::<Vec<_>>(),
        ["title", "turns"]
    );
    let turns = registry.view_checkpoint(&rows, &["turns"]).unwrap();
    assert_eq!(turns.as_of_seq.get(), 0);
    assert_eq!(registry.view_checkpoint(&rows, &["seen"]), None);
    rows.get_mut("turns").unwrap().ver = 0;
    assert_eq!(registry.view_checkpoint(&rows, &["turns"]), None);
}

#[test]
fn cells_that_are_ahead_of_their_rows_are_never_set_back() {
    let (registry, _held) = registry();
    let log: Vec<SharedEvent> = (0..4)
        .map(|seq| SharedEvent::new(event(seq, "turn/start", "{}")))
        .collect();
    let mut early = cells(&registry);
    early.feed(&log[..1]);
    let rows = early.checkpoint().unwrap();
    let mut late = cells(&registry);
    late.feed(&log[..3]);
    let tail = Tail {
        base: offset(1),
        end: offset(4),
        events: &log[1..],
    };
    late.hydrate(&rows, tail).unwrap();
    assert_eq!(late.state_of(&Turns), Some(&4));
    assert_eq!(late.state_of(&Seen), Some(&vec![0, 1, 2, 3]));
}

fn logs() -> impl Strategy<Value = Vec<SharedEvent>> {
    let kind = prop_oneof![
        Just(("turn/start", "{}".to_owned())),
        Just(("turn/end", "{}".to_owned())),
        Just(("step/start", "{}".to_owned())),
        "[a-z]{0,3}".prop_map(|title| (
            "session/title",
            format!(r#"{{"title":"{title}","messageSeqs":[],"source":{{"kind":"user"}}}}"#)
        )),
        Just(("session/title", "7".to_owned())),
    ];
    proptest::collection::vec(kind, 0..24).prop_map(|kinds| {
        let events = kinds.into_iter().zip(0..);
        events
            .map(|((kind, data), seq)| SharedEvent::new(event(seq, kind, &data)))
            .collect()
    })
}

proptest! {
    #[test]
    fn a_checkpoint_and_the_tail_give_what_the_whole_log_and_a_live_cell_give(
        log in logs(), cut in 0_usize..25, selective in any::<bool>(),
    ) {
        let cut = cut.min(log.len());
        let (registry, _held) = registry();
        let mut live = cells(&registry);
        let mut told = BTreeMap::new();
        for event in &log {
            for change in live.drive(event) {
                told.insert(change.key, change.value);
            }
        }
        let mut early = cells(&registry);
        early.feed(&log[..cut]);
        let rows = early.checkpoint().unwrap();
        let floor = registry.restore_floor(&rows, &KEYS).unwrap();
        let types = registry.event_types(&KEYS);
        let events: Vec<SharedEvent> = log[floor.index()..]
            .iter()
            .filter(|event| !selective || types.contains(&event.event_type()))
            .cloned()
            .collect();
        let tail = Tail { base: floor, end: offset(log.len()), events: &events };
        let (id, zero) = (header(), SessionLogOffset::ZERO);
        let restored = Cells::restore(&registry, &KEYS, &id, zero, &rows, tail).unwrap();
        prop_assert_eq!(restored.checkpoint().unwrap(), live.checkpoint().unwrap());
        prop_assert_eq!(restored.snapshot(), live.snapshot());
        for (key, value) in told {
            prop_assert_eq!(&value, &live.snapshot().values[key]);
        }
    }
}
