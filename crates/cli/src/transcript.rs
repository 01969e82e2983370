//! Events of a log as lines for a person: what is said, and what an agent does.
//!
//! Owns the wording. Used for a running turn and for a stored session alike.

use orrery_session::payload::{AssistantChunk, AssistantMessage, LlmRetry, ToolCall, ToolResult};
use orrery_session::{ContentBlock, Event, EventType, Message, Source, StreamChunk};
use serde_json::Value;

use crate::output::short;

/// How much of a call or of a failure is shown.
const WIDTH: usize = 96;

/// One piece of what happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A person said something.
    Prompt(String),
    /// The model is saying something: the next bit of it.
    Speaking(String),
    /// The model has said something: all of it.
    Said(String),
    /// Something an agent does, in one line.
    Doing(String),
}

/// What an event means to a person, if anything.
pub(crate) fn piece(event: &Event) -> Option<Piece> {
    match event.event_type() {
        EventType::UserMessage => {
            let message: Message = event.payload().ok()?;
            let by_person = matches!(message.source, Source::User { .. });
            let text = message.visible_text();
            (by_person && !text.trim().is_empty()).then_some(Piece::Prompt(text))
        }
        EventType::AssistantChunk => match event.payload::<AssistantChunk>().ok()?.chunk {
            StreamChunk::TextDelta { text, .. } => Some(Piece::Speaking(text)),
            _ => None,
        },
        EventType::AssistantMessage => {
            let said: AssistantMessage = event.payload().ok()?;
            let text = said.message.visible_text();
            (!text.trim().is_empty()).then_some(Piece::Said(text))
        }
        EventType::ToolCall => event.payload().ok().map(|c| Piece::Doing(call(&c))),
        EventType::ToolResult => failed(&event.payload().ok()?).map(Piece::Doing),
        EventType::LlmRetry => {
            let retry: LlmRetry = event.payload().ok()?;
            let wait = retry.delay_ms.div_ceil(1000);
            let why = short(&retry.failure.message, WIDTH);
            Some(Piece::Doing(format!("! {why}; trying again in {wait} s")))
        }
        _ => None,
    }
}

/// A tool call in one line: its name and the argument that tells most.
fn call(call: &ToolCall) -> String {
    const TELLING: [&str; 5] = ["command", "path", "pattern", "query", "url"];
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    let named = TELLING.iter().find_map(|name| arguments.get(name));
    let any = || arguments.as_object().and_then(|all| all.values().next());
    let shown = named.or_else(any).and_then(Value::as_str).unwrap_or("");
    format!("· {} {}", call.name, short(shown, WIDTH))
        .trim_end()
        .to_owned()
}

/// What went wrong with a call; `None` when nothing did.
fn failed(result: &ToolResult) -> Option<String> {
    result.message.content.iter().find_map(|block| match block {
        ContentBlock::ToolResult {
            content,
            is_error: Some(true),
            ..
        } => {
            let text = content.iter().find_map(ContentBlock::as_text);
            Some(format!("  ! {}", short(text.unwrap_or("it failed"), WIDTH)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Piece> {
        piece(&Event::from_json(text).unwrap())
    }

    #[test]
    fn a_call_shows_the_argument_that_tells_most() {
        let call = r#"{"type":"tool/call","seq":0,"time":0,"data":{"turn":1,"step":1,"callId":"c","name":"grep","arguments":"{\"limit\":3,\"pattern\":\"fn main\"}"}}"#;
        assert_eq!(of(call), Some(Piece::Doing("· grep fn main".to_owned())));
        let broken = call.replace(r#"{\"limit\":3,\"pattern\":\"fn main\"}"#, "{");
        assert_eq!(of(&broken), Some(Piece::Doing("· grep".to_owned())));
    }

    #[test]
    fn only_failures_of_tools_are_shown() {
        let result = r#"{"type":"tool/result","seq":0,"time":0,"data":{"turn":1,"step":1,"message":{"role":"user","content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"no such file"}],"isError":true}],"source":{"kind":"tool","callId":"c"},"id":"m"}}}"#;
        assert_eq!(
            of(result),
            Some(Piece::Doing("  ! no such file".to_owned()))
        );
        assert_eq!(of(&result.replace("true", "false")), None);
    }

    #[test]
    fn an_event_that_means_nothing_to_a_person_is_no_piece() {
        assert_eq!(
            of(r#"{"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}"#),
            None
        );
        assert_eq!(
            of(r#"{"type":"tool/call","seq":0,"time":0,"data":{}}"#),
            None
        );
    }
}
