//! Tool calls inside a step (`session.md` 3.6, 3.7): started in the model's order, run side by side
//! where all of them only read, answered in the model's order whatever the order they end in.

use orrery_session::payload::{
    ApprovalAsked, ApprovalDecided, ApprovalOutcome, ApprovalPolicy, SandboxMode, ToolCall,
    ToolResult,
};
use orrery_session::{CallId, EventType, Message, Timestamp};

use super::state::{Asking, Call, CallState, Stage, ToolBatch};
use super::{Effect, Machine, ToolFault, ToolOutcome};
use crate::policy::{Verdict, decide};
use crate::tool::{Access, ToolError};

/// What the next call of a batch waits for.
enum Next {
    Nothing,
    Inspect,
    Start {
        parallel: bool,
        access: Result<Access, ToolFault>,
    },
}

impl Machine {
    fn batch_mut(&mut self) -> Option<&mut ToolBatch> {
        match self.stage_mut()? {
            Stage::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    /// Does whatever can be done: logs results that are due, starts calls that may start, and
    /// leaves the step when all are answered.
    pub(super) fn pump_tools(&mut self, now: Timestamp) {
        loop {
            self.commit_results(now);
            let (aborting, concluded) =
                (self.phase.turn()).map_or((false, false), |t| (t.aborting.is_some(), t.concluded));
            let limit = self.settings.max_parallel_tool_calls.max(1);
            let Some(batch) = self.batch_mut() else {
                return;
            };
            if batch.committed == batch.calls.len() {
                if aborting || concluded {
                    self.complete_step(now);
                } else {
                    self.end_step(now);
                    self.next_step(now);
                }
                return;
            }
            if aborting || concluded {
                let outcome = match aborting {
                    true => unstarted(),
                    false => superfluous(),
                };
                if !skip_unstarted(batch, &outcome) {
                    return;
                }
                continue;
            }
            match what_next(batch, limit) {
                Next::Nothing => return,
                Next::Inspect => {
                    let call = &mut batch.calls[batch.next];
                    call.state = CallState::Inspecting;
                    let effect = Effect::Inspect {
                        call_id: call.id.clone(),
                        name: call.name.clone(),
                        arguments: call.arguments(),
                    };
                    self.out.effects.push(effect);
                    return;
                }
                Next::Start { parallel, access } => self.start_call(parallel, access, now),
            }
        }
    }

    fn start_call(&mut self, parallel: bool, access: Result<Access, ToolFault>, now: Timestamp) {
        let Some(batch) = self.batch_mut() else {
            return;
        };
        let index = batch.next;
        batch.next += 1;
        self.log_call(index, now);
        let command = matches!(access, Ok(Access::Command(_)));
        let verdict = match access {
            Ok(access) => {
                let (sandbox, policy) = self
                    .permissions()
                    .map_or((SandboxMode::ReadOnly, ApprovalPolicy::Ask), |p| {
                        (p.sandbox, p.policy)
                    });
                Ok(decide(sandbox, policy, &access))
            }
            Err(fault) => Err(fault),
        };
        match verdict {
            Ok(Verdict::Allow) => self.run_call(index, parallel, command),
            Ok(Verdict::Ask(reason)) => self.ask(index, &reason, command, now),
            Ok(Verdict::Refuse(reason)) => {
                let message = format!("not allowed: {reason}");
                self.settle(
                    index,
                    ToolOutcome::failure("PermissionError", "NOT_ALLOWED", &message),
                );
            }
            Err(ToolFault::Unknown) => {
                let name = self.call(index).map(|c| c.name.clone()).unwrap_or_default();
                let known: Vec<&str> = self
                    .settings
                    .tools
                    .iter()
                    .map(|tool| tool.name.as_str())
                    .collect();
                let message = format!("there is no tool {name:?}; there are: {}", known.join(", "));
                self.settle(
                    index,
                    ToolOutcome::failure("UnknownToolError", "UNKNOWN_TOOL", &message),
                );
            }
            Err(ToolFault::Refused(error)) => self.settle(index, failed(&error)),
        }
    }

    fn call(&mut self, index: usize) -> Option<&mut Call> {
        self.batch_mut()?.calls.get_mut(index)
    }

    fn settle(&mut self, index: usize, outcome: ToolOutcome) {
        if let Some(call) = self.call(index) {
            call.state = CallState::Done(Box::new(outcome));
        }
    }

    fn run_call(&mut self, index: usize, parallel: bool, command: bool) {
        let Some(call) = self.call(index) else { return };
        call.state = CallState::Running { parallel, command };
        let effect = Effect::RunTool {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments(),
        };
        self.out.effects.push(effect);
    }

    fn ask(&mut self, index: usize, reason: &str, command: bool, now: Timestamp) {
        let approval_id = self.ids.uuid();
        let Some(call) = self.call(index) else { return };
        let asking = Asking {
            approval_id: approval_id.clone(),
            tool: call.name.clone(),
            call_id: call.id.clone(),
            reason: reason.to_owned(),
            asked_at: now,
        };
        let record = ApprovalAsked {
            id: approval_id,
            tool_name: call.name.clone(),
            call_id: Some(call.id.clone()),
            reason: Some(reason.to_owned()),
        };
        call.state = CallState::Asking { asking, command };
        self.record(EventType::ApprovalAsked, &record, now);
    }

    /// A question is settled; one that nobody asks any more is left alone.
    pub(super) fn decide(
        &mut self,
        approval_id: &str,
        outcome: ApprovalOutcome,
        message: Option<&str>,
        now: Timestamp,
    ) {
        let Some(batch) = self.batch_mut() else {
            return;
        };
        let found = batch
            .calls
            .iter()
            .enumerate()
            .find_map(|(index, call)| match &call.state {
                CallState::Asking { asking, command } if asking.approval_id == approval_id => {
                    Some((index, *command))
                }
                _ => None,
            });
        let Some((index, command)) = found else {
            return;
        };
        let record = ApprovalDecided {
            id: approval_id.to_owned(),
            outcome,
        };
        self.record(EventType::ApprovalDecided, &record, now);
        let why = match outcome {
            ApprovalOutcome::AllowedOnce => {
                self.run_call(index, false, command);
                return self.pump_tools(now);
            }
            ApprovalOutcome::Rejected => "the user refused this call",
            ApprovalOutcome::Cancelled => "the turn was stopped before anybody answered",
            ApprovalOutcome::Unavailable => "nobody could be asked",
        };
        let text = match message.map(str::trim).filter(|m| !m.is_empty()) {
            Some(said) => format!("{why}, saying: {said}"),
            None => why.to_owned(),
        };
        self.settle(
            index,
            ToolOutcome::failure("ApprovalError", "NOT_APPROVED", &text),
        );
        self.pump_tools(now);
    }

    /// Settles all open questions because the turn is being stopped.
    pub(super) fn cancel_questions(&mut self, now: Timestamp) {
        let open = self
            .phase
            .turn()
            .map(super::state::Turn::asking)
            .unwrap_or_default();
        for asking in open {
            self.decide(&asking.approval_id, ApprovalOutcome::Cancelled, None, now);
        }
    }

    /// The driver looked at a call.
    pub(super) fn inspected(
        &mut self,
        call_id: &CallId,
        parallel: bool,
        access: Result<Access, ToolFault>,
        now: Timestamp,
    ) {
        let Some(batch) = self.batch_mut() else {
            return;
        };
        let waiting = |c: &&mut Call| c.id == *call_id && matches!(c.state, CallState::Inspecting);
        if let Some(call) = batch.calls.iter_mut().find(waiting) {
            call.state = CallState::Inspected { parallel, access };
            self.pump_tools(now);
        }
    }

    /// A call ended.
    pub(super) fn tool_done(&mut self, call_id: &CallId, outcome: ToolOutcome, now: Timestamp) {
        let aborting = self
            .phase
            .turn()
            .is_some_and(|turn| turn.aborting.is_some());
        let Some(batch) = self.batch_mut() else {
            return;
        };
        let running =
            |c: &&mut Call| c.id == *call_id && matches!(c.state, CallState::Running { .. });
        let Some(call) = batch.calls.iter_mut().find(running) else {
            return;
        };
        // A success that came after the stop is not one; a failure keeps its own words.
        let outcome = if aborting && outcome.error.is_none() && !outcome.is_error {
            failed(&ToolError::Aborted)
        } else {
            outcome
        };
        call.state = CallState::Done(Box::new(outcome));
        self.pump_tools(now);
    }

    fn log_call(&mut self, index: usize, now: Timestamp) {
        let Some(turn) = self.phase.turn() else {
            return;
        };
        let (turn, step) = (turn.number, turn.step);
        let Some(call) = self.call(index) else { return };
        let record = ToolCall {
            turn,
            step,
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.raw_arguments.clone(),
        };
        let event = self.record(EventType::ToolCall, &record, now);
        if let (Some(event), Some(call)) = (event, self.call(index)) {
            call.logged = Some(event.seq());
        }
    }

    /// Logs the results that are due, in the model's order.
    fn commit_results(&mut self, now: Timestamp) {
        loop {
            let Some(turn) = self.phase.turn() else {
                return;
            };
            let (turn, step) = (turn.number, turn.step);
            let Some(batch) = self.batch_mut() else {
                return;
            };
            let index = batch.committed;
            let Some(call) = batch.calls.get_mut(index) else {
                return;
            };
            let CallState::Done(outcome) = &call.state else {
                return;
            };
            let (id, outcome) = (call.id.clone(), outcome.as_ref().clone());
            if call.logged.is_none() {
                self.log_call(index, now);
            }
            let cited = self.call(index).and_then(|call| call.logged);
            let ToolOutcome {
                content,
                is_error,
                error,
                meta,
                concludes,
            } = outcome;
            let concludes = concludes && !is_error && error.is_none();
            let message = Message::tool_result(self.ids.message(), id, content, is_error);
            let record = ToolResult {
                turn,
                step,
                message,
                error,
                meta,
            };
            let mut logged = None;
            if let Some(draft) = self.draft(EventType::ToolResult, &record) {
                let draft = draft.on_surface();
                logged = self.append(
                    match cited {
                        Some(seq) => draft.citing(vec![seq]),
                        None => draft,
                    },
                    now,
                );
            }
            if concludes && logged.is_some() {
                self.out.concluded = self.call(index).map(|call| call.arguments());
                if let Some(turn) = self.turn_mut() {
                    turn.concluded = true;
                }
            }
            if let Some(batch) = self.batch_mut() {
                batch.committed += 1;
            }
        }
    }
}

fn unstarted() -> ToolOutcome {
    let text = "the turn was stopped before this call was started";
    ToolOutcome::failure("AbortError", "ABORTED_BEFORE_DISPATCH", text)
}

fn superfluous() -> ToolOutcome {
    let text = "the answer was given by a call before this one, so that it was not started";
    ToolOutcome::failure("ConcludedError", "ALREADY_CONCLUDED", text)
}

/// Gives calls that were never started their result; says whether there were any.
fn skip_unstarted(batch: &mut ToolBatch, outcome: &ToolOutcome) -> bool {
    let mut any = false;
    for call in &mut batch.calls[batch.next..] {
        let waits = matches!(
            call.state,
            CallState::Planned | CallState::Inspecting | CallState::Inspected { .. }
        );
        if waits {
            call.state = CallState::Done(Box::new(outcome.clone()));
            any = true;
        }
    }
    batch.next = batch.calls.len();
    any
}

fn what_next(batch: &mut ToolBatch, limit: usize) -> Next {
    let running: Vec<bool> = batch.calls[..batch.next]
        .iter()
        .filter_map(|call| match call.state {
            CallState::Running { parallel, .. } => Some(parallel),
            CallState::Asking { .. } => Some(false),
            _ => None,
        })
        .collect();
    let Some(call) = batch.calls.get_mut(batch.next) else {
        return Next::Nothing;
    };
    match &call.state {
        CallState::Planned => Next::Inspect,
        CallState::Inspected { parallel, .. } => {
            let beside = *parallel && running.iter().all(|p| *p) && running.len() < limit;
            if !running.is_empty() && !beside {
                return Next::Nothing;
            }
            match std::mem::replace(&mut call.state, CallState::Inspecting) {
                CallState::Inspected { parallel, access } => Next::Start { parallel, access },
                _ => Next::Nothing,
            }
        }
        _ => Next::Nothing,
    }
}

/// A tool's error as the model reads it.
pub fn failed(error: &ToolError) -> ToolOutcome {
    ToolOutcome::failure(error.class(), error.code(), &error.to_string())
}
