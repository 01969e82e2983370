//! The list of subagents: a house of sessions to list, and tests by what they are about.

mod cancelling;
mod cases;
mod model;
mod rungs;
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
struct Awakes(
    Mutex<BTreeMap<SessionId, Arc<Awake>>>,
    /// Those that are being made.
    Mutex<Vec<SessionId>>,
);

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
    fn is_arriving(&self, id: &SessionId) -> bool {
        self.1.lock().unwrap().contains(id)
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
