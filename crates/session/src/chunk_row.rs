//! Packed chunk rows: one record for a run of a model's deltas (`session.md` 2.4,
//! `controller.md` 2.3).
//!
//! A row stands for three or more consecutive `assistant/chunk` events of one block. The same codec
//! serves the disk (`text-chunks`, `seq0`, `time0`) and the wire (`chunkrow/text-chunks`, `seq`,
//! `time`). Fragments stay the raw JSON strings they were, so expanding a row gives back equal
//! events, whatever their text.

mod parts;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::{Event, SharedEvent, push_fmt};
use crate::event_type::EventType;
use crate::seq::SessionSeq;
use crate::time::Timestamp;
pub(crate) use parts::Parts;

/// Runs shorter than this stay single events.
pub const MIN_RUN: usize = 3;

/// Where a row is spelled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// On disk: bare kinds, `seq0` and `time0`.
    Disk,
    /// On the wire: kinds with the prefix `chunkrow/`, `seq` and `time`.
    Wire,
}

/// One record of a page or a batch: an event, or a run of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// One event as it is.
    Event(SharedEvent),
    /// A packed run.
    Chunks(ChunkRow),
}

/// A packed run of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkRow {
    kind: Kind,
    turn: u64,
    step: u64,
    index: u64,
    first_seq: SessionSeq,
    first_time: Timestamp,
    /// Time differences between neighbours, one fewer than members; may be negative.
    gaps: Vec<i64>,
    /// The fragments as raw JSON strings.
    fragments: Vec<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    /// Raw JSON strings of the call's id and, where every member repeats it, the tool's name.
    ToolCall {
        id: Box<str>,
        name: Option<Box<str>>,
    },
}

/// Why a row is refused: it is never expanded in part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed chunk row: {0}")]
pub struct RowError(String);

/// Packs a list of events: every run that qualifies becomes a row, everything else stays.
pub fn pack(events: &[SharedEvent]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut run: Vec<(Delta<'_>, &SharedEvent)> = Vec::new();
    for event in events {
        let delta = Delta::of(event);
        let joins = match (&delta, run.last()) {
            (Some(delta), Some((last, last_event))) => delta.follows(event, last, last_event),
            _ => false,
        };
        if !joins {
            flush(&mut run, &mut records);
        }
        match delta {
            Some(delta) => run.push((delta, event)),
            None => records.push(Record::Event(SharedEvent::clone(event))),
        }
    }
    flush(&mut run, &mut records);
    records
}

fn flush(run: &mut Vec<(Delta<'_>, &SharedEvent)>, records: &mut Vec<Record>) {
    if run.len() < MIN_RUN {
        records.extend(
            run.drain(..)
                .map(|(_, event)| Record::Event(SharedEvent::clone(event))),
        );
        return;
    }
    let (first, first_event) = &run[0];
    let row = ChunkRow {
        kind: match &first.kind {
            DeltaKind::Text => Kind::Text,
            DeltaKind::Reasoning => Kind::Reasoning,
            DeltaKind::ToolCall { id, name } => Kind::ToolCall {
                id: (*id).into(),
                name: name.map(Into::into),
            },
        },
        turn: first.turn,
        step: first.step,
        index: first.index,
        first_seq: first_event.seq(),
        first_time: first_event.time(),
        gaps: run.windows(2).map(|w| gap(w[0].1, w[1].1)).collect(),
        fragments: run.iter().map(|(delta, _)| delta.fragment.into()).collect(),
    };
    run.clear();
    records.push(Record::Chunks(row));
}

fn gap(a: &Event, b: &Event) -> i64 {
    // Both are safe integers, so the difference fits.
    b.time().epoch_millis() - a.time().epoch_millis()
}

/// A delta event seen without copying it.
struct Delta<'a> {
    turn: u64,
    step: u64,
    index: u64,
    kind: DeltaKind<'a>,
    fragment: &'a str,
}

#[derive(PartialEq, Eq)]
enum DeltaKind<'a> {
    Text,
    Reasoning,
    ToolCall { id: &'a str, name: Option<&'a str> },
}

impl<'a> Delta<'a> {
    /// The event as a delta, if it has exactly the keys of one.
    fn of(event: &'a Event) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Data<'a> {
            turn: SessionSeq,
            step: SessionSeq,
            #[serde(borrow)]
            chunk: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Tag<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Text<'a> {
            #[serde(rename = "type")]
            _tag: serde::de::IgnoredAny,
            index: SessionSeq,
            #[serde(borrow)]
            text: &'a RawValue,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Call<'a> {
            #[serde(rename = "type")]
            _tag: serde::de::IgnoredAny,
            index: SessionSeq,
            #[serde(borrow)]
            id: &'a RawValue,
            // An explicit null is a key with a value and must not read as an absent key.
            #[serde(borrow, default, deserialize_with = "present")]
            name: Option<&'a RawValue>,
            #[serde(borrow, rename = "argumentsDelta")]
            arguments_delta: &'a RawValue,
        }
        let plain = *event.event_type() == EventType::AssistantChunk
            && event.surface_op().is_none()
            && event.source_event_seqs().is_none()
            && !event.ignorable();
        if !plain {
            return None;
        }
        let data: Data<'a> = serde_json::from_str(event.data()).ok()?;
        let chunk: &'a str = data.chunk.get();
        let tag: Tag<'a> = serde_json::from_str(chunk).ok()?;
        let (index, kind, fragment) = match tag.r#type.as_ref() {
            "text-delta" => {
                let c: Text<'a> = serde_json::from_str(chunk).ok()?;
                (c.index, DeltaKind::Text, c.text.get())
            }
            "reasoning-delta" => {
                let c: Text<'a> = serde_json::from_str(chunk).ok()?;
                (c.index, DeltaKind::Reasoning, c.text.get())
            }
            "tool-call-delta" => {
                let c: Call<'a> = serde_json::from_str(chunk).ok()?;
                let (id, name) = (c.id.get(), c.name.map(RawValue::get));
                if !id.starts_with('"') || name.is_some_and(|n| !n.starts_with('"')) {
                    return None;
                }
                (
                    c.index,
                    DeltaKind::ToolCall { id, name },
                    c.arguments_delta.get(),
                )
            }
            _ => return None,
        };
        fragment.starts_with('"').then_some(Self {
            turn: data.turn.get(),
            step: data.step.get(),
            index: index.get(),
            kind,
            fragment,
        })
    }

    fn follows(&self, event: &Event, last: &Delta<'_>, last_event: &Event) -> bool {
        let gap = gap(last_event, event);
        event.seq().offset_before() == last_event.seq().offset_after()
            && Timestamp::new(gap).is_ok()
            && (self.turn, self.step, self.index) == (last.turn, last.step, last.index)
            && self.kind == last.kind
    }
}

fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl ChunkRow {
    /// The seq of the first member.
    pub const fn first_seq(&self) -> SessionSeq {
        self.first_seq
    }

    /// How many events the row stands for.
    pub const fn len(&self) -> usize {
        self.fragments.len()
    }

    /// Always false: a row has at least one member.
    pub const fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The row as JSON text.
    pub fn to_json(&self, spelling: Spelling) -> String {
        let (prefix, seq, time) = match spelling {
            Spelling::Disk => ("", "seq0", "time0"),
            Spelling::Wire => ("chunkrow/", "seq", "time"),
        };
        let (name, members) = match &self.kind {
            Kind::Text => ("text-chunks", "texts"),
            Kind::Reasoning => ("reasoning-chunks", "texts"),
            Kind::ToolCall { .. } => ("tool-call-chunks", "args"),
        };
        let size: usize = self.fragments.iter().map(|f| f.len() + 4).sum();
        let mut out = String::with_capacity(size + 160);
        push_fmt(
            &mut out,
            format_args!(
                r#"{{"type":"{prefix}{name}","{seq}":{},"{time}":{},"data":{{"turn":{},"step":{},"index":{},"dt":["#,
                self.first_seq,
                self.first_time.epoch_millis(),
                self.turn,
                self.step,
                self.index
            ),
        );
        for (i, gap) in self.gaps.iter().enumerate() {
            push_fmt(
                &mut out,
                format_args!("{}{gap}", if i == 0 { "" } else { "," }),
            );
        }
        out.push(']');
        if let Kind::ToolCall { id, name } = &self.kind {
            push_fmt(&mut out, format_args!(",\"id\":{id}"));
            if let Some(name) = name {
                push_fmt(&mut out, format_args!(",\"name\":{name}"));
            }
        }
        push_fmt(&mut out, format_args!(",\"{members}\":["));
        for (i, fragment) in self.fragments.iter().enumerate() {
            push_fmt(
                &mut out,
                format_args!("{}{fragment}", if i == 0 { "" } else { "," }),
            );
        }
        out.push_str("]}}");
        out
    }

    /// Reads a row as it lies on disk. `None` when the record's type is not that of a row.
    pub fn from_disk(text: &str) -> Option<Result<Self, RowError>> {
        let row = Parts::from_disk(text)?;
        Some(row.map(|row| Self {
            kind: match row.kind {
                DeltaKind::Text => Kind::Text,
                DeltaKind::Reasoning => Kind::Reasoning,
                DeltaKind::ToolCall { id, name } => Kind::ToolCall {
                    id: id.into(),
                    name: name.map(Into::into),
                },
            },
            turn: row.turn,
            step: row.step,
            index: row.index,
            first_seq: row.first_seq,
            first_time: row.first_time,
            fragments: row.fragments.into_iter().map(Into::into).collect(),
            gaps: row.gaps,
        }))
    }

    /// The events that the row stands for.
    pub fn expand(&self) -> Vec<Event> {
        let kind = match &self.kind {
            Kind::Text => DeltaKind::Text,
            Kind::Reasoning => DeltaKind::Reasoning,
            Kind::ToolCall { id, name } => DeltaKind::ToolCall {
                id,
                name: name.as_deref(),
            },
        };
        let parts = Parts {
            kind,
            turn: self.turn,
            step: self.step,
            index: self.index,
            first_seq: self.first_seq,
            first_time: self.first_time,
            gaps: self.gaps.clone(),
            fragments: self.fragments.iter().map(AsRef::as_ref).collect(),
        };
        let mut events = Vec::with_capacity(self.fragments.len());
        parts.expand(&mut |event| events.push(event));
        events
    }
}

impl Record {
    /// The record's own events, in order.
    pub fn events(&self) -> Vec<SharedEvent> {
        match self {
            Self::Event(event) => vec![SharedEvent::clone(event)],
            Self::Chunks(row) => row.expand().into_iter().map(SharedEvent::new).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
