//! One event: the envelope, sealed with its bytes.
//!
//! An [`EventDraft`] becomes an [`Event`] exactly once, when the log gives it its seq; from then on
//! its JSON text is shared by the writer, every follower and every page (decision D9 and the second
//! idea of the house: serialise once). Payload internals stay raw; [`Event::payload`] reads them
//! where somebody acts on them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event_type::EventType;
use crate::json::{Json, JsonError, Name, compact, parse};
use crate::ranges;
use crate::seq::SessionSeq;
use crate::time::Timestamp;

/// An event that everybody shares.
pub type SharedEvent = Arc<Event>;

/// How a surface event joins the surface (`session.md` 1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceOp {
    /// It becomes the last node.
    Append,
    /// It takes the place of the closed range of nodes `start..=end`, in surface order.
    Replace {
        /// The first node that goes.
        start: SessionSeq,
        /// The last node that goes.
        end: SessionSeq,
    },
}

/// What is wrong with an event's envelope.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Not JSON, or a value that the log cannot keep.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A key that no envelope has.
    #[error("unknown envelope key {0:?}")]
    UnknownKey(String),
    /// A key that every envelope has.
    #[error("envelope key {0:?} is missing")]
    MissingKey(&'static str),
    /// A key with a value of another shape.
    #[error("envelope key {key:?} is malformed: {why}")]
    BadKey {
        /// The key.
        key: &'static str,
        /// What was expected.
        why: String,
    },
}

/// An event before the log gave it its seq and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDraft {
    /// What kind of fact.
    pub event_type: EventType,
    /// The payload.
    pub data: Json,
    /// How it joins the surface; set exactly on the three surface types.
    pub surface_op: Option<SurfaceOp>,
    /// The events it was made from.
    pub source_event_seqs: Option<Vec<SessionSeq>>,
    /// Whether a reader that does not know the type may skip it.
    pub ignorable: bool,
}

impl EventDraft {
    /// A log-only event.
    ///
    /// # Errors
    /// When the payload holds a number that JSON or the log cannot keep.
    pub fn new<T: Serialize + ?Sized>(event_type: EventType, data: &T) -> Result<Self, JsonError> {
        Ok(Self::raw(event_type, Json::from_value(data)?))
    }

    /// A log-only event with a payload that is JSON already.
    pub const fn raw(event_type: EventType, data: Json) -> Self {
        Self {
            event_type,
            data,
            surface_op: None,
            source_event_seqs: None,
            ignorable: false,
        }
    }

    /// The same event, appended to the surface.
    pub fn on_surface(mut self) -> Self {
        self.surface_op = Some(SurfaceOp::Append);
        self
    }

    /// The same event, citing the events it was made from.
    pub fn citing(mut self, sources: Vec<SessionSeq>) -> Self {
        self.source_event_seqs = Some(sources);
        self
    }

    /// The same event, for readers that do not know its type to skip.
    pub const fn skippable(mut self) -> Self {
        self.ignorable = true;
        self
    }

    /// Gives the event its place in the log.
    pub fn seal(self, seq: SessionSeq, time: Timestamp) -> Event {
        Event::assemble(
            self.event_type,
            seq,
            time,
            self.data.text(),
            self.source_event_seqs,
            self.surface_op,
            self.ignorable,
        )
    }
}

/// One durable fact (`session.md` 1.4).
#[derive(Clone)]
pub struct Event {
    event_type: EventType,
    seq: SessionSeq,
    time: Timestamp,
    surface_op: Option<SurfaceOp>,
    source_event_seqs: Option<Box<[SessionSeq]>>,
    ignorable: bool,
    json: Bytes,
    data: Range<usize>,
}

impl Event {
    /// Reads an event in the form that travels: provenance is a plain list.
    pub fn from_json(text: &str) -> Result<Self, EnvelopeError> {
        Self::read(text, ranges::Form::Plain)
    }

    pub(crate) fn read(text: &str, form: ranges::Form) -> Result<Self, EnvelopeError> {
        let envelope: Envelope<'_> =
            serde_json::from_str(text).map_err(|e| EnvelopeError::Json(JsonError::Syntax(e)))?;
        if let Some(key) = envelope.unknown {
            return Err(EnvelopeError::UnknownKey(key));
        }
        let event_type = match envelope.event_type.map(RawValue::get) {
            Some(raw) => match serde_json::from_str::<Name<'_>>(raw) {
                Ok(Name(name)) => EventType::from_name(&name),
                // Not a string, or one with a lone surrogate.
                Err(_) => EventType::from_name(&required::<String>(envelope.event_type, "type")?),
            },
            None => return Err(EnvelopeError::MissingKey("type")),
        };
        let seq: SessionSeq = required(envelope.seq, "seq")?;
        let time: Timestamp = required(envelope.time, "time")?;
        let data = compact(
            envelope
                .data
                .ok_or(EnvelopeError::MissingKey("data"))?
                .get(),
        )?;
        let source_event_seqs =
            match envelope.source_event_seqs {
                None => None,
                Some(raw) => Some(ranges::decode(raw.get(), seq, form).map_err(|why| {
                    EnvelopeError::BadKey {
                        key: "sourceEventSeqs",
                        why: why.to_string(),
                    }
                })?),
            };
        let surface_op = envelope
            .surface_op
            .map(|raw| read_surface_op(raw.get()))
            .transpose()?;
        let ignorable = match envelope.ignorable.map(RawValue::get) {
            None => false,
            Some("true") => true,
            Some(other) => {
                let why = format!("expected the literal true, found {other}");
                return Err(EnvelopeError::BadKey {
                    key: "ignorable",
                    why,
                });
            }
        };
        Ok(Self::assemble(
            event_type,
            seq,
            time,
            &data,
            source_event_seqs,
            surface_op,
            ignorable,
        ))
    }

    pub(crate) fn assemble(
        event_type: EventType,
        seq: SessionSeq,
        time: Timestamp,
        data: &str,
        source_event_seqs: Option<Vec<SessionSeq>>,
        surface_op: Option<SurfaceOp>,
        ignorable: bool,
    ) -> Self {
        let mut json = String::with_capacity(data.len() + 96);
        json.push_str("{\"type\":");
        push_json_string(&mut json, event_type.as_str());
        json.push_str(",\"seq\":");
        push_number(&mut json, seq.get());
        json.push_str(",\"time\":");
        push_number(&mut json, time.epoch_millis());
        json.push_str(",\"data\":");
        let start = json.len();
        json.push_str(data);
        let data = start..json.len();
        if let Some(sources) = &source_event_seqs {
            json.push_str(",\"sourceEventSeqs\":[");
            for (i, source) in sources.iter().enumerate() {
                if i > 0 {
                    json.push(',');
                }
                push_number(&mut json, source.get());
            }
            json.push(']');
        }
        push_tail(&mut json, surface_op, ignorable);
        Self {
            event_type,
            seq,
            time,
            surface_op,
            source_event_seqs: source_event_seqs.map(Vec::into_boxed_slice),
            ignorable,
            json: Bytes::from(json),
            data,
        }
    }

    /// An event that only stands in the log, with its text.
    pub(crate) const fn plain(
        event_type: EventType,
        seq: SessionSeq,
        time: Timestamp,
        json: Bytes,
        data: Range<usize>,
    ) -> Self {
        Self {
            event_type,
            seq,
            time,
            surface_op: None,
            source_event_seqs: None,
            ignorable: false,
            json,
            data,
        }
    }

    /// What kind of fact.
    pub const fn event_type(&self) -> &EventType {
        &self.event_type
    }

    /// Its place in the log.
    pub const fn seq(&self) -> SessionSeq {
        self.seq
    }

    /// When it was appended.
    pub const fn time(&self) -> Timestamp {
        self.time
    }

    /// How it joined the surface.
    pub const fn surface_op(&self) -> Option<SurfaceOp> {
        self.surface_op
    }

    /// The events it was made from.
    pub fn source_event_seqs(&self) -> Option<&[SessionSeq]> {
        self.source_event_seqs.as_deref()
    }

    /// Whether a reader that does not know the type may skip it.
    pub const fn ignorable(&self) -> bool {
        self.ignorable
    }

    /// The whole event as compact JSON, shared.
    pub const fn json(&self) -> &Bytes {
        &self.json
    }

    /// The whole event as compact JSON text.
    pub fn text(&self) -> &str {
        // Assembled from a `String` above, so it is UTF-8.
        std::str::from_utf8(&self.json).unwrap_or("null")
    }

    /// The payload's JSON text.
    pub fn data(&self) -> &str {
        self.text().get(self.data.clone()).unwrap_or("null")
    }

    /// Reads the payload as `T`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        parse(self.data())
    }

    /// The event as it lies on disk: as [`Event::json`], with provenance in range form where that
    /// is shorter (`session.md` 2.3).
    pub(crate) fn storage_text(&self) -> std::borrow::Cow<'_, str> {
        match self.source_event_seqs().and_then(ranges::encode) {
            None => self.text().into(),
            Some(packed) => {
                let mut json = String::with_capacity(self.data.end + packed.len() + 64);
                json.push_str(self.text().get(..self.data.end).unwrap_or_default());
                json.push_str(",\"sourceEventSeqs\":");
                json.push_str(&packed);
                push_tail(&mut json, self.surface_op, self.ignorable);
                json.into()
            }
        }
    }

    /// Whether both events are equal as values: key order and number spelling do not count.
    pub fn same_value(&self, other: &Self) -> bool {
        self.seq == other.seq
            && self.time == other.time
            && self.event_type == other.event_type
            && self.surface_op == other.surface_op
            && self.source_event_seqs == other.source_event_seqs
            && self.ignorable == other.ignorable
            && crate::json::same_value(self.data(), other.data())
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

/// Equality of the text, byte for byte.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}
impl Eq for Event {}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_str(self.text()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

fn push_tail(json: &mut String, surface_op: Option<SurfaceOp>, ignorable: bool) {
    match surface_op {
        None => {}
        Some(SurfaceOp::Append) => json.push_str(",\"surfaceOp\":\"append\""),
        Some(SurfaceOp::Replace { start, end }) => push_fmt(
            json,
            format_args!(",\"surfaceOp\":{{\"op\":\"replace\",\"start\":{start},\"end\":{end}}}"),
        ),
    }
    if ignorable {
        json.push_str(",\"ignorable\":true");
    }
    json.push('}');
}

pub(crate) fn push_fmt(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a String fails only if a Display of ours does, and none does.
    std::fmt::Write::write_fmt(out, args).unwrap_or_default();
}

/// Appends a number; formatting machinery would take most of the time that decoding a log takes.
pub(crate) fn push_number(out: &mut String, number: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(number));
}

pub(crate) fn push_json_string(out: &mut String, text: &str) {
    // A &str always serialises.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn required<T: DeserializeOwned>(
    raw: Option<&RawValue>,
    key: &'static str,
) -> Result<T, EnvelopeError> {
    let raw = raw.ok_or(EnvelopeError::MissingKey(key))?;
    parse(raw.get()).map_err(|e| EnvelopeError::BadKey {
        key,
        why: e.to_string(),
    })
}

fn read_surface_op(text: &str) -> Result<SurfaceOp, EnvelopeError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Replace {
        op: String,
        start: SessionSeq,
        end: SessionSeq,
    }
    if text == "\"append\"" {
        return Ok(SurfaceOp::Append);
    }
    match parse::<Replace>(text) {
        Ok(r) if r.op == "replace" => Ok(SurfaceOp::Replace {
            start: r.start,
            end: r.end,
        }),
        _ => Err(EnvelopeError::BadKey {
            key: "surfaceOp",
            why: "expected \"append\" or {op:\"replace\",start,end}".to_owned(),
        }),
    }
}

/// The envelope's keys as raw values; of a duplicated key the last one counts.
#[derive(Default)]
struct Envelope<'a> {
    event_type: Option<&'a RawValue>,
    seq: Option<&'a RawValue>,
    time: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
    source_event_seqs: Option<&'a RawValue>,
    surface_op: Option<&'a RawValue>,
    ignorable: Option<&'a RawValue>,
    unknown: Option<String>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Envelope<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Envelope<'de>, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(Name(key)) = map.next_key::<Name<'_>>()? {
                    let slot = match key.as_ref() {
                        "type" => &mut envelope.event_type,
                        "seq" => &mut envelope.seq,
                        "time" => &mut envelope.time,
                        "data" => &mut envelope.data,
                        "sourceEventSeqs" => &mut envelope.source_event_seqs,
                        "surfaceOp" => &mut envelope.surface_op,
                        "ignorable" => &mut envelope.ignorable,
                        _ => {
                            envelope.unknown = Some(key.into_owned());
                            map.next_value::<serde::de::IgnoredAny>()?;
                            continue;
                        }
                    };
                    *slot = Some(map.next_value()?);
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"type":"assistant/message","seq":9,"time":5,"data":{"z":1,"a":"\ud800"},"sourceEventSeqs":[1,2,3,7],"surfaceOp":"append"}"#;

    #[test]
    fn an_event_keeps_its_text_byte_for_byte() {
        let event = Event::from_json(MESSAGE).unwrap();
        assert_eq!(event.text(), MESSAGE);
        assert_eq!(event.data(), r#"{"z":1,"a":"\ud800"}"#);
        assert!(
            event
                .storage_text()
                .contains("\"sourceEventSeqs\":[[1,3],7]")
        );
    }

    #[test]
    fn envelopes_with_foreign_keys_or_false_marks_are_refused() {
        for text in [
            r#"{"type":"turn/start","seq":0,"time":0,"data":{},"v":1}"#,
            r#"{"type":"turn/start","seq":0,"time":0,"data":{},"ignorable":false}"#,
            r#"{"type":"turn/start","seq":-1,"time":0,"data":{}}"#,
            r#"{"type":"turn/start","seq":0,"time":0}"#,
            r#"{"type":"user/message","seq":0,"time":0,"data":{},"surfaceOp":{"op":"replace","start":0}}"#,
            r#"{"type":"turn/start","seq":0,"time":0,"data":{"n":-0}}"#,
            r#"[]"#,
        ] {
            assert!(Event::from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn of_duplicated_envelope_keys_the_last_one_counts() {
        let event =
            Event::from_json(r#"{"seq":7,"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}"#)
                .unwrap();
        assert_eq!(event.seq(), SessionSeq::ZERO);
    }
}
