//! Whatever happens to logs, sessions and the index between fillings, a filled index holds what
//! folding each log from its start gives.

mod shelf;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use orrery_projection::{Snapshot, UnitState};
use orrery_session::SessionHeader;
use orrery_session::surface::Surface;
use orrery_storage::StoreOptions;
use orrery_storage::disk::RealDisk;
use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::{Fixture, LogWriter};
use proptest::prelude::*;

use super::*;
use crate::live::LiveLog;
use shelf::Shelf;

/// Something that a session's log can hold, one event each.
#[derive(Debug, Clone)]
enum Line {
    Said(&'static str),
    /// A message in place of the last so many that the model sees.
    Instead(usize, &'static str),
    Titled(&'static str),
    /// A title that no build can read.
    OddTitle,
    /// Searchable, and never seen by the model.
    Ended,
    /// Of no interest.
    Nothing,
}

fn fixture(name: &str, lines: &[Line]) -> Fixture {
    let mut writer = LogWriter::new(name, Container::Plain, r#","delegationDepth":0"#);
    let mut seen: Vec<usize> = Vec::new();
    for line in lines {
        match line {
            Line::Said(text) => seen.push(writer.prompt(text)),
            Line::Instead(last, text) => {
                let taken = seen.split_off(seen.len().saturating_sub(*last));
                let seq = writer.next();
                seen.push(seq);
                let [start, .., end] = taken.as_slice() else {
                    // Fewer than two: an ordinary message.
                    seen.splice(seen.len() - 1.., taken);
                    seen.push(writer.prompt(text));
                    continue;
                };
                let json = format!(
                    r#"{{"type":"user/message","seq":{seq},"time":1,"data":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"id":"m{seq}"}},"sourceEventSeqs":{taken:?},"surfaceOp":{{"op":"replace","start":{start},"end":{end}}}}}"#
                );
                writer.line(&json, std::slice::from_ref(&json));
            }
            Line::Titled(title) => {
                let data =
                    format!(r#"{{"title":"{title}","messageSeqs":[],"source":{{"kind":"user"}}}}"#);
                writer.event("session/title", &data);
            }
            Line::OddTitle => {
                writer.event("session/title", r#"{"title":7}"#);
            }
            Line::Ended => {
                let aborted = r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}"#;
                writer.event("turn/end", aborted);
            }
            Line::Nothing => {
                writer.event("todo/write", r#"{"todos":[]}"#);
            }
        }
    }
    writer.finish()
}

#[derive(Debug)]
struct Awake {
    header: SessionHeader,
    saved: SessionLogOffset,
}

impl LiveLog for Awake {
    fn header(&self) -> &SessionHeader {
        &self.header
    }
    fn inherited(&self) -> SessionLogOffset {
        SessionLogOffset::ZERO
    }
    fn end(&self) -> SessionLogOffset {
        self.saved
    }
    fn saved(&self) -> SessionLogOffset {
        self.saved
    }
    fn held_from(&self) -> SessionLogOffset {
        self.saved
    }
    fn held(&self, _: Range<SessionLogOffset>) -> Vec<SharedEvent> {
        Vec::new()
    }
    fn projections(&self) -> Snapshot {
        Snapshot {
            as_of_seq: self.saved.cursor(),
            values: BTreeMap::new(),
        }
    }
    fn state(&self, _: &str) -> Option<UnitState> {
        None
    }
}

#[derive(Debug, Default)]
struct Awakes(Mutex<BTreeMap<SessionId, Arc<Awake>>>);

impl LiveSessions for Awakes {
    fn get(&self, id: &SessionId) -> Option<Arc<dyn LiveLog>> {
        let all = self.0.lock().unwrap();
        all.get(id).map(|log| Arc::clone(log) as _)
    }
    fn all(&self) -> Vec<Arc<dyn LiveLog>> {
        let all = self.0.lock().unwrap();
        all.values().map(|log| Arc::clone(log) as _).collect()
    }
}

struct House {
    folder: tempfile::TempDir,
    store: Store,
    awake: Arc<Awakes>,
    shelf: Arc<Shelf>,
    filling: Filling,
    lines: BTreeMap<&'static str, Vec<Line>>,
    written: u64,
}

impl House {
    fn new(window: usize, batch_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::start(Arc::new(RealDisk), StoreOptions::new(folder.path())).unwrap();
        let (awake, shelf) = (Arc::new(Awakes::default()), Arc::new(Shelf::default()));
        let mut filling = Filling::new(
            store.clone(),
            Arc::clone(&awake) as _,
            Arc::clone(&shelf) as _,
        );
        filling.bounds = Bounds {
            window,
            batch_bytes,
        };
        Self {
            folder,
            store,
            awake,
            shelf,
            filling,
            lines: BTreeMap::new(),
            written: 0,
        }
    }

    /// Puts the log on disk as `lines` has it: written on where that is possible and wanted, else in
    /// place of the file. Each state of a file has a time of its own, whatever the clock's grain is.
    fn write(&mut self, name: &'static str, in_place: bool) {
        let log = fixture(name, &self.lines[name]);
        let folder = self.folder.path().join(log.project).join(&log.id);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(log.container.file_name());
        if in_place && path.exists() {
            std::fs::write(&path, &log.bytes).unwrap();
        } else {
            std::fs::write(folder.join("fresh"), &log.bytes).unwrap();
            std::fs::rename(folder.join("fresh"), &path).unwrap();
        }
        self.written += 1;
        let file = File::options().append(true).open(&path).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + self.written);
        file.set_modified(time).unwrap();
    }

    fn delete(&mut self, name: &'static str) {
        if self.lines.remove(name).is_some() {
            let log = fixture(name, &[]);
            let folder = self.folder.path().join(log.project).join(&log.id);
            std::fs::remove_dir_all(folder).unwrap();
        }
    }

    fn is_awake(&self, name: &str) -> bool {
        self.awake.get(&id(name)).is_some()
    }

    /// Makes a session live that has saved all but the last `unsaved` of its events.
    async fn wake(&self, name: &'static str, unsaved: usize) {
        let id = id(name);
        let view = self.store.view(&id).await.unwrap();
        let saved = self.lines[name].len().saturating_sub(unsaved);
        let log = Awake {
            header: view.header().clone(),
            saved: SessionLogOffset::of_len(saved),
        };
        self.awake.0.lock().unwrap().insert(id, Arc::new(log));
    }

    fn sleep(&self, name: &str) {
        self.awake.0.lock().unwrap().remove(&id(name));
    }

    /// Fills until nothing is behind.
    async fn fill(&self) {
        for _ in 0..4 {
            // A failure leaves the rest to the next time, as it does in a Host.
            let Ok(backlog) = self.filling.backlog().await else {
                continue;
            };
            if backlog.is_empty() {
                return;
            }
            drop(self.filling.work_off(backlog, |_| true).await);
        }
        let backlog = self.filling.backlog().await.unwrap();
        assert!(backlog.is_empty(), "it never ends: {backlog:?}");
    }

    /// What the index has to hold of a session: from all events up to where it is saved.
    async fn expected(&self, name: &str) -> Vec<Document> {
        let view = self.store.view(&id(name)).await.unwrap();
        let end = match self.awake.get(&id(name)) {
            Some(log) => log.saved(),
            None => view.stored_end(),
        };
        let events = view.events(SessionLogOffset::ZERO..end).unwrap();
        let surface = Surface::fold(&events).unwrap();
        let seen: BTreeSet<SessionSeq> = surface.nodes().iter().map(|node| node.seq()).collect();
        let titles = events
            .iter()
            .filter(|e| *e.event_type() == EventType::SessionTitle);
        let newest = titles.map(|event| event.seq()).max();
        let documents = events.iter().filter_map(|event| {
            let title = *event.event_type() == EventType::SessionTitle;
            if title && Some(event.seq()) != newest {
                return None;
            }
            let standing = match event.event_type().is_surface() {
                false => Standing::LogOnly,
                true if seen.contains(&event.seq()) => Standing::Current,
                true => Standing::Shadowed,
            };
            Some(Document {
                seq: event.seq(),
                event_type: event.event_type().clone(),
                time: event.time(),
                standing,
                text: text_of(event)?,
            })
        });
        documents.collect()
    }

    async fn assert_filled(&self) {
        for name in NAMES {
            let held = self.shelf.documents(&id(name));
            let expected = match self.lines.contains_key(name) {
                true => self.expected(name).await,
                false => Vec::new(),
            };
            assert_eq!(held, expected, "{name}");
        }
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn id(name: &str) -> SessionId {
    SessionId::new(format!("session-{name}")).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    /// Something is written behind what is there.
    Grow(&'static str, Vec<Line>),
    /// The end is lost, and other things may be written in its place.
    Cut(&'static str, usize, Vec<Line>),
    /// Another log of the same header takes its place.
    Replace(&'static str, Vec<Line>),
    /// The same with other words: nothing tells by its length.
    Reword(&'static str, &'static str),
    Delete(&'static str),
    Wake(&'static str, usize),
    Sleep(&'static str),
    LoseIndex,
    FailTwice,
    FillSome(usize),
    Fill,
}

impl House {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Grow(name, lines) => {
                self.lines.entry(name).or_default().extend(lines);
                self.write(name, true);
                if self.is_awake(name) {
                    self.wake(name, 0).await;
                }
            }
            // Who is awake holds the lock: nobody else writes its log.
            Step::Cut(name, ..)
            | Step::Replace(name, _)
            | Step::Reword(name, _)
            | Step::Delete(name)
                if self.is_awake(name) => {}
            Step::Cut(name, end, lines) => {
                if let Some(log) = self.lines.get_mut(name) {
                    log.truncate(end);
                    log.extend(lines);
                    self.write(name, true);
                }
            }
            Step::Replace(name, lines) => {
                self.lines.insert(name, lines);
                self.write(name, false);
            }
            Step::Reword(name, word) => {
                if let Some(log) = self.lines.get_mut(name) {
                    let said = log.iter_mut().filter_map(|line| match line {
                        Line::Said(text) | Line::Titled(text) => Some(text),
                        _ => None,
                    });
                    said.for_each(|text| *text = word);
                    self.write(name, false);
                }
            }
            Step::Delete(name) => self.delete(name),
            Step::Wake(name, unsaved) => {
                if self.lines.contains_key(name) && !self.is_awake(name) {
                    self.wake(name, unsaved).await;
                }
            }
            Step::Sleep(name) => {
                self.sleep(name);
                // A Host looks more often than sessions fall asleep, change hands and wake again.
                drop(self.filling.live_backlog().await);
            }
            Step::LoseIndex => self.shelf.lose(),
            Step::FailTwice => self.shelf.fail(2),
            Step::FillSome(sessions) => {
                let backlog = self.filling.backlog().await.unwrap();
                let most = backlog.len().saturating_sub(sessions);
                drop(self.filling.work_off(backlog, |left| left > most).await);
            }
            Step::Fill => {
                self.fill().await;
                self.assert_filled().await;
            }
        }
    }
}

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["one", "two", "three", "one two", " "])
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        4 => text().prop_map(Line::Said),
        2 => (2..5_usize, text()).prop_map(|(last, text)| Line::Instead(last, text)),
        2 => text().prop_map(Line::Titled),
        1 => Just(Line::OddTitle),
        1 => Just(Line::Ended),
        1 => Just(Line::Nothing),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(NAMES.to_vec());
    let lines = |most: usize| prop::collection::vec(line(), 0..most);
    prop_oneof![
        4 => (name(), lines(8)).prop_map(|(name, lines)| Step::Grow(name, lines)),
        2 => (name(), 0..12_usize, lines(8)).prop_map(|(name, end, l)| Step::Cut(name, end, l)),
        1 => (name(), lines(12)).prop_map(|(name, lines)| Step::Replace(name, lines)),
        2 => (name(), text()).prop_map(|(name, word)| Step::Reword(name, word)),
        1 => name().prop_map(Step::Delete),
        2 => (name(), 0..4_usize).prop_map(|(name, unsaved)| Step::Wake(name, unsaved)),
        1 => name().prop_map(Step::Sleep),
        1 => Just(Step::LoseIndex),
        1 => Just(Step::FailTwice),
        1 => (0..3_usize).prop_map(Step::FillSome),
        4 => Just(Step::Fill),
    ]
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_filled_index_holds_what_folding_every_log_from_its_start_gives(
        steps in prop::collection::vec(step(), 1..16),
        window in prop::sample::select(vec![1_usize, 2, 5, WINDOW]),
        batch_bytes in prop::sample::select(vec![1_usize, 12, BATCH_BYTES]),
    ) {
        run(async move {
            let mut house = House::new(window, batch_bytes);
            for step in steps {
                house.step(step).await;
            }
            NAMES.iter().for_each(|name| house.sleep(name));
            house.step(Step::Fill).await;
        });
    }
}

#[tokio::test]
async fn what_is_filled_is_not_read_again() {
    let mut house = House::new(WINDOW, BATCH_BYTES);
    for name in NAMES {
        let lines = vec![Line::Said("one"), Line::Titled("two")];
        house.step(Step::Grow(name, lines)).await;
    }
    house.wake("c", 0).await;
    house.step(Step::Fill).await;
    let changes = house.shelf.changes();
    house.fill().await;
    assert_eq!(house.shelf.changes(), changes);
    assert!(house.filling.live_backlog().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_left_until_it_changes_and_hides_no_other() {
    let mut house = House::new(WINDOW, BATCH_BYTES);
    for name in NAMES {
        house.step(Step::Grow(name, vec![Line::Said("one")])).await;
    }
    let path = house.store.find(&id("b")).await.unwrap().path;
    let good = std::fs::read_to_string(&path).unwrap();
    let bad = good.replacen("user/message", "user\0message", 1);
    std::fs::write(&path, format!("{bad}{bad}")).unwrap();
    house.fill().await;
    let held = |name| house.shelf.documents(&id(name)).len();
    assert_eq!(NAMES.map(held), [1, 0, 1]);
    let backlog = house.filling.backlog().await.unwrap();
    assert!(backlog.is_empty(), "{backlog:?}");
    house.write("b", false);
    house.fill().await;
    house.assert_filled().await;
}

#[tokio::test]
async fn a_log_that_is_overwritten_by_one_made_at_another_time_is_filled_once() {
    let mut house = House::new(WINDOW, BATCH_BYTES);
    house.step(Step::Grow("a", vec![Line::Said("one")])).await;
    house.step(Step::Fill).await;
    let path = house.store.find(&id("a")).await.unwrap().path;
    let text = std::fs::read_to_string(&path).unwrap();
    let other = text.replace(r#""createdAt":1700"#, r#""createdAt":1800"#);
    std::fs::write(&path, other.replace("one", "two")).unwrap();
    house.fill().await;
    let held = house.shelf.documents(&id("a"));
    assert_eq!(held[0].text, "two");
    let entry = house.store.catalogue().await.unwrap();
    let entry = entry.get(&id("a")).unwrap();
    assert_eq!(entry.header.created_at.epoch_millis(), 1800);
}
