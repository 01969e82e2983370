//! The enclosure invariants: turns hold steps, steps hold calls and their answers
//! (`session.md` 1.16).
//!
//! Two-phase: [`Enclosure::check`] computes the next state, [`Enclosure::advance`] takes it after
//! the commit, so that a veto by somebody else never moves the checker.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::event::{Event, SurfaceOp};
use crate::event_type::EventType;
use crate::ids::CallId;
use crate::payload::{StepMark, ToolCall, TurnStart};
use crate::seq::SessionSeq;

/// An event stands where it may not stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event_type}): {why}")]
pub struct EnclosureError {
    /// The event.
    pub seq: SessionSeq,
    /// Its type.
    pub event_type: String,
    /// Which rule it breaks.
    pub why: String,
}

/// Where in turns and steps a log stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enclosure {
    last_turn: u64,
    open_turn: Option<u64>,
    last_step: u64,
    open_step: Option<u64>,
    pending: BTreeSet<CallId>,
}

impl Enclosure {
    /// The number of the last turn that began; 0 before the first.
    pub const fn last_turn(&self) -> u64 {
        self.last_turn
    }

    /// The turn that runs, if one does.
    pub const fn open_turn(&self) -> Option<u64> {
        self.open_turn
    }

    /// The step that runs, if one does.
    pub const fn open_step(&self) -> Option<u64> {
        self.open_step
    }

    /// Whether the event may stand here; gives the state after it.
    pub fn check(&self, event: &Event) -> Result<Self, EnclosureError> {
        self.next(event).map_err(|why| EnclosureError {
            seq: event.seq(),
            event_type: event.event_type().to_string(),
            why,
        })
    }

    /// Takes the state that [`Enclosure::check`] gave for an event that is now committed.
    pub fn advance(&mut self, next: Self) {
        *self = next;
    }

    /// Follows an event that was logged before, by whatever rules: where it breaks ours, a turn's
    /// own marks still count, so that a foreign log is readable and can go on.
    pub(crate) fn follow(&mut self, event: &Event) {
        match self.next(event) {
            Ok(next) => *self = next,
            Err(_broken) => match event.event_type() {
                EventType::TurnStart => {
                    if let Ok(start) = event.payload::<TurnStart>() {
                        *self = Self {
                            last_turn: start.turn,
                            open_turn: Some(start.turn),
                            ..Self::default()
                        };
                    }
                }
                EventType::TurnEnd => {
                    *self = Self {
                        last_turn: self.last_turn,
                        ..Self::default()
                    };
                }
                _ => {}
            },
        }
    }

    fn next(&self, event: &Event) -> Result<Self, String> {
        let shape = |e: crate::json::JsonError| e.to_string();
        let mut next = self.clone();
        match event.event_type() {
            EventType::TurnStart => {
                let turn = event.payload::<TurnStart>().map_err(shape)?.turn;
                if let Some(open) = self.open_turn {
                    return Err(format!("turn {open} is still open"));
                }
                if turn != self.last_turn + 1 {
                    return Err(format!(
                        "expected turn {}, found {turn}",
                        self.last_turn + 1
                    ));
                }
                next = Self {
                    last_turn: turn,
                    open_turn: Some(turn),
                    ..Self::default()
                };
            }
            EventType::TurnEnd => {
                let turn = event.payload::<TurnStart>().map_err(shape)?.turn;
                self.in_turn(turn)?;
                if let Some(step) = self.open_step {
                    return Err(format!("step {step} is still open"));
                }
                next.open_turn = None;
                next.pending.clear();
            }
            EventType::StepStart => {
                let mark = event.payload::<StepMark>().map_err(shape)?;
                self.in_turn(mark.turn)?;
                if let Some(step) = self.open_step {
                    return Err(format!("step {step} is still open"));
                }
                if mark.step != self.last_step + 1 {
                    return Err(format!(
                        "expected step {}, found {}",
                        self.last_step + 1,
                        mark.step
                    ));
                }
                next.last_step = mark.step;
                next.open_step = Some(mark.step);
            }
            EventType::StepEnd => {
                let mark = event.payload::<StepMark>().map_err(shape)?;
                self.in_step(&mark)?;
                next.open_step = None;
                next.pending.clear();
            }
            EventType::AssistantChunk | EventType::AssistantMessage => {
                self.in_step(&event.payload::<StepMark>().map_err(shape)?)?;
            }
            EventType::ToolCall => {
                let call = event.payload::<ToolCall>().map_err(shape)?;
                self.in_step(&StepMark {
                    turn: call.turn,
                    step: call.step,
                })?;
                next.pending.insert(call.call_id);
            }
            EventType::ToolResult => self.result(event, &mut next)?,
            EventType::TodoWrite
            | EventType::RequestHeader
            | EventType::RequestContext
            | EventType::CodeDispatchStart
            | EventType::CodeDispatch
                if self.open_turn.is_none() =>
            {
                return Err("belongs inside a turn".to_owned());
            }
            _ => {}
        }
        Ok(next)
    }

    fn result(&self, event: &Event, next: &mut Self) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Answer {
            turn: u64,
            step: u64,
            message: Sent,
            #[serde(default)]
            error: Option<Code>,
        }
        #[derive(Deserialize)]
        struct Sent {
            source: Call,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Call {
            call_id: CallId,
        }
        #[derive(Deserialize)]
        struct Code {
            #[serde(default)]
            code: String,
        }
        if matches!(event.surface_op(), Some(SurfaceOp::Replace { .. })) {
            return match self.open_turn {
                Some(_) => Ok(()),
                None => Err("belongs inside a turn".to_owned()),
            };
        }
        let answer: Answer = event.payload().map_err(|e| e.to_string())?;
        self.in_step(&StepMark {
            turn: answer.turn,
            step: answer.step,
        })?;
        let never_started = answer.error.is_some_and(|e| e.code == "TOOL_NOT_STARTED");
        let call = &answer.message.source.call_id;
        if !next.pending.remove(call) && !never_started {
            return Err(format!(
                "answers the call {call}, which this step did not make"
            ));
        }
        Ok(())
    }

    fn in_turn(&self, turn: u64) -> Result<(), String> {
        match self.open_turn {
            Some(open) if open == turn => Ok(()),
            Some(open) => Err(format!("names turn {turn} while turn {open} is open")),
            None => Err(format!("names turn {turn} while no turn is open")),
        }
    }

    fn in_step(&self, mark: &StepMark) -> Result<(), String> {
        self.in_turn(mark.turn)?;
        match self.open_step {
            Some(open) if open == mark.step => Ok(()),
            Some(open) => Err(format!(
                "names step {} while step {open} is open",
                mark.step
            )),
            None => Err(format!("names step {} while no step is open", mark.step)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SharedEvent;
    use crate::testing::{event, log_only, result_event};

    fn run(events: &[SharedEvent]) -> Result<Enclosure, EnclosureError> {
        let mut enclosure = Enclosure::default();
        for event in events {
            let next = enclosure.check(event)?;
            enclosure.advance(next);
        }
        Ok(enclosure)
    }

    fn call(seq: u64, step: u64, id: &str) -> SharedEvent {
        let data =
            format!(r#"{{"turn":1,"step":{step},"callId":"{id}","name":"t","arguments":""}}"#);
        log_only(seq, "tool/call", &data)
    }

    #[test]
    fn turns_and_steps_count_from_one_and_never_nest() {
        let start = |seq, turn| log_only(seq, "turn/start", &format!(r#"{{"turn":{turn}}}"#));
        let end = |seq, turn| {
            let data = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
            log_only(seq, "turn/end", &data)
        };
        assert_eq!(
            run(&[start(0, 1), end(1, 1), start(2, 2)])
                .unwrap()
                .open_turn(),
            Some(2)
        );
        assert!(run(&[start(0, 2)]).is_err());
        assert!(run(&[start(0, 1), start(1, 2)]).is_err());
        assert!(run(&[start(0, 1), end(1, 2)]).is_err());
        let step = log_only(1, "step/start", r#"{"turn":1,"step":1}"#);
        assert!(run(&[start(0, 1), step, end(2, 1)]).is_err());
    }

    #[test]
    fn a_result_answers_a_call_of_its_own_step_unless_it_never_started() {
        let head = [
            log_only(0, "turn/start", r#"{"turn":1}"#),
            log_only(1, "step/start", r#"{"turn":1,"step":1}"#),
        ];
        let answer = event(&result_event(3, "c", "x", "", r#""surfaceOp":"append""#));
        let answered = [&head[..], &[call(2, 1, "c"), SharedEvent::clone(&answer)]].concat();
        assert!(run(&answered).is_ok());
        assert!(run(&[&head[..], &[answer]].concat()).is_err());
        let not_started = event(&result_event(
            2,
            "c",
            "x",
            r#","error":{"name":"N","code":"TOOL_NOT_STARTED"}"#,
            r#""surfaceOp":"append""#,
        ));
        assert!(run(&[&head[..], &[not_started]].concat()).is_ok());
    }

    #[test]
    fn unresolved_calls_at_the_end_of_a_step_are_legal() {
        let events = [
            log_only(0, "turn/start", r#"{"turn":1}"#),
            log_only(1, "step/start", r#"{"turn":1,"step":1}"#),
            call(2, 1, "c"),
            log_only(3, "step/end", r#"{"turn":1,"step":1}"#),
        ];
        assert!(run(&events).is_ok());
    }

    #[test]
    fn a_check_that_is_not_advanced_changes_nothing() {
        let enclosure = Enclosure::default();
        let next = enclosure
            .check(&log_only(0, "turn/start", r#"{"turn":1}"#))
            .unwrap();
        assert_ne!(enclosure, next);
        assert_eq!(enclosure, Enclosure::default());
    }
}
