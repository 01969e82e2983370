//! Delegated work: who may start, reach and stop which child, and when a child is put to rest.
//!
//! Owns the children that are at work in this process ([`table`](self)), their limits, the order in
//! which a child is set up (`subagent.md` 4.9), how it settles (4.10), who has a say over it (4.11)
//! and what it tells its parent (4.12). Leaves to others: making, resuming and writing sessions
//! ([`ports::Sessions`]), what a model is offered ([`crate::tools`]), the list ([`crate::listing`]).
//!
//! A child's own inbox is its only queue: what was accepted is in its log, and survives a crash.

mod error;
mod lifecycle;
mod notice;
pub mod ports;
mod prompt;
mod provider;
mod run;
mod stay;
mod structured;
mod table;
mod talk;

use std::sync::Arc;

use orrery_agent::jobs::Jobs;
use orrery_agent::units::PermissionsUnit;
use orrery_agent::{LiveState, SessionHandle};
use orrery_projection::Unit as _;
use orrery_session::payload::{
    ApprovalPolicy, ApprovalPolicyRecord, ModelSelection, SandboxMode, SandboxModeRecord,
};
use orrery_session::{
    Clock, EventDraft, EventType, IdSource, JsonError, Origin, SessionHeader, SessionId,
};
use tokio_util::task::TaskTracker;

use crate::descriptor::{Descriptor, Mode, Setup};
use crate::process::ProcessRun;
use lifecycle::Herald;
use ports::{NewChild, Sessions};
use table::{Slot, Table};

pub use error::DelegationError;
pub use lifecycle::{Lifecycle, Stay};
pub use notice::{StopReason, answer_of, bounded_diagnostic, text_of};
pub use prompt::{preset_of, tools_of};
pub use provider::{Context, Provider, Providers};
pub use run::RunEnd;
pub use structured::{AnswerShape, STRUCTURED_OUTPUT};
pub use table::Hold;
pub use talk::Authority;

/// Marks policies that a child was given and not chosen for it later.
const DELEGATION: &str = "delegation";

/// How far delegation may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many delegations may lie above a session; 0 forbids delegation.
    pub max_depth: u64,
    /// How many children of one tree may be at work at once.
    pub max_active: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 3,
            max_active: 8,
        }
    }
}

/// What a child is to do, and as whom.
#[derive(Debug, Clone)]
pub struct Task {
    /// The provider's name.
    pub provider: String,
    /// The task in a few words, for people and lists.
    pub label: String,
    /// The task.
    pub prompt: String,
    /// What is other than the parent's.
    pub setup: Setup,
    /// The shape of its answer; without one the closing message is the answer. For one-shot runs.
    pub answer: Option<AnswerShape>,
}

/// What delegation works with.
#[derive(Debug)]
pub struct DelegationParts {
    /// The sessions of this process.
    pub sessions: Arc<dyn Sessions>,
    /// How children come to be.
    pub providers: Providers,
    /// How far it may go.
    pub limits: Limits,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn IdSource>,
    /// Background jobs.
    pub jobs: Jobs,
    /// Where tasks are counted, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
}

/// Delegated work. Copies share everything.
#[derive(Debug, Clone)]
pub struct Delegation {
    parts: Arc<DelegationParts>,
    table: Table,
    herald: Herald,
}

/// How a child is doing, as agents are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It works.
    Running,
    /// It is live and waits.
    Idle,
    /// It rests until a message comes.
    Ready,
}

impl Status {
    /// The status's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Ready => "ready",
        }
    }
}

/// A child that was set up.
struct Established {
    child: SessionHandle,
    slot: Slot,
    /// The program that it is.
    program: Option<Arc<ProcessRun>>,
}

/// How a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OneShot,
    Continuable,
}

impl Delegation {
    /// Nobody is at work yet.
    pub fn new(parts: DelegationParts) -> Self {
        Self {
            herald: Herald::new(Arc::clone(&parts.ids)),
            parts: Arc::new(parts),
            table: Table::new(),
        }
    }

    /// How children come to be.
    pub fn providers(&self) -> &Providers {
        &self.parts.providers
    }

    /// Whether a session has children at work, or is held otherwise: it must stay live then.
    pub fn is_held(&self, session: &SessionId) -> bool {
        self.table.is_held(session)
    }

    /// Keeps a session from being put to rest until the answer is dropped.
    pub fn hold(&self, session: &SessionId) -> Hold {
        self.table.hold(session)
    }

    /// The children at work below a session.
    pub fn at_work_below(&self, session: &SessionId) -> Vec<SessionId> {
        let below = self.table.below(session).into_iter();
        below.map(|(id, _)| id).collect()
    }

    /// Whether that child is at work in this process.
    pub fn is_at_work(&self, child: &SessionId) -> bool {
        !matches!(self.table.presence(child), table::Presence::Absent)
    }

    /// How a child is doing, as agents are told.
    pub fn status(&self, child: &SessionId) -> Status {
        match self.table.presence(child) {
            table::Presence::Absent => Status::Ready,
            table::Presence::Passing => Status::Idle,
            table::Presence::Live { handle, .. } if handle.live().state_now().running => {
                Status::Running
            }
            table::Presence::Live { .. } => Status::Idle,
        }
    }

    /// Nothing new is started any more, and nobody is told of what ends.
    pub fn drain(&self) {
        self.table.drain();
    }

    fn live_parent(&self, id: &SessionId) -> Result<SessionHandle, DelegationError> {
        let live = self.parts.sessions.live(id);
        live.ok_or_else(|| DelegationError::ParentUnavailable { id: id.clone() })
    }

    /// Sets a child up, in the order of `subagent.md` 4.9; its place is given back when it fails.
    async fn establish(
        &self,
        parent: &SessionHandle,
        task: &Task,
        kind: Kind,
    ) -> Result<Established, DelegationError> {
        let parts = &self.parts;
        let provider = parts.providers.get(&task.provider)?.clone();
        if task.answer.is_some() && kind == Kind::Continuable {
            return Err(DelegationError::UnsupportedCapability {
                provider: provider.name,
                capability: "a structured answer of a child that stays",
            });
        }
        let header = parent.live().header();
        let program = self.program(&provider, header, task, kind)?;
        let depth = header.delegation_depth.saturating_add(1);
        let max = parts.limits.max_depth;
        if depth > max {
            return Err(DelegationError::TooDeep { depth, max });
        }
        let id = parts.ids.child_session();
        // Everything of the parent's that counts is taken here, before anything is waited for.
        let state = parent.live().state_now();
        let (first, on_enter) =
            first_events(&state, &provider.name, task, kind).map_err(|error| {
                DelegationError::Setup {
                    why: error.to_string(),
                }
            })?;
        let mut model = state.next_model.clone();
        if let Some(provider) = &task.setup.agent_provider {
            model.provider.clone_from(provider);
        }
        if let Some(name) = &task.setup.agent_model {
            model.model.clone_from(name);
        }
        if let Some(agent) = &provider.process {
            model = ModelSelection {
                provider: agent.name.clone(),
                model: agent.protocol.as_str().to_owned(),
                reasoning_effort: None,
            };
        }
        let continuable = kind == Kind::Continuable;
        let most = parts.limits.max_active;
        let slot = self
            .table
            .reserve(&id, header_id(parent), &task.label, continuable, most)?;
        let seed = match provider.context {
            Context::Fresh => Vec::new(),
            Context::Inherited => parts.sessions.closed_turns(parent).await?,
        };
        let header = SessionHeader {
            cwd: header.cwd.clone(),
            parent_session: Some(header.id.clone()),
            is_seeded: !seed.is_empty(),
            origin: Some(Origin::Subagent),
            delegation_depth: depth,
            agent_preset: header.agent_preset.clone(),
            ..SessionHeader::root(id.clone(), parts.clock.now())
        };
        let child = NewChild {
            header,
            seed,
            first,
            on_enter,
            model,
            setup: task.setup.clone(),
            tools: task.answer.iter().map(AnswerShape::tool).collect(),
            instructions: task.answer.as_ref().map(|_| AnswerShape::section()),
            program: program.clone().map(|program| program as _),
        };
        let child = parts.sessions.create(child).await?;
        let live = child.clone();
        self.table.update(&id, |active| active.handle = Some(live));
        Ok(Established {
            child,
            slot,
            program,
        })
    }

    /// The run of a provider that is a program; nothing is started yet.
    fn program(
        &self,
        provider: &Provider,
        parent: &SessionHeader,
        task: &Task,
        kind: Kind,
    ) -> Result<Option<Arc<ProcessRun>>, DelegationError> {
        let Some(agent) = &provider.process else {
            return Ok(None);
        };
        let lacks = |capability| DelegationError::UnsupportedCapability {
            provider: provider.name.clone(),
            capability,
        };
        if kind == Kind::Continuable {
            return Err(lacks("be spoken to again"));
        }
        if task.answer.is_some() {
            return Err(lacks("answer in a shape that the caller gives"));
        }
        if task.setup != Setup::default() {
            return Err(lacks("take a model, a persona or a choice of tools"));
        }
        let folder = agent.folder(parent.cwd.as_deref());
        let folder = folder.map_err(|why| DelegationError::Setup { why })?;
        let tasks = self.parts.tasks.clone();
        let run = ProcessRun::new(Arc::clone(agent), folder, task.prompt.clone(), tasks);
        Ok(Some(run))
    }
}

fn header_id(session: &SessionHandle) -> &SessionId {
    &session.live().header().id
}

/// A child's own first events, and the one of its first step.
fn first_events(
    parent: &LiveState,
    provider: &str,
    task: &Task,
    kind: Kind,
) -> Result<(Vec<EventDraft>, Option<EventDraft>), JsonError> {
    let label = task.label.clone();
    let descriptor = Descriptor {
        provider: provider.to_owned(),
        mode: match kind {
            Kind::OneShot => Mode::OneShot { label: Some(label) },
            Kind::Continuable => Mode::Continuable {
                label,
                setup: task.setup.clone(),
            },
        },
    };
    let descriptor = EventDraft::raw(EventType::SubagentDescriptor, descriptor.to_json()?);
    let sandbox = parent
        .states
        .get(PermissionsUnit.key())
        .and_then(|state| state.of(&PermissionsUnit))
        .map_or(SandboxMode::ReadOnly, |permissions| permissions.sandbox);
    let source = Some(DELEGATION.to_owned());
    let mode = SandboxModeRecord {
        mode: sandbox,
        source: source.clone(),
    };
    let policy = ApprovalPolicyRecord {
        policy: ApprovalPolicy::Never,
        source,
    };
    let policies = [
        EventDraft::new(EventType::SandboxMode, &mode)?,
        EventDraft::new(EventType::ApprovalPolicy, &policy)?,
    ];
    Ok(match kind {
        Kind::Continuable => (std::iter::once(descriptor).chain(policies).collect(), None),
        Kind::OneShot => (policies.into(), Some(descriptor)),
    })
}
