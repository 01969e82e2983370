use std::ops::{Range, RangeInclusive};
use std::sync::Mutex;

use orrery_projection::units::Title;
use orrery_projection::{Registration, Snapshot, UnitState};
use orrery_session::{Event, EventType, Json, SessionSeq, SessionSeqCursor, Timestamp};
use orrery_storage::StoreOptions;
use orrery_storage::disk::RealDisk;

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
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(folder.path());
        let store = Store::start(Arc::new(RealDisk), options).unwrap();
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
async fn events_are_told_apart_by_where_they_stand_and_filtered_by_what_they_say() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let records = house.corpus.list_events(&id("log"), &house.open).await;
    let standings: Vec<Standing> = records.unwrap().iter().map(|r| r.standing).collect();
    let expected = [
        Standing::Shadowed,
        Standing::LogOnly,
        Standing::Shadowed,
        Standing::Current,
        Standing::Current,
    ];
    assert_eq!(standings, expected);
    let time = Timestamp::saturating;
    let text = |text: &str| EventFilter::Text(text.to_owned());
    let cases: [(Vec<EventFilter>, &[u64]); 7] = [
        (vec![EventFilter::Seq(seq(1)..=seq(3))], &[1, 2, 3]),
        (vec![EventFilter::Time(time(104)..=time(900))], &[4]),
        (vec![EventFilter::Type(vec![])], &[]),
        (vec![EventFilter::Type(vec![EventType::SessionTitle])], &[1]),
        (
            vec![EventFilter::Standing(vec![Standing::Shadowed])],
            &[0, 2],
        ),
        (vec![text(" erste\tFRAGE ")], &[0]),
        (
            vec![EventFilter::Standing(vec![Standing::Current]), text("o")],
            &[3],
        ),
    ];
    for (filters, expected) in cases {
        assert_eq!(house.passing(&filters).await, expected, "{filters:?}");
    }
    for wrong in [
        text(" \t "),
        EventFilter::Seq(RangeInclusive::new(seq(3), seq(2))),
        EventFilter::Time(RangeInclusive::new(time(3), time(2))),
    ] {
        let log = id("nobody");
        let error = house
            .corpus
            .filter_events(&log, &[wrong], &house.open)
            .await;
        let code = error.unwrap_err().code();
        assert_eq!(
            code, "SESSION_QUERY_INVALID_FILTER",
            "before anything is read"
        );
    }
}

#[tokio::test]
async fn the_surface_is_what_the_model_sees_at_a_moment_that_is_named() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    house.live(header("empty", 1), Vec::new(), "");
    let surface = house
        .corpus
        .read_surface(&id("log"), &house.open)
        .await
        .unwrap();
    let seqs: Vec<u64> = surface
        .events
        .iter()
        .map(|event| event.seq().get())
        .collect();
    assert_eq!((seqs, surface.captured_through.get()), (vec![3, 4], 4));
    let empty = house
        .corpus
        .read_surface(&id("empty"), &house.open)
        .await
        .unwrap();
    assert_eq!(empty.captured_through, SessionSeqCursor::new(-1).unwrap());
}

#[tokio::test]
async fn a_window_ends_where_the_log_does_and_no_further_than_allowed() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let log = id("log");
    let read = async |at: u64, around| {
        let window = house
            .corpus
            .read_event(&log, seq(at), around, &house.open)
            .await;
        window.map(|window| {
            let seqs = window.events.iter().map(|event| event.seq().get());
            (window.target.seq().get(), seqs.collect::<Vec<_>>())
        })
    };
    assert_eq!(read(2, (0, 0)).await.unwrap(), (2, vec![2]));
    assert_eq!(read(1, (50, 2)).await.unwrap(), (1, vec![0, 1, 2, 3]));
    assert_eq!(read(4, (1, 50)).await.unwrap(), (4, vec![3, 4]));
    let missing = read(5, (50, 0)).await.unwrap_err();
    assert_eq!(missing.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
    let wide = read(0, (0, MAX_WINDOW + 1)).await.unwrap_err();
    assert_eq!(wide.code(), "SESSION_QUERY_INVALID_WINDOW");
}

#[tokio::test]
async fn an_event_is_traced_to_what_replaced_it_and_what_it_was_made_of() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let trace = async |at: u64| {
        let log = id("log");
        house.corpus.trace_event(&log, seq(at), &house.open).await
    };
    let numbers = |seqs: &[SessionSeq]| seqs.iter().map(|seq| seq.get()).collect::<Vec<_>>();
    let old = trace(0).await.unwrap();
    assert_eq!(old.replaced_by, Some(seq(3)));
    assert_eq!(numbers(&old.replacement_chain), [3]);
    assert_eq!(
        (numbers(&old.derived), old.target.standing),
        (vec![3], Standing::Shadowed)
    );
    let new = trace(3).await.unwrap();
    assert_eq!(
        (numbers(&new.replaced), numbers(&new.sources)),
        (vec![0, 2], vec![0, 2])
    );
    assert_eq!((new.replaced_by, new.derived.len()), (None, 0));
    let missing = trace(99).await.unwrap_err();
    assert_eq!(missing.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
}

#[tokio::test]
async fn relatives_are_told_outwards_and_in_order_and_a_missing_parent_is_named() {
    let house = House::new();
    for (name, parent, made) in [
        ("top", "gone", 1),
        ("mid", "top", 2),
        ("y", "mid", 5),
        ("x", "mid", 5),
        ("elder", "mid", 4),
        ("grandchild", "elder", 9),
    ] {
        let header = below(parent, header(name, made));
        house.live(header, Vec::new(), "");
    }
    let trace = house
        .corpus
        .trace_session(&id("mid"), &house.open)
        .await
        .unwrap();
    let names: Vec<String> = trace
        .ancestors
        .iter()
        .map(|r| r.header.id.to_string())
        .collect();
    assert_eq!(
        (names, trace.unresolved_parent),
        (vec!["top".to_owned()], Some(id("gone")))
    );
    let below: Vec<String> = trace
        .descendants
        .iter()
        .map(|d| format!("{} {}", d.depth, d.record.header.id))
        .collect();
    assert_eq!(below, ["1 elder", "2 grandchild", "1 x", "1 y"]);
    let nobody = house.corpus.trace_session(&id("nobody"), &house.open).await;
    assert_eq!(
        nobody.unwrap_err().code(),
        "SESSION_QUERY_SESSION_NOT_FOUND"
    );
}

#[tokio::test]
async fn a_circle_of_parents_is_refused() {
    let house = House::new();
    house.live(below("b", header("a", 1)), Vec::new(), "");
    house.live(below("a", header("b", 1)), Vec::new(), "");
    house.live(below("a", header("outside", 1)), Vec::new(), "");
    for name in ["a", "outside"] {
        let error = house.corpus.trace_session(&id(name), &house.open).await;
        assert_eq!(error.unwrap_err().code(), "SESSION_QUERY_INVALID_LINEAGE");
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_is_walked_from_either_end() {
    let mut records = BTreeMap::new();
    for number in 0..100_000_u32 {
        let mut header = header(&format!("s{number}"), 1);
        header.parent_session = number.checked_sub(1).map(|above| id(&format!("s{above}")));
        let record = SessionRecord {
            header,
            inherited: SessionLogOffset::ZERO,
            live: false,
            persisted: true,
        };
        records.insert(record.header.id.clone(), record);
    }
    let top = lineage::trace(&records, &id("s0")).unwrap();
    assert_eq!(top.descendants.last().unwrap().depth, 99_999);
    let bottom = lineage::trace(&records, &id("s99999")).unwrap();
    assert_eq!(bottom.ancestors.len(), 99_999);
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
        corpus.family(&gone).await.unwrap_err(),
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
async fn an_event_that_claims_a_place_it_may_not_have_is_told_as_such() {
    let house = House::new();
    let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
    let text = format!(
        r#"{{"type":"session/title","seq":0,"time":1,"data":{title},"surfaceOp":"append"}}"#
    );
    let folder = house.store.root().join("--project--/odd");
    std::fs::create_dir_all(&folder).unwrap();
    let header = r#"{"type":"session","version":0,"id":"odd","createdAt":1,"cwd":"/project","delegationDepth":0}"#;
    let whole = r#"{"type":"turn/start","seq":1,"time":1,"data":{"turn":1}}"#;
    let log = format!("{header}\n{text}\n{whole}\n");
    std::fs::write(folder.join("session.jsonl"), log).unwrap();
    let (odd, open) = (id("odd"), &house.open);
    let corpus = &house.corpus;
    let errors = [
        corpus.list_events(&odd, open).await.unwrap_err(),
        corpus.trace_event(&odd, seq(0), open).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), "SESSION_QUERY_INVALID_SURFACE", "{error}");
    }
}
