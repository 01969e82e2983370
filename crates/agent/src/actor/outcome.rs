//! What a session's turns came to since it came to life: how the last one ended, and the last words.
//!
//! For whoever waits for a delegated task. Kept beside the fold of the log, since it belongs to one
//! stay in memory only: an answer of an earlier stay is no answer to what was asked in this one
//! (`subagent.md` 4.12).

use std::sync::Arc;

use orrery_session::payload::{AssistantMessage, TurnEnd, TurnEndReason};
use orrery_session::{ContentBlock, EventType, Json, SharedEvent};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnOutcome {
    /// Which turn.
    pub turn: u64,
    /// How it ended.
    pub reason: TurnEndReason,
    /// The last answer that was not empty, of all turns since the session came to life; without one,
    /// the text of an answer that broke off.
    pub output: Vec<ContentBlock>,
    /// The arguments of the call that concluded the turn.
    pub concluded: Option<Json>,
}

/// Follows the events that are logged.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    said: Vec<ContentBlock>,
    concluded: Option<Json>,
    last: Option<Arc<TurnOutcome>>,
}

impl Outcomes {
    /// A call concluded the turn that runs.
    pub(super) fn concluded(&mut self, arguments: Option<Json>) {
        self.concluded = arguments.or_else(|| self.concluded.take());
    }

    /// What the machine logged, and what could be read of an answer that failed for good: its text
    /// counts where nothing else was said, its reasoning never.
    pub(super) fn feed(&mut self, events: &[SharedEvent], streamed: &[ContentBlock]) {
        if self.said.is_empty() {
            let texts = streamed.iter().filter(|block| block.as_text().is_some());
            self.said = texts.cloned().collect();
        }
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
                        let concluded = self.concluded.take();
                        self.last = Some(Arc::new(TurnOutcome {
                            turn,
                            reason,
                            output,
                            concluded,
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
        outcomes.feed(
            &[
                said(0, r#"[{"type":"text","text":"found it"}]"#),
                said(1, "[]"),
            ],
            &[],
        );
        assert_eq!(outcomes.last(), None);
        let end = r#"{"turn":1,"reason":{"kind":"max-tokens"}}"#;
        outcomes.feed(&[event(2, "turn/end", end, "")], &[]);
        let last = outcomes.last().unwrap();
        assert_eq!(last.output, [ContentBlock::text("found it")]);
        assert_eq!(last.reason, TurnEndReason::MaxTokens);
        let end = r#"{"turn":2,"reason":{"kind":"completed"}}"#;
        outcomes.feed(&[event(3, "turn/end", end, "")], &[]);
        assert_eq!(outcomes.last().unwrap().turn, 2);
    }

    #[test]
    fn the_text_of_an_answer_that_broke_off_counts_where_nothing_was_said() {
        let streamed = [
            ContentBlock::Reasoning {
                text: "hm".to_owned(),
            },
            ContentBlock::text("half of"),
        ];
        let end = r#"{"turn":1,"reason":{"kind":"completed"}}"#;
        let mut outcomes = Outcomes::default();
        outcomes.feed(&[event(0, "turn/end", end, "")], &streamed);
        let half = [ContentBlock::text("half of")];
        assert_eq!(outcomes.last().unwrap().output, half);
        let mut outcomes = Outcomes::default();
        outcomes.feed(&[said(0, r#"[{"type":"text","text":"whole"}]"#)], &[]);
        outcomes.feed(&[event(1, "turn/end", end, "")], &streamed);
        let whole = [ContentBlock::text("whole")];
        assert_eq!(outcomes.last().unwrap().output, whole);
    }

    #[test]
    fn what_concluded_a_turn_is_told_with_its_end_and_not_with_the_next_one() {
        let mut outcomes = Outcomes::default();
        let answer = Json::from_text(r#"{"a":1}"#).unwrap();
        outcomes.concluded(Some(answer.clone()));
        let end = r#"{"turn":1,"reason":{"kind":"completed"}}"#;
        outcomes.feed(&[event(0, "turn/end", end, "")], &[]);
        assert_eq!(outcomes.last().unwrap().concluded, Some(answer));
        outcomes.feed(&[event(1, "turn/end", end, "")], &[]);
        assert_eq!(outcomes.last().unwrap().concluded, None);
    }
}
