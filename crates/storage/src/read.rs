//! Reading a log: stable, checked, with its torn tail told apart from damage
//! (`session.md` 2.5, 2.6, 2.8).

use std::path::{Path, PathBuf};

use orrery_session::header::HeaderError;
use orrery_session::import::import;
use orrery_session::v0::{Scanner, decode_header, scan_piece, scan_records};
use orrery_session::{SessionHeader, SessionLogOffset, SharedEvent};

use crate::disk::{Disk, DiskReader, FileStat};
use crate::error::StorageError;
use crate::frames;
use crate::layout::Compression;
use crate::walk::{Frame, Step, Walker};

/// How often a read is repeated while somebody writes the file.
const STABLE_READ_ATTEMPTS: usize = 50;

/// Which state of a file was read: equal revisions mean equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(pub(crate) FileStat);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let s = &self.0;
        write!(
            f,
            "{}:{}:{}:{}:{}",
            s.device, s.inode, s.size, s.modified_ns, s.changed_ns
        )
    }
}

/// A torn tail, which repair overwrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where the committed bytes end.
    pub truncate_to: u64,
    /// How many of the last events were found in the torn part.
    pub recovered: usize,
}

/// A log as it lies on disk, in the present dialect.
#[derive(Debug, Clone)]
pub struct StoredLog {
    /// The header.
    pub header: SessionHeader,
    /// The exact inherited cut.
    pub inherited: SessionLogOffset,
    /// All events, recovered ones included; nothing is synthesised.
    pub events: Vec<SharedEvent>,
    /// The torn tail, if there is one.
    pub torn: Option<Torn>,
    /// Which state of the file this is.
    pub revision: Revision,
    /// The file.
    pub path: PathBuf,
    /// Its container.
    pub compression: Compression,
}

/// A log's header and where it was found.
#[derive(Debug, Clone)]
pub struct StoredHeader {
    /// The header.
    pub header: SessionHeader,
    /// The exact inherited cut.
    pub inherited: SessionLogOffset,
}

/// Reads a whole log between two looks at the file that agree.
pub fn read_log(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
) -> Result<StoredLog, StorageError> {
    let io = |action| move |e: std::io::Error| StorageError::io(action, path, &e);
    for _ in 0..STABLE_READ_ATTEMPTS {
        let reader = disk.open_reader(path).map_err(io("open"))?;
        let before = reader.stat().map_err(io("look at"))?;
        let read = read_open(reader.as_ref(), path, compression, before.size);
        if disk.stat(path).map_err(io("look at"))? == before {
            let Parts {
                header,
                inherited,
                events,
                torn,
            } = read?;
            let events = import(&header.id, events).map_err(|e| StorageError::corrupt(path, e))?;
            let (path, revision) = (path.to_owned(), Revision(before));
            return Ok(StoredLog {
                header,
                inherited,
                events,
                torn,
                revision,
                path,
                compression,
            });
        }
    }
    Err(StorageError::Changed {
        path: path.to_owned(),
        why: format!("it moved during {STABLE_READ_ATTEMPTS} reads"),
    })
}

/// Reads a log's header only; `None` while its first record is not complete.
pub fn read_header(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
) -> Result<Option<StoredHeader>, StorageError> {
    let reader = disk
        .open_reader(path)
        .map_err(|e| StorageError::io("open", path, &e))?;
    let mut walker = Walker::new(reader.as_ref(), path, compression, 0, u64::MAX);
    header_step(&mut walker, path, compression)
}

/// Walks over the header record.
pub(crate) fn header_step(
    walker: &mut Walker<'_>,
    path: &Path,
    compression: Compression,
) -> Result<Option<StoredHeader>, StorageError> {
    let step = match compression {
        Compression::Zstd => walker.next()?,
        Compression::None => walker.next_line()?,
    };
    match step {
        Step::Frame(Frame { content, .. }) => {
            let (header, inherited) = header_of(path, one_line(path, &content)?)?;
            Ok(Some(StoredHeader { header, inherited }))
        }
        Step::Torn { .. } | Step::End => Ok(None),
    }
}

/// Copies a log's own text (`session.md` 2.9): packed rows, key order and line breaks as they lie on
/// disk, whole records only, the header line first; the torn tail of a zstd log is left out. Holds
/// one frame at a time.
pub(crate) fn copy_raw(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
    out: &mut dyn std::io::Write,
) -> Result<(), StorageError> {
    let io = |action| move |e: std::io::Error| StorageError::io(action, path, &e);
    let reader = disk.open_reader(path).map_err(io("open"))?;
    let size = reader.stat().map_err(io("look at"))?.size;
    let mut walker = Walker::new(reader.as_ref(), path, compression, 0, size);
    if header_step(&mut walker, path, compression)?.is_none() {
        return Err(StorageError::corrupt(path, "no complete header record"));
    }
    let mut walker = Walker::new(reader.as_ref(), path, compression, 0, size);
    loop {
        match walker.next()? {
            Step::Frame(frame) => out.write_all(&frame.content).map_err(io("copy"))?,
            Step::Torn { bytes, .. } => {
                // A plain log's tail is text a person may read; a torn zstd frame is not.
                if compression == Compression::None {
                    out.write_all(&bytes).map_err(io("copy"))?;
                }
                break;
            }
            Step::End => break,
        }
    }
    Ok(())
}

struct Parts {
    header: SessionHeader,
    inherited: SessionLogOffset,
    events: Vec<SharedEvent>,
    torn: Option<Torn>,
}

fn read_open(
    reader: &dyn DiskReader,
    path: &Path,
    compression: Compression,
    size: u64,
) -> Result<Parts, StorageError> {
    let mut walker = Walker::new(reader, path, compression, 0, size);
    let stored = header_step(&mut walker, path, compression)?;
    let Some(StoredHeader { header, inherited }) = stored else {
        return Err(StorageError::corrupt(path, "no complete header record"));
    };
    let first = walker.position();
    let mut events: Vec<SharedEvent> = Vec::new();
    let mut plain = Scanner::new(SessionLogOffset::ZERO);
    let torn = loop {
        match walker.next()? {
            Step::Frame(frame) if compression == Compression::Zstd => {
                let end = SessionLogOffset::of_len(events.len());
                events.extend(frame_events(
                    path,
                    frame.span.start,
                    &frame.content,
                    Some(end),
                )?);
            }
            Step::Frame(frame) => {
                let more = plain.feed(&frame.content);
                events.extend(more.map_err(|e| StorageError::corrupt(path, e))?);
            }
            Step::Torn { start, bytes } if compression == Compression::Zstd => {
                let content = frames::decode_torn(&bytes);
                let end = SessionLogOffset::of_len(events.len());
                // Nothing is committed behind a torn frame: what its lines say is recovered or not.
                let found = scan_records(&content, end).map(|scan| scan.events);
                let recovered = found.unwrap_or_default();
                let torn = Torn {
                    truncate_to: start,
                    recovered: recovered.len(),
                };
                events.extend(recovered);
                break Some(torn);
            }
            Step::Torn { .. } | Step::End if compression == Compression::Zstd => break None,
            Step::Torn { .. } | Step::End => {
                let committed = first + plain.committed_bytes() as u64;
                let torn = Torn {
                    truncate_to: committed,
                    recovered: 0,
                };
                break (committed < size).then_some(torn);
            }
        }
    };
    if inherited > SessionLogOffset::of_len(events.len()) {
        let why = format!("inherits {inherited} events and holds {}", events.len());
        return Err(StorageError::corrupt(path, why));
    }
    Ok(Parts {
        header,
        inherited,
        events,
        torn,
    })
}

/// The events of a whole frame, in which nothing may be wrong.
///
/// `start` is where they begin; a piece out of the middle of a run says that itself.
pub(crate) fn frame_events(
    path: &Path,
    byte: u64,
    content: &[u8],
    start: Option<SessionLogOffset>,
) -> Result<Vec<SharedEvent>, StorageError> {
    let at = |why: String| StorageError::corrupt(path, format!("frame at byte {byte}: {why}"));
    let scan = match start {
        Some(start) => scan_records(content, start),
        None => scan_piece(content),
    };
    let scan = scan.map_err(|e| at(e.to_string()))?;
    if let Some(issue) = scan.issue {
        return Err(at(issue.to_string()));
    }
    if scan.committed_bytes != content.len() {
        return Err(at("ends inside a record".to_owned()));
    }
    Ok(scan.events)
}

/// The content of a header frame: exactly one line that ends at its last byte.
fn one_line<'a>(path: &Path, content: &'a [u8]) -> Result<&'a str, StorageError> {
    match content.split_last() {
        Some((b'\n', line)) if !line.contains(&b'\n') => std::str::from_utf8(line)
            .map_err(|_not_text| StorageError::corrupt(path, "the header is not UTF-8")),
        _ => Err(StorageError::corrupt(
            path,
            "the header frame is not exactly one line",
        )),
    }
}

fn header_of(path: &Path, line: &str) -> Result<(SessionHeader, SessionLogOffset), StorageError> {
    decode_header(line).map_err(|error| match error {
        HeaderError::UnsupportedVersion { .. } => StorageError::Unsupported {
            path: path.to_owned(),
            why: error.to_string(),
        },
        _ => StorageError::corrupt(path, error),
    })
}
