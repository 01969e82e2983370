mod cancelling;
mod events;
mod lineage;

use std::ops::{Range, RangeInclusive};
use std::sync::Mutex;

use orrery_projection::units::Title;
use orrery_projection::{Registration, Snapshot, UnitState};
use orrery_session::{Event, EventType, Json, SessionSeq, SessionSeqCursor, Timestamp};
use orrery_storage::StoreOptions;
use orrery_storage::disk::{Disk, RealDisk};

use super::events::MAX_WINDOW;
use super::filter::{Availability, EventFilter};
use super::lease::LeaseSource;
use super::*;
use crate::live::LiveLog;
use crate::search::Standing;

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn seq(number: u64) -> SessionSeq {
    SessionSeq::new(number).unwrap()
}

fn header(name: &str, made: i64) -> SessionHeader {
    let mut header = SessionHeader::root(id(name), Timestamp::saturating(made));
    header.cwd = Some("/project".to_owned());
    header
}

fn below(parent: &str, mut header: SessionHeader) -> SessionHeader {
    header.parent_session = Some(id(parent));
    header
}

fn events(lines: &[(&str, &str, &str)]) -> Vec<SharedEvent> {
    let lines = lines.iter().enumerate();
    let event = |(seq, (event_type, data, rest)): (usize, &(&str, &str, &str))| {
        let text = format!(
            r#"{{"type":"{event_type}","seq":{seq},"time":{},"data":{data}{rest}}}"#,
            100 + seq
        );
        SharedEvent::new(Event::from_json(&text).unwrap())
    };
    lines.map(event).collect()
}

const APPEND: &str = r#","surfaceOp":"append""#;

fn said(text: &str, id: &str) -> String {
    format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"id":"{id}"}}"#
    )
}

fn titled(title: &str) -> Vec<SharedEvent> {
    let data = format!(r#"{{"title":"{title}","messageSeqs":[],"source":{{"kind":"user"}}}}"#);
    events(&[("session/title", &data, "")])
}

/// Two messages that a third takes the place of; a title between them.
fn replaced() -> Vec<SharedEvent> {
    let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
    let replace = r#","sourceEventSeqs":[0,2],"surfaceOp":{"op":"replace","start":0,"end":2}"#;
    let (first, second) = (said("Erste  Frage", "a"), said("zweite", "b"));
    let (third, last) = (said("both", "c"), said("later", "d"));
    events(&[
        ("user/message", &first, APPEND),
        ("session/title", title, ""),
        ("user/message", &second, APPEND),
        ("user/message", &third, replace),
        ("user/message", &last, APPEND),
    ])
}

#[derive(Debug)]
struct Awake {
    header: SessionHeader,
    events: Vec<SharedEvent>,
    title: &'static str,
}

impl LiveLog for Awake {
    fn header(&self) -> &SessionHeader {
        &self.header
    }
    fn inherited(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn end(&self) -> SessionLogOffset {
        SessionLogOffset::of_len(self.events.len())
    }
    fn saved(&self) -> SessionLogOffset {
        self.end()
    }
    fn held_from(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn held(&self, range: Range<SessionLogOffset>) -> Vec<SharedEvent> {
        let held = self.events.get(range.start.index()..range.end.index());
        held.unwrap_or_default().to_vec()
    }
    fn projections(&self) -> Snapshot {
        let title = Json::from_text(&format!("\"{}\"", self.title)).unwrap();
        Snapshot {
            as_of_seq: self.end().cursor(),
            values: BTreeMap::from([("title", title)]),
        }
    }
    fn state(&self, _: &str) -> Option<UnitState> {
        None
    }
}

#[derive(Debug, Default)]
struct Awakes(Mutex<Vec<Arc<Awake>>>);

impl LiveSessions for Awakes {
    fn get(&self, id: &SessionId) -> Option<Arc<dyn LiveLog>> {
        self.all().into_iter().find(|log| log.header().id == *id)
    }
    fn all(&self) -> Vec<Arc<dyn LiveLog>> {
        let all = self.0.lock().unwrap();
        all.iter().map(|log| Arc::clone(log) as _).collect()
    }
}

struct House {
    folder: tempfile::TempDir,
    store: Store,
    awake: Arc<Awakes>,
    corpus: Corpus,
    open: CancellationToken,
    _title: Registration,
}

impl House {
    fn new() -> Self {
        Self::on(Arc::new(RealDisk))
    }

    fn on(disk: Arc<dyn Disk>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(folder.path());
        let store = Store::start(disk, options).unwrap();
        let registry = Arc::new(Registry::default());
        let title = registry.register(Title).unwrap();
        let awake = Arc::new(Awakes::default());
        let corpus = Corpus::new(store.clone(), registry, None, Arc::clone(&awake) as _);
        Self {
            folder,
            store,
            awake,
            corpus,
            open: CancellationToken::new(),
            _title: title,
        }
    }

    async fn cold(&self, header: SessionHeader, events: Vec<SharedEvent>) {
        let writer = self.store.create(header, SessionLogOffset::ZERO).await;
        let writer = writer.unwrap();
        writer.append(events).unwrap();
        writer.close().await.unwrap();
    }

    fn live(&self, header: SessionHeader, events: Vec<SharedEvent>, title: &'static str) {
        let log = Awake {
            header,
            events,
            title,
        };
        self.awake.0.lock().unwrap().push(Arc::new(log));
    }

    async fn listed(&self, filters: &[SessionFilter]) -> Vec<String> {
        let records = self.corpus.filter_sessions(filters, &self.open).await;
        let records = records.unwrap().into_iter();
        records.map(|record| record.header.id.to_string()).collect()
    }

    async fn passing(&self, filters: &[EventFilter]) -> Vec<u64> {
        let log = id("log");
        let records = self.corpus.filter_events(&log, filters, &self.open).await;
        records.unwrap().iter().map(|r| r.seq.get()).collect()
    }

    /// Damages the log of a session on disk.
    async fn damage(&self, name: &str) {
        let path = self.store.find(&id(name)).await.unwrap().path;
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = bytes.clone();
        let end = bytes.len() - 6;
        bytes[end..].fill(0);
        // A whole frame behind it, so that this is no torn tail.
        bytes.extend(whole);
        std::fs::write(&path, bytes).unwrap();
    }
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_a_live_one_stands_for_its_log() {
    let house = House::new();
    house.cold(header("b", 5), titled("b")).await;
    house.cold(header("a", 5), titled("a")).await;
    house.cold(header("old", 1), titled("old")).await;
    let mut other = header("old", 9);
    other.cwd = Some("/elsewhere".to_owned());
    house.live(other.clone(), Vec::new(), "");
    house.live(header("new", 7), Vec::new(), "");
    let records = house.corpus.list_sessions(&house.open).await.unwrap();
    let told = |record: &SessionRecord| {
        let id = record.header.id.to_string();
        (id, record.live, record.persisted)
    };
    let expected = [
        ("old".to_owned(), true, true),
        ("new".to_owned(), true, false),
        ("a".to_owned(), false, true),
        ("b".to_owned(), false, true),
    ];
    assert_eq!(records.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(records[0].header, other, "the live header, silently");
}

#[tokio::test]
async fn clauses_all_hold_values_are_alternatives_and_no_value_lets_nothing_pass() {
    let house = House::new();
    let mut homeless = header("homeless", 3);
    homeless.cwd = None;
    house.cold(homeless, titled("t")).await;
    house.cold(header("root", 1), titled("t")).await;
    house
        .cold(below("root", header("kid", 2)), titled("t"))
        .await;
    house.live(header("awake", 4), Vec::new(), "");
    let time = Timestamp::saturating;
    let cases = [
        (vec![], "awake homeless kid root"),
        (vec![SessionFilter::Id(vec![])], ""),
        (
            vec![SessionFilter::Id(vec![id("kid"), id("root"), id("gone")])],
            "kid root",
        ),
        (vec![SessionFilter::Cwd(vec![None])], "homeless"),
        (
            vec![SessionFilter::CreatedAt(time(2)..=time(3))],
            "homeless kid",
        ),
        (vec![SessionFilter::Parent(vec![Some(id("root"))])], "kid"),
        (
            vec![SessionFilter::Parent(vec![None])],
            "awake homeless root",
        ),
        (
            vec![SessionFilter::Availability(vec![Availability::Live])],
            "awake",
        ),
        (
            vec![
                SessionFilter::Availability(vec![Availability::Persisted]),
                SessionFilter::Cwd(vec![Some("/project".to_owned())]),
                SessionFilter::CreatedAt(time(2)..=time(9)),
            ],
            "kid",
        ),
    ];
    for (filters, expected) in cases {
        assert_eq!(
            house.listed(&filters).await.join(" "),
            expected,
            "{filters:?}"
        );
    }
    let reversed = [SessionFilter::CreatedAt(RangeInclusive::new(
        time(3),
        time(2),
    ))];
    let error = house.corpus.filter_sessions(&reversed, &house.open).await;
    assert_eq!(error.unwrap_err().code(), "SESSION_QUERY_INVALID_FILTER");
}

#[tokio::test]
async fn titles_come_in_the_order_asked_each_once_and_a_bad_log_hides_no_other() {
    let house = House::new();
    house.cold(header("one", 1), titled("The one")).await;
    house.cold(header("bad", 1), titled("bad")).await;
    house.damage("bad").await;
    house.live(header("awake", 1), Vec::new(), "At work");
    let ids = ["awake", "bad", "one", "awake", "gone"].map(id);
    let answers = house.corpus.read_titles(&ids, &house.open).await.unwrap();
    let told: Vec<String> = answers
        .into_iter()
        .map(|answer| match answer.title {
            Ok(title) => format!("{}: {}", answer.id, title.unwrap_or_default()),
            Err(error) => format!("{}: {}", answer.id, error.code()),
        })
        .collect();
    let expected = [
        "awake: At work",
        "bad: SESSION_QUERY_CORRUPT_SESSION",
        "one: The one",
        "gone: SESSION_QUERY_SESSION_NOT_FOUND",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_lease_shows_what_it_showed_when_it_was_taken() {
    let house = House::new();
    let all = replaced();
    let writer = house
        .store
        .create(header("log", 1), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(all[..3].to_vec()).unwrap();
    writer.flush().await.unwrap();
    let log = id("log");
    let wanted = Projections::Keys(&["title"]);
    let lease = house
        .corpus
        .observe(&log, wanted, &house.open)
        .await
        .unwrap();
    writer.append(all[3..].to_vec()).unwrap();
    writer.close().await.unwrap();
    let later = house
        .corpus
        .observe(&log, wanted, &house.open)
        .await
        .unwrap();
    assert_eq!((lease.cursor().get(), later.cursor().get()), (2, 4));
    assert_ne!(lease.revision(), later.revision());
    let read = lease
        .events(SessionLogOffset::ZERO..later.end())
        .await
        .unwrap();
    assert_eq!(read.len(), 3, "no further than it reaches");
    let held = later.clone();
    drop(later);
    std::fs::remove_dir_all(house.folder.path()).unwrap();
    let read = held
        .events(SessionLogOffset::ZERO..held.end())
        .await
        .unwrap();
    assert_eq!(read.len(), 5, "the file that was opened is still read");
    assert_eq!(held.source(), LeaseSource::Prepared);
}

#[tokio::test]
async fn a_live_session_is_observed_whatever_its_disk_says() {
    let house = House::new();
    house.cold(header("log", 1), titled("stored")).await;
    house.damage("log").await;
    house.live(header("log", 1), titled("live"), "live");
    let lease = house
        .corpus
        .observe(&id("log"), Projections::All, &house.open)
        .await
        .unwrap();
    assert_eq!(
        (lease.source(), lease.revision()),
        (LeaseSource::Live, None)
    );
    let types: &[EventType] = &[EventType::SessionTitle];
    assert_eq!(lease.events_of(types).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_question_that_was_taken_back_starts_nothing() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let log = id("log");
    let gone = CancellationToken::new();
    gone.cancel();
    let corpus = &house.corpus;
    let codes = [
        corpus.list_sessions(&gone).await.unwrap_err(),
        corpus
            .observe(&log, Projections::All, &gone)
            .await
            .unwrap_err(),
        corpus.read_session(&log, &gone).await.unwrap_err(),
        corpus
            .read_titles(std::slice::from_ref(&log), &gone)
            .await
            .unwrap_err(),
        corpus.trace_session(&log, &gone).await.unwrap_err(),
        corpus.trace_event(&log, seq(0), &gone).await.unwrap_err(),
        corpus
            .family(house.awake.as_ref(), &gone)
            .await
            .unwrap_err(),
    ];
    for error in codes {
        assert_eq!(error.code(), "SESSION_QUERY_ABORTED");
    }
}

#[tokio::test]
async fn a_root_that_cannot_be_read_is_told_as_such_and_hides_no_live_session() {
    let house = House::new();
    house.live(header("awake", 1), titled("t"), "t");
    let root = house.store.root().to_owned();
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::write(&root, "no folder").unwrap();
    let corpus = &house.corpus;
    let error = corpus.list_sessions(&house.open).await.unwrap_err();
    assert_eq!(error.code(), "SESSION_QUERY_PERSISTENCE_FAILED");
    let awake = corpus.read_session(&id("awake"), &house.open).await;
    assert_eq!(awake.unwrap().events.len(), 1);
    std::fs::remove_file(&root).unwrap();
}

#[tokio::test]
async fn a_lease_of_a_live_session_ends_where_it_ended() {
    let house = House::new();
    let all = replaced();
    house.live(header("log", 1), all[..2].to_vec(), "then");
    let (log, open) = (id("log"), &house.open);
    let lease = house.corpus.observe(&log, Projections::All, open).await;
    let lease = lease.unwrap();
    house.awake.0.lock().unwrap().clear();
    house.live(header("log", 1), all.clone(), "now");
    let later = house.corpus.observe(&log, Projections::All, open).await;
    assert_eq!(
        (lease.cursor().get(), later.unwrap().cursor().get()),
        (1, 4)
    );
    let whole = SessionLogOffset::ZERO..SessionLogOffset::of_len(all.len());
    assert_eq!(lease.events(whole).await.unwrap().len(), 2);
    let title = lease.projections().unwrap().values["title"].text();
    assert_eq!(title, "\"then\"");
}

#[tokio::test]
async fn an_interrupted_turn_is_closed_for_the_reader_and_stays_open_on_disk() {
    let house = House::new();
    let (started, message) = (r#"{"turn":1}"#, said("hello", "a"));
    let turn = events(&[
        ("turn/start", started, ""),
        ("user/message", &message, APPEND),
    ]);
    house.cold(header("log", 1), turn).await;
    let log = id("log");
    let path = house.store.find(&log).await.unwrap().path;
    let before = std::fs::read(&path).unwrap();
    let whole = house.corpus.read_session(&log, &house.open).await.unwrap();
    let last = whole.events.last().unwrap();
    assert_eq!(*last.event_type(), EventType::TurnEnd);
    assert!(whole.events.len() > 2);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(house.store.read(&log).await.unwrap().events.len(), 2);
}

#[test]
fn every_failure_has_its_code() {
    let (id, why) = (id("s"), || "why".to_owned());
    let storage = orrery_storage::StorageError::Closed;
    let field = "seq";
    let (max, asked) = (1, 2);
    let codes = [
        (QueryError::Aborted, "ABORTED"),
        (QueryError::NotFound { id: id.clone() }, "SESSION_NOT_FOUND"),
        (
            QueryError::Corrupt {
                id: id.clone(),
                why: why(),
            },
            "CORRUPT_SESSION",
        ),
        (
            QueryError::SourceConflict {
                id: id.clone(),
                why: why(),
            },
            "SOURCE_CONFLICT",
        ),
        (QueryError::Storage(storage), "PERSISTENCE_FAILED"),
        (
            QueryError::EventNotFound {
                id: id.clone(),
                seq: seq(1),
            },
            "EVENT_NOT_FOUND",
        ),
        (
            QueryError::InvalidSurface {
                id: id.clone(),
                why: why(),
            },
            "INVALID_SURFACE",
        ),
        (QueryError::InvalidLineage { id }, "INVALID_LINEAGE"),
        (QueryError::InvalidWindow { max, asked }, "INVALID_WINDOW"),
        (
            QueryError::InvalidFilter { field, why: why() },
            "INVALID_FILTER",
        ),
        (QueryError::InvalidQuery { why: "why" }, "INVALID_QUERY"),
        (QueryError::InvalidLimit { max }, "INVALID_LIMIT"),
        (QueryError::InvalidCursor, "INVALID_CURSOR"),
        (QueryError::StaleCursor, "STALE_CURSOR"),
        (QueryError::SearchDisabled, "SEARCH_DISABLED"),
        (
            QueryError::Index(crate::search::IndexError(why())),
            "INDEX_FAILED",
        ),
    ];
    for (error, code) in codes {
        assert_eq!(error.code(), format!("SESSION_QUERY_{code}"), "{error}");
    }
}
