//! The entries of a frame index: fixed size, self-contained, cumulative.
//!
//! Little-endian, each closed by a checksum of its own. The numbering of event types is that of
//! this build's vocabulary and is part of the version: another vocabulary, another index.

use std::ops::Range;

use orrery_session::payload::{InboxSpliced, InboxTarget};
use orrery_session::{EventType, SessionLogOffset, SharedEvent, SurfaceOp, Timestamp};
use serde::Deserialize;

use crate::disk::FileStat;
use crate::layout::Compression;

/// The size of an entry, and of the head.
pub const ENTRY_BYTES: usize = 8 * 8 + 4 * 8 + 4 * TYPES + 4;
const _: () = assert!(
    ENTRY_BYTES * 10 <= 4096,
    "ten entries fit into one page of the disk"
);
/// One slot for each known type, and one for all unknown ones.
const TYPES: usize = EventType::KNOWN.len() + 1;
const NEVER: u32 = u32::MAX;
const NO_TIME: i64 = i64::MIN;
const NO_BOUNDARY: u64 = u64::MAX;
const MAGIC: &[u8; 8] = b"ORRERYIX";
/// Moved with every change of meaning or layout.
const VERSION: u32 = 1;

const BLANK: u32 = 1;
const OPEN_TURN: u32 = 2;
const REQUIRED_UNKNOWN: u32 = 4;

/// What an index is an index of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    device: u64,
    inode: u64,
    compression: u32,
    /// The byte behind the header record.
    pub(crate) events_start: u64,
}

impl Head {
    pub(crate) fn new(stat: &FileStat, compression: Compression, events_start: u64) -> Self {
        Self {
            device: stat.device,
            inode: stat.inode,
            compression: code_of(compression),
            events_start,
        }
    }

    pub(crate) fn names(&self, stat: &FileStat, compression: Compression) -> bool {
        (self.device, self.inode) == (stat.device, stat.inode)
            && self.compression == code_of(compression)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ENTRY_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(u32::try_from(TYPES).unwrap_or(0).to_le_bytes());
        out.extend(self.device.to_le_bytes());
        out.extend(self.inode.to_le_bytes());
        out.extend(self.events_start.to_le_bytes());
        out.extend(self.compression.to_le_bytes());
        out.resize(ENTRY_BYTES - 4, 0);
        seal(out)
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::open(bytes)?;
        let known =
            fields.take(8)? == MAGIC && fields.u32()? == VERSION && fields.u32()? as usize == TYPES;
        let (device, inode, events_start) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let compression = fields.u32()?;
        known.then_some(Self {
            device,
            inode,
            compression,
            events_start,
        })
    }
}

const fn code_of(compression: Compression) -> u32 {
    match compression {
        Compression::Zstd => 1,
        Compression::None => 0,
    }
}

/// What is known of a log up to a frame's end, cumulatively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether no turn has ever begun.
    pub blank: bool,
    /// Whether a turn is open.
    pub open_turn: bool,
    /// Whether an event of an unknown type that may not be skipped occurred.
    pub required_unknown: bool,
    /// When a person last prompted.
    pub last_prompt_at: Option<Timestamp>,
    /// How many messages were appended to the surface.
    pub messages: u64,
    /// The boundary behind the last `turn/end`.
    pub last_turn_end: Option<SessionLogOffset>,
    /// How many messages wait for a turn of their own.
    pub queued: u32,
    /// How many messages wait for a step.
    pub steering: u32,
    /// How many jobs were started and have not finished.
    pub unfinished_jobs: u32,
    /// How many questions for approval are undecided.
    pub pending_approvals: u32,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            blank: true,
            open_turn: false,
            required_unknown: false,
            last_prompt_at: None,
            messages: 0,
            last_turn_end: None,
            queued: 0,
            steering: 0,
            unfinished_jobs: 0,
            pending_approvals: 0,
        }
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) first_offset: u64,
    pub(crate) inherited: u64,
    pub(crate) count: u32,
    pub(crate) checksum: u32,
    pub(crate) facts: Facts,
    /// By type: the last frame up to this one that holds it.
    last: [u32; TYPES],
}

impl Entry {
    /// The entry of a frame that follows `before`.
    pub(crate) fn after(
        before: Option<&Self>,
        number: u32,
        inherited: SessionLogOffset,
        span: &Range<u64>,
        checksum: u32,
        events: &[SharedEvent],
    ) -> Self {
        let mut entry = Self {
            start: span.start,
            end: span.end,
            first_offset: before.map_or(0, |before| before.end_offset() as u64),
            inherited: inherited.get(),
            count: u32::try_from(events.len()).unwrap_or(u32::MAX),
            checksum,
            facts: before.map_or_else(Facts::default, |before| before.facts),
            last: before.map_or([NEVER; TYPES], |before| before.last),
        };
        for event in events {
            if let Some(slot) = entry.last.get_mut(slot_of(event.event_type())) {
                *slot = number;
            }
            entry.facts.follow(event, inherited);
        }
        entry
    }

    /// The offset behind the frame's last event.
    pub(crate) fn end_offset(&self) -> usize {
        let end = self.first_offset + u64::from(self.count);
        usize::try_from(end).unwrap_or(usize::MAX)
    }

    /// The last frame up to this one that holds the type.
    pub(crate) fn last_with(&self, event_type: &EventType) -> Option<usize> {
        let frame = *self.last.get(slot_of(event_type))?;
        (frame != NEVER).then_some(frame as usize)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let facts = &self.facts;
        let flags = u32::from(facts.blank) * BLANK
            + u32::from(facts.open_turn) * OPEN_TURN
            + u32::from(facts.required_unknown) * REQUIRED_UNKNOWN;
        let mut out = Vec::with_capacity(ENTRY_BYTES);
        let prompt = facts
            .last_prompt_at
            .map_or(NO_TIME, Timestamp::epoch_millis);
        let turn = facts
            .last_turn_end
            .map_or(NO_BOUNDARY, SessionLogOffset::get);
        for value in [self.start, self.end, self.first_offset, self.inherited] {
            out.extend(value.to_le_bytes());
        }
        out.extend(prompt.to_le_bytes());
        for value in [facts.messages, turn, 0] {
            out.extend(value.to_le_bytes());
        }
        let counts = [
            self.count,
            self.checksum,
            flags,
            facts.queued,
            facts.steering,
            facts.unfinished_jobs,
            facts.pending_approvals,
            0,
        ];
        for value in counts.iter().chain(&self.last) {
            out.extend(value.to_le_bytes());
        }
        seal(out)
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::open(bytes)?;
        let (start, end, first_offset, inherited) =
            (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let prompt = i64::from_le_bytes(fields.take(8)?.try_into().ok()?);
        let (messages, turn, _reserved) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (count, checksum, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (queued, steering) = (fields.u32()?, fields.u32()?);
        let (unfinished_jobs, pending_approvals) = (fields.u32()?, fields.u32()?);
        let _reserved = fields.u32()?;
        let mut last = [NEVER; TYPES];
        for slot in &mut last {
            *slot = fields.u32()?;
        }
        let last_turn_end = match turn {
            NO_BOUNDARY => None,
            turn => Some(SessionLogOffset::new(turn).ok()?),
        };
        let last_prompt_at = match prompt {
            NO_TIME => None,
            at => Some(Timestamp::new(at).ok()?),
        };
        let facts = Facts {
            blank: flags & BLANK != 0,
            open_turn: flags & OPEN_TURN != 0,
            required_unknown: flags & REQUIRED_UNKNOWN != 0,
            last_prompt_at,
            messages,
            last_turn_end,
            queued,
            steering,
            unfinished_jobs,
            pending_approvals,
        };
        Some(Self {
            start,
            end,
            first_offset,
            inherited,
            count,
            checksum,
            facts,
            last,
        })
    }
}

impl Facts {
    /// These facts after some more events.
    pub(crate) fn with(mut self, events: &[SharedEvent], inherited: SessionLogOffset) -> Self {
        for event in events {
            self.follow(event, inherited);
        }
        self
    }

    fn follow(&mut self, event: &SharedEvent, inherited: SessionLogOffset) {
        #[derive(Deserialize)]
        struct Sent {
            source: Kind,
        }
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        if event.surface_op() == Some(SurfaceOp::Append) {
            let message = matches!(
                event.event_type(),
                EventType::UserMessage | EventType::AssistantMessage
            );
            self.messages += u64::from(message);
        }
        match event.event_type() {
            EventType::TurnStart => {
                self.blank = false;
                self.open_turn = true;
                self.pending_approvals = 0;
            }
            EventType::TurnEnd => {
                self.open_turn = false;
                self.last_turn_end = Some(event.seq().offset_after());
            }
            EventType::UserMessage
                if event
                    .payload::<Sent>()
                    .is_ok_and(|sent| sent.source.kind == "user") =>
            {
                self.last_prompt_at = Some(event.time());
            }
            EventType::InboxSpliced if event.seq().offset_before() >= inherited => {
                if let Ok(splice) = event.payload::<InboxSpliced>() {
                    let list = match splice.target {
                        InboxTarget::NextTurn => &mut self.queued,
                        InboxTarget::NextStep => &mut self.steering,
                    };
                    let removed = u32::try_from(splice.removed_count).unwrap_or(u32::MAX);
                    let inserted = u32::try_from(splice.inserted.len()).unwrap_or(u32::MAX);
                    *list = list.saturating_sub(removed).saturating_add(inserted);
                }
            }
            EventType::ApprovalAsked => self.pending_approvals += 1,
            EventType::ApprovalDecided => {
                self.pending_approvals = self.pending_approvals.saturating_sub(1);
            }
            EventType::Unknown(name) => match name.as_ref() {
                "job/started" => self.unfinished_jobs += 1,
                "job/finished" => {
                    self.unfinished_jobs = self.unfinished_jobs.saturating_sub(1);
                }
                _ => self.required_unknown |= !event.ignorable(),
            },
            _ => {}
        }
    }
}

fn slot_of(event_type: &EventType) -> usize {
    EventType::KNOWN
        .iter()
        .position(|known| known == event_type)
        .unwrap_or(TYPES - 1)
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Fields of a sealed block, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn open(bytes: &'a [u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_at_checked(ENTRY_BYTES - 4)?;
        let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
        (crc32fast::hash(body) == checksum).then_some(Self(body))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::Event;

    use super::*;

    fn event(seq: u64, event_type: &str, data: &str, rest: &str) -> SharedEvent {
        let text =
            format!(r#"{{"type":"{event_type}","seq":{seq},"time":{seq},"data":{data}{rest}}}"#);
        SharedEvent::new(Event::from_json(&text).unwrap())
    }

    #[test]
    fn entries_read_back_and_a_flipped_bit_is_noticed() {
        let user = r#"{"source":{"kind":"user"}}"#;
        let events = [
            event(0, "turn/start", r#"{"turn":1}"#, ""),
            event(1, "user/message", user, r#","surfaceOp":"append""#),
            event(2, "approval/asked", r#"{"id":"a","toolName":"t"}"#, ""),
        ];
        let first = Entry::after(None, 0, SessionLogOffset::ZERO, &(200..500), 7, &events);
        let bytes = first.write();
        assert_eq!(bytes.len(), ENTRY_BYTES);
        assert_eq!(Entry::read(&bytes).as_ref(), Some(&first));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Entry::read(&damaged), None, "byte {at}");
        }
        let end = [event(
            3,
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"completed"}}"#,
            "",
        )];
        let second = Entry::after(
            Some(&first),
            1,
            SessionLogOffset::ZERO,
            &(500..600),
            8,
            &end,
        );
        assert_eq!(second.last_with(&EventType::ApprovalAsked), Some(0));
        assert_eq!(second.last_with(&EventType::TurnEnd), Some(1));
        assert_eq!(second.last_with(&EventType::SessionTitle), None);
        let facts = second.facts;
        assert_eq!((facts.messages, facts.pending_approvals), (1, 1));
        assert_eq!((facts.blank, facts.open_turn), (false, false));
        assert_eq!(facts.last_prompt_at.map(Timestamp::epoch_millis), Some(1));
        assert_eq!(facts.last_turn_end.map(SessionLogOffset::get), Some(4));
    }
}
