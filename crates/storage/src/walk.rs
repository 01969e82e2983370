//! Walking a log frame by frame, holding one frame at a time.
//!
//! In a zstd log a frame is a zstd frame. In a plain log it is a stretch of whole lines of at most
//! 64 KiB, or one longer line: few enough events for a page out of its middle to be cheap, also
//! where they are packed into rows (decision D2 allows 256 KiB).

use std::ops::Range;
use std::path::Path;

use crate::disk::DiskReader;
use crate::error::StorageError;
use crate::frames;
use crate::layout::Compression;

/// How much is read first: who wants the header only has it then.
const READ_FIRST: usize = 4 * 1024;
/// How much is read at once, at least, after a while.
const READ_AHEAD: usize = 256 * 1024;
/// The longest stretch of lines of a plain log.
const MAX_RUN: usize = 64 * 1024;

/// What comes next.
#[derive(Debug)]
pub(crate) enum Step {
    /// A whole frame.
    Frame(Frame),
    /// What is left is no whole frame.
    Torn {
        /// Where it begins.
        start: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Nothing is left.
    End,
}

/// A frame with its content.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Where its bytes lie.
    pub(crate) span: Range<u64>,
    /// A checksum of its bytes as they lie on disk.
    pub(crate) checksum: u32,
    /// Its content: whole lines.
    pub(crate) content: Vec<u8>,
}

/// Walks one file up to the size that it had when the walk began.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    reader: &'a dyn DiskReader,
    path: &'a Path,
    compression: Compression,
    at: u64,
    size: u64,
    buffer: Vec<u8>,
    /// How much of the buffer is behind us.
    used: usize,
    /// How much is read next, at least.
    ahead: usize,
    decoder: frames::Decoder,
}

impl<'a> Walker<'a> {
    /// Starts at a byte that a frame begins at.
    pub(crate) fn new(
        reader: &'a dyn DiskReader,
        path: &'a Path,
        compression: Compression,
        at: u64,
        size: u64,
    ) -> Self {
        Self {
            reader,
            path,
            compression,
            at,
            size,
            buffer: Vec::new(),
            used: 0,
            ahead: READ_FIRST,
            decoder: frames::Decoder::new(),
        }
    }

    /// The byte that the next frame begins at.
    pub(crate) const fn position(&self) -> u64 {
        self.at
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    /// Reads more; false when the file has no more.
    fn fill(&mut self) -> Result<bool, StorageError> {
        let have = self.buffer.len() - self.used;
        let from = self.at + have as u64;
        let left = usize::try_from(self.size.saturating_sub(from)).unwrap_or(usize::MAX);
        let want = left.min(self.ahead.max(have / 2));
        self.ahead = READ_AHEAD.min(self.ahead * 8);
        if want == 0 {
            return Ok(false);
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.reserve_exact(want);
        let read = self
            .reader
            .read_into(from, want, &mut self.buffer)
            .map_err(|e| StorageError::io("read", self.path, &e))?;
        if read == 0 {
            self.size = from;
            return Ok(false);
        }
        Ok(true)
    }

    fn take(&mut self, length: usize) -> (Range<u64>, Range<usize>) {
        let span = self.at..self.at + length as u64;
        let bytes = self.used..self.used + length;
        self.at = span.end;
        self.used = bytes.end;
        (span, bytes)
    }

    /// The next frame, decompressed.
    ///
    /// # Errors
    /// When a whole frame does not decompress, or what lies there is no frame at all.
    pub(crate) fn next(&mut self) -> Result<Step, StorageError> {
        match self.compression {
            Compression::Zstd => self.next_zstd(),
            Compression::None => self.next_run(),
        }
    }

    /// Exactly one line of a plain log: its header.
    pub(crate) fn next_line(&mut self) -> Result<Step, StorageError> {
        loop {
            if let Some(end) = self.rest().iter().position(|&b| b == b'\n') {
                return Ok(self.run(end + 1));
            }
            if !self.fill()? {
                return Ok(self.torn());
            }
        }
    }

    fn next_zstd(&mut self) -> Result<Step, StorageError> {
        loop {
            let found = frames::frame_end(self.rest(), 0).map_err(|mut error| {
                error.offset = usize::try_from(self.at).unwrap_or(usize::MAX);
                StorageError::corrupt(self.path, error)
            })?;
            match found {
                Some(end) => {
                    let (span, bytes) = self.take(end);
                    let raw = self.buffer.get(bytes).unwrap_or_default();
                    let checksum = crc32fast::hash(raw);
                    let content = self.decoder.decode(raw).map_err(|mut error| {
                        error.offset = usize::try_from(span.start).unwrap_or(usize::MAX);
                        StorageError::corrupt(self.path, error)
                    })?;
                    return Ok(Step::Frame(Frame {
                        span,
                        checksum,
                        content,
                    }));
                }
                None if self.fill()? => {}
                None => {
                    if let Some(within) = frames::swallowed_frame(self.rest()) {
                        let why = format!(
                            "frame at byte {}: damaged, it runs over the frame at byte {}",
                            self.at,
                            self.at + within as u64
                        );
                        return Err(StorageError::corrupt(self.path, why));
                    }
                    return Ok(self.torn());
                }
            }
        }
    }

    fn next_run(&mut self) -> Result<Step, StorageError> {
        loop {
            let rest = self.rest();
            let limit = rest.len().min(MAX_RUN);
            let within = rest.get(..limit).unwrap_or_default();
            let whole = within.iter().rposition(|&b| b == b'\n');
            let full = limit == MAX_RUN;
            match whole {
                Some(end) if full => return Ok(self.run(end + 1)),
                // One line is longer than a run: it is a run of its own.
                None if full => {
                    if let Some(end) = rest.iter().position(|&b| b == b'\n') {
                        return Ok(self.run(end + 1));
                    }
                }
                _ => {}
            }
            if !self.fill()? {
                return Ok(match whole {
                    Some(end) => self.run(end + 1),
                    None => self.torn(),
                });
            }
        }
    }

    fn run(&mut self, length: usize) -> Step {
        let (span, bytes) = self.take(length);
        let content = if bytes.start == 0 && length > self.buffer.len() / 2 {
            // A line that fills the buffer takes it along: a second copy of it may be too much.
            let rest = self.buffer.split_off(bytes.end);
            self.used = 0;
            std::mem::replace(&mut self.buffer, rest)
        } else {
            self.buffer.get(bytes).unwrap_or_default().to_vec()
        };
        Step::Frame(Frame {
            span,
            checksum: crc32fast::hash(&content),
            content,
        })
    }

    fn torn(&self) -> Step {
        match self.rest() {
            [] => Step::End,
            bytes => Step::Torn {
                start: self.at,
                bytes: bytes.to_vec(),
            },
        }
    }
}
