//! A log for reading, piece by piece: what a reader asks for is decoded, and nothing else
//! (decision D3).
//!
//! Whole frames are reached through the index. The torn tail of a crashed writer and the closers of
//! an interrupted turn are computed when the view is opened and stand at its end, in memory only,
//! exactly as repair would write them.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use orrery_session::import::import;
use orrery_session::repair::closers;
use orrery_session::v0::scan_records;
use orrery_session::{EventType, SessionHeader, SessionLogOffset, SharedEvent};

use crate::disk::{Disk, DiskReader};
use crate::error::StorageError;
use crate::frames::decode_torn;
use crate::index::Index;
use crate::index::entry::Facts;
use crate::layout::Compression;
use crate::read::Revision;
use crate::tally::Tally;
use crate::walk::{Step, Walker};

/// How often opening is repeated while somebody writes the file.
const STABLE_ATTEMPTS: usize = 50;

/// A log at one revision.
#[derive(Debug)]
pub struct LogView {
    path: PathBuf,
    index: Index,
    /// Recovered events, then closers.
    tail: Vec<SharedEvent>,
    recovered: usize,
    facts: Facts,
    revision: Revision,
    reader: Box<dyn DiskReader>,
}

impl LogView {
    /// Opens a log, extending or building its index where that is needed.
    ///
    /// # Errors
    /// When the log is damaged in front of committed work, or unreadable.
    pub fn open(
        disk: &dyn Disk,
        path: &Path,
        compression: Compression,
    ) -> Result<Self, StorageError> {
        Self::open_tallied(disk, path, compression, &Tally::default())
    }

    /// The same, counted.
    pub(crate) fn open_tallied(
        disk: &dyn Disk,
        path: &Path,
        compression: Compression,
        tally: &Tally,
    ) -> Result<Self, StorageError> {
        tally.log();
        let io = |action| move |e: std::io::Error| StorageError::io(action, path, &e);
        for _ in 0..STABLE_ATTEMPTS {
            let reader = disk.open_reader(path).map_err(io("open"))?;
            let stat = reader.stat().map_err(io("look at"))?;
            let index = Index::open_tallied(disk, path, compression, tally);
            if disk.stat(path).map_err(io("look at"))? != stat {
                continue;
            }
            let index = index?;
            let revision = Revision(stat);
            return Self::finish(reader, path, compression, index, revision);
        }
        Err(StorageError::Changed {
            path: path.to_owned(),
            why: format!("it moved during {STABLE_ATTEMPTS} reads"),
        })
    }

    fn finish(
        reader: Box<dyn DiskReader>,
        path: &Path,
        compression: Compression,
        index: Index,
        revision: Revision,
    ) -> Result<Self, StorageError> {
        let corrupt = |e: &dyn std::fmt::Display| StorageError::corrupt(path, e);
        let (from, size) = (index.indexed_bytes(), revision.0.size);
        let mut walker = Walker::new(reader.as_ref(), path, compression, from, size);
        let rest = match walker.next()? {
            Step::End => Vec::new(),
            Step::Torn { bytes, .. } if compression == Compression::Zstd => decode_torn(&bytes),
            // What follows a bad line of a plain log may still hold committed work: the scanner
            // tells damage from a torn tail.
            Step::Torn { bytes, .. } => bytes,
            Step::Frame(_) => {
                let length = usize::try_from(size - from).unwrap_or(usize::MAX);
                reader
                    .read_at(from, length)
                    .map_err(|e| StorageError::io("read", path, &e))?
            }
        };
        let scan = scan_records(&rest, index.end());
        let recovered = match scan {
            Ok(scan) => scan.events,
            Err(_) if compression == Compression::Zstd => Vec::new(),
            Err(error) => return Err(corrupt(&error)),
        };
        let recovered =
            import(&index.header().id, recovered).map_err(|e| StorageError::corrupt(path, e))?;
        let mut view = Self {
            path: path.to_owned(),
            facts: index.facts().with(&recovered, index.inherited()),
            recovered: recovered.len(),
            tail: recovered,
            index,
            revision,
            reader,
        };
        if view.index.inherited() > view.end() {
            let why = format!(
                "inherits {} events and holds {}",
                view.index.inherited(),
                view.end()
            );
            return Err(corrupt(&why));
        }
        if view.facts.open_turn {
            let turn = view.open_turn()?;
            let added = closers(&turn).map_err(|e| StorageError::corrupt(path, e))?;
            view.facts = view.facts.with(&added, view.index.inherited());
            view.tail.extend(added);
        }
        Ok(view)
    }

    /// The events from the last `turn/start` on.
    fn open_turn(&self) -> Result<Vec<SharedEvent>, StorageError> {
        let starts = |event: &SharedEvent| *event.event_type() == EventType::TurnStart;
        if let Some(at) = self.tail.iter().rposition(starts) {
            return Ok(self.tail.get(at..).unwrap_or_default().to_vec());
        }
        let from = self
            .index
            .last_start_with(&EventType::TurnStart)
            .unwrap_or(SessionLogOffset::ZERO);
        let events = self.events(from..self.end())?;
        let at = events.iter().rposition(starts).unwrap_or(0);
        Ok(events.get(at..).unwrap_or_default().to_vec())
    }

    /// The header.
    pub const fn header(&self) -> &SessionHeader {
        self.index.header()
    }

    /// The exact inherited cut.
    pub const fn inherited(&self) -> SessionLogOffset {
        self.index.inherited()
    }

    /// The boundary behind the last event, closers included.
    pub fn end(&self) -> SessionLogOffset {
        self.index.end().advance(self.tail.len())
    }

    /// The boundary behind the last event that lies on disk.
    pub fn stored_end(&self) -> SessionLogOffset {
        self.index.end().advance(self.recovered)
    }

    /// What is known of the whole without decoding it.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Which state of the file this is.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many runs of frames the index has, a torn frame not counted.
    pub fn run_count(&self) -> usize {
        self.index.run_count()
    }

    /// The events of a range, decoding only the frames that hold them.
    ///
    /// # Errors
    /// When a needed frame is damaged.
    pub fn events(&self, range: Range<SessionLogOffset>) -> Result<Vec<SharedEvent>, StorageError> {
        let within = |event: &SharedEvent| {
            event.seq().offset_before() >= range.start && event.seq().offset_before() < range.end
        };
        let mut events = Vec::new();
        for run in self.index.runs_between(range.start, range.end) {
            self.run(run, &mut events, range.clone(), within)?;
        }
        events.extend(self.tail.iter().filter(|event| within(event)).cloned());
        Ok(events)
    }

    /// All events of these types, in order, decoding only the frames that hold any.
    ///
    /// # Errors
    /// When a needed frame is damaged.
    pub fn events_of(&self, types: &[&EventType]) -> Result<Vec<SharedEvent>, StorageError> {
        self.events_of_within(types, SessionLogOffset::ZERO..self.end())
    }

    /// The events of these types in a range, in order, decoding only the frames that hold any.
    ///
    /// # Errors
    /// When a needed frame is damaged.
    pub fn events_of_within(
        &self,
        types: &[&EventType],
        range: Range<SessionLogOffset>,
    ) -> Result<Vec<SharedEvent>, StorageError> {
        let wanted = |event: &SharedEvent| {
            range.contains(&event.seq().offset_before()) && types.contains(&event.event_type())
        };
        let between = self.index.runs_between(range.start, range.end);
        let mut events = Vec::new();
        for run in self.index.runs_with(types) {
            if between.contains(&run) {
                self.run(run, &mut events, range.clone(), wanted)?;
            }
        }
        events.extend(self.tail.iter().filter(|event| wanted(event)).cloned());
        Ok(events)
    }

    /// Calls `visit` with the pieces of the log that begin before `end`, from the last backwards,
    /// each whole and in order, until it says that it has enough. The first piece is the tail that
    /// lies in no whole frame, wherever `end` is.
    ///
    /// # Errors
    /// When a needed frame is damaged.
    pub fn backwards(
        &self,
        end: SessionLogOffset,
        mut visit: impl FnMut(Vec<SharedEvent>) -> ControlFlow<()>,
    ) -> Result<(), StorageError> {
        if visit(self.tail.clone()).is_break() {
            return Ok(());
        }
        let runs = self.index.runs_between(SessionLogOffset::ZERO, end);
        for run in runs.rev() {
            let flow = self
                .index
                .read_back(self.reader.as_ref(), run, end, &mut visit);
            if flow?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Puts the wanted events of a run, in order, behind what is there. Frames outside of the range
    /// are not decoded.
    fn run(
        &self,
        run: usize,
        events: &mut Vec<SharedEvent>,
        range: Range<SessionLogOffset>,
        wanted: impl Fn(&SharedEvent) -> bool,
    ) -> Result<(), StorageError> {
        let mut pieces: Vec<Vec<SharedEvent>> = Vec::new();
        // It ends early where the rest is not asked for; either way all is there.
        let _ended =
            self.index
                .read_back(self.reader.as_ref(), run, range.end, &mut |mut piece| {
                    let begins = piece.first().map(|event| event.seq().offset_before());
                    piece.retain(&wanted);
                    pieces.push(piece);
                    match begins {
                        Some(begins) if begins <= range.start => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                })?;
        events.extend(pieces.into_iter().rev().flatten());
        Ok(())
    }
}
