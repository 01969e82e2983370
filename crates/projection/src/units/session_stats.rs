//! `sessionStats`: how much happened in a session, and where its time went (`session.md` 2.17).
//!
//! State: the figures, and what is open while a step runs. View: the figures. Events: steps, the
//! first token of each, messages, tool calls and their results, `turn/end`. A time is counted when
//! what it measures has ended; the clock going backwards counts as no time.

use std::collections::BTreeMap;

use orrery_session::payload::StepMark;
use orrery_session::{CallId, Event, EventType, SessionHeader, SessionLogOffset, Timestamp, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The `sessionStats` unit.
#[derive(Debug, Clone, Copy)]
pub struct SessionStats;

/// The figures; times in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatsView {
    /// Turns that had at least one step.
    pub turns: u64,
    /// Steps that ended.
    pub steps: u64,
    /// From the start of a step until the model's answer was there.
    pub llm_ms: u64,
    /// From the start of a tool until its result.
    pub tool_ms: u64,
    /// From the start of a step until the first token.
    pub ttft_ms: u64,
    /// The steps that `ttftMs` is the sum of.
    pub ttft_steps: u64,
    /// From the first token until the answer was there.
    pub decode_ms: u64,
    /// The tokens that came in `decodeMs`.
    pub decode_tokens: u64,
}

/// The figures, and what is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatsState {
    figures: SessionStatsView,
    last_turn: Option<u64>,
    open_step: Option<OpenStep>,
    pending_calls: BTreeMap<CallId, Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenStep {
    since: Timestamp,
    first_token: Option<Timestamp>,
}

fn span(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.epoch_millis() - from.epoch_millis()).unwrap_or(0)
}

/// Whether a chunk brings something that the model wrote.
fn brings_a_token(event: &Event) -> bool {
    #[derive(Deserialize)]
    struct Streamed {
        chunk: Kind,
    }
    #[derive(Deserialize)]
    struct Kind {
        r#type: String,
    }
    event
        .payload::<Streamed>()
        .is_ok_and(|streamed| streamed.chunk.r#type.ends_with("-delta"))
}

impl Unit for SessionStats {
    type State = SessionStatsState;
    type View = SessionStatsView;

    fn key(&self) -> &'static str {
        "sessionStats"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[
            EventType::StepStart,
            EventType::StepEnd,
            EventType::AssistantChunk,
            EventType::AssistantMessage,
            EventType::ToolCall,
            EventType::ToolResult,
            EventType::TurnEnd,
        ]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> SessionStatsState {
        SessionStatsState::default()
    }

    fn apply(&self, state: &SessionStatsState, event: &Event) -> Option<SessionStatsState> {
        // Nearly all events are chunks behind the first: they must cost nothing.
        if *event.event_type() == EventType::AssistantChunk {
            let step = state.open_step?;
            if step.first_token.is_some() || !brings_a_token(event) {
                return None;
            }
        }
        let now = event.time();
        let mut next = state.clone();
        match event.event_type() {
            EventType::StepStart => {
                next.open_step = Some(OpenStep {
                    since: now,
                    first_token: None,
                });
            }
            EventType::AssistantChunk => {
                next.open_step = next.open_step.map(|step| OpenStep {
                    first_token: Some(now),
                    ..step
                });
            }
            EventType::AssistantMessage => next.answered(event)?,
            EventType::ToolCall => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Called {
                    call_id: CallId,
                }
                let called = event.payload::<Called>().ok()?;
                next.pending_calls.insert(called.call_id, now);
            }
            EventType::ToolResult => {
                let since = next.pending_calls.remove(&call_of(event)?)?;
                next.figures.tool_ms += span(since, now);
            }
            EventType::StepEnd => {
                let turn = event.payload::<StepMark>().ok()?.turn;
                next.figures.steps += 1;
                next.figures.turns += u64::from(next.last_turn != Some(turn));
                next.last_turn = Some(turn);
                next.open_step = None;
            }
            _ => {
                next.open_step = None;
                next.pending_calls.clear();
            }
        }
        (next != *state).then_some(next)
    }

    fn view(&self, state: &SessionStatsState) -> Option<SessionStatsView> {
        Some(state.figures)
    }
}

impl SessionStatsState {
    fn answered(&mut self, event: &Event) -> Option<()> {
        #[derive(Deserialize)]
        struct Answered {
            usage: Option<Usage>,
        }
        let step = self.open_step?;
        let usage = event.payload::<Answered>().ok()?.usage;
        let figures = &mut self.figures;
        figures.llm_ms += span(step.since, event.time());
        if let Some(first) = step.first_token {
            figures.ttft_ms += span(step.since, first);
            figures.ttft_steps += 1;
            if let Some(usage) = usage {
                figures.decode_ms += span(first, event.time());
                figures.decode_tokens += usage.output_tokens;
            }
        }
        Some(())
    }
}

/// The call that a `tool/result` answers.
fn call_of(event: &Event) -> Option<CallId> {
    #[derive(Deserialize)]
    struct Answer {
        message: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Block {
        tool_call_id: Option<CallId>,
    }
    let answer = event.payload::<Answer>().ok()?;
    answer.message.content.into_iter().next()?.tool_call_id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_two_steps_is_taken_apart_into_its_times() {
        let chunk = |kind: &str| {
            format!(r#"{{"turn":1,"step":1,"chunk":{{"type":"{kind}","index":0,"text":"x"}}}}"#)
        };
        let answer =
            r#"{"turn":1,"step":1,"message":{},"usage":{"inputTokens":9,"outputTokens":20}}"#;
        let result = r#"{"turn":1,"step":1,"message":{"content":[{"type":"tool-result","toolCallId":"c","content":[]}]}}"#;
        let mark = |step: u64| format!(r#"{{"turn":1,"step":{step}}}"#);
        let log = [
            (0, "step/start", mark(1)),
            (5, "assistant/chunk", chunk("block-start")),
            (40, "assistant/chunk", chunk("text-delta")),
            (70, "assistant/chunk", chunk("text-delta")),
            (100, "assistant/message", answer.to_owned()),
            (
                110,
                "tool/call",
                r#"{"turn":1,"step":1,"callId":"c","name":"t","arguments":""}"#.to_owned(),
            ),
            (160, "tool/result", result.to_owned()),
            (170, "step/end", mark(1)),
            (200, "step/start", mark(2)),
            (
                190,
                "assistant/message",
                r#"{"turn":1,"step":2,"message":{}}"#.to_owned(),
            ),
            (210, "step/end", mark(2)),
            (
                220,
                "turn/end",
                r#"{"turn":1,"reason":{"kind":"completed"}}"#.to_owned(),
            ),
        ];
        let mut state = SessionStatsState::default();
        for (time, event_type, data) in log {
            let op = match event_type {
                "assistant/message" | "tool/result" => r#","surfaceOp":"append""#,
                _ => "",
            };
            let text =
                format!(r#"{{"type":"{event_type}","seq":0,"time":{time},"data":{data}{op}}}"#);
            let event = Event::from_json(&text).unwrap();
            state = SessionStats.apply(&state, &event).unwrap_or(state);
        }
        let expected = SessionStatsView {
            turns: 1,
            steps: 2,
            llm_ms: 100,
            tool_ms: 50,
            ttft_ms: 40,
            ttft_steps: 1,
            decode_ms: 60,
            decode_tokens: 20,
        };
        assert_eq!(SessionStats.view(&state), Some(expected));
        assert_eq!((state.open_step, state.pending_calls.len()), (None, 0));
    }
}
