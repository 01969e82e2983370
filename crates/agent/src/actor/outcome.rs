//! What a session's turns came to since it came to life: how the last one ended, and the last words.
//!
//! For whoever waits for a delegated task. Kept beside the fold of the log, since it belongs to one
//! stay in memory only: an answer of an earlier stay is no answer to what was asked in this one
//! (`subagent.md` 4.12).

use std::sync::Arc;

use orrery_session::payload::{AssistantMessage, TurnEnd, TurnEndReason};
use orrery_session::{ContentBlock, EventType, SharedEvent};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnOutcome {
    /// Which turn.
    pub turn: u64,
    /// How it ended.
    pub reason: TurnEndReason,
    /// The last answer that was not empty, of all turns since the session came to life.
    pub output: Vec<ContentBlock>,
}

/// Follows the events that are logged.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    said: Vec<ContentBlock>,
    last: Option<Arc<TurnOutcome>>,
}

impl Outcomes {
    pub(super) fn feed(&mut self, events: &[SharedEvent]) {
        for event in events {
            match event.event_type() {
                EventType::AssistantMessage => {
                    // What this process wrote it can read.
                    let content = event
                        .payload::<AssistantMessage>()
                        .map(|m| m.message.content);
                    if let Some(content) = content.ok().filter(|blocks| !blocks.is_empty()) {
                        self.said = content;
                    }
                }
                EventType::TurnEnd => {
                    if let Ok(TurnEnd { turn, reason }) = event.payload::<TurnEnd>() {
                        let output = self.said.clone();
                        self.last = Some(Arc::new(TurnOutcome {
                            turn,
                            reason,
                            output,
                        }));
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn last(&self) -> Option<Arc<TurnOutcome>> {
        self.last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_session::Event;

    fn event(seq: u64, event_type: &str, data: &str, more: &str) -> SharedEvent {
        let text = format!(r#"{{"type":"{event_type}","seq":{seq},"time":0,"data":{data}{more}}}"#);
        SharedEvent::new(Event::from_json(&text).unwrap())
    }

    fn said(seq: u64, content: &str) -> SharedEvent {
        let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
        let data = format!(
            r#"{{"turn":1,"step":1,"message":{{"role":"assistant","content":{content},"source":{source},"id":"m{seq}"}}}}"#
        );
        event(seq, "assistant/message", &data, r#","surfaceOp":"append""#)
    }

    #[test]
    fn the_last_words_survive_an_empty_message_and_the_end_of_the_turn() {
        let mut outcomes = Outcomes::default();
        outcomes.feed(&[
            said(0, r#"[{"type":"text","text":"found it"}]"#),
            said(1, "[]"),
        ]);
        assert_eq!(outcomes.last(), None);
        let end = r#"{"turn":1,"reason":{"kind":"max-tokens"}}"#;
        outcomes.feed(&[event(2, "turn/end", end, "")]);
        let last = outcomes.last().unwrap();
        assert_eq!(last.output, [ContentBlock::text("found it")]);
        assert_eq!(last.reason, TurnEndReason::MaxTokens);
        let end = r#"{"turn":2,"reason":{"kind":"completed"}}"#;
        outcomes.feed(&[event(3, "turn/end", end, "")]);
        assert_eq!(outcomes.last().unwrap().turn, 2);
    }
}
