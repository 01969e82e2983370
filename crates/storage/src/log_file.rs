//! Writing a log: publication, batches, repair (`session.md` 2.7, decisions D4, D5, D29).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orrery_session::repair::closers;
use orrery_session::v0::{encode_batch, encode_header};
use orrery_session::{SessionHeader, SessionLogOffset, SharedEvent};

use crate::disk::{Disk, DiskFile, FileStat};
use crate::error::StorageError;
use crate::frames;
use crate::index::Index;
use crate::layout::{Compression, log_path};
use crate::lock::WriterLock;
use crate::read::{StoredLog, read_log};

/// The most a frame holds, before compression (decision D29).
const MAX_FRAME_BYTES: usize = 256 * 1024;
/// The most events a frame holds.
const MAX_FRAME_EVENTS: usize = 2_000;

/// An open log with its lock: the only one that writes it.
#[derive(Debug)]
pub struct LogFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    compression: Compression,
    inherited: SessionLogOffset,
    end: SessionLogOffset,
    file: Box<dyn DiskFile>,
    expected: Expected,
    synced: bool,
    /// Kept beside the log as it grows; without one, readers build it when they need it.
    index: Option<Index>,
    _lock: WriterLock,
}

/// What the file must still be before the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expected {
    device: u64,
    inode: u64,
    size: u64,
}

impl Expected {
    const fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.device,
            inode: stat.inode,
            size: stat.size,
        }
    }
}

impl LogFile {
    /// Publishes a new log with its first events: header first, in one file that appears whole.
    ///
    /// The first events must reach the inherited cut.
    pub fn create(
        disk: &Arc<dyn Disk>,
        root: &Path,
        compression: Compression,
        header: &SessionHeader,
        inherited: SessionLogOffset,
        events: &[SharedEvent],
    ) -> Result<Self, StorageError> {
        let path = log_path(root, header, compression);
        let folder = path.parent().unwrap_or(root).to_owned();
        let end = SessionLogOffset::of_len(events.len());
        if end < inherited {
            return Err(StorageError::OutOfOrder {
                expected: inherited,
                found: end,
            });
        }
        make_folders(disk.as_ref(), &folder)?;
        let lock = WriterLock::take(&folder, &header.id)?;
        for compression in Compression::ALL {
            if disk.stat(&folder.join(compression.file_name())).is_ok() {
                return Err(StorageError::Exists {
                    id: header.id.clone(),
                });
            }
        }
        let mut bytes = contain(compression, &encode_header(header, inherited))
            .map_err(|e| StorageError::io("compress", &path, &e))?;
        bytes.extend(
            encode(compression, inherited, SessionLogOffset::ZERO, events)
                .map_err(|e| StorageError::io("compress", &path, &e))?
                .bytes,
        );
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let name = format!(
            "{}.{}.tmp",
            compression.file_name(),
            nonce.get(..12).unwrap_or("0")
        );
        let temporary = folder.join(name);
        let published = (|| {
            let mut file = disk.create_file(&temporary)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            disk.link(&temporary, &path)?;
            let settled = disk.sync_folder(&folder).and_then(|()| file.stat());
            if settled.is_err() {
                // Not known to be durable, so not published: the same batch may be tried again.
                drop(disk.remove_file(&path));
            }
            settled.map(|stat| (file, stat))
        })();
        // The temporary name is of no use either way; a left-over is ignored by every reader.
        drop(disk.remove_file(&temporary));
        let (file, stat) = published.map_err(|e| StorageError::io("publish", &path, &e))?;
        let mut log = Self {
            disk: Arc::clone(disk),
            path,
            compression,
            inherited,
            end,
            file,
            expected: Expected::of(&stat),
            synced: true,
            index: None,
            _lock: lock,
        };
        log.open_index();
        Ok(log)
    }

    /// Opens a log for writing: takes the lock, reads it, repairs what a crash left.
    ///
    /// Gives the log as it is after the repair: recovered events and closers are in it.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        compression: Compression,
        id: &orrery_session::SessionId,
    ) -> Result<(Self, StoredLog), StorageError> {
        let folder = path.parent().unwrap_or(path);
        let lock = WriterLock::take(folder, id)?;
        let mut stored = read_log(disk.as_ref(), path, compression)?;
        if stored.header.id != *id {
            let why = format!("holds session {}, not {id}", stored.header.id);
            return Err(StorageError::corrupt(path, why));
        }
        let io = |action| move |e: std::io::Error| StorageError::io(action, path, &e);
        let file = disk.open_file(path).map_err(io("open"))?;
        let stat = file.stat().map_err(io("look at"))?;
        let mut log = Self {
            disk: Arc::clone(disk),
            path: path.to_owned(),
            compression,
            inherited: stored.inherited,
            end: SessionLogOffset::of_len(stored.events.len()),
            file,
            expected: Expected::of(&stat),
            synced: true,
            index: None,
            _lock: lock,
        };
        if stat != stored.revision.0 {
            return Err(log.changed("it was written between reading and opening it"));
        }
        log.repair(&mut stored)?;
        log.open_index();
        Ok((log, stored))
    }

    /// Takes up the index of the log as it is now. Without one the log is written all the same.
    fn open_index(&mut self) {
        match Index::open(self.disk.as_ref(), &self.path, self.compression) {
            Ok(index) if index.indexed_bytes() == self.expected.size => self.index = Some(index),
            Ok(_) => tracing::debug!(path = %self.path.display(), "not all of the log is indexed"),
            Err(error) => tracing::warn!(%error, "the log could not be indexed"),
        }
    }

    /// Writes recovered events and closers over the torn tail in one write, then cuts the rest
    /// (decision D5).
    fn repair(&mut self, stored: &mut StoredLog) -> Result<(), StorageError> {
        let closers = closers(&stored.events).map_err(|e| StorageError::corrupt(&self.path, e))?;
        let (start, recovered) = match stored.torn {
            None if closers.is_empty() => return Ok(()),
            None => (self.expected.size, 0),
            Some(torn) => (torn.truncate_to, torn.recovered),
        };
        let first = stored.events.len() - recovered;
        stored.events.extend(closers);
        let tail = &stored.events[first..];
        let path = self.path.clone();
        let io = |action| move |e: std::io::Error| StorageError::io(action, &path, &e);
        let from = SessionLogOffset::of_len(first);
        let bytes = encode(self.compression, self.inherited, from, tail)
            .map_err(|e| StorageError::io("compress", &self.path, &e))?
            .bytes;
        let end = start + bytes.len() as u64;
        let written = (|| {
            self.file.write_at(start, &bytes)?;
            self.file.sync()?;
            if self.expected.size > end {
                self.file.set_size(end)?;
                self.file.sync()?;
            }
            self.file.stat()
        })();
        let stat = written.map_err(io("repair"))?;
        tracing::warn!(
            path = %self.path.display(),
            recovered,
            torn = stored.torn.is_some(),
            "repaired the tail that a crash left"
        );
        self.expected = Expected::of(&stat);
        self.end = SessionLogOffset::of_len(stored.events.len());
        stored.torn = None;
        Ok(())
    }

    /// Appends one batch with one write; `sync` makes it durable before this returns.
    ///
    /// A failed write is rolled back, so that the same batch may be tried again.
    pub fn append(&mut self, events: &[SharedEvent], sync: bool) -> Result<(), StorageError> {
        let Some(first) = events.first() else {
            return Ok(());
        };
        if first.seq().offset_before() != self.end {
            let found = first.seq().offset_before();
            return Err(StorageError::OutOfOrder {
                expected: self.end,
                found,
            });
        }
        let io = |action, path: &Path, e: &std::io::Error| StorageError::io(action, path, e);
        let stat = self
            .disk
            .stat(&self.path)
            .map_err(|e| io("look at", &self.path, &e))?;
        let here = Expected::of(&stat);
        if here != self.expected {
            let why = format!("expected {:?}, found {here:?}", self.expected);
            return Err(self.changed(&why));
        }
        let Encoded { bytes, frames } = encode(self.compression, self.inherited, self.end, events)
            .map_err(|e| io("compress", &self.path, &e))?;
        let size = self.expected.size;
        let written = self
            .file
            .write_at(size, &bytes)
            .and_then(|()| if sync { self.file.sync() } else { Ok(()) });
        if let Err(error) = written {
            let mut failure = io("append to", &self.path, &error);
            let rolled_back = self.file.set_size(size).and_then(|()| self.file.sync());
            if let (Err(second), StorageError::Io { message, .. }) = (rolled_back, &mut failure) {
                *message = format!("{message}; rolling back failed too: {second}");
            }
            return Err(failure);
        }
        self.expected.size += bytes.len() as u64;
        self.end = self.end.advance(events.len());
        self.synced = sync;
        if let Some(index) = &mut self.index {
            let placed: Vec<_> = frames
                .into_iter()
                .map(|(span, checksum, count)| {
                    (span.start + size..span.end + size, checksum, count)
                })
                .collect();
            index.appended(self.disk.as_ref(), &placed, events);
        }
        Ok(())
    }

    /// Makes everything appended durable.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        if !self.synced {
            self.file
                .sync()
                .map_err(|e| StorageError::io("sync", &self.path, &e))?;
            self.synced = true;
        }
        Ok(())
    }

    /// The boundary behind the last written event.
    pub const fn end(&self) -> SessionLogOffset {
        self.end
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn changed(&self, why: &str) -> StorageError {
        StorageError::Changed {
            path: self.path.clone(),
            why: why.to_owned(),
        }
    }
}

fn contain(compression: Compression, content: &[u8]) -> std::io::Result<Vec<u8>> {
    match compression {
        Compression::Zstd => frames::encode(content),
        Compression::None => Ok(content.to_vec()),
    }
}

/// A batch as it goes to disk.
struct Encoded {
    bytes: Vec<u8>,
    /// For each frame: where it lies within the bytes, its checksum, how many events it holds.
    frames: Vec<(std::ops::Range<u64>, u32, usize)>,
}

/// Encodes a batch as one or more frames, each bounded, one of them ending at the cut.
fn encode(
    compression: Compression,
    cut: SessionLogOffset,
    start: SessionLogOffset,
    events: &[SharedEvent],
) -> std::io::Result<Encoded> {
    let mut encoded = Encoded {
        bytes: Vec::new(),
        frames: Vec::new(),
    };
    let mut rest = events;
    let mut offset = start;
    while !rest.is_empty() {
        let mut size = 0;
        let mut count = 0;
        for event in rest {
            size += event.json().len() + 1;
            if count > 0 && (size > MAX_FRAME_BYTES || count == MAX_FRAME_EVENTS) {
                break;
            }
            count += 1;
            if offset.advance(count) == cut {
                break;
            }
        }
        let (these, later) = rest.split_at(count);
        let frame = contain(compression, &encode_batch(these))?;
        let at = encoded.bytes.len() as u64;
        encoded
            .frames
            .push((at..at + frame.len() as u64, crc32fast::hash(&frame), count));
        encoded.bytes.extend(frame);
        offset = offset.advance(count);
        rest = later;
    }
    Ok(encoded)
}

/// Makes the session's folder and whatever is missing above it, each durable in its parent.
fn make_folders(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in folder.ancestors() {
        if disk.stat(ancestor).is_ok() {
            break;
        }
        missing.push(ancestor);
    }
    for path in missing.into_iter().rev() {
        disk.create_folder(path)
            .map_err(|e| StorageError::io("make the folder", path, &e))?;
        if let Some(parent) = path.parent() {
            disk.sync_folder(parent)
                .map_err(|e| StorageError::io("sync", parent, &e))?;
        }
    }
    Ok(())
}
