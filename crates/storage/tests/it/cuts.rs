//! Logs that others wrote, whole, cut at every byte and damaged in every line: what was committed is
//! read, what is torn is recovered or dropped, damage is never mistaken for either.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use orrery_session::{SessionLog, SessionLogOffset, Vocabulary};
use orrery_storage::disk::RealDisk;
use orrery_storage::log_file::LogFile;
use orrery_storage::read::{StoredLog, read_log};
use orrery_storage::{Compression, LogView, StorageError};
use orrery_testkit::log_fixtures;
use orrery_testkit::log_layout::{Container, Expected, Layout};
use orrery_testkit::log_writer::Fixture;

/// How many bytes of one foreign log are read at most, over all its cuts.
const WORK: usize = 1_000_000;

fn compression(container: Container) -> Compression {
    match container {
        Container::Zstd => Compression::Zstd,
        Container::Plain => Compression::None,
    }
}

fn read(path: &Path, container: Container) -> Result<StoredLog, StorageError> {
    read_log(&RealDisk, path, compression(container))
}

fn texts(log: &StoredLog) -> Vec<&str> {
    log.events.iter().map(|event| event.text()).collect()
}

/// A log in a folder of its own, with the texts of its events.
struct Sample {
    name: String,
    id: String,
    container: Container,
    bytes: Vec<u8>,
    layout: Layout,
    events: Vec<String>,
    _home: tempfile::TempDir,
    path: PathBuf,
}

impl Sample {
    fn new(
        name: &str,
        id: &str,
        container: Container,
        bytes: Vec<u8>,
        events: Vec<String>,
    ) -> Self {
        let home = tempfile::tempdir_in(crate::scratch()).unwrap();
        let path = home.path().join(container.file_name());
        std::fs::write(&path, &bytes).unwrap();
        Self {
            name: name.to_owned(),
            id: id.to_owned(),
            container,
            layout: Layout::of(&bytes, container).unwrap_or_else(|e| panic!("{name}: {e}")),
            bytes,
            events,
            _home: home,
            path,
        }
    }

    fn of(fixture: Fixture) -> Self {
        let Fixture {
            name,
            id,
            container,
            bytes,
            events,
            ..
        } = fixture;
        Self::new(&name, &id, container, bytes, events)
    }

    fn file(&self) -> File {
        OpenOptions::new().write(true).open(&self.path).unwrap()
    }

    /// Offsets next to where a frame or line begins or ends.
    fn borders(&self) -> Vec<usize> {
        let frames = self.layout.frames.iter();
        let mut found: Vec<usize> = match self.container {
            Container::Zstd => frames.map(|frame| frame.span.end).collect(),
            Container::Plain => frames
                .flat_map(|frame| frame.lines.iter().map(|line| line.span.end + 1))
                .collect(),
        };
        found.push(self.layout.header_end);
        found
    }

    /// Every offset of a small log; of a large one those next to borders, and a stride.
    fn offsets(&self, work: usize) -> Vec<usize> {
        let size = self.bytes.len();
        let affordable = (work / size).max(1);
        if affordable > size {
            return (1..=size).rev().collect();
        }
        let borders = self.borders();
        let reach = (affordable / borders.len() / 4).clamp(1, 20);
        let near = borders
            .into_iter()
            .flat_map(|at| at.saturating_sub(reach)..=at + reach);
        let mut offsets: Vec<usize> = (1..=size)
            .step_by((2 * size / affordable).max(1))
            .chain(near)
            .filter(|at| (1..=size).contains(at))
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.reverse();
        offsets
    }

    /// What is read at a cut, through both readers.
    fn check_cut(&self, cut: usize) {
        let what = format!("{} cut at {cut} of {}", self.name, self.bytes.len());
        let found = read(&self.path, self.container);
        let seen = cut.is_multiple_of(16) || self.bytes.len() - cut < 5;
        let view = seen.then(|| LogView::open(&RealDisk, &self.path, compression(self.container)));
        match self.layout.cut(&self.bytes, cut) {
            Expected::NoLog | Expected::Damaged => {
                assert!(
                    matches!(found, Err(StorageError::Corrupt { .. })),
                    "{what}: {found:?}"
                );
                assert!(view.is_none_or(|view| view.is_err()), "{what}");
            }
            Expected::Events {
                committed,
                recovered,
                torn,
            } => {
                let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
                let kept = committed + recovered;
                assert_eq!(texts(&found), self.events[..kept], "{what}");
                let marker = found.torn.map(|torn| (torn.truncate_to, torn.recovered));
                assert_eq!(marker, torn.map(|at| (at as u64, recovered)), "{what}");
                let Some(view) = view else { return };
                let view = view.unwrap_or_else(|e| panic!("{what}: through the index: {e}"));
                assert_eq!(view.stored_end().index(), kept, "{what}");
                let seen = view.events(SessionLogOffset::ZERO..view.stored_end());
                assert!(
                    seen.unwrap() == found.events,
                    "{what}: the index reads other events"
                );
            }
        }
    }

    /// What a cut log becomes when it is opened for writing.
    fn check_repair(&self, cut: usize) {
        let what = format!("{} repaired after a cut at {cut}", self.name);
        let home = tempfile::tempdir_in(crate::scratch()).unwrap();
        let path = home.path().join(self.container.file_name());
        std::fs::write(&path, &self.bytes[..cut]).unwrap();
        let disk: std::sync::Arc<dyn orrery_storage::disk::Disk> = std::sync::Arc::new(RealDisk);
        let id = orrery_session::SessionId::new(self.id.as_str()).unwrap();
        let opened = LogFile::open(&disk, &path, compression(self.container), &id);
        let Expected::Events {
            committed,
            recovered,
            torn,
        } = self.layout.cut(&self.bytes, cut)
        else {
            assert!(opened.is_err(), "{what}");
            return;
        };
        let (_file, log) = opened.unwrap_or_else(|e| panic!("{what}: {e}"));
        let kept = committed + recovered;
        assert_eq!(texts(&log)[..kept], self.events[..kept], "{what}");
        let untouched = torn.unwrap_or(cut);
        let after = std::fs::read(&path).unwrap();
        assert_eq!(
            after[..untouched],
            self.bytes[..untouched],
            "{what}: old bytes changed"
        );
        let again = read(&path, self.container).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(again.torn.is_none(), "{what}: still torn");
        assert_eq!(
            texts(&again),
            texts(&log),
            "{what}: other events on disk than given"
        );
        let closed = SessionLog::read(
            again.header,
            again.events,
            again.inherited,
            Vocabulary::default(),
        )
        .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(
            closed.enclosure().open_turn().is_none(),
            "{what}: a turn is open"
        );
        Layout::of(&after, self.container).unwrap_or_else(|e| panic!("{what}: {e}"));
    }

    /// `work` bounds the bytes that are read over all cuts; repairs are dearer.
    fn cut_everywhere(&self, work: usize) {
        let file = self.file();
        for cut in self.offsets(work) {
            file.set_len(cut as u64).unwrap();
            self.check_cut(cut);
        }
        for cut in self.offsets(WORK / 10) {
            self.check_repair(cut);
        }
    }
}

#[test]
fn every_fixture_reads_as_the_events_that_it_says() {
    for fixture in log_fixtures::all() {
        let sample = Sample::of(fixture.clone());
        let name = &fixture.name;
        let log = read(&sample.path, fixture.container).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(texts(&log), fixture.events, "{name}");
        assert!(log.torn.is_none(), "{name}");
        assert_eq!(log.inherited.index(), fixture.inherited, "{name}");
        assert_eq!(log.header.id.as_str(), fixture.id);
        assert_eq!(
            log.header.is_seeded,
            fixture.header.contains("seedLength"),
            "{name}"
        );
        assert_eq!(
            log.header.cwd.is_some(),
            fixture.header.contains("cwd"),
            "{name}"
        );
        let read = SessionLog::read(log.header, log.events, log.inherited, Vocabulary::default());
        assert!(read.is_ok(), "{name}: {read:?}");
    }
}

#[test]
fn fixtures_are_found_where_their_writer_would_put_them() {
    let home = tempfile::tempdir().unwrap();
    for fixture in log_fixtures::all() {
        if fixture.container == Container::Plain {
            continue;
        }
        let folder = home.path().join(fixture.project).join(&fixture.id);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(fixture.container.file_name()), &fixture.bytes).unwrap();
    }
    let empty = orrery_storage::Catalogue::default();
    let found = orrery_storage::Catalogue::refresh(&RealDisk, home.path(), &empty).unwrap();
    assert!(found.diagnostics().is_empty(), "{:?}", found.diagnostics());
    assert!(found.entries().count() > 10);
}

#[test]
fn a_fixture_cut_anywhere_keeps_what_was_committed() {
    for fixture in log_fixtures::all() {
        Sample::of(fixture).cut_everywhere(usize::MAX / 16);
    }
}

#[test]
fn a_foreign_log_cut_anywhere_keeps_what_was_committed() {
    for path in crate::samples::logs() {
        let name = path.display().to_string();
        let container = if name.ends_with("zstd") {
            Container::Zstd
        } else {
            Container::Plain
        };
        let log = read(&path, container).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(log.torn.is_none(), "{name} is torn already");
        let events = texts(&log).into_iter().map(str::to_owned).collect();
        let bytes = std::fs::read(&path).unwrap();
        Sample::new(&name, log.header.id.as_str(), container, bytes, events).cut_everywhere(WORK);
    }
}

/// The lines of a plain log behind the header, and what must be read when one of them is bad.
fn damage(sample: &Sample, line: usize, bytes: &[u8], what: &str) {
    std::fs::write(&sample.path, bytes).unwrap();
    let lines = &sample.layout.frames[0].lines;
    let found = read(&sample.path, sample.container);
    let view = LogView::open(&RealDisk, &sample.path, Compression::None);
    if lines[line + 1..].iter().any(|line| line.ends_turn) {
        assert!(
            matches!(found, Err(StorageError::Corrupt { .. })),
            "{what}: {found:?}"
        );
        assert!(view.is_err(), "{what}: the index hides it");
        return;
    }
    let kept: usize = lines[..line].iter().map(|line| line.events).sum();
    if kept < sample.layout.inherited {
        assert!(found.is_err(), "{what}");
        return;
    }
    let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(texts(&found), sample.events[..kept], "{what}");
    assert!(found.torn.is_some() || lines.len() == line, "{what}");
    assert_eq!(view.unwrap().stored_end().index(), kept, "{what}");
}

#[test]
fn a_damaged_or_missing_line_in_front_of_committed_work_is_corruption() {
    for fixture in log_fixtures::all() {
        if fixture.container == Container::Zstd {
            continue;
        }
        let sample = Sample::of(fixture);
        for (number, line) in sample.layout.frames[0].lines.clone().iter().enumerate() {
            let what = format!("{} line {number}", sample.name);
            let mut bytes = sample.bytes.clone();
            bytes[line.span.start] = b'x';
            damage(&sample, number, &bytes, &format!("{what} damaged"));
            let mut bytes = sample.bytes.clone();
            bytes[line.span.start + 1] = 0xFF;
            damage(&sample, number, &bytes, &format!("{what} not text"));
            let mut bytes = sample.bytes.clone();
            bytes.drain(line.span.start..=line.span.end);
            if number + 1 < sample.layout.frames[0].lines.len() {
                damage(&sample, number, &bytes, &format!("{what} missing"));
            }
        }
    }
}

/// Every byte of every frame changed in turn: the log is refused, or reads as it was, or the change
/// makes its last frame look torn. Committed work behind it never disappears.
#[test]
fn a_changed_byte_in_a_frame_never_hides_committed_work() {
    for fixture in log_fixtures::all() {
        if fixture.container == Container::Plain || fixture.bytes.len() > 4000 {
            continue;
        }
        let sample = Sample::of(fixture);
        let frames = &sample.layout.frames;
        let has_checksum = |at: usize| sample.bytes[at + 4] & 4 != 0;
        let checked = frames.iter().all(|frame| has_checksum(frame.span.start));
        for at in 0..sample.bytes.len() {
            for flip in [1, 0xFF] {
                let what = format!("{} byte {at} ^ {flip:#x}", sample.name);
                let mut bytes = sample.bytes.clone();
                bytes[at] ^= flip;
                std::fs::write(&sample.path, &bytes).unwrap();
                let Ok(found) = read(&sample.path, Container::Zstd) else {
                    continue;
                };
                // Behind the frame that was hit.
                let hit = frames.iter().position(|frame| frame.span.contains(&at));
                let behind = frames.iter().skip(hit.map_or(0, |hit| hit + 1));
                if behind.count() > 0 {
                    assert_eq!(
                        found.events.len(),
                        sample.events.len(),
                        "{what}: events are hidden"
                    );
                }
                if checked && found.torn.is_none() {
                    assert_eq!(texts(&found), sample.events, "{what}: other events");
                }
            }
        }
    }
}
