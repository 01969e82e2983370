//! What a list of subagents costs: `cargo bench -p orrery-host --bench listing`.
//!
//! Makes homes of 1,000 children (`ORRERY_BENCH_CHILDREN` for another number) of one parent: live
//! ones, cold ones with checkpoints, cold forks of 200, 2,000 and 20,000 events; the first two once
//! more beside 10,000 sessions that have nothing to do with them (`ORRERY_BENCH_SESSIONS`), also with
//! every look at the root too old to be believed. One log
//! of each kind is written; the others are its bytes behind headers of their own. Lists each as a
//! Host would, page cache warm, and prints the median, the slowest of a hundred, and what was read.
//! Nothing here fails on a number. Run it on an idle machine.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers: it stops at the first surprise and prints its figures"
)]

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_catalog::Catalog;
use orrery_projection::checkpoint::{CheckpointIdentity, CheckpointRecord, CheckpointStore};
use orrery_projection::units::{ListMetadata, SessionStats, Title, Todos, TokenUsage};
use orrery_projection::{Cells, Registration, Registry, Snapshot, UnitState};
use orrery_query::{Corpus, LiveLog, LiveSessions, NobodyLive};
use orrery_session::v0::encode_header;
use orrery_session::{
    Event, Origin, SessionHeader, SessionId, SessionLogOffset, SharedEvent, Timestamp,
};
use orrery_storage::disk::RealDisk;
use orrery_storage::layout::log_path;
use orrery_storage::{BELIEVED_FOR, Compression, LogView, Store, StoreOptions};
use orrery_subagent::listing::{Lister, Services};
use orrery_testkit::zstd_frames::Framing;
use tokio_util::sync::CancellationToken;

const RUNS: usize = 101;
const PARENT: &str = "parent";

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn child(number: usize, seeded: bool) -> SessionHeader {
    let made = Timestamp::saturating(1_700_000_000_000 + i64::try_from(number).unwrap());
    let mut header = SessionHeader::root(id(&format!("child-{number:05}")), made);
    header.cwd = Some("/project".to_owned());
    header.parent_session = Some(id(PARENT));
    header.origin = Some(Origin::Subagent);
    header.delegation_depth = 1;
    header.is_seeded = seeded;
    header
}

fn event(seq: usize, event_type: &str, data: &str, rest: &str) -> SharedEvent {
    let time = 1_700_000_000_000 + seq;
    let text =
        format!(r#"{{"type":"{event_type}","seq":{seq},"time":{time},"data":{data}{rest}}}"#);
    SharedEvent::new(Event::from_json(&text).unwrap())
}

/// A descriptor.
fn descriptor(seq: usize, label: &str) -> SharedEvent {
    let data =
        format!(r#"{{"version":2,"mode":"continuable","provider":"spawn","label":"{label}"}}"#);
    event(seq, "subagent/descriptor", &data, "")
}

/// Turns of a hundred deltas each, up to so many events.
fn turns(seqs: Range<usize>) -> Vec<SharedEvent> {
    let mut events = Vec::with_capacity(seqs.len() + 107);
    let mut turn = 0;
    while events.len() < seqs.len() {
        turn += 1;
        let mut put = |event_type: &str, data: &str, rest: &str| {
            events.push(event(seqs.start + events.len(), event_type, data, rest));
        };
        let append = r#","surfaceOp":"append""#;
        put("turn/start", &format!(r#"{{"turn":{turn}}}"#), "");
        let step = format!(r#"{{"turn":{turn},"step":1}}"#);
        put("step/start", &step, "");
        let prompt = format!(
            r#"{{"content":[{{"type":"text","text":"please look at part {turn}"}}],"source":{{"kind":"user"}},"role":"user","id":"u{turn}"}}"#
        );
        put("user/message", &prompt, append);
        for word in 0..100_usize {
            let mixed = (turn * 100 + word).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let delta = format!(
                r#"{{"turn":{turn},"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{mixed:x} "}}}}"#
            );
            put("assistant/chunk", &delta, "");
        }
        let answer = format!(
            r#"{{"turn":{turn},"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"part {turn} is as it should be"}}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"a{turn}"}},"usage":{{"inputTokens":100,"outputTokens":20}}}}"#
        );
        put("assistant/message", &answer, append);
        put("step/end", &step, "");
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        put("turn/end", &end, "");
    }
    events
}

/// The log of a fork: an ancestor's descriptor, what was said before, its own descriptor, one turn.
fn fork(length: usize) -> (SessionLogOffset, Vec<SharedEvent>) {
    let mut events = vec![descriptor(0, "ancestor")];
    events.extend(turns(1..length.saturating_sub(107).max(2)));
    let cut = events.len();
    events.push(descriptor(cut, "own"));
    events.extend(turns(cut + 1..cut + 2));
    (SessionLogOffset::of_len(cut), events)
}

/// Writes one log, then its bytes once more behind each of the other headers, and an index of each.
async fn fill(
    root: &Path,
    headers: &[SessionHeader],
    inherited: SessionLogOffset,
    events: &[SharedEvent],
) {
    let disk = Arc::new(RealDisk);
    let store = Store::start(disk, StoreOptions::new(root)).unwrap();
    let (first, others) = headers.split_first().unwrap();
    let writer = store.create(first.clone(), inherited).await.unwrap();
    // What is inherited comes in one batch, as a fork writes it.
    let (prefix, rest) = events.split_at(inherited.index());
    for batch in std::iter::once(prefix).chain(rest.chunks(64)) {
        writer.append(batch.to_vec()).unwrap();
        writer.flush().await.unwrap();
    }
    writer.close().await.unwrap();
    let whole = std::fs::read(log_path(root, first, Compression::Zstd)).unwrap();
    // Behind the header's frame.
    let magic = [0x28, 0xB5, 0x2F, 0xFD];
    let body = 1 + whole[1..]
        .windows(4)
        .position(|four| four == magic)
        .unwrap();
    for header in others {
        let path = log_path(root, header, Compression::Zstd);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = Framing::Unchecked
            .frame(&encode_header(header, inherited))
            .unwrap();
        bytes.extend_from_slice(&whole[body..]);
        std::fs::write(&path, bytes).unwrap();
        LogView::open(&RealDisk, &path, Compression::Zstd).unwrap();
    }
    store.shutdown().await;
}

/// Sessions of one prompt each, in folders of their own projects.
async fn strangers(root: &Path, sessions: usize) {
    let headers: Vec<SessionHeader> = (0..sessions)
        .map(|number| {
            let made = Timestamp::saturating(1_600_000_000_000 + i64::try_from(number).unwrap());
            let mut header = SessionHeader::root(id(&format!("stranger-{number:05}")), made);
            header.cwd = Some(format!("/project-{}", number % 20));
            header
        })
        .collect();
    if !headers.is_empty() {
        fill(root, &headers, SessionLogOffset::ZERO, &turns(0..1)).await;
    }
}

/// A live session as the list sees it.
#[derive(Debug)]
struct Awake {
    header: SessionHeader,
    state: Option<UnitState>,
}

impl LiveLog for Awake {
    fn header(&self) -> &SessionHeader {
        &self.header
    }
    fn inherited(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn end(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn saved(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn held_from(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn held(&self, _: Range<SessionLogOffset>) -> Vec<SharedEvent> {
        Vec::new()
    }
    fn projections(&self) -> Snapshot {
        unreachable!("a list looks at one state of a live session only")
    }
    fn state(&self, _: &str) -> Option<UnitState> {
        self.state.clone()
    }
}

#[derive(Debug, Default)]
struct Awakes(Vec<Arc<Awake>>);

impl LiveSessions for Awakes {
    fn get(&self, id: &SessionId) -> Option<Arc<dyn LiveLog>> {
        let found = self.0.iter().find(|log| log.header.id == *id).cloned();
        found.map(|log| log as Arc<dyn LiveLog>)
    }
    fn all(&self) -> Vec<Arc<dyn LiveLog>> {
        let all = self.0.iter().cloned();
        all.map(|log| log as Arc<dyn LiveLog>).collect()
    }
}

struct Place {
    _folder: tempfile::TempDir,
    store: Store,
    catalog: Catalog,
    registry: Arc<Registry>,
    _units: Vec<Registration>,
}

impl Place {
    fn new() -> Self {
        Self::believing(BELIEVED_FOR)
    }

    /// Where a look at the root is believed for so long.
    fn believing(believed_for: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("sessions");
        let options = StoreOptions {
            believed_for,
            ..StoreOptions::new(root)
        };
        let store = Store::start(Arc::new(RealDisk), options).unwrap();
        let catalog = Catalog::open(&folder.path().join("index.sqlite")).unwrap();
        let registry = Arc::new(Registry::default());
        let mut units = orrery_subagent::units::register(&registry).unwrap();
        units.push(registry.register(ListMetadata).unwrap());
        units.push(registry.register(SessionStats).unwrap());
        units.push(registry.register(Title).unwrap());
        units.push(registry.register(Todos).unwrap());
        units.push(registry.register(TokenUsage).unwrap());
        Self {
            _folder: folder,
            store,
            catalog,
            registry,
            _units: units,
        }
    }

    /// Keeps records of all units at the end of these events.
    fn keep(&self, headers: &[SessionHeader], events: &[SharedEvent]) {
        let record = |header: &SessionHeader| {
            let mut cells = Cells::new(&self.registry, header, SessionLogOffset::ZERO);
            cells.feed(events);
            let record = CheckpointRecord {
                identity: CheckpointIdentity::of(header, SessionLogOffset::ZERO),
                revision: None,
                anchor: None,
                rows: cells.checkpoint().unwrap(),
            };
            (header.id.clone(), record)
        };
        let records: Vec<_> = headers.iter().map(record).collect();
        self.catalog.put(&records).unwrap();
    }

    async fn measure(&self, what: &str, live: Arc<dyn LiveSessions>, children: usize) -> Duration {
        let checkpoints: Arc<dyn CheckpointStore> = Arc::new(self.catalog.clone());
        let corpus = Corpus::new(
            self.store.clone(),
            Arc::clone(&self.registry),
            Some(Arc::clone(&checkpoints)),
            Arc::clone(&live),
        );
        let lister = Lister::new(Services {
            projections: Some(Arc::clone(&self.registry)),
            sessions: Some(live),
            corpus: Some(corpus),
            checkpoints: Some(checkpoints),
            cold_reads: NonZeroUsize::new(4).unwrap(),
        });
        let (parent, signal) = (id(PARENT), CancellationToken::new());
        let mut times = Vec::new();
        let mut read = self.store.reads();
        for run in 0..=RUNS {
            let begin = Instant::now();
            let listed = lister.children(&parent, &signal).await.unwrap();
            let took = begin.elapsed();
            assert_eq!(listed.rows.len(), children);
            if run == 0 {
                // The first one warms caches, and is not counted.
                read = self.store.reads();
            } else {
                times.push(took);
            }
        }
        let now = self.store.reads();
        times.sort_unstable();
        let (median, slowest) = (times[RUNS / 2], times[RUNS - 1]);
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "{what}: {:.2} ms, the slowest {:.2} ms; {} logs and {} frames for each list, {} looks at the root in all",
            ms(median),
            ms(slowest),
            (now.logs - read.logs) / RUNS as u64,
            (now.frames - read.frames) / RUNS as u64,
            now.enumerations - read.enumerations,
        );
        median
    }
}

fn number_of(variable: &str, otherwise: usize) -> usize {
    let said = std::env::var(variable).ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::main]
async fn main() {
    let children = number_of("ORRERY_BENCH_CHILDREN", 1000);
    let sessions = number_of("ORRERY_BENCH_SESSIONS", 10_000);
    let nobody = || Arc::new(NobodyLive) as Arc<dyn LiveSessions>;
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    let plain: Vec<SessionHeader> = (0..children).map(|n| child(n, false)).collect();
    let forked: Vec<SessionHeader> = (0..children).map(|n| child(n, true)).collect();
    let mut short = vec![descriptor(0, "own")];
    short.extend(turns(1..200));

    let mut alone = Duration::ZERO;
    for strange in [0, sessions] {
        let place = Place::new();
        strangers(place.store.root(), strange).await;
        let awake = plain.iter().map(|header| {
            let mut cells = Cells::new(&place.registry, header, SessionLogOffset::ZERO);
            cells.feed(&short);
            let (header, state) = (header.clone(), cells.shared_state("subagent"));
            Arc::new(Awake { header, state })
        });
        let awake = Arc::new(Awakes(awake.collect()));
        let what = format!("{children} live children beside {strange} strangers");
        let took = place.measure(&what, awake, children).await;
        if strange == 0 {
            alone = took;
        } else {
            println!("  {:.2} times", ratio(took, alone));
        }
    }
    let never = Duration::ZERO;
    for (strange, believed_for) in [
        (0, BELIEVED_FOR),
        (sessions, BELIEVED_FOR),
        (sessions, never),
    ] {
        let place = Place::believing(believed_for);
        strangers(place.store.root(), strange).await;
        fill(place.store.root(), &plain, SessionLogOffset::ZERO, &short).await;
        place.keep(&plain, &short);
        let asking = if believed_for == never {
            ", every look too old"
        } else {
            ""
        };
        let what =
            format!("{children} cold children with checkpoints beside {strange} strangers{asking}");
        let took = place.measure(&what, nobody(), children).await;
        if strange == 0 {
            alone = took;
        } else {
            println!("  {:.2} times", ratio(took, alone));
        }
    }
    for length in [200, 2_000, 20_000] {
        let place = Place::new();
        let (inherited, events) = fork(length);
        fill(place.store.root(), &forked, inherited, &events).await;
        let what = format!("{children} cold forks of {} events", events.len());
        let took = place.measure(&what, nobody(), children).await;
        if length == 200 {
            alone = took;
        } else {
            println!("  {:.2} times", ratio(took, alone));
        }
    }
}
