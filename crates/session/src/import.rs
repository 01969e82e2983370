//! Reading what older writers of format version 0 left behind (`session.md` 1.18).
//!
//! Done on read, before validation, in memory only: the bytes on disk stay. A record is changed
//! textually, key by key, so that everything this module does not know survives.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::{Event, SharedEvent, SurfaceOp, push_json_string};
use crate::event_type::EventType;
use crate::ids::{MessageId, SessionId};
use crate::json::Name;
use crate::seq::SessionSeq;

/// A legacy record that cannot be read without guessing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event_type}): {why}")]
pub struct ImportError {
    /// The event.
    pub seq: SessionSeq,
    /// Its type.
    pub event_type: String,
    /// What is wrong.
    pub why: String,
}

/// Brings every event of a log into the present dialect.
pub fn import(
    session: &SessionId,
    events: Vec<SharedEvent>,
) -> Result<Vec<SharedEvent>, ImportError> {
    let mut importer = Importer {
        session,
        minted: BTreeMap::new(),
    };
    events
        .into_iter()
        .map(|event| importer.import(event))
        .collect()
}

struct Importer<'a> {
    session: &'a SessionId,
    /// Ids given to messages without one, by the seq of their event.
    minted: BTreeMap<SessionSeq, MessageId>,
}

impl Importer<'_> {
    fn import(&mut self, event: SharedEvent) -> Result<SharedEvent, ImportError> {
        let refuse = |why: &str| ImportError {
            seq: event.seq(),
            event_type: event.event_type().to_string(),
            why: why.to_owned(),
        };
        if event.event_type().is_retired() {
            return Err(refuse("retired and no longer accepted"));
        }
        let steering = matches!(
            event.event_type(),
            EventType::Unknown(name) if name.as_ref() == "steering/message"
        );
        let changed = match event.event_type() {
            EventType::TurnStart => turn_start(event.data()),
            EventType::TurnEnd => turn_end(event.data()),
            EventType::UserMessage => self.with_id(&event, event.data()),
            EventType::Unknown(_) if steering => {
                let data = self.with_id(&event, event.data());
                Ok(Some(
                    data.map_err(|why| refuse(&why))?
                        .unwrap_or(event.data().to_owned()),
                ))
            }
            EventType::AssistantMessage | EventType::ToolResult => self.nested(&event),
            _ => Ok(None),
        };
        let Some(data) = changed.map_err(|why| refuse(&why))? else {
            return Ok(event);
        };
        let (event_type, surface_op) = if steering {
            (EventType::UserMessage, Some(SurfaceOp::Append))
        } else {
            (event.event_type().clone(), event.surface_op())
        };
        let sources = event.source_event_seqs().map(<[_]>::to_vec);
        let (seq, time, ignorable) = (event.seq(), event.time(), event.ignorable() && !steering);
        let imported =
            Event::assemble(event_type, seq, time, &data, sources, surface_op, ignorable);
        Ok(SharedEvent::new(imported))
    }

    fn nested(&mut self, event: &Event) -> Result<Option<String>, String> {
        let object = event.data().starts_with('{');
        if object && serde_json::from_str::<Nested>(event.data()).is_ok() {
            return Ok(None);
        }
        let mut data = Object::read(event.data())?;
        let Some(message) = data.get("message") else {
            return Err("has no message".to_owned());
        };
        match self.with_id(event, message)? {
            None => Ok(None),
            Some(message) => {
                data.set("message", message);
                Ok(Some(data.write()))
            }
        }
    }

    /// The message with an id, or `None` when it has one.
    fn with_id(&mut self, event: &Event, message: &str) -> Result<Option<String>, String> {
        if serde_json::from_str::<Identified>(message).is_ok() {
            return Ok(None);
        }
        let mut message = Object::read(message)?;
        if message.get("id").is_some() {
            return Ok(None);
        }
        let id = match event.surface_op() {
            // The only node that a tool result may replace hands its id on.
            Some(SurfaceOp::Replace { start, .. })
                if *event.event_type() == EventType::ToolResult =>
            {
                self.minted.get(&start).cloned()
            }
            _ => None,
        }
        .unwrap_or_else(|| MessageId::of_legacy(self.session, event.seq()));
        let mut text = String::new();
        push_json_string(&mut text, id.as_str());
        self.minted.insert(event.seq(), id);
        message.set("id", text);
        Ok(Some(message.write()))
    }
}

/// A message that has an id: nearly all have, and nothing of them is copied to see that.
struct Identified;

impl<'de> Deserialize<'de> for Identified {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Identified;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with an id")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Identified, A::Error> {
                let mut found = false;
                while let Some((Name(key), _)) =
                    map.next_entry::<Name<'_>, serde::de::IgnoredAny>()?
                {
                    found |= key == "id";
                }
                if found {
                    Ok(Identified)
                } else {
                    Err(serde::de::Error::missing_field("id"))
                }
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A payload around such a message.
#[derive(Deserialize)]
struct Nested {
    #[serde(rename = "message")]
    _message: Identified,
}

fn turn_start(data: &str) -> Result<Option<String>, String> {
    let data = Object::read(data)?;
    let Some(turn) = data.get("turn") else {
        return Err("has no turn".to_owned());
    };
    Ok(data.get("trigger").map(|_| format!("{{\"turn\":{turn}}}")))
}

fn turn_end(data: &str) -> Result<Option<String>, String> {
    let mut data = Object::read(data)?;
    let Some(reason) = data.get("reason") else {
        return Err("has no reason".to_owned());
    };
    let bare = reason.starts_with('"');
    let reason = if bare {
        // The oldest form: the kind alone.
        Object {
            entries: vec![("kind".into(), reason.into())],
        }
    } else {
        Object::read(reason)?
    };
    let legacy = match reason.get("kind") {
        Some("\"aborted\"") if reason.get("reason").is_none() => {
            r#"{"kind":"aborted","reason":{"kind":"legacy"}}"#.to_owned()
        }
        Some("\"disposed\"") => r#"{"kind":"aborted","reason":{"kind":"disposed"}}"#.to_owned(),
        Some("\"error\"") if reason.get("error").is_none() => {
            let error = match (reason.get("failure"), reason.get("message")) {
                (Some(failure), _) if failure.starts_with('{') => failure.to_owned(),
                (None, Some(message)) if message.starts_with('"') => {
                    let code = reason.get("code").unwrap_or("\"UNKNOWN\"");
                    format!(r#"{{"message":{message},"code":{code}}}"#)
                }
                _ => return Err("an error without a message or a failure".to_owned()),
            };
            format!(r#"{{"kind":"error","error":{error}}}"#)
        }
        Some(kind) if bare => format!(r#"{{"kind":{kind}}}"#),
        Some(_) => return Ok(None),
        None => return Err("a reason without a kind".to_owned()),
    };
    data.set("reason", legacy);
    Ok(Some(data.write()))
}

/// A JSON object as its keys in order and the raw text of their values.
struct Object<'a> {
    entries: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Object<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        serde_json::from_str::<Self>(text).map_err(|e| format!("expected an object: {e}"))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_ref())
    }

    fn set(&mut self, key: &'a str, value: String) {
        self.entries.retain(|(k, _)| k != key);
        self.entries.push((key.into(), value.into()));
    }

    fn write(&self) -> String {
        let mut out = String::from("{");
        for (i, (key, value)) in self.entries.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            push_json_string(&mut out, key);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Object<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some((Name(key), value)) = map.next_entry::<Name<'_>, &RawValue>()? {
                    entries.push((key, value.get().into()));
                }
                Ok(Object { entries })
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, log_only, result_event};

    fn imported(events: Vec<SharedEvent>) -> Result<Vec<SharedEvent>, ImportError> {
        import(&SessionId::new("s").unwrap(), events)
    }

    fn reason(data: &str) -> String {
        let data = format!(r#"{{"turn":1,"reason":{data}}}"#);
        let events = imported(vec![log_only(0, "turn/end", &data)]).unwrap();
        Object::read(events[0].data())
            .unwrap()
            .get("reason")
            .unwrap()
            .to_owned()
    }

    #[test]
    fn messages_without_identity_get_a_stable_one_and_replacements_inherit_it() {
        let first = result_event(0, "c", "long", "", r#""surfaceOp":"append""#);
        let replace = r#""sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}"#;
        let second = result_event(1, "c", "short", "", replace);
        let without = |line: &str| event(&line.replace(r#","id":"r""#, ""));
        let events = imported(vec![without(&first), without(&second)]).unwrap();
        assert!(events[0].text().contains(r#""id":"legacy-message:s:0""#));
        assert!(events[1].text().contains(r#""id":"legacy-message:s:0""#));
    }

    #[test]
    fn a_steering_message_becomes_a_user_message_on_the_surface() {
        let data = r#"{"role":"user","content":[],"source":{"kind":"user"},"z":"\ud800"}"#;
        let events = imported(vec![log_only(0, "steering/message", data)]).unwrap();
        assert_eq!(*events[0].event_type(), EventType::UserMessage);
        assert_eq!(events[0].surface_op(), Some(SurfaceOp::Append));
        assert!(events[0].data().contains(r#""z":"\ud800""#));
    }

    #[test]
    fn old_turn_marks_read_in_the_present_dialect() {
        let start = log_only(0, "turn/start", r#"{"turn":3,"trigger":{"kind":"user"}}"#);
        assert_eq!(imported(vec![start]).unwrap()[0].data(), r#"{"turn":3}"#);
        assert_eq!(
            reason(r#"{"kind":"aborted"}"#),
            r#"{"kind":"aborted","reason":{"kind":"legacy"}}"#
        );
        assert_eq!(
            reason(r#"{"kind":"disposed"}"#),
            r#"{"kind":"aborted","reason":{"kind":"disposed"}}"#
        );
        assert_eq!(
            reason(r#"{"kind":"error","step":1,"message":"m"}"#),
            r#"{"kind":"error","error":{"message":"m","code":"UNKNOWN"}}"#
        );
        assert_eq!(
            reason(r#"{"kind":"error","step":1,"failure":{"message":"m","code":"AUTH"}}"#),
            r#"{"kind":"error","error":{"message":"m","code":"AUTH"}}"#
        );
        assert_eq!(reason(r#"{"kind":"completed"}"#), r#"{"kind":"completed"}"#);
        assert_eq!(reason(r#""completed""#), r#"{"kind":"completed"}"#);
    }

    #[test]
    fn malformed_legacy_records_are_refused_with_their_seq() {
        let error = imported(vec![log_only(
            4,
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"error"}}"#,
        )]);
        assert_eq!(error.unwrap_err().seq.get(), 4);
        assert!(imported(vec![log_only(0, "mode/set", "{}")]).is_err());
    }
}
