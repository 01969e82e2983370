//! Turns and steps: how they open, go on and end (`session.md` 3.3).

use orrery_session::payload::{
    AbortCause, InboxTarget, SessionTitle, StepMark, TitleSource, TurnEnd, TurnEndReason, TurnStart,
};
use orrery_session::{EventDraft, EventType, LlmFailure, Message, SessionSeq, Timestamp, title};

use super::state::{CallState, Phase, Stage, Turn};
use super::{Effect, Machine};
use crate::context::{self, TurnContext};
use crate::inbox::{Waiting, claim};

impl Machine {
    /// Opens a turn when nothing runs and something waits.
    pub(super) fn wake(&mut self, now: Timestamp) {
        if !self.phase.is_idle() || self.inbox.is_empty() {
            return;
        }
        let number = self.log.enclosure().last_turn() + 1;
        if self
            .record(EventType::TurnStart, &TurnStart { turn: number }, now)
            .is_none()
        {
            return;
        }
        self.parked = false;
        self.phase = Phase::Turn(Box::new(Turn {
            number,
            step: 0,
            stage: Stage::Gathering,
            retry: super::state::Retry::default(),
            max_tokens: false,
            concluded: false,
            aborting: None,
            wake_requested: false,
        }));
        self.out.effects.push(Effect::GatherContext);
    }

    /// The surroundings are read: claims the input and opens the first step.
    pub(super) fn gathered(&mut self, context: &TurnContext, now: Timestamp) {
        let gathering = self
            .phase
            .turn()
            .is_some_and(|t| matches!(t.stage, Stage::Gathering));
        if !gathering {
            return;
        }
        let mut claimed = self.claim_all(InboxTarget::NextStep, now);
        claimed.extend(self.claim(InboxTarget::NextTurn, 0, 1, now));
        if claimed.is_empty() {
            // Somebody emptied the queue meanwhile.
            self.end_turn(TurnEndReason::Completed, now);
            return;
        }
        let ids = std::sync::Arc::clone(&self.ids);
        let extra = context::missing(self.log.surface(), context, || ids.message());
        self.open_step(&claimed, &extra, now);
    }

    /// Goes on after a step: with what came in between, or because tools answered.
    pub(super) fn next_step(&mut self, now: Timestamp) {
        let claimed = self.claim_all(InboxTarget::NextStep, now);
        self.open_step(&claimed, &[], now);
    }

    fn open_step(&mut self, claimed: &[Waiting], extra: &[Message], now: Timestamp) {
        let Some(turn) = self.turn_mut() else { return };
        turn.step += 1;
        let mark = StepMark {
            turn: turn.number,
            step: turn.step,
        };
        self.record(EventType::StepStart, &mark, now);
        let mut prompts: Vec<SessionSeq> = Vec::new();
        for waiting in claimed {
            let draft = EventDraft::raw(EventType::UserMessage, waiting.message.clone());
            if let Some(event) = self.append(draft.on_surface(), now)
                && waiting.source().0 == "user"
            {
                prompts.push(event.seq());
            }
        }
        if let Some(draft) = self.on_enter.take() {
            self.append(draft, now);
        }
        for message in extra {
            if let Some(draft) = self.draft(EventType::UserMessage, message) {
                self.append(draft.on_surface(), now);
            }
        }
        if let Some(seq) = prompts.first() {
            self.title_from(*seq, now);
        }
        self.begin_attempt(super::state::Retry::default());
    }

    /// Gives a session without a title one made of its first prompt.
    fn title_from(&mut self, seq: SessionSeq, now: Timestamp) {
        let titled = self
            .cells
            .state_of(&orrery_projection::units::Title)
            .is_some_and(Option::is_some);
        if titled {
            return;
        }
        let text = self
            .log
            .event_at(seq)
            .and_then(|event| event.payload::<Message>().ok())
            .map(|message| message.visible_text());
        if let Some(title) = text.as_deref().and_then(title::fallback) {
            let source = TitleSource::Fallback;
            let record = SessionTitle {
                title,
                message_seqs: vec![seq],
                source,
            };
            self.record(EventType::SessionTitle, &record, now);
        }
    }

    fn claim_all(&mut self, target: InboxTarget, now: Timestamp) -> Vec<Waiting> {
        let count = self.inbox.list(target).len();
        self.claim(target, 0, count, now)
    }

    fn claim(
        &mut self,
        target: InboxTarget,
        start: usize,
        count: usize,
        now: Timestamp,
    ) -> Vec<Waiting> {
        let list = self.inbox.list(target);
        let taken: Vec<Waiting> = list.iter().skip(start).take(count).cloned().collect();
        if !taken.is_empty() {
            self.splice(&claim(target, start, taken.len()), now);
        }
        taken
    }

    pub(super) fn end_step(&mut self, now: Timestamp) {
        let Some(turn) = self.turn_mut() else { return };
        turn.stage = Stage::Between;
        let mark = StepMark {
            turn: turn.number,
            step: turn.step,
        };
        if self.log.enclosure().open_step().is_some() {
            self.record(EventType::StepEnd, &mark, now);
        }
    }

    /// The step is done and the model asked for nothing more.
    pub(super) fn complete_step(&mut self, now: Timestamp) {
        self.end_step(now);
        let Some(turn) = self.phase.turn() else {
            return;
        };
        if let Some(cause) = turn.aborting.clone() {
            self.end_turn(TurnEndReason::Aborted { reason: cause }, now);
        } else if turn.concluded {
            self.end_turn(TurnEndReason::Completed, now);
        } else if !self.inbox.list(InboxTarget::NextStep).is_empty() {
            self.next_step(now);
        } else if turn.max_tokens {
            self.end_turn(TurnEndReason::MaxTokens, now);
        } else {
            self.end_turn(TurnEndReason::Completed, now);
        }
    }

    /// The step failed, and with it the turn.
    pub(super) fn fail_turn(&mut self, error: LlmFailure, now: Timestamp) {
        self.end_step(now);
        self.end_turn(TurnEndReason::Error { error }, now);
    }

    pub(super) fn end_turn(&mut self, reason: TurnEndReason, now: Timestamp) {
        let Phase::Turn(turn) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let number = turn.number;
        let goes_on = matches!(reason, TurnEndReason::Completed | TurnEndReason::MaxTokens);
        self.record(
            EventType::TurnEnd,
            &TurnEnd {
                turn: number,
                reason: reason.clone(),
            },
            now,
        );
        self.out.effects.push(Effect::TurnEnded {
            turn: number,
            reason,
        });
        // Input meant for a step that never came joins the queue's next turn by itself: a claim
        // takes it first.
        if goes_on || turn.wake_requested {
            self.wake(now);
        }
        self.parked = self.phase.is_idle() && !self.inbox.is_empty();
    }

    /// Stops the turn. The first cause counts; nothing happens when nothing runs.
    pub(super) fn cancel(&mut self, cause: AbortCause, now: Timestamp) {
        let Some(turn) = self.turn_mut() else { return };
        if turn.aborting.is_some() {
            return;
        }
        turn.aborting = Some(cause.clone());
        match &mut turn.stage {
            Stage::Gathering => self.end_turn(TurnEndReason::Aborted { reason: cause }, now),
            Stage::Preparing { .. } | Stage::Waiting { .. } | Stage::Between => {
                self.out.effects.push(Effect::StopAttempt);
                self.end_step(now);
                self.end_turn(TurnEndReason::Aborted { reason: cause }, now);
            }
            Stage::Streaming(_) => {
                self.out.effects.push(Effect::StopAttempt);
                self.keep_partial_answer(now);
                self.end_step(now);
                self.end_turn(TurnEndReason::Aborted { reason: cause }, now);
            }
            Stage::Tools(batch) => {
                let running = batch
                    .calls
                    .iter()
                    .any(|c| matches!(c.state, CallState::Running { .. }));
                if running {
                    self.out.effects.push(Effect::StopTools);
                }
                self.cancel_questions(now);
                self.pump_tools(now);
            }
        }
    }
}
