//! The turn machine: a session's log, inbox and turn as one value, moved by inputs.
//!
//! [`Machine::step`] is the whole of it: given an input and the time it appends events to the
//! in-memory log and says which effects come next. It does no I/O, holds no task and no lock; the
//! driver (`actor`) makes the events durable, then runs the effects and feeds back what they gave
//! (`session.md` 3.2 to 3.10).
//!
//! ```text
//! idle ─wake→ gathering ─context→ preparing ─prepared→ streaming ─finish→ tools ─all done→ (next step)
//!                                     ↑                    │ failed, retryable
//!                                     └── waiting ←────────┘
//! ```

mod queue;
mod request;
mod state;
mod stream;
mod tools;
mod turn;

use std::sync::Arc;

use orrery_projection::{Cells, Changed, Registry};
use orrery_session::payload::{
    AbortCause, ApprovalOutcome, InboxSpliced, InboxTarget, ModelSelection, RequestConfig,
    ToolDefinition, TurnEndReason,
};
use orrery_session::{
    CallId, EventDraft, EventType, IdSource, Json, LlmFailure, MessageId, Millis, SessionLog,
    SessionLogOffset, SharedEvent, StreamChunk, Timestamp,
};

use crate::context::TurnContext;
use crate::inbox::{Inbox, SpliceError, Waiting, insertion};
use crate::tool::{Access, ToolError};
use crate::units::{DecidedApprovalsUnit, ModelSelectionUnit, PermissionsUnit, PromptIdsUnit};

pub use queue::{QueueAction, QueueRefusal};
use state::Stage;
pub use state::{Asking, Phase, Turn};
pub use stream::not_saved;
pub use tools::failed;

/// How often and how patiently a failed model call is repeated (`session.md` 3.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most retries in one step.
    pub max_retries: u64,
    /// The wait before the first; each further one doubles it.
    pub initial_delay: Millis,
    /// The longest wait.
    pub max_delay: Millis,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 5,
            initial_delay: Millis(500),
            max_delay: Millis(10_000),
        }
    }
}

/// What a machine is set up with and keeps.
#[derive(Debug, Clone)]
pub struct MachineSettings {
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools on offer, in order.
    pub tools: Arc<[ToolDefinition]>,
    /// How failed calls are repeated.
    pub retry: RetryPolicy,
    /// The most tool calls that run at once.
    pub max_parallel_tool_calls: usize,
}

/// What moves the machine.
#[derive(Debug)]
pub enum Input {
    /// A message for the model; starts a turn when nothing runs.
    Deliver {
        /// The whole message as JSON.
        message: Waiting,
        /// Which list it is meant for; a closed window falls back to the queue.
        target: InboxTarget,
        /// Whether it opens a turn when nothing runs; otherwise the queue is parked.
        wake: bool,
    },
    /// Go on with a queue that is parked.
    Wake,
    /// What was read at the start of a turn.
    Context(TurnContext),
    /// The adapter bound a call, or refused it.
    Prepared {
        /// Which attempt.
        attempt: u64,
        /// The bound call.
        result: Result<orrery_llm::PreparedCall, LlmFailure>,
    },
    /// A chunk arrived.
    Chunk {
        /// Which attempt.
        attempt: u64,
        /// The chunk.
        chunk: StreamChunk,
    },
    /// The stream ended, or could not begin because the log could not be saved.
    StreamEnded {
        /// Which attempt.
        attempt: u64,
        /// Why it did not begin.
        refused: Option<LlmFailure>,
    },
    /// The wait before a retry is over.
    RetryDue {
        /// Which attempt.
        attempt: u64,
    },
    /// What a call would touch.
    Inspected {
        /// The call.
        call_id: CallId,
        /// Whether it may run beside its neighbours.
        parallel: bool,
        /// What it touches, or why it cannot run.
        access: Result<Access, ToolFault>,
    },
    /// A call ended.
    ToolDone {
        /// The call.
        call_id: CallId,
        /// How.
        outcome: ToolOutcome,
    },
    /// A question for approval is settled.
    Decide {
        /// The question.
        approval_id: String,
        /// The decision.
        outcome: ApprovalOutcome,
        /// What the person said with it.
        message: Option<String>,
    },
    /// Stop the turn; the queue stays.
    Cancel(AbortCause),
    /// Change the queue.
    Queue {
        /// The waiting message.
        item: MessageId,
        /// What to do with it.
        action: QueueAction,
    },
    /// Append an event that stands for itself: a title, a model choice, a preset.
    Record(EventDraft),
}

/// Why a call cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolFault {
    /// No tool of that name.
    Unknown,
    /// The tool refused the arguments.
    Refused(ToolError),
}

/// How a call ended, as the model and the client read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the model reads.
    pub content: Vec<orrery_session::ContentBlock>,
    /// Whether it is told that the call failed.
    pub is_error: bool,
    /// The structured failure.
    pub error: Option<orrery_session::payload::ToolFailure>,
    /// What a client may show.
    pub meta: Option<Json>,
    /// Whether a success ends the turn.
    pub concludes: bool,
}

impl ToolOutcome {
    /// A failure with its class and code.
    pub fn failure(class: &str, code: &str, message: &str) -> Self {
        Self {
            content: vec![orrery_session::ContentBlock::text(format!(
                "Error: {message}"
            ))],
            is_error: true,
            error: Some(orrery_session::payload::ToolFailure {
                name: class.to_owned(),
                code: code.to_owned(),
            }),
            meta: None,
            concludes: false,
        }
    }
}

/// What the driver does next, after the events are handed on.
#[derive(Debug)]
pub enum Effect {
    /// Read the surroundings; answer with [`Input::Context`].
    GatherContext,
    /// Bind a call; answer with [`Input::Prepared`].
    Prepare {
        /// Which attempt.
        attempt: u64,
        /// What to bind.
        config: RequestConfig,
    },
    /// Once the log is durable, ask the model; answer with chunks and [`Input::StreamEnded`].
    Stream {
        /// Which attempt.
        attempt: u64,
        /// The request.
        request: Box<orrery_llm::LlmRequest>,
    },
    /// Drop the running stream or wait.
    StopAttempt,
    /// Wait; answer with [`Input::RetryDue`].
    Wait {
        /// Which attempt.
        attempt: u64,
        /// How long.
        delay: Millis,
    },
    /// Say what a call would touch; answer with [`Input::Inspected`].
    Inspect {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Json,
    },
    /// Once the log is durable, run a call; answer with [`Input::ToolDone`].
    RunTool {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Json,
    },
    /// End all running calls; each still answers with [`Input::ToolDone`].
    StopTools,
    /// A turn is over.
    TurnEnded {
        /// Which.
        turn: u64,
        /// How.
        reason: TurnEndReason,
    },
}

/// What one step did.
#[derive(Debug, Default)]
pub struct Output {
    /// The events that were appended, in order.
    pub events: Vec<SharedEvent>,
    /// The client-visible projections that changed.
    pub changed: Vec<Changed>,
    /// What comes next.
    pub effects: Vec<Effect>,
    /// Why a queue action was refused.
    pub refused: Option<QueueRefusal>,
    /// The arguments of the call whose logged success concluded the turn.
    pub concluded: Option<Json>,
    /// What could be read of an answer that failed for good.
    pub streamed: Vec<orrery_session::ContentBlock>,
    /// What should not have happened: said to the clients, never swallowed.
    pub faults: Vec<String>,
}

/// A session's log, inbox and turn.
#[derive(Debug)]
pub struct Machine {
    log: SessionLog,
    cells: Cells,
    inbox: Inbox,
    phase: Phase,
    settings: MachineSettings,
    default_model: ModelSelection,
    ids: Arc<dyn IdSource>,
    /// Numbers the attempts of this process, so that late answers are told apart.
    attempts: u64,
    header_logged: bool,
    requested_generation: u64,
    parked: bool,
    /// Logged in the first step of the first turn, behind the prompt.
    on_enter: Option<EventDraft>,
    out: Output,
}

/// A log that no machine can run on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The inbox cannot be rebuilt.
    #[error(transparent)]
    Inbox(#[from] SpliceError),
}

impl Machine {
    /// Takes over a log. A queue that it holds is parked until somebody wakes it.
    ///
    /// Gives the events that had to be added: messages that a crash caught between their claim and
    /// the surface wait again.
    pub fn new(
        log: SessionLog,
        registry: &Registry,
        settings: MachineSettings,
        default_model: ModelSelection,
        ids: Arc<dyn IdSource>,
        now: Timestamp,
    ) -> Result<(Self, Output), MachineError> {
        let mut cells = Cells::new(registry, log.header(), log.inherited_event_count());
        cells.feed(log.events());
        let (inbox, lost) = Inbox::replay(log.own_events())?;
        let requested_generation = log.surface().replace_generation();
        let mut machine = Self {
            log,
            cells,
            inbox,
            phase: Phase::Idle,
            settings,
            default_model,
            ids,
            attempts: 0,
            header_logged: false,
            requested_generation,
            parked: false,
            on_enter: None,
            out: Output::default(),
        };
        if !lost.is_empty() {
            let messages = lost.into_iter().map(|w| w.message).collect();
            machine.splice(&insertion(InboxTarget::NextTurn, 0, messages), now);
        }
        machine.parked = !machine.inbox.is_empty();
        let output = std::mem::take(&mut machine.out);
        Ok((machine, output))
    }

    /// Moves the machine.
    pub fn step(&mut self, input: Input, now: Timestamp) -> Output {
        match input {
            Input::Deliver {
                message,
                target,
                wake,
            } => self.deliver(message, target, wake, now),
            Input::Wake => self.wake(now),
            Input::Context(context) => self.gathered(&context, now),
            Input::Prepared { attempt, result } => self.prepared(attempt, result, now),
            Input::Chunk { attempt, chunk } => self.chunk(attempt, &chunk, now),
            Input::StreamEnded { attempt, refused } => self.stream_ended(attempt, refused, now),
            Input::RetryDue { attempt } => self.retry_due(attempt, now),
            Input::Inspected {
                call_id,
                parallel,
                access,
            } => {
                self.inspected(&call_id, parallel, access, now);
            }
            Input::ToolDone { call_id, outcome } => self.tool_done(&call_id, outcome, now),
            Input::Decide {
                approval_id,
                outcome,
                message,
            } => {
                self.decide(&approval_id, outcome, message.as_deref(), now);
            }
            Input::Cancel(cause) => self.cancel(cause, now),
            Input::Queue { item, action } => {
                self.out.refused = self.change_queue(&item, action, now).err();
            }
            Input::Record(draft) => {
                self.append(draft, now);
            }
        }
        std::mem::take(&mut self.out)
    }

    /// The log.
    pub const fn log(&self) -> &SessionLog {
        &self.log
    }

    /// Lets go of the events before a boundary, which are on disk.
    pub fn forget_before(&mut self, boundary: SessionLogOffset) {
        self.log.forget_before(boundary);
    }

    /// What became of a question for approval, while it is remembered.
    pub fn decided(&self, approval_id: &str) -> Option<ApprovalOutcome> {
        self.cells.state_of(&DecidedApprovalsUnit)?.get(approval_id)
    }

    /// The current values of the projections.
    pub const fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Logs an event once, in the first step that opens, between its prompt and its request.
    pub fn log_on_enter(&mut self, draft: EventDraft) {
        self.on_enter = Some(draft);
    }

    /// The same event, where no step has opened: whoever closes the session logs it then.
    pub fn never_entered(&mut self) -> Option<EventDraft> {
        self.on_enter.take()
    }

    /// What waits.
    pub const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What runs.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether a queue waits for somebody to wake it.
    pub fn parked(&self) -> bool {
        self.parked && self.phase.is_idle() && !self.inbox.is_empty()
    }

    /// The model for sessions that never chose one.
    pub fn set_default_model(&mut self, model: ModelSelection) {
        self.default_model = model;
    }

    /// Which model answers next.
    pub fn next_model(&self) -> ModelSelection {
        self.cells
            .state_of(&ModelSelectionUnit)
            .and_then(|state| state.next().cloned())
            .unwrap_or_else(|| self.default_model.clone())
    }

    /// The accepted prompt with this request id.
    pub fn accepted_prompt(&self, request_id: &str) -> Option<&crate::units::PromptRecord> {
        self.cells.state_of(&PromptIdsUnit)?.get(request_id)
    }

    /// What tools may touch, and whether questions are asked.
    pub fn permissions(&self) -> Option<&crate::units::PermissionsState> {
        self.cells.state_of(&PermissionsUnit)
    }

    /// Appends one event; what the log refuses is a fault of ours and is said.
    fn append(&mut self, draft: EventDraft, now: Timestamp) -> Option<SharedEvent> {
        let event_type = draft.event_type.clone();
        match self.log.append(draft, now) {
            Ok(event) => {
                self.out.changed.extend(self.cells.drive(&event));
                self.out.events.push(SharedEvent::clone(&event));
                for failure in self.log.take_contained_failures() {
                    self.out.faults.push(failure);
                }
                Some(event)
            }
            Err(error) => {
                self.out
                    .faults
                    .push(format!("could not append {event_type}: {error}"));
                None
            }
        }
    }

    /// Appends a log-only event from a typed payload.
    fn record<T: serde::Serialize>(
        &mut self,
        event_type: EventType,
        payload: &T,
        now: Timestamp,
    ) -> Option<SharedEvent> {
        let draft = self.draft(event_type, payload)?;
        self.append(draft, now)
    }

    fn draft<T: serde::Serialize>(
        &mut self,
        event_type: EventType,
        payload: &T,
    ) -> Option<EventDraft> {
        match EventDraft::new(event_type.clone(), payload) {
            Ok(draft) => Some(draft),
            Err(error) => {
                self.out
                    .faults
                    .push(format!("could not write {event_type}: {error}"));
                None
            }
        }
    }

    /// Logs a change of the inbox, then applies it.
    fn splice(&mut self, splice: &InboxSpliced, now: Timestamp) {
        match self.inbox.splice(splice) {
            Ok((next, _)) => {
                if self.record(EventType::InboxSpliced, splice, now).is_some() {
                    self.inbox = next;
                }
            }
            Err(why) => self.out.faults.push(format!("inbox splice refused: {why}")),
        }
    }

    fn deliver(&mut self, message: Waiting, target: InboxTarget, wake: bool, now: Timestamp) {
        let stopping = matches!(&self.phase, Phase::Turn(turn) if turn.aborting.is_some());
        let running = !self.phase.is_idle() && !stopping;
        let target = if running {
            target
        } else {
            InboxTarget::NextTurn
        };
        let end = self.inbox.list(target).len();
        self.splice(&insertion(target, end, vec![message.message]), now);
        match &mut self.phase {
            Phase::Turn(turn) => turn.wake_requested |= stopping && wake,
            Phase::Idle if wake => self.wake(now),
            Phase::Idle => self.parked = true,
        }
    }

    fn turn_mut(&mut self) -> Option<&mut Turn> {
        match &mut self.phase {
            Phase::Turn(turn) => Some(turn),
            Phase::Idle => None,
        }
    }

    fn stage_mut(&mut self) -> Option<&mut Stage> {
        self.turn_mut().map(|turn| &mut turn.stage)
    }
}

#[cfg(test)]
mod tests;
