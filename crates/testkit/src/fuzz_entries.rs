//! What the fuzz targets do with their bytes. Each entry panics when a rule is broken, so that the
//! same functions serve libFuzzer and the replay of the committed corpus.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "an entry reports a broken rule by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use orrery_session::v0::{Scanner, decode_record, encode_batch, scan_records};
use orrery_session::{SessionLogOffset, SharedEvent};
use orrery_storage::disk::Disk as _;
use orrery_storage::index::index_path;
use orrery_storage::read::read_log;
use orrery_storage::{Compression, LogView};

use crate::frozen_disk::FrozenDisk;
use crate::log_fixtures;
use crate::log_layout::Container;

/// An entry.
pub type Entry = fn(&[u8]);

/// All entries by the name of their target.
pub const ALL: [(&str, Entry); 5] = [
    ("record", record),
    ("scanner", scanner),
    ("log_zstd", log_zstd),
    ("log_plain", log_plain),
    ("index", index),
];

/// One line: what decodes, encodes to what decodes to the same.
pub fn record(bytes: &[u8]) {
    let Ok(events) = decode_record(bytes) else {
        return;
    };
    assert!(!events.is_empty(), "a record without events");
    for pair in events.windows(2) {
        assert_eq!(
            pair[0].seq().get() + 1,
            pair[1].seq().get(),
            "a gap in a row"
        );
    }
    let events: Vec<SharedEvent> = events.into_iter().map(SharedEvent::new).collect();
    let encoded = encode_batch(&events);
    let start = events[0].seq().offset_before();
    let again = scan_records(&encoded, start).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.events, events, "written and read back");
    assert_eq!(again.committed_bytes, encoded.len());
}

/// Many lines: dense events, and the same from pieces as from the whole.
pub fn scanner(bytes: &[u8]) {
    let whole = scan_records(bytes, SessionLogOffset::ZERO);
    let mut pieces = Scanner::new(SessionLogOffset::ZERO);
    let mut events = Vec::new();
    let mut failed = false;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        match pieces.feed(line) {
            Ok(more) => events.extend(more),
            Err(_) => {
                failed = true;
                break;
            }
        }
    }
    assert_eq!(failed, whole.is_err(), "pieces and whole disagree");
    let Ok(whole) = whole else { return };
    assert_eq!(whole.events, events);
    assert_eq!(whole.committed_bytes, pieces.committed_bytes());
    for (index, event) in whole.events.iter().enumerate() {
        assert_eq!(event.seq().index(), index, "not dense");
    }
    let committed = scan_records(&bytes[..whole.committed_bytes], SessionLogOffset::ZERO);
    assert_eq!(committed.unwrap().events, whole.events);
}

/// A zstd log.
pub fn log_zstd(bytes: &[u8]) {
    log(bytes, Compression::Zstd);
}

/// A plain log.
pub fn log_plain(bytes: &[u8]) {
    log(bytes, Compression::None);
}

fn log(bytes: &[u8], compression: Compression) {
    let (disk, path) = (
        FrozenDisk::default(),
        Path::new("/s").join(compression.file_name()),
    );
    disk.put(&path, bytes);
    let read = read_log(&disk, &path, compression);
    let view = LogView::open(&disk, &path, compression);
    let Ok(read) = read else { return };
    for (index, event) in read.events.iter().enumerate() {
        assert_eq!(event.seq().index(), index, "not dense");
    }
    let end = read
        .torn
        .map_or(bytes.len() as u64, |torn| torn.truncate_to);
    assert!(end <= bytes.len() as u64, "cut beyond the end");
    let view = view.unwrap_or_else(|e| panic!("only the index refuses: {e}"));
    let seen = view.events(SessionLogOffset::ZERO..view.stored_end());
    assert_eq!(seen.unwrap(), read.events, "the index reads other events");
}

/// The index that belongs to the log of the entry [`index`], as the committed corpus has it.
pub fn index_of_long(container: Container) -> Vec<u8> {
    let (disk, path, compression, _) = long(container);
    LogView::open(&disk, &path, compression).unwrap_or_else(|e| panic!("{e}"));
    let reader = disk.open_reader(&index_path(&path)).unwrap();
    reader.read_at(0, usize::MAX).unwrap()
}

fn long(container: Container) -> (FrozenDisk, PathBuf, Compression, &'static [String]) {
    static FIXTURES: LazyLock<[log_fixtures::Fixture; 2]> =
        LazyLock::new(|| [Container::Zstd, Container::Plain].map(log_fixtures::long));
    let [zstd, plain] = &*FIXTURES;
    let (fixture, compression) = match container {
        Container::Zstd => (zstd, Compression::Zstd),
        Container::Plain => (plain, Compression::None),
    };
    let path = Path::new("/s").join(container.file_name());
    let disk = FrozenDisk::default();
    disk.put(&path, &fixture.bytes);
    (disk, path, compression, &fixture.events)
}

/// Bytes in the place of an index: they change no answer.
pub fn index(bytes: &[u8]) {
    for container in [Container::Zstd, Container::Plain] {
        let (disk, path, compression, events) = long(container);
        disk.put(&index_path(&path), bytes);
        let view = LogView::open(&disk, &path, compression).unwrap_or_else(|e| panic!("{e}"));
        let seen = view
            .events(SessionLogOffset::ZERO..view.stored_end())
            .unwrap();
        let texts: Vec<&str> = seen.iter().map(|event| event.text()).collect();
        assert_eq!(texts, events, "a wrong index changed an answer");
    }
}
