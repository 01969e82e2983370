//! The model's answer: chunks into the log, then the assembled message (`session.md` 3.5).

use orrery_session::payload::{AssistantChunk, AssistantMessage};
use orrery_session::{
    ContentBlock, EventType, FinishReason, LlmFailure, Message, Role, Source, StreamChunk,
    Timestamp, Usage,
};

use super::Machine;
use super::state::{Attempt, Call, CallState, Phase, Stage, ToolBatch};

impl Machine {
    /// Logs a chunk before it is assembled; the finish settles the attempt.
    pub(super) fn chunk(&mut self, attempt: u64, chunk: &StreamChunk, now: Timestamp) {
        let Some(turn) = self.phase.turn() else {
            return;
        };
        let (number, step) = (turn.number, turn.step);
        let current = matches!(&turn.stage, Stage::Streaming(a) if a.number == attempt);
        if !current {
            return; // A late chunk of an attempt that was stopped.
        }
        let payload = AssistantChunk {
            turn: number,
            step,
            chunk: chunk.clone(),
        };
        let Some(event) = self.record(EventType::AssistantChunk, &payload, now) else {
            return;
        };
        if let Some(Stage::Streaming(attempt)) = self.stage_mut() {
            attempt.chunks.push(event.seq());
            attempt.assembler.push(chunk);
        }
        if matches!(chunk, StreamChunk::Finish { .. }) {
            self.finish_attempt(now);
        }
    }

    /// The stream is over; without a finish that counts as a stop.
    pub(super) fn stream_ended(
        &mut self,
        attempt: u64,
        refused: Option<LlmFailure>,
        now: Timestamp,
    ) {
        let current = self
            .phase
            .turn()
            .is_some_and(|t| matches!(&t.stage, Stage::Streaming(a) if a.number == attempt));
        if !current {
            return;
        }
        match refused {
            Some(failure) => self.fail_turn(failure, now),
            None => self.finish_attempt(now),
        }
    }

    fn take_attempt(&mut self) -> Option<Box<Attempt>> {
        let stage = self.stage_mut()?;
        match std::mem::replace(stage, Stage::Between) {
            Stage::Streaming(attempt) => Some(attempt),
            other => {
                *stage = other;
                None
            }
        }
    }

    fn finish_attempt(&mut self, now: Timestamp) {
        let Some(attempt) = self.take_attempt() else {
            return;
        };
        let Attempt {
            provider,
            model,
            assembler,
            chunks,
            retry,
            ..
        } = *attempt;
        let partial = assembler.partial();
        let answer = assembler.finish();
        if let FinishReason::Error { failure } | FinishReason::Aborted { failure } = answer.reason {
            self.attempt_failed(&provider, retry, failure, now);
            let again = matches!(self.stage_mut(), Some(Stage::Waiting { .. }));
            if !again {
                self.out.streamed = partial;
            }
            return;
        }
        let max_tokens = answer.reason == FinishReason::MaxTokens;
        let calls: Vec<Call> = answer
            .tool_calls()
            .filter(|_| !max_tokens)
            .map(|(id, name, arguments)| Call {
                id: id.clone(),
                name: name.to_owned(),
                raw_arguments: arguments.to_owned(),
                state: CallState::Planned,
                logged: None,
            })
            .collect();
        let source = Source::Model {
            provider,
            model,
            replay_state: answer.replay_state,
        };
        self.log_answer(answer.content, source, answer.usage, chunks, false, now);
        if let Phase::Turn(turn) = &mut self.phase {
            turn.max_tokens |= max_tokens;
        }
        if calls.is_empty() {
            self.complete_step(now);
        } else if let Some(stage) = self.stage_mut() {
            *stage = Stage::Tools(ToolBatch {
                calls,
                next: 0,
                committed: 0,
            });
            self.pump_tools(now);
        }
    }

    /// A stop in the middle of an answer: keeps what a person can read of it.
    pub(super) fn keep_partial_answer(&mut self, now: Timestamp) {
        let Some(attempt) = self.take_attempt() else {
            return;
        };
        let content = attempt.assembler.partial();
        if content.is_empty() {
            return;
        }
        let Attempt {
            provider,
            model,
            assembler,
            chunks,
            ..
        } = *attempt;
        let usage = assembler.finish().usage;
        let source = Source::Model {
            provider,
            model,
            replay_state: None,
        };
        self.log_answer(content, source, usage, chunks, true, now);
    }

    fn log_answer(
        &mut self,
        content: Vec<ContentBlock>,
        source: Source,
        usage: Option<Usage>,
        chunks: Vec<orrery_session::SessionSeq>,
        interrupted: bool,
        now: Timestamp,
    ) {
        let Some(turn) = self.phase.turn() else {
            return;
        };
        let (turn, step) = (turn.number, turn.step);
        let id = self.ids.message();
        let message = Message {
            role: Role::Assistant,
            content,
            source,
            id,
        };
        let payload = AssistantMessage {
            turn,
            step,
            message,
            usage,
            interrupted,
        };
        if let Some(draft) = self.draft(EventType::AssistantMessage, &payload) {
            self.append(draft.on_surface().citing(chunks), now);
        }
    }
}

/// What a session error looks like when the log could not be saved before a model call.
pub fn not_saved(why: &str) -> LlmFailure {
    LlmFailure::new(
        "UNKNOWN",
        format!("the session log could not be saved: {why}"),
    )
}
