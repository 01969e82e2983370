//! The entries of a frame index: fixed size, self-contained, cumulative.
//!
//! Little-endian, each closed by a checksum of its own. The numbering of event types is that of
//! this build's vocabulary and is part of the version: another vocabulary, another index.

use orrery_session::payload::{InboxSpliced, InboxTarget};
use orrery_session::{EventType, SessionLogOffset, SharedEvent, SurfaceOp, Timestamp};
use serde::Deserialize;

use crate::disk::FileStat;
use crate::layout::Compression;

/// The size of the head, which stands before the entries.
pub const HEAD_BYTES: usize = 8 + 4 * 2 + 8 * 4 + 4 + 4;
/// The size of an entry.
pub const ENTRY_BYTES: usize = 8 * 6 + 4 * 7 + 2 * SLOTS + 4;
const _: () = assert!(
    ENTRY_BYTES * 20 <= 4096,
    "an entry is less than a twentieth of the least run, and twenty fit into one page of the disk"
);
/// Types that stand nearly everywhere: who looks for them reads everything (decision D2).
const COMMON: [EventType; 9] = [
    EventType::AssistantChunk,
    EventType::AssistantMessage,
    EventType::CodeDispatch,
    EventType::CodeDispatchStart,
    EventType::RequestContext,
    EventType::StepEnd,
    EventType::StepStart,
    EventType::ToolCall,
    EventType::ToolResult,
];
/// One slot for each other known type, and one for all unknown ones.
const SLOTS: usize = EventType::KNOWN.len() - COMMON.len() + 1;
/// The type stands in no run up to this one.
const NEVER: u16 = u16::MAX;
/// It stands farther back than a slot can say: the entry [`FARTHEST`] before knows more.
const FAR: u16 = NEVER - 1;
/// The greatest distance that a slot can say.
const FARTHEST: u16 = FAR - 1;
const NO_TIME: i64 = i64::MIN;
const NO_BOUNDARY: u64 = u64::MAX;
const MAGIC: &[u8; 8] = b"ORRERYIX";
/// Moved with every change of meaning or layout.
const VERSION: u32 = 2;

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
    /// The exact inherited cut.
    inherited: u64,
}

impl Head {
    pub(crate) fn new(
        stat: &FileStat,
        compression: Compression,
        events_start: u64,
        inherited: SessionLogOffset,
    ) -> Self {
        Self {
            device: stat.device,
            inode: stat.inode,
            compression: code_of(compression),
            events_start,
            inherited: inherited.get(),
        }
    }

    pub(crate) fn names(&self, stat: &FileStat, compression: Compression) -> bool {
        (self.device, self.inode) == (stat.device, stat.inode)
            && self.compression == code_of(compression)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(u32::try_from(SLOTS).unwrap_or(0).to_le_bytes());
        for value in [self.device, self.inode, self.events_start, self.inherited] {
            out.extend(value.to_le_bytes());
        }
        out.extend(self.compression.to_le_bytes());
        seal(out)
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::open(bytes, HEAD_BYTES)?;
        let known =
            fields.take(8)? == MAGIC && fields.u32()? == VERSION && fields.u32()? as usize == SLOTS;
        let (device, inode) = (fields.u64()?, fields.u64()?);
        let (events_start, inherited) = (fields.u64()?, fields.u64()?);
        let compression = fields.u32()?;
        known.then_some(Self {
            device,
            inode,
            compression,
            events_start,
            inherited,
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

/// One run of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) first_offset: u64,
    pub(crate) count: u32,
    pub(crate) checksum: u32,
    pub(crate) facts: Facts,
    /// By type: how many entries back the last run up to this one lies that holds it.
    back: [u16; SLOTS],
}

/// Where the last run lies that holds a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// Nowhere.
    Never,
    /// So many entries back.
    Back(usize),
    /// Still farther: the entry so many back knows more.
    Beyond(usize),
}

impl Entry {
    /// The entry of a run that follows `before` and holds nothing yet.
    pub(crate) fn after(before: Option<&Self>, start: u64) -> Self {
        let farther = |back: u16| {
            if back >= FARTHEST {
                back.max(FAR)
            } else {
                back + 1
            }
        };
        Self {
            start,
            end: start,
            first_offset: before.map_or(0, |before| before.end_offset() as u64),
            count: 0,
            checksum: 0,
            facts: before.map_or_else(Facts::default, |before| before.facts),
            back: before.map_or([NEVER; SLOTS], |before| before.back.map(farther)),
        }
    }

    /// The entry with another frame at the end of its run; `checksum` is that of all its bytes.
    pub(crate) fn grow(
        &mut self,
        end: u64,
        checksum: u32,
        inherited: SessionLogOffset,
        events: &[SharedEvent],
    ) {
        self.end = end;
        self.checksum = checksum;
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        self.count = self.count.saturating_add(count);
        for event in events {
            let slot = slot_of(event.event_type());
            if let Some(back) = slot.and_then(|slot| self.back.get_mut(slot)) {
                *back = 0;
            }
            self.facts.follow(event, inherited);
        }
    }

    /// The offset behind the run's last event.
    pub(crate) fn end_offset(&self) -> usize {
        let end = self.first_offset.saturating_add(u64::from(self.count));
        usize::try_from(end).unwrap_or(usize::MAX)
    }

    /// The last run up to this one that holds the type; of a common type any may.
    pub(crate) fn last_with(&self, event_type: &EventType) -> Last {
        let Some(slot) = slot_of(event_type) else {
            return Last::Back(0);
        };
        match self.back.get(slot).copied().unwrap_or(NEVER) {
            NEVER => Last::Never,
            FAR => Last::Beyond(usize::from(FARTHEST)),
            back => Last::Back(usize::from(back)),
        }
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
        for value in [
            self.start,
            self.end,
            self.first_offset,
            facts.messages,
            turn,
        ] {
            out.extend(value.to_le_bytes());
        }
        out.extend(prompt.to_le_bytes());
        for value in [
            self.count,
            self.checksum,
            flags,
            facts.queued,
            facts.steering,
            facts.unfinished_jobs,
            facts.pending_approvals,
        ] {
            out.extend(value.to_le_bytes());
        }
        for back in &self.back {
            out.extend(back.to_le_bytes());
        }
        seal(out)
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::open(bytes, ENTRY_BYTES)?;
        let (start, end, first_offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (messages, turn) = (fields.u64()?, fields.u64()?);
        let prompt = i64::from_le_bytes(fields.take(8)?.try_into().ok()?);
        let (count, checksum, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (queued, steering) = (fields.u32()?, fields.u32()?);
        let (unfinished_jobs, pending_approvals) = (fields.u32()?, fields.u32()?);
        let mut back = [NEVER; SLOTS];
        for slot in &mut back {
            *slot = fields.u16()?;
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
            count,
            checksum,
            facts,
            back,
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

/// The slot of a type; none for a common one.
fn slot_of(event_type: &EventType) -> Option<usize> {
    if COMMON.contains(event_type) {
        return None;
    }
    let mut rare = EventType::KNOWN
        .iter()
        .filter(|known| !COMMON.contains(known));
    Some(
        rare.position(|known| known == event_type)
            .unwrap_or(SLOTS - 1),
    )
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Fields of a sealed block, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn open(bytes: &'a [u8], size: usize) -> Option<Self> {
        let (body, checksum) = bytes.get(..size)?.split_at_checked(size - 4)?;
        let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
        (crc32fast::hash(body) == checksum).then_some(Self(body))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
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
        let mut first = Entry::after(None, 200);
        first.grow(500, 7, SessionLogOffset::ZERO, &events);
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
        let mut second = Entry::after(Some(&first), 500);
        second.grow(600, 8, SessionLogOffset::ZERO, &end);
        assert_eq!(second.last_with(&EventType::ApprovalAsked), Last::Back(1));
        assert_eq!(second.last_with(&EventType::TurnEnd), Last::Back(0));
        assert_eq!(second.last_with(&EventType::SessionTitle), Last::Never);
        assert_eq!(second.last_with(&EventType::ToolCall), Last::Back(0));
        let facts = second.facts;
        assert_eq!((facts.messages, facts.pending_approvals), (1, 1));
        assert_eq!((facts.blank, facts.open_turn), (false, false));
        assert_eq!(facts.last_prompt_at.map(Timestamp::epoch_millis), Some(1));
        assert_eq!(facts.last_turn_end.map(SessionLogOffset::get), Some(4));
    }

    #[test]
    fn a_type_that_stands_farther_back_than_a_slot_can_say_is_found_in_hops() {
        let title = [event(0, "session/title", r#"{"title":"t"}"#, "")];
        let mut entries = vec![Entry::after(None, 0)];
        entries[0].grow(10, 0, SessionLogOffset::ZERO, &title);
        for start in 1..200_000 {
            let next = Entry::after(entries.last(), start * 10);
            entries.push(next);
        }
        let mut at = entries.len() - 1;
        let mut hops = 0;
        let found = loop {
            match entries[at].last_with(&EventType::SessionTitle) {
                Last::Never => break None,
                Last::Back(back) => break Some(at - back),
                Last::Beyond(back) => at -= back,
            }
            hops += 1;
        };
        assert_eq!((found, hops), (Some(0), 3));
    }
}
