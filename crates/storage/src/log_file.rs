//! Writing a log: publication, batches, repair (`session.md` 2.7, decisions D4, D5, D29).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orrery_session::repair::closers;
use orrery_session::v0::{encode_batch, encode_header};
use orrery_session::{SessionHeader, SessionLogOffset, SharedEvent};

use crate::catalogue::CatalogueEntry;
use crate::disk::{Disk, DiskFile, FileStat};
use crate::error::StorageError;
use crate::frames;
use crate::index::{Index, Placed};
use crate::layout::{Compression, log_path};
use crate::lock::WriterLock;
use crate::read::{Revision, StoredLog, read_log};

/// The most a frame holds, before compression (decision D29).
const MAX_FRAME_BYTES: usize = 256 * 1024;
/// The most events a frame holds.
const MAX_FRAME_EVENTS: usize = 2_000;

/// How much of a log is copied at once.
const COPY_BYTES: usize = 1024 * 1024;

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
    /// How far the file is known to be on disk.
    durable: Durable,
    /// Whether bytes may stand behind the expected end that must be cut off first.
    unsettled: bool,
    /// Whether the file's name is on disk.
    name_synced: bool,
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

/// A boundary of the file and of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Durable {
    size: u64,
    end: SessionLogOffset,
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
    /// The first events must reach the inherited cut. The file's name is durable only after
    /// [`LogFile::sync`].
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
        in_order(SessionLogOffset::ZERO, events)?;
        let end = SessionLogOffset::of_len(events.len());
        if end < inherited {
            return Err(StorageError::OutOfOrder {
                expected: inherited,
                found: end,
            });
        }
        make_folders(disk.as_ref(), &folder)?;
        let lock = WriterLock::take(disk.as_ref(), &folder, &header.id)?;
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
        let temporary = temporary_name(&path, compression);
        let published = (|| {
            let mut file = disk.create_file(&temporary)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            let stat = file.stat()?;
            disk.link(&temporary, &path)?;
            Ok((file, stat))
        })();
        // The temporary name is of no use either way; a left-over is ignored by every reader.
        drop(disk.remove_file(&temporary));
        let (file, stat) =
            published.map_err(|e: std::io::Error| StorageError::io("publish", &path, &e))?;
        let mut log = Self {
            disk: Arc::clone(disk),
            path,
            compression,
            inherited,
            end,
            file,
            expected: Expected::of(&stat),
            durable: Durable {
                size: stat.size,
                end,
            },
            unsettled: false,
            name_synced: false,
            index: None,
            _lock: lock,
        };
        log.open_index();
        Ok(log)
    }

    /// What the catalogue knows of this log. When the file was changed, the next look sees.
    pub(crate) fn catalogue_entry(&self, header: &SessionHeader) -> CatalogueEntry {
        let Expected {
            device,
            inode,
            size,
        } = self.expected;
        let stat = FileStat {
            device,
            inode,
            size,
            modified_ns: 0,
            changed_ns: 0,
        };
        CatalogueEntry {
            header: header.clone(),
            inherited: self.inherited,
            revision: Revision(stat),
            path: self.path.clone(),
            compression: self.compression,
        }
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
        // It may have gone since it was found.
        let gone = |error: StorageError| match error.is_missing_file() {
            true => StorageError::NotFound { id: id.clone() },
            false => error,
        };
        let lock = WriterLock::take(disk.as_ref(), folder, id).map_err(gone)?;
        let mut stored = read_log(disk.as_ref(), path, compression).map_err(gone)?;
        if stored.header.id != *id {
            let why = format!("holds session {}, not {id}", stored.header.id);
            return Err(StorageError::corrupt(path, why));
        }
        let io = |action| move |e: std::io::Error| StorageError::io(action, path, &e);
        let mut file = disk.open_file(path).map_err(io("open"))?;
        // The writer before may have died with its last bytes in the cache only.
        file.sync().map_err(io("sync"))?;
        let stat = file.stat().map_err(io("look at"))?;
        let end = SessionLogOffset::of_len(stored.events.len());
        let mut log = Self {
            disk: Arc::clone(disk),
            path: path.to_owned(),
            compression,
            inherited: stored.inherited,
            end,
            file,
            expected: Expected::of(&stat),
            durable: Durable {
                size: stat.size,
                end,
            },
            unsettled: false,
            name_synced: false,
            index: None,
            _lock: lock,
        };
        if stat != stored.revision.0 {
            return Err(log.changed("it was written between reading and opening it"));
        }
        log.repair(&mut stored)?;
        // From here on what was read counts as saved, and so must its name.
        log.sync()?;
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

    /// Closes an open turn, behind the good bytes; a torn tail goes, what could be read of it stays.
    ///
    /// Every state that a crash can leave in between is one that opens and recovers the same events:
    /// writing over a torn frame in place would leave neither the old nor the new one.
    fn repair(&mut self, stored: &mut StoredLog) -> Result<(), StorageError> {
        let closers = closers(&stored.events).map_err(|e| StorageError::corrupt(&self.path, e))?;
        if let Some(torn) = stored.torn {
            let first = stored.events.len() - torn.recovered;
            let recovered = stored.events.get(first..).unwrap_or_default();
            self.end = SessionLogOffset::of_len(first);
            self.expected.size = torn.truncate_to;
            self.durable = Durable {
                size: self.expected.size,
                end: self.end,
            };
            if recovered.is_empty() {
                self.unsettled = true;
                self.settle()?;
            } else {
                let tail = [recovered, &closers].concat();
                self.replace_tail(&tail)?;
            }
            tracing::warn!(
                path = %self.path.display(),
                recovered = torn.recovered,
                "removed the torn tail that a crash left"
            );
        } else if closers.is_empty() {
            return Ok(());
        }
        stored.events.extend(closers);
        stored.torn = None;
        let written = self.end.index();
        self.append(stored.events.get(written..).unwrap_or_default())?;
        self.sync()
    }

    /// Puts a copy with another tail in the place of the log, at once and durably (decision D5).
    fn replace_tail(&mut self, tail: &[SharedEvent]) -> Result<(), StorageError> {
        let start = self.expected.size;
        let bytes = encode(self.compression, self.inherited, self.end, tail)
            .map_err(|e| StorageError::io("compress", &self.path, &e))?
            .bytes;
        let temporary = temporary_name(&self.path, self.compression);
        let replaced = (|| {
            let reader = self.disk.open_reader(&self.path)?;
            let mut file = self.disk.create_file(&temporary)?;
            let mut at = 0;
            while at < start {
                let length = usize::try_from(start - at).unwrap_or(COPY_BYTES);
                let piece = reader.read_at(at, length.min(COPY_BYTES))?;
                if piece.is_empty() {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                file.write_at(at, &piece)?;
                at += piece.len() as u64;
            }
            file.write_at(start, &bytes)?;
            file.sync()?;
            let stat = file.stat()?;
            self.disk.rename(&temporary, &self.path)?;
            Ok((file, stat))
        })();
        if replaced.is_err() {
            // Of no use to anybody; a left-over is ignored by every reader.
            drop(self.disk.remove_file(&temporary));
        }
        let (file, stat) =
            replaced.map_err(|e: std::io::Error| StorageError::io("repair", &self.path, &e))?;
        self.file = file;
        self.expected = Expected::of(&stat);
        self.end = self.end.advance(tail.len());
        self.durable = Durable {
            size: stat.size,
            end: self.end,
        };
        Ok(())
    }

    /// Appends one batch with one write. It is durable after the next [`LogFile::sync`].
    ///
    /// A failed write is rolled back, so that the same batch may be tried again.
    pub fn append(&mut self, events: &[SharedEvent]) -> Result<(), StorageError> {
        if events.is_empty() {
            return Ok(());
        }
        in_order(self.end, events)?;
        self.settle()?;
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
        if let Err(error) = self.file.write_at(size, &bytes) {
            // What was written of it is cut off now, or before the next try.
            self.unsettled = true;
            let failure = io("append to", &self.path, &error);
            if let Err(second) = self.settle() {
                tracing::warn!(error = %second, "a torn batch could not be cut off yet");
            }
            return Err(failure);
        }
        self.expected.size += bytes.len() as u64;
        self.end = self.end.advance(events.len());
        if let Some(index) = &mut self.index {
            let placed: Vec<Placed> = frames
                .into_iter()
                .map(|mut frame| {
                    frame.span = frame.span.start + size..frame.span.end + size;
                    frame
                })
                .collect();
            index.appended(self.disk.as_ref(), &placed, events);
        }
        Ok(())
    }

    /// Makes everything appended durable.
    ///
    /// After a failed sync nothing is known of what was appended since the last good one, so it is
    /// cut off: [`LogFile::end`] falls back, and the caller appends it again.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        self.settle()?;
        if self.durable.size != self.expected.size {
            if let Err(error) = self.file.sync() {
                let failure = StorageError::io("sync", &self.path, &error);
                self.fall_back();
                if let Err(second) = self.settle() {
                    tracing::warn!(error = %second, "an unsynced batch could not be cut off yet");
                }
                return Err(failure);
            }
            self.mark_durable();
        }
        if !self.name_synced {
            let folder = self.path.parent().unwrap_or(&self.path);
            self.disk
                .sync_folder(folder)
                .map_err(|e| StorageError::io("sync", folder, &e))?;
            self.name_synced = true;
        }
        Ok(())
    }

    /// Whether everything appended is known to be on disk.
    pub fn is_durable(&self) -> bool {
        self.name_synced && self.durable.size == self.expected.size
    }

    /// Cuts off what a failed write or sync left behind the expected end.
    ///
    /// The cut is durable before anything is written there again: else a crash could leave the new
    /// bytes with the old ones behind them.
    fn settle(&mut self) -> Result<(), StorageError> {
        if self.unsettled {
            let size = self.expected.size;
            self.file
                .set_size(size)
                .map_err(|e| StorageError::io("cut the tail off", &self.path, &e))?;
            if let Err(error) = self.file.sync() {
                self.fall_back();
                return Err(StorageError::io("sync the cut of", &self.path, &error));
            }
            self.mark_durable();
            self.unsettled = false;
            if self.index.is_none() {
                self.open_index();
            }
        }
        Ok(())
    }

    /// After a failed sync nothing is known of what was appended since the last good one.
    fn fall_back(&mut self) {
        self.expected.size = self.durable.size;
        self.end = self.durable.end;
        self.unsettled = true;
        self.index = None;
    }

    const fn mark_durable(&mut self) {
        self.durable = Durable {
            size: self.expected.size,
            end: self.end,
        };
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

/// Whether events continue a log: the first at its end, each of the others behind the one before.
pub(crate) fn in_order(end: SessionLogOffset, events: &[SharedEvent]) -> Result<(), StorageError> {
    let mut expected = end;
    for event in events {
        let found = event.seq().offset_before();
        if found != expected {
            return Err(StorageError::OutOfOrder { expected, found });
        }
        expected = event.seq().offset_after();
    }
    Ok(())
}

/// A name that nobody else uses, beside the log.
fn temporary_name(path: &Path, compression: Compression) -> PathBuf {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let nonce = nonce.get(..12).unwrap_or("0");
    path.with_file_name(format!("{}.{nonce}.tmp", compression.file_name()))
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
    /// Its frames, placed within the bytes.
    frames: Vec<Placed>,
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
        let text = encode_batch(these);
        let frame = contain(compression, &text)?;
        let at = encoded.bytes.len() as u64;
        encoded.frames.push(Placed {
            span: at..at + frame.len() as u64,
            checksum: crc32fast::hash(&frame),
            text: text.len() as u64,
            count,
        });
        encoded.bytes.extend(frame);
        offset = offset.advance(count);
        rest = later;
    }
    Ok(encoded)
}

/// Makes a folder and whatever is missing above it, each durable in its parent before
/// the next is made.
pub(crate) fn make_folders(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in folder.ancestors() {
        if disk.stat(ancestor).is_ok() {
            // Somebody may have died, or failed, between making this one and syncing its parent.
            match ancestor
                .parent()
                .map(|parent| (parent, disk.sync_folder(parent)))
            {
                Some((parent, Err(e))) if e.kind() != std::io::ErrorKind::PermissionDenied => {
                    return Err(StorageError::io("sync", parent, &e));
                }
                _ => break,
            }
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
