//! The frame index: `session.index` beside a log (decisions D2, D3).
//!
//! Derived and never believed: a wrong or missing index costs time, never truth. Fixed-size
//! entries, one for each *run* of frames, are appended as the log grows; each says where its run
//! lies and, cumulatively, what lies before its end. The last entry answers every question about the
//! whole; from it a chain leads to each run that holds a rare event type.
//!
//! A run ends with the frame that makes it worth an entry: one entry for each frame would be a
//! quarter of a log that compresses well. What stands behind the last run that ended is known in
//! memory only and is decoded again by whoever opens the log; that is less than a page.
//!
//! Valid when it names this very file (device and inode), the file reaches at least as far as the
//! last entry says, and that entry's run still has its checksum. A log that grew is indexed from
//! there on; anything else is indexed anew by one pass over the log.

pub mod entry;
mod run;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use orrery_session::import::import;
use orrery_session::{EventType, SessionHeader, SessionLogOffset, SharedEvent};

use crate::disk::{Disk, DiskReader, FileStat};
use crate::error::StorageError;
use crate::layout::Compression;
use crate::read::{StoredHeader, frame_events, header_step};
use crate::tally::Tally;
use crate::walk::{Step, Walker};
use entry::{ENTRY_BYTES, Entry, Facts, HEAD_BYTES, Head, Last};
use run::{Run, is_as_noted};

/// The index's file name.
pub const INDEX_FILE: &str = "session.index";

/// A run is worth an entry with so many events …
const RUN_EVENTS: u32 = 1000;
/// … or with so many bytes of text.
const RUN_TEXT: u64 = 128 * 1024;
/// It goes on all the same until the index with its entry is at most so small a part of the log: less
/// than a twentieth, also while the log is little.
const SHARE: u64 = 22;

/// The index of one log, as far as the log is whole.
#[derive(Debug, Clone)]
pub struct Index {
    path: PathBuf,
    compression: Compression,
    stored: StoredHeader,
    head: Head,
    entries: Vec<Entry>,
    /// The run of the last entry, while it has not ended.
    growing: Option<Growing>,
    /// The events of the growing run, where it was decoded just now.
    recent: Option<Vec<SharedEvent>>,
    /// How many entries the file beside the log holds.
    written: usize,
    tally: Tally,
}

/// What is known of a run that has not ended, beside its entry.
#[derive(Debug, Clone, Default)]
struct Growing {
    checksum: crc32fast::Hasher,
    text: u64,
}

/// A frame as the index takes it.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// Where its bytes lie.
    pub(crate) span: std::ops::Range<u64>,
    /// Their checksum.
    pub(crate) checksum: u32,
    /// How long its text is.
    pub(crate) text: u64,
    /// How many events it holds.
    pub(crate) count: usize,
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
        Self::open_tallied(disk, path, compression, &Tally::default())
    }

    /// The same; frames that are decoded for it, now or later, are counted.
    pub(crate) fn open_tallied(
        disk: &dyn Disk,
        path: &Path,
        compression: Compression,
        tally: &Tally,
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
        index.tally = tally.clone();
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
        let head = Head::new(stat, compression, walker.position(), stored.inherited);
        let path = path.to_owned();
        Ok(Self {
            path,
            compression,
            stored,
            head,
            entries: Vec::new(),
            growing: None,
            recent: Some(Vec::new()),
            written: 0,
            tally: Tally::default(),
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
        let Some(head) = Head::read(&bytes) else {
            return Ok(None);
        };
        let rest = bytes.get(HEAD_BYTES..).unwrap_or_default();
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
            let same = is_as_noted(reader, last).map_err(|e| StorageError::io("read", path, &e))?;
            if !same {
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
            self.tally.frame();
            let (byte, end) = (frame.span.start, Some(self.end()));
            let events = match frame_events(&path, byte, &frame.content, end) {
                Ok(events) => events,
                // In a plain log a bad line may be a torn tail: what is wrong is for a whole read
                // to say. A zstd frame that is whole must hold whole records.
                Err(_) if self.compression == Compression::None => break,
                Err(error) => return Err(error),
            };
            let placed = Placed {
                span: frame.span,
                checksum: frame.checksum,
                text: frame.content.len() as u64,
                count: events.len(),
            };
            drop(frame.content);
            let events = import(&self.stored.header.id, events)
                .map_err(|e| StorageError::corrupt(&path, e))?;
            self.take(&placed, &events);
            self.keep(events);
        }
        Ok(())
    }

    /// Keeps the events of the growing run, unless it compresses so well that they are many.
    fn keep(&mut self, events: Vec<SharedEvent>) {
        match &self.growing {
            None => self.recent = Some(Vec::new()),
            Some(growing) if growing.text > 2 * RUN_TEXT => self.recent = None,
            Some(_) => {
                if let Some(recent) = &mut self.recent {
                    recent.extend(events);
                }
            }
        }
    }

    /// Adds a frame that was read or written to the run that it belongs to.
    fn take(&mut self, frame: &Placed, events: &[SharedEvent]) {
        if self.growing.is_none() {
            let next = Entry::after(self.entries.last(), frame.span.start);
            self.entries.push(next);
        }
        let mut growing = self.growing.take().unwrap_or_default();
        let length = frame.span.end - frame.span.start;
        let more = crc32fast::Hasher::new_with_initial_len(frame.checksum, length);
        growing.checksum.combine(&more);
        growing.text += frame.text;
        let checksum = growing.checksum.clone().finalize();
        if let Some(entry) = self.entries.last_mut() {
            entry.grow(frame.span.end, checksum, self.stored.inherited, events);
            let worth = entry.count >= RUN_EVENTS || growing.text >= RUN_TEXT;
            let size = (HEAD_BYTES + self.entries.len() * ENTRY_BYTES) as u64;
            let ends = worth && size.saturating_mul(SHARE) <= frame.span.end;
            self.growing = (!ends).then_some(growing);
        }
    }

    /// Adds a batch that was just appended to the log as these frames.
    pub(crate) fn appended(
        &mut self,
        disk: &dyn Disk,
        frames: &[Placed],
        mut events: &[SharedEvent],
    ) {
        // The writer's events are at hand elsewhere.
        self.recent = None;
        for frame in frames {
            let (these, rest) = events.split_at(frame.count.min(events.len()));
            events = rest;
            self.take(frame, these);
        }
        self.save(disk);
    }

    /// Writes down the entries that the file lacks, of runs that have ended. Where the folder cannot
    /// be written the index lives in memory only.
    fn save(&mut self, disk: &dyn Disk) {
        let ended = self.entries.len() - usize::from(self.growing.is_some());
        if self.written >= ended {
            return;
        }
        let path = index_path(&self.path);
        let fresh = self.entries.get(self.written..ended).unwrap_or_default();
        let fresh = fresh.iter().flat_map(Entry::write);
        let saved = if self.written == 0 {
            let mut bytes = self.head.write();
            bytes.extend(fresh);
            disk.replace_derived(&path, &bytes)
        } else {
            let bytes: Vec<u8> = fresh.collect();
            let at = (HEAD_BYTES + self.written * ENTRY_BYTES) as u64;
            disk.open_file(&path)
                .and_then(|mut file| file.write_at(at, &bytes))
        };
        match saved {
            Ok(()) => self.written = ended,
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

    /// How many runs of frames there are.
    pub fn run_count(&self) -> usize {
        self.entries.len()
    }

    /// The runs that hold events of `from..to`.
    pub(crate) fn runs_between(
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

    /// The last run up to this one that holds the type.
    fn last_with(&self, event_type: &EventType, mut run: usize) -> Option<usize> {
        loop {
            match self.entries.get(run)?.last_with(event_type) {
                Last::Never => return None,
                Last::Back(back) => return run.checked_sub(back),
                Last::Beyond(back) => run = run.checked_sub(back)?,
            }
        }
    }

    /// The runs that hold any of these types, in order, by the chains.
    pub(crate) fn runs_with(&self, types: &[&EventType]) -> Vec<usize> {
        let mut runs = std::collections::BTreeSet::new();
        for event_type in types {
            let mut before = self.entries.len();
            while let Some(run) = before.checked_sub(1) {
                match self.last_with(event_type, run) {
                    Some(run) => {
                        runs.insert(run);
                        before = run;
                    }
                    None => break,
                }
            }
        }
        runs.into_iter().collect()
    }

    /// Where the last run begins that holds the type.
    pub(crate) fn last_start_with(&self, event_type: &EventType) -> Option<SessionLogOffset> {
        let last = self.entries.len().checked_sub(1)?;
        let entry = self.entries.get(self.last_with(event_type, last)?)?;
        let first = usize::try_from(entry.first_offset).unwrap_or(usize::MAX);
        Some(SessionLogOffset::of_len(first))
    }

    /// Calls `visit` with the events of each frame of a run that begins in front of `before`, the last
    /// first, until it has enough.
    ///
    /// # Errors
    /// When the run is not what the index says: the log was damaged or changed.
    pub(crate) fn read_back(
        &self,
        reader: &dyn DiskReader,
        run: usize,
        before: SessionLogOffset,
        visit: &mut dyn FnMut(Vec<SharedEvent>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let Some(entry) = self.entries.get(run) else {
            return Ok(ControlFlow::Continue(()));
        };
        match &self.recent {
            // It was decoded when the log was opened.
            Some(recent) if self.growing.is_some() && run + 1 == self.entries.len() => {
                Ok(visit(recent.clone()))
            }
            _ => {
                let id = &self.stored.header.id;
                let run = Run::read(reader, &self.path, id, self.compression, entry)?;
                run.backwards(before, &self.tally, visit)
            }
        }
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
