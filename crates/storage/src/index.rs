//! The frame index: `session.index` beside a log (decisions D2, D3).
//!
//! Derived and never believed: a wrong or missing index costs time, never truth. Fixed-size
//! entries, one for each frame, are appended as the log grows; each says where its frame lies and,
//! cumulatively, what lies before its end. The last entry answers every question about the whole;
//! from it a chain leads to each frame that holds an event type.
//!
//! Valid when it names this very file (device and inode), the file reaches at least as far as the
//! last entry says, and that entry's frame still has its checksum. A log that grew is indexed from
//! there on; anything else is indexed anew by one pass over the log.

pub mod entry;

use std::path::{Path, PathBuf};

use orrery_session::import::import;
use orrery_session::{EventType, SessionHeader, SessionLogOffset, SharedEvent};

use crate::disk::{Disk, DiskReader, FileStat};
use crate::error::StorageError;
use crate::frames;
use crate::layout::Compression;
use crate::read::{StoredHeader, frame_events, header_step};
use crate::walk::{Frame, Step, Walker};
use entry::{ENTRY_BYTES, Entry, Facts, Head};

/// The index's file name.
pub const INDEX_FILE: &str = "session.index";

/// The index of one log, as far as the log is whole.
#[derive(Debug, Clone)]
pub struct Index {
    path: PathBuf,
    compression: Compression,
    stored: StoredHeader,
    head: Head,
    entries: Vec<Entry>,
    /// How many entries the file beside the log holds.
    written: usize,
}

impl Index {
    /// Reads, extends or builds the index of a log, and writes down what is new of it.
    ///
    /// # Errors
    /// When the log itself is damaged or unreadable. What is wrong with the index is no error.
    pub fn open(
        disk: &dyn Disk,
        path: &Path,
        compression: Compression,
    ) -> Result<Self, StorageError> {
        let reader = disk
            .open_reader(path)
            .map_err(|e| StorageError::io("open", path, &e))?;
        let stat = reader
            .stat()
            .map_err(|e| StorageError::io("look at", path, &e))?;
        let mut index = match Self::load(disk, reader.as_ref(), path, compression, &stat)? {
            Some(index) => index,
            None => Self::empty(reader.as_ref(), path, compression, &stat)?,
        };
        index.extend(reader.as_ref(), &stat)?;
        index.save(disk);
        Ok(index)
    }

    /// An index without entries.
    fn empty(
        reader: &dyn DiskReader,
        path: &Path,
        compression: Compression,
        stat: &FileStat,
    ) -> Result<Self, StorageError> {
        let mut walker = Walker::new(reader, path, compression, 0, stat.size);
        let stored = header_step(&mut walker, path, compression)?;
        let stored =
            stored.ok_or_else(|| StorageError::corrupt(path, "no complete header record"))?;
        let head = Head::new(stat, compression, walker.position());
        let path = path.to_owned();
        Ok(Self {
            path,
            compression,
            stored,
            head,
            entries: Vec::new(),
            written: 0,
        })
    }

    /// The index file, if it is one of this very log and still true of it.
    fn load(
        disk: &dyn Disk,
        reader: &dyn DiskReader,
        path: &Path,
        compression: Compression,
        stat: &FileStat,
    ) -> Result<Option<Self>, StorageError> {
        let Ok(file) = disk.open_reader(&index_path(path)) else {
            return Ok(None);
        };
        let Ok(size) = file.stat().map(|stat| stat.size) else {
            return Ok(None);
        };
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let Ok(bytes) = file.read_at(0, length) else {
            return Ok(None);
        };
        let Some(head) = bytes.get(..ENTRY_BYTES).and_then(Head::read) else {
            return Ok(None);
        };
        let rest = bytes.get(ENTRY_BYTES..).unwrap_or_default();
        // A torn last entry is left out; one that is wrong ends what is believed.
        let entries: Vec<Entry> = rest
            .chunks_exact(ENTRY_BYTES)
            .map_while(Entry::read)
            .collect();
        if !head.names(stat, compression) || !contiguous(&head, &entries) {
            return Ok(None);
        }
        let mut index = Self::empty(reader, path, compression, stat)?;
        if index.head != head {
            return Ok(None);
        }
        if let Some(last) = entries.last() {
            if last.end > stat.size {
                return Ok(None);
            }
            let length = usize::try_from(last.end - last.start).unwrap_or(usize::MAX);
            let frame = reader
                .read_at(last.start, length)
                .map_err(|e| StorageError::io("read", path, &e))?;
            if frame.len() != length || crc32fast::hash(&frame) != last.checksum {
                return Ok(None);
            }
        }
        index.written = entries.len();
        index.entries = entries;
        Ok(Some(index))
    }

    /// Indexes what the log has beyond the last entry.
    fn extend(&mut self, reader: &dyn DiskReader, stat: &FileStat) -> Result<(), StorageError> {
        let path = self.path.clone();
        let mut walker = Walker::new(
            reader,
            &path,
            self.compression,
            self.indexed_bytes(),
            stat.size,
        );
        while let Step::Frame(frame) = walker.next()? {
            let events = match frame_events(&path, &frame, self.end()) {
                Ok(events) => events,
                // In a plain log a bad line may be a torn tail: what is wrong is for a whole read
                // to say. A zstd frame that is whole must hold whole records.
                Err(_) if self.compression == Compression::None => break,
                Err(error) => return Err(error),
            };
            self.push(&frame, events)?;
        }
        Ok(())
    }

    /// Adds a frame that was read or written.
    fn push(&mut self, frame: &Frame, events: Vec<SharedEvent>) -> Result<(), StorageError> {
        let events = import(&self.stored.header.id, events)
            .map_err(|e| StorageError::corrupt(&self.path, e))?;
        let number = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let next = Entry::after(
            self.entries.last(),
            number,
            self.stored.inherited,
            &frame.span,
            frame.checksum,
            &events,
        );
        self.entries.push(next);
        Ok(())
    }

    /// Adds a batch that was just appended to the log as these frames.
    pub(crate) fn appended(
        &mut self,
        disk: &dyn Disk,
        frames: &[(std::ops::Range<u64>, u32, usize)],
        mut events: &[SharedEvent],
    ) {
        for (span, checksum, count) in frames {
            let (these, rest) = events.split_at((*count).min(events.len()));
            events = rest;
            let number = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
            let cut = self.stored.inherited;
            let last = self.entries.last();
            self.entries
                .push(Entry::after(last, number, cut, span, *checksum, these));
        }
        self.save(disk);
    }

    /// Writes down the entries that the file lacks. Where the folder cannot be written the index
    /// lives in memory only.
    fn save(&mut self, disk: &dyn Disk) {
        if self.written == self.entries.len() && self.written > 0 {
            return;
        }
        let path = index_path(&self.path);
        let saved = if self.written == 0 {
            let mut bytes = self.head.write();
            bytes.extend(self.entries.iter().flat_map(Entry::write));
            disk.replace_derived(&path, &bytes)
        } else {
            let fresh = self.entries.get(self.written..).unwrap_or_default();
            let bytes: Vec<u8> = fresh.iter().flat_map(Entry::write).collect();
            let at = (self.written + 1) as u64 * ENTRY_BYTES as u64;
            disk.open_file(&path)
                .and_then(|mut file| file.write_at(at, &bytes))
        };
        match saved {
            Ok(()) => self.written = self.entries.len(),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "the frame index stays in memory");
            }
        }
    }

    /// The header of the log.
    pub const fn header(&self) -> &SessionHeader {
        &self.stored.header
    }

    /// The exact inherited cut.
    pub const fn inherited(&self) -> SessionLogOffset {
        self.stored.inherited
    }

    /// The boundary behind the last indexed event.
    pub fn end(&self) -> SessionLogOffset {
        SessionLogOffset::of_len(self.entries.last().map_or(0, Entry::end_offset))
    }

    /// What is known of the whole, without reading the log.
    pub fn facts(&self) -> Facts {
        self.entries
            .last()
            .map_or_else(Facts::default, |entry| entry.facts)
    }

    /// The byte behind the last indexed frame.
    pub fn indexed_bytes(&self) -> u64 {
        self.entries
            .last()
            .map_or(self.head.events_start, |entry| entry.end)
    }

    /// How many frames there are.
    pub fn frame_count(&self) -> usize {
        self.entries.len()
    }

    /// The frames that hold events of `from..to`.
    pub(crate) fn frames_between(
        &self,
        from: SessionLogOffset,
        to: SessionLogOffset,
    ) -> std::ops::Range<usize> {
        let first = self
            .entries
            .partition_point(|e| e.end_offset() <= from.index());
        let last = self.entries.partition_point(|e| e.first_offset < to.get());
        first..last.max(first)
    }

    /// The frames that hold any of these types, in order, by the chains.
    pub(crate) fn frames_with(&self, types: &[&EventType]) -> Vec<usize> {
        let mut frames = std::collections::BTreeSet::new();
        for event_type in types {
            let mut at = self
                .entries
                .last()
                .and_then(|entry| entry.last_with(event_type));
            while let Some(frame) = at {
                frames.insert(frame);
                let before = frame.checked_sub(1).and_then(|i| self.entries.get(i));
                at = before.and_then(|entry| entry.last_with(event_type));
            }
        }
        frames.into_iter().collect()
    }

    /// One frame's entry.
    pub(crate) fn entry(&self, frame: usize) -> Option<&Entry> {
        self.entries.get(frame)
    }

    /// Reads one frame, checked against its entry.
    ///
    /// # Errors
    /// When the frame is not what the index says: the log was damaged or changed.
    pub(crate) fn read_frame(
        &self,
        reader: &dyn DiskReader,
        frame: usize,
    ) -> Result<Vec<SharedEvent>, StorageError> {
        let Some(entry) = self.entries.get(frame) else {
            return Ok(Vec::new());
        };
        let length = usize::try_from(entry.end - entry.start).unwrap_or(usize::MAX);
        let bytes = reader
            .read_at(entry.start, length)
            .map_err(|e| StorageError::io("read", &self.path, &e))?;
        let span = entry.start..entry.end;
        let checksum = crc32fast::hash(&bytes);
        if bytes.len() != length || checksum != entry.checksum {
            let why = format!("frame at byte {}: its checksum differs", entry.start);
            return Err(StorageError::corrupt(&self.path, why));
        }
        let content = match self.compression {
            Compression::None => bytes,
            Compression::Zstd => frames::decode(&bytes, &(0..length)).map_err(|mut error| {
                error.offset = usize::try_from(entry.start).unwrap_or(usize::MAX);
                StorageError::corrupt(&self.path, error)
            })?,
        };
        let start =
            SessionLogOffset::of_len(usize::try_from(entry.first_offset).unwrap_or(usize::MAX));
        let events = frame_events(
            &self.path,
            &Frame {
                span,
                checksum,
                content,
            },
            start,
        )?;
        import(&self.stored.header.id, events).map_err(|e| StorageError::corrupt(&self.path, e))
    }
}

/// Where the index of a log lies.
pub fn index_path(log: &Path) -> PathBuf {
    log.with_file_name(INDEX_FILE)
}

/// Whether each entry begins where the one before it ends.
fn contiguous(head: &Head, entries: &[Entry]) -> bool {
    let mut at = (head.events_start, 0);
    entries.iter().all(|entry| {
        let fits = (entry.start, entry.first_offset) == at && entry.end > entry.start;
        at = (entry.end, entry.end_offset() as u64);
        fits
    })
}
