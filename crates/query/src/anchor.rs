//! Whether a log is still the one that something was derived from: by the checksum of the last events
//! before a boundary. A log is only ever written on, so who finds the same events there finds the
//! same ones before them; a log that lost its end and was written on, or another one in its place,
//! differs in them.

use orrery_projection::checkpoint::{CheckpointIdentity, CheckpointRecord};
use orrery_session::{SessionLogOffset, SharedEvent};
use orrery_storage::{LogView, StorageError};

/// How many events are compared: more than one, since the last is mostly the end of a turn, and
/// those are much alike.
const ANCHORED: usize = 16;

/// The checksum of the last events before a boundary; 0 before the first.
///
/// # Errors
/// When a needed frame is damaged.
pub fn anchor(view: &LogView, boundary: SessionLogOffset) -> Result<u32, StorageError> {
    let first = boundary.index().saturating_sub(ANCHORED);
    let events = view.events(SessionLogOffset::of_len(first)..boundary)?;
    Ok(anchor_of(&events))
}

/// The same of the events themselves, all of those before the boundary or the last of them.
pub fn anchor_of(events: &[SharedEvent]) -> u32 {
    let first = events.len().saturating_sub(ANCHORED);
    let mut checksum = crc32fast::Hasher::new();
    for event in events.iter().skip(first) {
        checksum.update(event.json());
    }
    checksum.finalize()
}

/// Whether a record is of this log. What it holds may then be built upon.
pub fn is_of(record: &CheckpointRecord, view: &LogView) -> bool {
    let identity = CheckpointIdentity::of(view.header(), view.inherited());
    if record.identity != identity || record.reach() > view.stored_end() {
        return false;
    }
    let current = record.revision.as_deref() == Some(view.revision().to_string().as_str());
    // A frame that cannot be read proves nothing, and fails whoever needs it.
    current || record.anchor.is_some() && record.anchor == anchor(view, record.reach()).ok()
}
