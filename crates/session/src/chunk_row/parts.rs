//! A row that borrows its fragments from the text it was read from: how most of a log is decoded.
//!
//! Rows are nearly all of what a log holds, so this is written for speed: a row's text is checked in
//! one pass, and its events share one buffer, so that an event costs one allocation.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DeltaKind, RowError, present};
use crate::event::{Event, push_number};
use crate::event_type::EventType;
use crate::json::{parse, string_end};
use crate::seq::SessionSeq;
use crate::time::Timestamp;

/// The room that an event's envelope takes beside what all members share.
const ENVELOPE: usize = 80;

/// A packed run of chunks.
pub(crate) struct Parts<'a> {
    pub(super) kind: DeltaKind<'a>,
    pub(super) turn: u64,
    pub(super) step: u64,
    pub(super) index: u64,
    pub(super) first_seq: SessionSeq,
    pub(super) first_time: Timestamp,
    pub(super) gaps: Vec<i64>,
    pub(super) fragments: Vec<&'a str>,
}

enum RowKind {
    Text,
    Reasoning,
    ToolCall,
}

impl RowKind {
    fn of(name: &str) -> Option<Self> {
        match name {
            "text-chunks" => Some(Self::Text),
            "reasoning-chunks" => Some(Self::Reasoning),
            "tool-call-chunks" => Some(Self::ToolCall),
            _ => None,
        }
    }

    /// The kind of a record, if it is a row.
    fn of_record(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Tag<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
        }
        // Every writer puts the type first: then the rest need not be read to know it. A record that
        // names two types is no row; who reads it as one, or as an event, says so.
        let rest = text.strip_prefix("{\"type\":\"");
        match rest.and_then(|rest| rest.split_once('"')) {
            Some((name, _)) if !name.contains('\\') => Self::of(name),
            _ => {
                let tag: Tag<'_> = serde_json::from_str(text).ok()?;
                Self::of(tag.r#type.as_ref())
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row<D> {
    #[serde(rename = "type")]
    _tag: serde::de::IgnoredAny,
    seq0: SessionSeq,
    time0: Timestamp,
    data: D,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts<'a> {
    turn: SessionSeq,
    step: SessionSeq,
    index: SessionSeq,
    #[serde(borrow)]
    dt: &'a RawValue,
    #[serde(borrow)]
    texts: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args<'a> {
    turn: SessionSeq,
    step: SessionSeq,
    index: SessionSeq,
    #[serde(borrow)]
    dt: &'a RawValue,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    args: &'a RawValue,
}

impl<'a> Parts<'a> {
    /// Reads a row as it lies on disk. `None` when the record's type is not that of a row.
    pub(crate) fn from_disk(text: &'a str) -> Option<Result<Self, RowError>> {
        let kind = RowKind::of_record(text)?;
        Some(Self::read(text, &kind))
    }

    fn read(text: &'a str, kind: &RowKind) -> Result<Self, RowError> {
        let shape = |e: serde_json::Error| RowError(e.to_string());
        let (first, place, dt, kind, members) = if matches!(kind, RowKind::ToolCall) {
            let row: Row<Args<'a>> = serde_json::from_str(text).map_err(shape)?;
            let data = row.data;
            let kind = DeltaKind::ToolCall {
                id: string(data.id.get())?,
                name: data.name.map(|name| string(name.get())).transpose()?,
            };
            let place = (data.turn, data.step, data.index);
            ((row.seq0, row.time0), place, data.dt, kind, data.args)
        } else {
            let row: Row<Texts<'a>> = serde_json::from_str(text).map_err(shape)?;
            let data = row.data;
            let kind = match kind {
                RowKind::Text => DeltaKind::Text,
                _ => DeltaKind::Reasoning,
            };
            let place = (data.turn, data.step, data.index);
            ((row.seq0, row.time0), place, data.dt, kind, data.texts)
        };
        let fragments = strings(members.get())?;
        let gaps = numbers(dt.get(), fragments.len())?;
        if fragments.is_empty() || gaps.len() + 1 != fragments.len() {
            let why = format!("{} gaps for {} members", gaps.len(), fragments.len());
            return Err(RowError(why));
        }
        let row = Self {
            kind,
            turn: place.0.get(),
            step: place.1.get(),
            index: place.2.get(),
            first_seq: first.0,
            first_time: first.1,
            gaps,
            fragments,
        };
        row.check_range()?;
        Ok(row)
    }

    fn check_range(&self) -> Result<(), RowError> {
        let out = || RowError("seq or time leaves the safe range".to_owned());
        SessionSeq::new(self.first_seq.get() + self.fragments.len() as u64 - 1)
            .map_err(|_unsafe| out())?;
        let mut time = self.first_time.epoch_millis();
        for gap in &self.gaps {
            time += gap;
            Timestamp::new(time).map_err(|_unsafe| out())?;
        }
        Ok(())
    }

    /// Calls `take` with each event that the row stands for. They share one buffer.
    pub(crate) fn expand(&self, take: &mut dyn FnMut(Event)) {
        let (before, after) = self.around();
        let room = ENVELOPE + before.len() + after.len();
        let text: usize = self.fragments.iter().map(|fragment| fragment.len()).sum();
        let mut json = String::with_capacity(text + room * self.fragments.len());
        let mut members = Vec::with_capacity(self.fragments.len());
        let mut gaps = self.gaps.iter();
        let (mut seq, mut time) = (self.first_seq, self.first_time);
        for (number, fragment) in self.fragments.iter().enumerate() {
            if number > 0 {
                let gap = gaps.next().copied().unwrap_or_default();
                time = Timestamp::saturating(time.epoch_millis() + gap);
                seq = seq.offset_after().next_seq();
            }
            let start = json.len();
            json.push_str("{\"type\":\"assistant/chunk\",\"seq\":");
            push_number(&mut json, seq.get());
            json.push_str(",\"time\":");
            push_number(&mut json, time.epoch_millis());
            json.push_str(",\"data\":");
            let data = json.len() - start;
            json.push_str(&before);
            json.push_str(fragment);
            json.push_str(after);
            let data = data..json.len() - start;
            json.push('}');
            members.push((seq, time, start..json.len(), data));
        }
        let json = Bytes::from(json);
        for (seq, time, member, data) in members {
            let chunk = EventType::AssistantChunk;
            take(Event::plain(chunk, seq, time, json.slice(member), data));
        }
    }

    /// What stands before and behind a fragment in every member's payload.
    fn around(&self) -> (String, &'static str) {
        let mut before = String::from("{\"turn\":");
        push_number(&mut before, self.turn);
        before.push_str(",\"step\":");
        push_number(&mut before, self.step);
        before.push_str(",\"chunk\":{\"type\":");
        before.push_str(match self.kind {
            DeltaKind::Text => "\"text-delta\"",
            DeltaKind::Reasoning => "\"reasoning-delta\"",
            DeltaKind::ToolCall { .. } => "\"tool-call-delta\"",
        });
        before.push_str(",\"index\":");
        push_number(&mut before, self.index);
        match self.kind {
            DeltaKind::Text | DeltaKind::Reasoning => before.push_str(",\"text\":"),
            DeltaKind::ToolCall { id, name } => {
                before.push_str(",\"id\":");
                before.push_str(id);
                if let Some(name) = name {
                    before.push_str(",\"name\":");
                    before.push_str(name);
                }
                before.push_str(",\"argumentsDelta\":");
            }
        }
        (before, "}}")
    }
}

fn string(text: &str) -> Result<&str, RowError> {
    if text.starts_with('"') {
        Ok(text)
    } else {
        Err(RowError(format!("expected a string, found {text}")))
    }
}

/// The raw strings of a list that is known to be valid JSON.
fn strings(list: &str) -> Result<Vec<&str>, RowError> {
    let mut found = Vec::new();
    let mut at = start_of(list)?;
    let bytes = list.as_bytes();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = string_end(bytes, at);
                found.push(list.get(at..end).unwrap_or_default());
                at = end;
            }
            b',' | b']' | b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            _ => {
                let rest = list.get(at..).unwrap_or_default();
                return string(rest).map(|_never| Vec::new());
            }
        }
    }
    Ok(found)
}

/// The integers of a list that is known to be valid JSON.
fn numbers(list: &str, expected: usize) -> Result<Vec<i64>, RowError> {
    let inner = list.get(start_of(list)?..).unwrap_or_default();
    let inner = inner.strip_suffix(']').unwrap_or(inner).trim_ascii();
    let mut found = Vec::with_capacity(expected.min(inner.len()));
    if inner.is_empty() {
        return Ok(found);
    }
    // A list within the list is no number either, wherever it is cut.
    for item in inner.split(',') {
        let item = item.trim_ascii();
        let plain = match item.as_bytes() {
            [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
            [b'1'..=b'9', ..] if item.len() < 15 => item.parse().ok(),
            _ => None,
        };
        let gap = match plain {
            Some(gap) => gap,
            None => parse::<Timestamp>(item)
                .map_err(|e| RowError(e.to_string()))?
                .epoch_millis(),
        };
        found.push(gap);
    }
    Ok(found)
}

/// The byte behind the bracket that a list begins with.
fn start_of(list: &str) -> Result<usize, RowError> {
    if list.starts_with('[') {
        Ok(1)
    } else {
        Err(RowError(format!("expected a list, found {list}")))
    }
}
