//! Which payloads the core refuses, wherever they come from: seed, load or append
//! (`session.md` 1.5 to 1.7).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Event;
use crate::event_type::{EventType, Vocabulary};
use crate::json::parse;
use crate::message::{ContentBlock, Message, Role, Source};
use crate::payload::{RequestContext, RequestHeaderRecord, StepMark, ToolCall, TurnStart};
use crate::seq::SessionSeq;

/// Why an event's type or payload is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A name that was once used.
    #[error("event {seq}: {what} is retired and no longer accepted")]
    Retired {
        /// The event.
        seq: SessionSeq,
        /// Which name.
        what: String,
    },
    /// A type outside the vocabulary that is not ignorable.
    #[error("event {seq}: unknown event type {event_type:?}; a newer build may know it")]
    UnknownType {
        /// The event.
        seq: SessionSeq,
        /// Its type.
        event_type: String,
    },
    /// A payload of another shape.
    #[error("event {seq} ({event_type}): {why}")]
    Payload {
        /// The event.
        seq: SessionSeq,
        /// Its type.
        event_type: String,
        /// What was expected.
        why: String,
    },
}

/// Checks one event.
pub(crate) fn check(event: &Event, vocabulary: &Vocabulary) -> Result<(), ShapeError> {
    let seq = event.seq();
    if event.event_type().is_retired() {
        return Err(ShapeError::Retired {
            seq,
            what: event.event_type().to_string(),
        });
    }
    if !vocabulary.accepts(event.event_type(), event.ignorable()) {
        return Err(ShapeError::UnknownType {
            seq,
            event_type: event.event_type().to_string(),
        });
    }
    payload(event).map_err(|why| match why {
        Refusal::Retired(what) => ShapeError::Retired { seq, what },
        Refusal::Shape(why) => ShapeError::Payload {
            seq,
            event_type: event.event_type().to_string(),
            why,
        },
    })
}

enum Refusal {
    Retired(String),
    Shape(String),
}

impl From<crate::json::JsonError> for Refusal {
    fn from(error: crate::json::JsonError) -> Self {
        Self::Shape(error.to_string())
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Shape(why.to_owned())
    }
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

#[derive(Deserialize)]
struct Carrying {
    #[serde(rename = "turn")]
    _turn: u64,
    #[serde(rename = "step")]
    _step: u64,
    message: Message,
}

fn payload(event: &Event) -> Result<(), Refusal> {
    match event.event_type() {
        EventType::TurnStart => {
            event.payload::<TurnStart>()?;
        }
        EventType::TurnEnd => {
            #[derive(Deserialize)]
            struct End {
                #[serde(rename = "turn")]
                _turn: u64,
                reason: Kind,
            }
            if event.payload::<End>()?.reason.kind.is_empty() {
                return Err("reason.kind is empty".into());
            }
        }
        EventType::StepStart | EventType::StepEnd => {
            event.payload::<StepMark>()?;
        }
        EventType::AssistantChunk => chunk(event)?,
        EventType::UserMessage => {
            if event.payload::<Message>()?.role != Role::User {
                return Err("a user message has role \"user\"".into());
            }
        }
        EventType::AssistantMessage => {
            let message = event.payload::<Carrying>()?.message;
            if message.role != Role::Assistant {
                return Err("an assistant message has role \"assistant\"".into());
            }
            if !matches!(message.source, Source::Model { .. }) {
                return Err("an assistant message has source kind \"model\"".into());
            }
        }
        EventType::ToolCall => {
            event.payload::<ToolCall>()?;
        }
        EventType::ToolResult => tool_result(&event.payload::<Carrying>()?.message)?,
        EventType::RequestHeader => request_header(event)?,
        EventType::RequestContext => {
            event.payload::<RequestContext>()?;
        }
        EventType::TodoWrite => todos(event)?,
        EventType::SessionEndSeed => {
            event.payload::<std::collections::BTreeMap<String, serde::de::IgnoredAny>>()?;
        }
        _ => {}
    }
    Ok(())
}

/// Looks at the envelope of a chunk only: its text is the largest part of every log.
fn chunk(event: &Event) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(rename = "turn")]
        _turn: u64,
        #[serde(rename = "step")]
        _step: u64,
        #[serde(borrow)]
        chunk: &'a RawValue,
    }
    let inner = serde_json::from_str::<Chunk<'_>>(event.data())
        .map(|c| c.chunk.get().starts_with('{'))
        .or_else(|_duplicate_keys| {
            parse::<serde_json::Map<String, serde_json::Value>>(event.data()).map(|m| {
                ["turn", "step"]
                    .iter()
                    .all(|k| m.get(*k).is_some_and(|v| v.as_u64().is_some()))
                    && m.get("chunk").is_some_and(serde_json::Value::is_object)
            })
        })?;
    if inner {
        Ok(())
    } else {
        Err("expected {turn, step, chunk}".into())
    }
}

fn tool_result(message: &Message) -> Result<(), Refusal> {
    let Source::Tool { call_id } = &message.source else {
        return Err("a tool result has source kind \"tool\"".into());
    };
    match (message.role, message.content.as_slice()) {
        (Role::User, [ContentBlock::ToolResult { tool_call_id, .. }])
            if tool_call_id == call_id =>
        {
            Ok(())
        }
        _ => Err("a tool result is exactly one tool-result block that answers its source".into()),
    }
}

fn request_header(event: &Event) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Reason {
        reason: String,
    }
    if event.payload::<Reason>()?.reason == "fallback" {
        return Err(Refusal::Retired(
            "request/header reason \"fallback\"".to_owned(),
        ));
    }
    let record = event.payload::<RequestHeaderRecord>()?;
    let config = &record.header.config;
    if config.provider.is_empty() || config.model.is_empty() {
        return Err("provider and model must not be empty".into());
    }
    if config.reasoning_effort.as_deref() == Some("") {
        return Err("reasoningEffort must not be empty".into());
    }
    let defaults = record.header.adapter_defaults.unwrap_or_default();
    if (defaults.reasoning_effort && config.reasoning_effort.is_none())
        || (defaults.max_tokens && config.max_tokens.is_none())
    {
        return Err("adapterDefaults marks a field that config does not have".into());
    }
    Ok(())
}

fn todos(event: &Event) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Todos {
        todos: Vec<Todo>,
    }
    #[derive(Deserialize)]
    struct Todo {
        #[serde(rename = "content")]
        _content: String,
        status: String,
    }
    let known = ["pending", "in_progress", "completed"];
    if event
        .payload::<Todos>()?
        .todos
        .iter()
        .any(|t| !known.contains(&t.status.as_str()))
    {
        return Err("a todo's status is pending, in_progress or completed".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, log_only};

    fn refused(event_type: &str, data: &str) -> bool {
        check(&log_only(0, event_type, data), &Vocabulary::default()).is_err()
    }

    #[test]
    fn retired_names_are_refused_everywhere() {
        assert!(refused("request/header-delta", "{}"));
        assert!(refused("mode/set", "{}"));
        let header = r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"REASON"}"#;
        assert!(refused(
            "request/header",
            &header.replace("REASON", "fallback")
        ));
        assert!(!refused(
            "request/header",
            &header.replace("REASON", "series")
        ));
    }

    #[test]
    fn unknown_types_need_the_ignorable_mark_or_a_registration() {
        assert!(refused("weather/changed", "{}"));
        let marked =
            event(r#"{"type":"weather/changed","seq":0,"time":0,"data":1,"ignorable":true}"#);
        assert!(check(&marked, &Vocabulary::default()).is_ok());
        let registered = Vocabulary::with(["weather/changed".to_owned()]);
        assert!(check(&log_only(0, "weather/changed", "{}"), &registered).is_ok());
    }

    #[test]
    fn core_payloads_of_another_shape_are_refused() {
        assert!(refused("turn/start", r#"{"turn":"1"}"#));
        assert!(refused("turn/end", r#"{"turn":1,"reason":{}}"#));
        assert!(!refused(
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"from-a-plugin"}}"#
        ));
        assert!(refused(
            "assistant/chunk",
            r#"{"turn":1,"step":1,"chunk":"x"}"#
        ));
        assert!(refused(
            "todo/write",
            r#"{"todos":[{"content":"a","status":"later"}]}"#
        ));
        assert!(refused(
            "request/header",
            r#"{"header":{"config":{"provider":"p","model":"m"},"adapterDefaults":{"maxTokens":true}},"reason":"initial"}"#
        ));
    }
}
