//! What an event is searchable by (`subagent.md` 3.6).
//!
//! Owns which types have text, which of their fields it is, and which earlier events a replacement
//! hides. Leaves to others: how text becomes words ([`super::words`]), and whether the model sees an
//! event. Reasoning, chunks, headers and whatever this build does not know are never searched.

use std::ops::RangeInclusive;

use orrery_session::payload::{SessionTitle, ToolCall, ToolFailure, TurnEnd, TurnEndReason};
use orrery_session::surface::message_of;
use orrery_session::{ContentBlock, Event, EventType, SessionSeq, SurfaceOp};
use serde::Deserialize;

/// The types that can have text.
pub const SEARCHABLE: &[EventType] = &[
    EventType::UserMessage,
    EventType::AssistantMessage,
    EventType::ToolCall,
    EventType::ToolResult,
    EventType::TodoWrite,
    EventType::TurnEnd,
    EventType::SessionTitle,
];

/// An event's text: its parts trimmed, one a line. `None` when there is nothing to search, or when
/// the payload has a shape that cannot be read.
///
/// A tool call is searchable as the event of its own. The block of the model's message says the
/// same once more and is left out, or each call would be found twice.
pub fn text_of(event: &Event) -> Option<String> {
    let mut parts = Parts::default();
    match event.event_type() {
        EventType::UserMessage | EventType::AssistantMessage => {
            parts.blocks(&message_of(event)?.content);
        }
        EventType::ToolCall => {
            let call: ToolCall = event.payload().ok()?;
            parts.push(&call.name);
            parts.push(&call.arguments);
        }
        EventType::ToolResult => {
            parts.blocks(&message_of(event)?.content);
            if let Ok(Failed {
                error: Some(ToolFailure { name, code }),
            }) = event.payload()
            {
                parts.push(&name);
                parts.push(&code);
            }
        }
        EventType::TodoWrite => {
            let list: TodoList = event.payload().ok()?;
            for todo in list.todos {
                parts.push(&todo.status);
                parts.push(&todo.content);
            }
        }
        EventType::TurnEnd => {
            let end: TurnEnd = event.payload().ok()?;
            match &end.reason {
                TurnEndReason::Error { error } => {
                    parts.push("error");
                    parts.push(&error.message);
                }
                TurnEndReason::Aborted { .. } => parts.push("aborted"),
                TurnEndReason::MaxTokens => parts.push("max-tokens"),
                TurnEndReason::Interrupted => parts.push("interrupted"),
                TurnEndReason::Completed | TurnEndReason::Blocked | TurnEndReason::Other => {}
            }
        }
        EventType::SessionTitle => parts.push(&event.payload::<SessionTitle>().ok()?.title),
        _ => {}
    }
    (!parts.text.is_empty()).then_some(parts.text)
}

/// Which earlier events an event hides from the model: none unless it replaces.
///
/// A replacement must cite every node that it takes the place of (`session.md` 1.8), so its
/// provenance names them without a look at the surface. It may cite more: the record of the
/// compaction that made it, the call that a result answers. Those were never on the surface, so
/// whoever applies this to current events alone does right.
pub fn shadowed_by(event: &Event) -> Vec<RangeInclusive<SessionSeq>> {
    let Some(SurfaceOp::Replace { start, end }) = event.surface_op() else {
        return Vec::new();
    };
    let cited = event.source_event_seqs().unwrap_or_default();
    let mut seqs: Vec<SessionSeq> = cited.iter().copied().chain([start, end]).collect();
    seqs.sort_unstable();
    let mut ranges: Vec<RangeInclusive<SessionSeq>> = Vec::new();
    for seq in seqs {
        match ranges.last_mut() {
            Some(last) if last.end().offset_after() >= seq.offset_before() => {
                *last = *last.start()..=seq;
            }
            _ => ranges.push(seq..=seq),
        }
    }
    ranges
}

#[derive(Deserialize)]
struct Failed {
    #[serde(default)]
    error: Option<ToolFailure>,
}

#[derive(Deserialize)]
struct TodoList {
    todos: Vec<Todo>,
}

#[derive(Deserialize)]
struct Todo {
    content: String,
    #[serde(default)]
    status: String,
}

#[derive(Default)]
struct Parts {
    text: String,
}

impl Parts {
    fn push(&mut self, part: &str) {
        let part = part.trim();
        if !part.is_empty() {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(part);
        }
    }

    /// The visible text of blocks. How deep results nest is bounded where they are read.
    fn blocks(&mut self, blocks: &[ContentBlock]) {
        for block in blocks {
            match block {
                ContentBlock::Text { text } => self.push(text),
                ContentBlock::ToolResult { content, .. } => self.blocks(content),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event_type: &str, data: &str) -> Option<String> {
        let surface = EventType::from_name(event_type).is_surface();
        let rest = if surface {
            r#","surfaceOp":"append""#
        } else {
            ""
        };
        let json = format!(r#"{{"type":"{event_type}","seq":1,"time":2,"data":{data}{rest}}}"#);
        text_of(&Event::from_json(&json).unwrap())
    }

    #[test]
    fn messages_are_searchable_by_their_visible_text_alone() {
        let user = r#"{"content":[{"type":"text","text":" hello "},{"type":"image","attachment":{}},{"type":"text","text":"there"}],"source":{"kind":"user"},"role":"user","id":"m"}"#;
        assert_eq!(text("user/message", user).as_deref(), Some("hello\nthere"));
        let assistant = r#"{"turn":1,"step":1,"message":{"role":"assistant","content":[{"type":"reasoning","text":"hidden"},{"type":"text","text":"seen"},{"type":"tool-call","id":"c","name":"bash","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"},"id":"m"}}"#;
        assert_eq!(
            text("assistant/message", assistant).as_deref(),
            Some("seen")
        );
        let empty = r#"{"content":[{"type":"text","text":"  "}],"source":{"kind":"user"},"role":"user","id":"m"}"#;
        assert_eq!(text("user/message", empty), None);
    }

    #[test]
    fn calls_results_and_failures_are_searchable() {
        let call =
            r#"{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{\"command\":\"ls\"}"}"#;
        assert_eq!(
            text("tool/call", call).as_deref(),
            Some("bash\n{\"command\":\"ls\"}")
        );
        let result = r#"{"turn":1,"step":1,"message":{"source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"no such file"}],"isError":true}],"role":"user","id":"r"},"error":{"name":"ToolError","code":"NOT_FOUND"}}"#;
        assert_eq!(
            text("tool/result", result).as_deref(),
            Some("no such file\nToolError\nNOT_FOUND")
        );
    }

    #[test]
    fn lists_ends_of_turns_and_titles_are_searchable() {
        let todos = r#"{"todos":[{"content":"write","status":"pending"},{"content":"read","status":"completed"}]}"#;
        assert_eq!(
            text("todo/write", todos).as_deref(),
            Some("pending\nwrite\ncompleted\nread")
        );
        let end = |reason: &str| text("turn/end", &format!(r#"{{"turn":1,"reason":{reason}}}"#));
        let error = r#"{"kind":"error","error":{"message":"too many","code":"RATE_LIMIT"}}"#;
        assert_eq!(end(error).as_deref(), Some("error\ntoo many"));
        let aborted = r#"{"kind":"aborted","reason":{"kind":"user"}}"#;
        assert_eq!(end(aborted).as_deref(), Some("aborted"));
        assert_eq!(
            end(r#"{"kind":"max-tokens"}"#).as_deref(),
            Some("max-tokens")
        );
        assert_eq!(
            end(r#"{"kind":"interrupted"}"#).as_deref(),
            Some("interrupted")
        );
        assert_eq!(end(r#"{"kind":"completed"}"#), None);
        let title = r#"{"title":"Fix it","messageSeqs":[],"source":{"kind":"user"}}"#;
        assert_eq!(text("session/title", title).as_deref(), Some("Fix it"));
    }

    #[test]
    fn structure_and_foreign_shapes_are_not() {
        let chunk = r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"word"}}"#;
        assert_eq!(text("assistant/chunk", chunk), None);
        assert_eq!(text("turn/start", r#"{"turn":1}"#), None);
        assert_eq!(text("somebody/else", r#"{"text":"x"}"#), None);
        for event_type in SEARCHABLE {
            assert_eq!(text(event_type.as_str(), r#"{"odd":[]}"#), None);
        }
    }

    #[test]
    fn a_replacement_hides_what_it_cites() {
        let event = |rest: &str| {
            let json = format!(
                r#"{{"type":"user/message","seq":9,"time":2,"data":{{"content":[],"source":{{"kind":"user"}},"role":"user","id":"m"}},{rest}}}"#
            );
            let ranges = shadowed_by(&Event::from_json(&json).unwrap());
            let plain = ranges.iter().map(|r| (r.start().get(), r.end().get()));
            plain.collect::<Vec<_>>()
        };
        assert_eq!(event(r#""surfaceOp":"append""#), []);
        assert_eq!(
            event(r#""sourceEventSeqs":[1,2,3,7],"surfaceOp":{"op":"replace","start":1,"end":7}"#),
            [(1, 3), (7, 7)]
        );
        assert_eq!(
            event(r#""sourceEventSeqs":[4,5],"surfaceOp":{"op":"replace","start":5,"end":4}"#),
            [(4, 5)]
        );
    }
}
