//! Closing a turn that the process died in (`session.md` 1.17).
//!
//! Deterministic: the closers take consecutive seqs and the time of the last real event, so every
//! reader of the same bytes sees the same repaired log.

use crate::event::{EventDraft, SharedEvent, SurfaceOp};
use crate::event_type::EventType;
use crate::ids::{CallId, MessageId};
use crate::json::JsonError;
use crate::message::{ContentBlock, Message};
use crate::payload::{
    AssistantMessage, StepMark, ToolCall, ToolFailure, ToolResult, TurnEnd, TurnEndReason,
    TurnStart,
};
use crate::seq::{SessionLogOffset, SessionSeq};
use crate::time::Timestamp;

/// Told to the model when a call was logged and its outcome is not known.
const OUTCOME_UNKNOWN: &str = "The host stopped while this tool call was running, so its outcome \
    is unknown: it may have had none, some or all of its effects. Check the present state before \
    you decide; repeat the call without checking only if it is read-only or idempotent.";
/// Told to the model when a call was not even logged.
const NOT_STARTED: &str = "The host stopped before this tool call was started. It had no effect \
    and may be tried again.";

#[derive(Default)]
struct Tail {
    turn: Option<u64>,
    step: Option<u64>,
    /// Unanswered calls in the order of the model's answer, with the seq of their `tool/call`.
    calls: Vec<(CallId, u64, Option<SessionSeq>)>,
}

impl Tail {
    fn follow(&mut self, event: &SharedEvent) {
        match event.event_type() {
            EventType::TurnStart => {
                let turn = event.payload::<TurnStart>().ok().map(|t| t.turn);
                *self = Self {
                    turn,
                    ..Self::default()
                };
            }
            EventType::TurnEnd => *self = Self::default(),
            EventType::StepStart => {
                self.step = event.payload::<StepMark>().ok().map(|mark| mark.step);
            }
            EventType::StepEnd => {
                self.step = None;
                self.calls.clear();
            }
            EventType::AssistantMessage => {
                if let Ok(answer) = event.payload::<AssistantMessage>() {
                    for block in &answer.message.content {
                        if let ContentBlock::ToolCall { id, .. } = block
                            && !self.calls.iter().any(|(known, ..)| known == id)
                        {
                            self.calls.push((id.clone(), answer.step, None));
                        }
                    }
                }
            }
            EventType::ToolCall => {
                if let Ok(call) = event.payload::<ToolCall>()
                    && let Some(entry) = self.calls.iter_mut().find(|(id, ..)| *id == call.call_id)
                {
                    entry.2 = Some(event.seq());
                }
            }
            EventType::ToolResult
                if !matches!(event.surface_op(), Some(SurfaceOp::Replace { .. })) =>
            {
                if let Some(crate::message::Source::Tool { call_id }) =
                    crate::surface::message_of(event).map(|m| m.source)
                {
                    self.calls.retain(|(id, ..)| *id != call_id);
                }
            }
            _ => {}
        }
    }
}

/// The events that close an open turn; none for a balanced or empty log.
///
/// # Errors
/// Never on a log that was read: only if a payload of ours could not be serialised.
pub fn closers(events: &[SharedEvent]) -> Result<Vec<SharedEvent>, JsonError> {
    let mut tail = Tail::default();
    for event in events {
        tail.follow(event);
    }
    let (Some(turn), Some(last)) = (tail.turn, events.last()) else {
        return Ok(Vec::new());
    };
    let mut out = Closers {
        next: last.seq().offset_after(),
        time: last.time(),
        events: vec![],
    };
    for (call, step, started) in &tail.calls {
        let seq = out.next.next_seq();
        let draft = EventDraft::new(
            EventType::ToolResult,
            &unanswered(turn, *step, call, seq, started.is_some()),
        )?
        .on_surface();
        out.push(match started {
            Some(call_seq) => draft.citing(vec![*call_seq]),
            None => draft,
        });
    }
    if let Some(step) = tail.step {
        out.push(EventDraft::new(
            EventType::StepEnd,
            &StepMark { turn, step },
        )?);
    }
    let reason = TurnEndReason::Interrupted;
    out.push(EventDraft::new(
        EventType::TurnEnd,
        &TurnEnd { turn, reason },
    )?);
    Ok(out.events)
}

struct Closers {
    next: SessionLogOffset,
    time: Timestamp,
    events: Vec<SharedEvent>,
}

impl Closers {
    fn push(&mut self, draft: EventDraft) {
        self.events.push(SharedEvent::new(
            draft.seal(self.next.next_seq(), self.time),
        ));
        self.next = self.next.advance(1);
    }
}

fn unanswered(turn: u64, step: u64, call: &CallId, seq: SessionSeq, started: bool) -> ToolResult {
    let (name, code, text) = if started {
        (
            "ToolOutcomeUnknownError",
            "TOOL_OUTCOME_UNKNOWN",
            OUTCOME_UNKNOWN,
        )
    } else {
        ("ToolNotStartedError", "TOOL_NOT_STARTED", NOT_STARTED)
    };
    ToolResult {
        turn,
        step,
        message: Message::tool_result(
            MessageId::of_interrupted_result(call, seq),
            call.clone(),
            vec![ContentBlock::text(text)],
            true,
        ),
        error: Some(ToolFailure {
            name: name.to_owned(),
            code: code.to_owned(),
        }),
        meta: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assistant_event, event, log_only, result_event};

    fn open(calls: &[&str]) -> Vec<SharedEvent> {
        vec![
            log_only(0, "turn/start", r#"{"turn":1}"#),
            log_only(1, "step/start", r#"{"turn":1,"step":1}"#),
            assistant_event(2, 1, 1, calls),
        ]
    }

    fn call(seq: u64, id: &str) -> SharedEvent {
        let data = format!(r#"{{"turn":1,"step":1,"callId":"{id}","name":"t","arguments":""}}"#);
        log_only(seq, "tool/call", &data)
    }

    #[test]
    fn a_started_call_is_of_unknown_outcome_and_a_planned_one_never_started() {
        let mut events = open(&["a", "b", "c"]);
        events.push(call(3, "a"));
        events.push(event(&result_event(
            4,
            "a",
            "x",
            "",
            r#""surfaceOp":"append""#,
        )));
        events.push(call(5, "b"));
        let closers = closers(&events).unwrap();
        let text: Vec<&str> = closers.iter().map(|e| e.text()).collect();
        assert_eq!(closers.len(), 4);
        assert!(text[0].contains("TOOL_OUTCOME_UNKNOWN") && text[0].contains("[5]"));
        assert!(text[0].contains("interrupted-tool-result-b-6"));
        assert!(text[1].contains("TOOL_NOT_STARTED") && !text[1].contains("sourceEventSeqs"));
        assert!(text[2].contains("step/end"));
        assert!(text[3].contains(r#""reason":{"kind":"interrupted"}"#));
        assert!(closers.iter().all(|e| e.time() == events[5].time()));
        assert_eq!(closers[3].seq().get(), 9);
    }

    #[test]
    fn a_closed_step_leaves_only_the_turn_to_close() {
        let mut events = open(&["a"]);
        events.push(log_only(3, "step/end", r#"{"turn":1,"step":1}"#));
        assert_eq!(closers(&events).unwrap().len(), 1);
    }

    #[test]
    fn a_balanced_or_empty_log_needs_nothing() {
        assert!(closers(&[]).unwrap().is_empty());
        let end = log_only(1, "turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
        assert!(
            closers(&[log_only(0, "turn/start", r#"{"turn":1}"#), end])
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_call_whose_answer_is_missing_is_ignored() {
        let events = [open(&[]), vec![call(3, "ghost")]].concat();
        assert_eq!(closers(&events).unwrap().len(), 2);
    }
}
