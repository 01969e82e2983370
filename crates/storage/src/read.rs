//! Reading a log: stable, checked, with its torn tail told apart from damage
//! (`session.md` 2.5, 2.6, 2.8).

use std::path::{Path, PathBuf};

use orrery_session::header::HeaderError;
use orrery_session::import::import;
use orrery_session::v0::{decode_header, scan_records};
use orrery_session::{SessionHeader, SessionLogOffset, SharedEvent};

use crate::disk::{Disk, FileStat};
use crate::error::StorageError;
use crate::frames;
use crate::layout::Compression;

/// How often a read is repeated while somebody writes the file.
const STABLE_READ_ATTEMPTS: usize = 50;
/// How much of a file is read to find its header.
const HEADER_BYTES: usize = 64 * 1024;

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

/// Reads a whole log.
pub fn read_log(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
) -> Result<StoredLog, StorageError> {
    let (bytes, revision) = read_stable(disk, path)?;
    let parts = match compression {
        Compression::Zstd => read_zstd(path, &bytes)?,
        Compression::None => read_plain(path, &bytes)?,
    };
    let Parts {
        header,
        inherited,
        events,
        torn,
    } = parts;
    if inherited > SessionLogOffset::of_len(events.len()) {
        let why = format!("inherits {inherited} events and holds {}", events.len());
        return Err(StorageError::corrupt(path, why));
    }
    let events = import(&header.id, events).map_err(|e| StorageError::corrupt(path, e))?;
    let path = path.to_owned();
    Ok(StoredLog {
        header,
        inherited,
        events,
        torn,
        revision,
        path,
        compression,
    })
}

/// Reads a log's header only; `None` while its first record is not complete.
pub fn read_header(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
) -> Result<Option<StoredHeader>, StorageError> {
    let io = |e: std::io::Error| StorageError::io("read", path, &e);
    let mut limit = HEADER_BYTES;
    loop {
        let bytes = disk.read_head(path, limit).map_err(io)?;
        let line = match compression {
            Compression::Zstd => match first_frame(path, &bytes)? {
                Some(content) => Some(one_line(path, &content)?.to_owned()),
                None => None,
            },
            Compression::None => bytes
                .iter()
                .position(|&b| b == b'\n')
                .map(|end| text(path, &bytes[..end]).map(str::to_owned))
                .transpose()?,
        };
        match line {
            Some(line) => {
                let (header, inherited) = header_of(path, &line)?;
                return Ok(Some(StoredHeader { header, inherited }));
            }
            None if bytes.len() < limit => return Ok(None),
            None => limit *= 8,
        }
    }
}

struct Parts {
    header: SessionHeader,
    inherited: SessionLogOffset,
    events: Vec<SharedEvent>,
    torn: Option<Torn>,
}

fn read_zstd(path: &Path, bytes: &[u8]) -> Result<Parts, StorageError> {
    let corrupt = |e: frames::FrameError| StorageError::corrupt(path, e);
    let found = frames::scan(bytes, usize::MAX).map_err(corrupt)?;
    let Some((first, rest)) = found.frames.split_first() else {
        return Err(StorageError::corrupt(path, "no complete header frame"));
    };
    let content = frames::decode(bytes, first).map_err(corrupt)?;
    let (header, inherited) = header_of(path, one_line(path, &content)?)?;
    let mut events: Vec<SharedEvent> = Vec::new();
    for frame in rest {
        let content = frames::decode(bytes, frame).map_err(corrupt)?;
        let end = SessionLogOffset::of_len(events.len());
        let at = |why: String| {
            StorageError::corrupt(path, format!("frame at byte {}: {why}", frame.start))
        };
        let scan = scan_records(&content, end).map_err(|e| at(e.to_string()))?;
        if let Some(issue) = scan.issue {
            return Err(at(issue.to_string()));
        }
        if scan.committed_bytes != content.len() {
            return Err(at("ends inside a record".to_owned()));
        }
        events.extend(scan.events);
    }
    let torn = found.torn_start.map(|start| {
        let content = frames::decode_torn(&bytes[start..]);
        let end = SessionLogOffset::of_len(events.len());
        // Nothing is committed behind a torn frame, so whatever its lines say is recovered or not.
        let recovered = scan_records(&content, end)
            .map(|scan| scan.events)
            .unwrap_or_default();
        let torn = Torn {
            truncate_to: start as u64,
            recovered: recovered.len(),
        };
        events.extend(recovered);
        torn
    });
    Ok(Parts {
        header,
        inherited,
        events,
        torn,
    })
}

fn read_plain(path: &Path, bytes: &[u8]) -> Result<Parts, StorageError> {
    let Some(end) = bytes.iter().position(|&b| b == b'\n') else {
        return Err(StorageError::corrupt(path, "no complete header line"));
    };
    let (header, inherited) = header_of(path, text(path, &bytes[..end])?)?;
    let records = &bytes[end + 1..];
    let scan = scan_records(records, SessionLogOffset::ZERO)
        .map_err(|e| StorageError::corrupt(path, e))?;
    let torn = (scan.committed_bytes < records.len()).then(|| Torn {
        truncate_to: (end + 1 + scan.committed_bytes) as u64,
        recovered: 0,
    });
    Ok(Parts {
        header,
        inherited,
        events: scan.events,
        torn,
    })
}

fn first_frame(path: &Path, bytes: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
    let corrupt = |e: frames::FrameError| StorageError::corrupt(path, e);
    let found = frames::scan(bytes, 1).map_err(corrupt)?;
    found
        .frames
        .first()
        .map(|frame| frames::decode(bytes, frame).map_err(corrupt))
        .transpose()
}

/// The content of a header frame: exactly one line that ends at its last byte.
fn one_line<'a>(path: &Path, content: &'a [u8]) -> Result<&'a str, StorageError> {
    match content.split_last() {
        Some((b'\n', line)) if !line.contains(&b'\n') => text(path, line),
        _ => Err(StorageError::corrupt(
            path,
            "the header frame is not exactly one line",
        )),
    }
}

fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, StorageError> {
    std::str::from_utf8(bytes)
        .map_err(|_not_text| StorageError::corrupt(path, "the header is not UTF-8"))
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

/// Reads a file between two looks at it that agree.
fn read_stable(disk: &dyn Disk, path: &Path) -> Result<(Vec<u8>, Revision), StorageError> {
    let io = |action| move |e: std::io::Error| StorageError::io(action, path, &e);
    let mut before = disk.stat(path).map_err(io("look at"))?;
    for _ in 0..STABLE_READ_ATTEMPTS {
        let bytes = disk.read(path).map_err(io("read"))?;
        let after = disk.stat(path).map_err(io("look at"))?;
        if before == after && bytes.len() as u64 == after.size {
            return Ok((bytes, Revision(after)));
        }
        before = after;
    }
    Err(StorageError::Changed {
        path: path.to_owned(),
        why: format!("it moved during {STABLE_READ_ATTEMPTS} reads"),
    })
}
