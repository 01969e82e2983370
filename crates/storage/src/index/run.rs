//! Reading one run of frames: checked as a whole, decoded piece by piece from its end, so that a
//! page costs the frames that it shows and not the run that they lie in (decision D3).

use std::ops::{ControlFlow, Range};
use std::path::Path;

use orrery_session::import::import;
use orrery_session::v0::first_seq;
use orrery_session::{SessionId, SessionLogOffset, SessionSeq, SharedEvent};

use super::entry::Entry;
use crate::disk::DiskReader;
use crate::error::StorageError;
use crate::frames::{Decoder, frame_end};
use crate::layout::Compression;
use crate::read::frame_events;
use crate::tally::Tally;

/// How much of a run is read at once to check it.
const CHECK_BYTES: usize = 256 * 1024;

/// The bytes of a run, which are what its entry says.
#[derive(Debug)]
pub(super) struct Run<'a> {
    path: &'a Path,
    session: &'a SessionId,
    compression: Compression,
    entry: &'a Entry,
    bytes: Vec<u8>,
}

impl<'a> Run<'a> {
    /// Reads a run.
    ///
    /// # Errors
    /// When it is not what its entry says: the log was damaged or changed.
    pub(super) fn read(
        reader: &dyn DiskReader,
        path: &'a Path,
        session: &'a SessionId,
        compression: Compression,
        entry: &'a Entry,
    ) -> Result<Self, StorageError> {
        let length = usize::try_from(entry.end - entry.start).unwrap_or(usize::MAX);
        let bytes = reader
            .read_at(entry.start, length)
            .map_err(|e| StorageError::io("read", path, &e))?;
        let run = Self {
            path,
            session,
            compression,
            entry,
            bytes,
        };
        if run.bytes.len() != length || crc32fast::hash(&run.bytes) != entry.checksum {
            return Err(run.wrong(entry.start, "its checksum differs"));
        }
        Ok(run)
    }

    /// Calls `visit` with the events of each frame that begins in front of `before`, the last first,
    /// until it has enough.
    ///
    /// # Errors
    /// When a frame does not hold what must stand there.
    pub(super) fn backwards(
        mut self,
        before: SessionLogOffset,
        tally: &Tally,
        visit: &mut dyn FnMut(Vec<SharedEvent>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let pieces = self.pieces()?;
        let mut decoder = Decoder::new();
        let mut end = offset(self.entry.end_offset());
        for (number, piece) in pieces.into_iter().enumerate().rev() {
            let byte = self.entry.start + piece.start as u64;
            tally.frame();
            let content = self.content(&mut decoder, number, piece)?;
            // A frame wholly behind what is asked for is not decoded: its first line says so.
            if end > before
                && let Some(begins) = first_seq(&content).map(SessionSeq::offset_before)
                && begins >= before
                && begins <= end
            {
                end = begins;
                continue;
            }
            let first = number == 0;
            let start = first
                .then(|| offset(usize::try_from(self.entry.first_offset).unwrap_or(usize::MAX)));
            let events = frame_events(self.path, byte, &content, start)?;
            drop(content);
            let (begins, ends) = match (events.first(), events.last()) {
                (Some(first), Some(last)) => {
                    (first.seq().offset_before(), last.seq().offset_after())
                }
                _ => (start.unwrap_or(end), start.unwrap_or(end)),
            };
            if ends != end {
                return Err(self.wrong(byte, &format!("ends at {ends}, expected {end}")));
            }
            end = begins;
            let events =
                import(self.session, events).map_err(|e| StorageError::corrupt(self.path, e))?;
            if visit(events).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Where the run's frames lie within it. A run of a plain log is one piece.
    fn pieces(&self) -> Result<Vec<Range<usize>>, StorageError> {
        if self.compression == Compression::None {
            let whole = 0..self.bytes.len();
            return Ok(vec![whole]);
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < self.bytes.len() {
            let byte = self.entry.start + at as u64;
            match frame_end(&self.bytes, at) {
                Ok(Some(end)) => {
                    pieces.push(at..end);
                    at = end;
                }
                Ok(None) => return Err(self.wrong(byte, "it is not whole")),
                Err(error) => return Err(self.wrong(byte, &error.why)),
            }
        }
        Ok(pieces)
    }

    /// The lines of a piece. What was read for them goes with the first piece, which comes last.
    fn content(
        &mut self,
        decoder: &mut Decoder,
        number: usize,
        piece: Range<usize>,
    ) -> Result<Vec<u8>, StorageError> {
        let byte = self.entry.start + piece.start as u64;
        let content = match self.compression {
            Compression::None => return Ok(std::mem::take(&mut self.bytes)),
            Compression::Zstd => decoder.decode(self.bytes.get(piece).unwrap_or_default()),
        };
        if number == 0 {
            self.bytes = Vec::new();
        }
        content.map_err(|error| self.wrong(byte, &error.why))
    }

    fn wrong(&self, byte: u64, why: &str) -> StorageError {
        StorageError::corrupt(self.path, format!("frame at byte {byte}: {why}"))
    }
}

/// Whether the bytes of a run are there and have its checksum, holding few of them at a time.
pub(super) fn is_as_noted(reader: &dyn DiskReader, entry: &Entry) -> std::io::Result<bool> {
    let mut checksum = crc32fast::Hasher::new();
    let mut at = entry.start;
    let mut piece = Vec::new();
    while at < entry.end {
        let left = usize::try_from(entry.end - at).unwrap_or(usize::MAX);
        piece.clear();
        if reader.read_into(at, left.min(CHECK_BYTES), &mut piece)? == 0 {
            return Ok(false);
        }
        checksum.update(&piece);
        at += piece.len() as u64;
    }
    Ok(checksum.finalize() == entry.checksum)
}

fn offset(count: usize) -> SessionLogOffset {
    SessionLogOffset::of_len(count)
}
