mod cancelling;
mod cases;
mod model;
mod witness;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use orrery_projection::checkpoint::{
    CheckpointError, CheckpointIdentity, CheckpointRecord, CheckpointRow,
};
use orrery_projection::{Cells, Registration, Snapshot, UnitState};
use orrery_query::{LiveLog, NobodyLive};
use orrery_session::{
    Event, Json, SessionHeader, SessionLogOffset, SessionSeqCursor, SharedEvent, Timestamp,
};
use orrery_storage::disk::{Disk, RealDisk};
use orrery_storage::{Store, StoreOptions};

use super::*;
use crate::units::Identity;

const WHOLE: &str = r#"{"version":2,"mode":"continuable","provider":"spawn","label":"look"}"#;
const OTHER: &str = r#"{"version":2,"mode":"one-shot","provider":"spawn","label":"kept"}"#;
const NEWER: &str = r#"{"version":3,"mode":"continuable","provider":"spawn","label":"look"}"#;

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn child(name: &str, parent: &str, made: i64) -> SessionHeader {
    let mut header = SessionHeader::root(id(name), Timestamp::saturating(made));
    header.cwd = Some("/project".to_owned());
    header.parent_session = Some(id(parent));
    header.origin = Some(Origin::Subagent);
    header.delegation_depth = 1;
    header
}

fn seeded(mut header: SessionHeader) -> SessionHeader {
    header.is_seeded = true;
    header
}

fn event(seq: usize, event_type: &str, data: &str) -> SharedEvent {
    let text = format!(r#"{{"type":"{event_type}","seq":{seq},"time":1,"data":{data}}}"#);
    SharedEvent::new(Event::from_json(&text).unwrap())
}

/// A log of these descriptors, each behind a title that nobody wants, and one at the end.
fn log(descriptors: &[&str]) -> Vec<SharedEvent> {
    let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
    let mut events = Vec::new();
    for data in descriptors {
        events.push(event(events.len(), "session/title", title));
        events.push(event(events.len(), "subagent/descriptor", data));
    }
    events.push(event(events.len(), "session/title", title));
    events
}

/// A live session as the list sees it.
#[derive(Debug)]
struct Awake {
    header: SessionHeader,
    inherited: SessionLogOffset,
    state: Option<UnitState>,
    /// What an observation shows, of one that comes to life while it is observed.
    shown: Option<Snapshot>,
}

impl LiveLog for Awake {
    fn header(&self) -> &SessionHeader {
        &self.header
    }
    fn inherited(&self) -> SessionLogOffset {
        self.inherited
    }
    fn end(&self) -> SessionLogOffset {
        assert!(
            self.shown.is_some(),
            "a list reads no log of a live session"
        );
        self.inherited
    }
    fn saved(&self) -> SessionLogOffset {
        panic!("a list reads no log of a live session")
    }
    fn held_from(&self) -> SessionLogOffset {
        panic!("a list reads no log of a live session")
    }
    fn held(&self, _: Range<SessionLogOffset>) -> Vec<SharedEvent> {
        panic!("a list reads no log of a live session")
    }
    fn projections(&self) -> Snapshot {
        let shown = self.shown.clone();
        shown.expect("a list looks at one state of a live session only")
    }
    fn state(&self, key: &str) -> Option<UnitState> {
        assert_eq!(key, "subagent");
        self.state.clone()
    }
}

#[derive(Debug, Default)]
struct Awakes(Mutex<BTreeMap<SessionId, Arc<Awake>>>);

impl LiveSessions for Awakes {
    fn get(&self, id: &SessionId) -> Option<Arc<dyn LiveLog>> {
        let found = self.0.lock().unwrap().get(id).cloned();
        found.map(|log| log as Arc<dyn LiveLog>)
    }
    fn all(&self) -> Vec<Arc<dyn LiveLog>> {
        let all = self.0.lock().unwrap();
        all.values()
            .map(|log| Arc::clone(log) as Arc<dyn LiveLog>)
            .collect()
    }
}

/// Records in memory.
#[derive(Debug, Default)]
struct Kept(Mutex<BTreeMap<SessionId, CheckpointRecord>>);

impl CheckpointStore for Kept {
    fn load(&self, id: &SessionId) -> Result<Option<CheckpointRecord>, CheckpointError> {
        Ok(self.0.lock().unwrap().get(id).cloned())
    }
    fn load_these(
        &self,
        ids: &[SessionId],
    ) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        let kept = self.0.lock().unwrap();
        let found = ids.iter().filter_map(|id| kept.get_key_value(id));
        Ok(found
            .map(|(id, record)| (id.clone(), record.clone()))
            .collect())
    }
    fn load_all(&self) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        Ok(self.0.lock().unwrap().clone())
    }
    fn put(&self, records: &[(SessionId, CheckpointRecord)]) -> Result<(), CheckpointError> {
        self.0.lock().unwrap().extend(records.iter().cloned());
        Ok(())
    }
    fn remove(&self, ids: &[SessionId]) -> Result<(), CheckpointError> {
        self.0.lock().unwrap().retain(|id, _| !ids.contains(id));
        Ok(())
    }
}

/// A home with sessions, and a list of it.
struct House {
    _folder: tempfile::TempDir,
    store: Store,
    registry: Arc<Registry>,
    _units: Vec<Registration>,
    awake: Arc<Awakes>,
    kept: Arc<Kept>,
    lister: Lister,
}

impl House {
    fn new() -> Self {
        Self::on(Arc::new(RealDisk))
    }

    /// A home on such a disk, where a look is believed for as long as a test runs.
    fn on(disk: Arc<dyn Disk>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            believed_for: Duration::from_secs(3600),
            ..StoreOptions::new(folder.path())
        };
        let store = Store::start(disk, options).unwrap();
        let registry = Arc::new(Registry::default());
        let units = crate::units::register(&registry).unwrap();
        let awake = Arc::new(Awakes::default());
        let kept = Arc::new(Kept::default());
        let corpus = Corpus::new(
            store.clone(),
            Arc::clone(&registry),
            Some(Arc::clone(&kept) as _),
            Arc::clone(&awake) as _,
        );
        let lister = Lister::new(Services {
            projections: Some(Arc::clone(&registry)),
            sessions: Some(Arc::clone(&awake) as _),
            corpus: Some(corpus),
            checkpoints: Some(Arc::clone(&kept) as _),
            cold_reads: NonZeroUsize::new(4).unwrap(),
        });
        Self {
            _folder: folder,
            store,
            registry,
            _units: units,
            awake,
            kept,
            lister,
        }
    }

    /// Puts a session to sleep on disk.
    async fn cold(&self, header: SessionHeader, inherited: usize, events: Vec<SharedEvent>) {
        let cut = SessionLogOffset::of_len(inherited);
        let writer = self.store.create(header, cut).await.unwrap();
        writer.append(events).unwrap();
        writer.close().await.unwrap();
    }

    /// Wakes a session up; with `None` its unit is poisoned.
    fn live(&self, header: SessionHeader, inherited: usize, events: Option<&[SharedEvent]>) {
        self.wake(header, inherited, events, false);
    }

    /// The same; `observed` of one that may be observed, since it slept when it was enumerated.
    fn wake(
        &self,
        header: SessionHeader,
        inherited: usize,
        events: Option<&[SharedEvent]>,
        observed: bool,
    ) {
        let inherited = SessionLogOffset::of_len(inherited);
        let cells = events.map(|events| {
            let mut cells = Cells::new(&self.registry, &header, inherited);
            cells.feed(events);
            cells
        });
        let shown = cells.as_ref().map(Cells::snapshot);
        let log = Awake {
            header: header.clone(),
            inherited,
            state: cells.and_then(|cells| cells.shared_state("subagent")),
            shown: shown.filter(|_| observed),
        };
        let mut all = self.awake.0.lock().unwrap();
        all.insert(header.id, Arc::new(log));
    }

    /// Keeps a record of a session that says this of it.
    fn keep(&self, header: &SessionHeader, inherited: usize, value: &str) {
        let cut = SessionLogOffset::of_len(inherited);
        let row = CheckpointRow {
            ver: 2,
            seq: SessionSeqCursor::new(1).unwrap(),
            val: Json::from_text(value).unwrap(),
        };
        let record = CheckpointRecord {
            identity: CheckpointIdentity::of(header, cut),
            revision: None,
            anchor: None,
            rows: BTreeMap::from([("subagent".to_owned(), row)]),
        };
        self.kept.put(&[(header.id.clone(), record)]).unwrap();
    }

    async fn children_of(&self, parent: &str) -> Listed<Row> {
        let (parent, signal) = (id(parent), CancellationToken::new());
        self.lister.children(&parent, &signal).await.unwrap()
    }

    async fn list(&self) -> Vec<String> {
        self.children_of("parent")
            .await
            .rows
            .iter()
            .map(say)
            .collect()
    }

    async fn tree(&self) -> Vec<String> {
        let (root, signal) = (id("parent"), CancellationToken::new());
        let listed = self.lister.descendants(&root, &signal).await.unwrap();
        let rows = listed.rows.iter();
        rows.map(|row| format!("{} {} < {}", row.depth, say(&row.row), row.parent))
            .collect()
    }
}

fn say(row: &Row) -> String {
    match row {
        Row::Diagnostic { id, reason } => format!("{id} {reason:?}"),
        Row::Child(child) => {
            let more = if child.has_children { " +" } else { "" };
            let (mode, label) = match &child.identity {
                Identity::OneShot { label, .. } => ("one-shot", label.as_deref()),
                Identity::Continuable { label, .. } => ("continuable", Some(label.as_str())),
            };
            let label = label.unwrap_or("-");
            format!("{} {:?} {mode} {label}{more}", child.id, child.activity)
        }
    }
}

#[tokio::test]
async fn the_outcome_of_the_ladder_is_that_of_the_table_live_and_cold() {
    // `inherited` events of an ancestor, then the child's own.
    let table = [
        (
            log(&[WHOLE]),
            0,
            Some("continuable look"),
            "continuable look",
        ),
        (
            log(&[OTHER, WHOLE]),
            2,
            Some("continuable look"),
            "continuable look",
        ),
        (
            log(&[WHOLE, OTHER]),
            0,
            Some("one-shot kept"),
            "one-shot kept",
        ),
        (log(&[]), 0, None, "Corrupt"),
        (log(&[WHOLE]), 2, None, "Corrupt"),
        (log(&[NEWER]), 2, None, "Corrupt"),
        (log(&[NEWER]), 0, Some("Corrupt"), "Corrupt"),
        (log(&[WHOLE, "7"]), 0, Some("Corrupt"), "Corrupt"),
        (log(&[WHOLE, "7"]), 2, Some("Corrupt"), "Corrupt"),
        (
            log(&["7", WHOLE]),
            0,
            Some("continuable look"),
            "continuable look",
        ),
    ];
    for (events, inherited, live, cold) in table {
        let header = match inherited {
            0 => child("one", "parent", 1),
            _ => seeded(child("one", "parent", 1)),
        };
        let expected = |activity: &str, what: &str| match what {
            "Corrupt" => "one Corrupt".to_owned(),
            what => format!("one {activity} {what}"),
        };
        let house = House::new();
        house.live(header.clone(), inherited, Some(&events));
        let rows = house.list().await;
        let what = live.map(|what| expected("Running", what));
        assert_eq!(rows, what.into_iter().collect::<Vec<_>>(), "{events:?}");
        assert_eq!(
            house.lister.cost().observations,
            0,
            "a live child reads no log"
        );

        let house = House::new();
        house.cold(header, inherited, events.clone()).await;
        assert_eq!(
            house.list().await,
            [expected("Inactive", cold)],
            "{events:?}"
        );
        assert_eq!(house.lister.cost().observations, 1);
    }
    let house = House::new();
    house.live(child("one", "parent", 1), 0, None);
    assert_eq!(house.list().await, ["one Corrupt"], "a poisoned unit");
}

#[tokio::test]
async fn a_checkpoint_answers_for_a_cold_child_that_inherited_nothing_and_for_no_other() {
    let house = House::new();
    let kept = r#"{"identity":{"mode":"one-shot","label":"kept","seq":1}}"#;
    let plain = child("a-plain", "parent", 1);
    let forked = seeded(child("b-forked", "parent", 2));
    let foreign = child("c-foreign", "parent", 3);
    let young = child("d-young", "parent", 4);
    house.cold(plain.clone(), 0, log(&[WHOLE])).await;
    house.cold(forked.clone(), 2, log(&[OTHER, WHOLE])).await;
    house.cold(foreign.clone(), 0, log(&[WHOLE])).await;
    house.cold(young.clone(), 0, log(&[WHOLE])).await;
    house.keep(&plain, 0, kept);
    house.keep(&forked, 2, kept);
    let mut moved = foreign.clone();
    moved.cwd = Some("/elsewhere".to_owned());
    house.keep(&moved, 0, kept);
    house.keep(&young, 0, "{}");
    let rows = house.list().await;
    let expected = [
        "a-plain Inactive one-shot kept",
        "b-forked Inactive continuable look",
        "c-foreign Inactive continuable look",
        "d-young Inactive continuable look",
    ];
    assert_eq!(rows, expected);
    let first = house.lister.cost();
    assert_eq!((first.from_checkpoints, first.observations), (1, 3));
    house.list().await;
    let second = house.lister.cost();
    assert_eq!(
        (second.from_checkpoints, second.observations),
        (2, 6),
        "nothing is remembered and nothing written back"
    );
}

#[tokio::test]
async fn a_child_that_cannot_be_read_hides_no_sibling_and_is_tried_again() {
    let house = House::new();
    house
        .cold(child("first", "parent", 1), 0, log(&[WHOLE]))
        .await;
    house
        .cold(child("second", "parent", 2), 0, log(&[WHOLE]))
        .await;
    let entry = house.store.find(&id("first")).await.unwrap();
    let whole = std::fs::read(&entry.path).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() - 12;
    damaged[middle..middle + 6].fill(0xff);
    let more = std::fs::read(house.store.find(&id("second")).await.unwrap().path).unwrap();
    damaged.extend(more);
    std::fs::write(&entry.path, &damaged).unwrap();
    let rows = house.list().await;
    assert_eq!(
        rows,
        ["first Unavailable", "second Inactive continuable look"]
    );
    std::fs::write(&entry.path, &whole).unwrap();
    let rows = house.list().await;
    assert_eq!(rows[0], "first Inactive continuable look");
}

#[tokio::test]
async fn rows_are_ordered_by_age_and_forks_are_none() {
    let house = House::new();
    house.cold(child("b", "parent", 2), 0, log(&[WHOLE])).await;
    house.cold(child("a", "parent", 2), 0, log(&[WHOLE])).await;
    house.live(child("z", "parent", 1), 0, Some(&log(&[WHOLE])));
    let mut fork = child("fork", "parent", 3);
    fork.origin = None;
    fork.delegation_depth = 0;
    house.cold(fork, 0, log(&[WHOLE])).await;
    house.live(child("below", "a", 9), 0, Some(&log(&[])));
    let rows = house.list().await;
    let expected = [
        "z Running continuable look",
        "a Inactive continuable look +",
        "b Inactive continuable look",
    ];
    assert_eq!(rows, expected);
    let nobody = house.children_of("nobody").await;
    assert!(nobody.rows.is_empty() && !nobody.parent_known);
}

#[tokio::test]
async fn a_tree_is_walked_through_what_is_no_row_and_around_in_no_circle() {
    let house = House::new();
    let whole = log(&[WHOLE]);
    house.live(child("b", "parent", 2), 0, Some(&whole));
    house.live(child("young", "parent", 1), 0, Some(&[]));
    house.live(child("under", "young", 1), 0, Some(&whole));
    let mut fork = child("fork", "b", 1);
    fork.origin = None;
    house.live(fork, 0, Some(&[]));
    house.live(child("deep", "fork", 1), 0, Some(&whole));
    house.live(child("parent", "deep", 1), 0, Some(&whole));
    let expected = [
        "2 under Running continuable look < young",
        "1 b Running continuable look < parent",
        "3 deep Running continuable look + < fork",
    ];
    assert_eq!(house.tree().await, expected);
}

#[tokio::test]
async fn a_chain_of_ten_thousand_is_listed_in_order() {
    let house = House::new();
    let whole = log(&[WHOLE]);
    let mut parent = "parent".to_owned();
    for number in 0..10_000 {
        let name = format!("c{number}");
        house.live(child(&name, &parent, 1), 0, Some(&whole));
        parent = name;
    }
    let rows = house.tree().await;
    assert_eq!(rows.len(), 10_000);
    let last = "10000 c9999 Running continuable look < c9998";
    assert_eq!(rows.last().unwrap(), last);
}

#[tokio::test]
async fn what_is_missing_is_told_in_its_order() {
    let house = House::new();
    house
        .cold(child("one", "parent", 1), 0, log(&[WHOLE]))
        .await;
    let whole = house.lister.services.clone();
    let open = CancellationToken::new();
    let taken_back = CancellationToken::new();
    taken_back.cancel();
    let fails = async |services: &Services, signal: &CancellationToken| {
        let lister = Lister::new(services.clone());
        let children = lister.children(&id("parent"), signal).await;
        let tree = lister.descendants(&id("parent"), signal).await;
        let codes = (children.unwrap_err().code(), tree.unwrap_err().code());
        assert_eq!(codes.0, codes.1);
        assert_eq!(lister.cost().observations, 0);
        codes.0
    };
    let mut services = whole.clone();
    services.corpus = None;
    let code = fails(&services, &open).await;
    assert_eq!(code, "SUBAGENT_CONTROL_QUERY_UNAVAILABLE");
    assert_eq!(fails(&services, &taken_back).await, "CANCELLED");
    assert_eq!(fails(&whole, &taken_back).await, "CANCELLED");
    services.sessions = None;
    let code = fails(&services, &taken_back).await;
    assert_eq!(code, "SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE");
    services.projections = None;
    let code = fails(&services, &taken_back).await;
    assert_eq!(code, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE");
    let mut services = whole;
    services.checkpoints = None;
    let lister = Lister::new(services);
    let listed = lister.children(&id("parent"), &open).await.unwrap();
    assert_eq!(
        listed.rows.len(),
        1,
        "without checkpoints it only takes longer"
    );
}

#[tokio::test]
async fn who_is_live_is_what_the_sessions_of_the_list_say() {
    let house = House::new();
    house
        .cold(child("stored", "parent", 1), 0, log(&[WHOLE]))
        .await;
    house.live(child("awake", "parent", 2), 0, Some(&log(&[WHOLE])));
    assert_eq!(house.list().await.len(), 2);
    let mut services = house.lister.services.clone();
    services.sessions = Some(Arc::new(NobodyLive));
    let lister = Lister::new(services);
    let (parent, signal) = (id("parent"), CancellationToken::new());
    let listed = lister.children(&parent, &signal).await.unwrap();
    let rows: Vec<String> = listed.rows.iter().map(say).collect();
    assert_eq!(rows, ["stored Inactive continuable look"]);
}
