//! What the machine remembers of a turn that runs.

use orrery_llm::Assembler;
use orrery_session::payload::AbortCause;
use orrery_session::{CallId, Json, LlmFailure, SessionSeq, Timestamp};

use crate::machine::{ToolFault, ToolOutcome};
use crate::tool::Access;

/// What runs.
#[derive(Debug)]
pub enum Phase {
    /// Nothing.
    Idle,
    /// A turn.
    Turn(Box<Turn>),
}

impl Phase {
    /// Whether nothing runs.
    pub const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// The turn that runs.
    pub fn turn(&self) -> Option<&Turn> {
        match self {
            Self::Turn(turn) => Some(turn),
            Self::Idle => None,
        }
    }
}

/// A turn that runs.
#[derive(Debug)]
pub struct Turn {
    /// Its number.
    pub number: u64,
    /// The step that is open, or was last; 0 before the first.
    pub step: u64,
    pub(super) stage: Stage,
    /// How often the open step was tried before.
    pub(super) retry: Retry,
    /// Once the answer of a step was cut by its length limit, the turn ends as such.
    pub(super) max_tokens: bool,
    /// A call gave what the turn was for: the turn ends with this step.
    pub(super) concluded: bool,
    /// Set by the first stop; later causes do not count.
    pub(super) aborting: Option<AbortCause>,
    /// A message came while the turn was being stopped.
    pub(super) wake_requested: bool,
}

impl Turn {
    /// The calls that run now.
    pub fn running_calls(&self) -> Vec<CallId> {
        match &self.stage {
            Stage::Tools(batch) => batch
                .calls
                .iter()
                .filter(|call| matches!(call.state, CallState::Running { .. }))
                .map(|call| call.id.clone())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// How many of the calls that run now are commands.
    pub fn running_commands(&self) -> usize {
        match &self.stage {
            Stage::Tools(batch) => batch
                .calls
                .iter()
                .filter(|c| matches!(c.state, CallState::Running { command: true, .. }))
                .count(),
            _ => 0,
        }
    }

    /// The questions that wait for a person.
    pub fn asking(&self) -> Vec<Asking> {
        match &self.stage {
            Stage::Tools(batch) => batch
                .calls
                .iter()
                .filter_map(|call| match &call.state {
                    CallState::Asking { asking, .. } => Some(asking.clone()),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// The audit id.
    pub approval_id: String,
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: CallId,
    /// Why a person has to look.
    pub reason: String,
    /// When it was asked.
    pub asked_at: Timestamp,
}

/// Where in a step a turn stands.
#[derive(Debug)]
pub(super) enum Stage {
    /// The surroundings are being read; no step is open.
    Gathering,
    /// A call is being bound.
    Preparing { attempt: u64 },
    /// The model answers.
    Streaming(Box<Attempt>),
    /// A failed attempt waits to be repeated.
    Waiting { attempt: u64, retry: Retry },
    /// Tools run.
    Tools(ToolBatch),
    /// The step is over; a moment between two stages.
    Between,
}

/// One request to the model.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) assembler: Assembler,
    pub(super) chunks: Vec<SessionSeq>,
    pub(super) retry: Retry,
}

/// How often this step was tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Retry {
    pub(super) id: Option<String>,
    pub(super) count: u64,
    pub(super) last: Option<LlmFailure>,
}

/// The calls of one answer.
#[derive(Debug)]
pub(super) struct ToolBatch {
    pub(super) calls: Vec<Call>,
    /// The first call that is not started.
    pub(super) next: usize,
    /// The first call whose result is not logged.
    pub(super) committed: usize,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    /// The model's own text.
    pub(super) raw_arguments: String,
    pub(super) state: CallState,
    /// The seq of its `tool/call`, once logged.
    pub(super) logged: Option<SessionSeq>,
}

#[derive(Debug)]
pub(super) enum CallState {
    Planned,
    Inspecting,
    Inspected {
        parallel: bool,
        access: Result<Access, ToolFault>,
    },
    Asking {
        asking: Asking,
        command: bool,
    },
    Running {
        parallel: bool,
        command: bool,
    },
    Done(Box<ToolOutcome>),
}

impl Call {
    /// The arguments as the tool gets them: `{}` for none, the raw text where it is not JSON.
    pub(super) fn arguments(&self) -> Json {
        let raw = self.raw_arguments.trim();
        let text = if raw.is_empty() { "{}" } else { raw };
        Json::from_text(text)
            .or_else(|_not_json| Json::from_value(&self.raw_arguments))
            .unwrap_or_else(|_never| Json::empty_object())
    }
}
