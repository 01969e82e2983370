//! The codec of format version 0: header line, event lines, packed rows, and the scan of many lines
//! (`session.md` 2.2, 2.3, 2.6). Bytes in, values out; where the bytes lie is `orrery-storage`'s.

mod header;
mod scan;

use crate::chunk_row::{Parts, Record, Spelling, pack};
use crate::event::{EnvelopeError, Event, SharedEvent};
use crate::ranges::Form;
use crate::seq::SessionSeq;

pub use header::{decode_header, encode_header};
pub use scan::{LineIssue, Scan, ScanError, Scanner, scan_piece, scan_records};

/// Why a line is not a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Not UTF-8.
    #[error("not valid UTF-8")]
    NotText,
    /// A row that is malformed.
    #[error(transparent)]
    Row(#[from] crate::chunk_row::RowError),
    /// An event whose envelope is malformed.
    #[error(transparent)]
    Event(#[from] EnvelopeError),
}

/// A batch as lines, each with its newline: runs of chunks packed, provenance in range form.
pub fn encode_batch(events: &[SharedEvent]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in pack(events) {
        match record {
            Record::Event(event) => out.extend_from_slice(event.storage_text().as_bytes()),
            Record::Chunks(row) => out.extend_from_slice(row.to_json(Spelling::Disk).as_bytes()),
        }
        out.push(b'\n');
    }
    out
}

/// The events of one line, without its newline: one, or all members of a row.
pub fn decode_record(line: &[u8]) -> Result<Vec<Event>, RecordError> {
    let mut events = Vec::new();
    decode(line, &mut |event| events.push(event))?;
    Ok(events)
}

/// Calls `take` with each event of a line: with none when the line is no record.
fn decode(line: &[u8], take: &mut dyn FnMut(Event)) -> Result<(), RecordError> {
    let text = std::str::from_utf8(line).map_err(|_not_text| RecordError::NotText)?;
    match Parts::from_disk(text) {
        Some(row) => row?.expand(take),
        None => take(Event::read(text, Form::Ranges)?),
    }
    Ok(())
}

/// The seq that the first of many lines begins with, if that line is a record.
pub fn first_seq(lines: &[u8]) -> Option<SessionSeq> {
    let line = lines.split(|&byte| byte == b'\n').next()?;
    let events = decode_record(line).ok()?;
    events.first().map(Event::seq)
}
