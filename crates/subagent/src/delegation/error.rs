//! Why a delegation, a message or a stop is refused: the codes of `subagent.md` 4.8.

use orrery_session::SessionId;

/// What went wrong between agents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelegationError {
    /// Two providers of one name.
    #[error("the subagent provider {name:?} is there already")]
    DuplicateProvider {
        /// The name.
        name: String,
    },
    /// No such provider.
    #[error("there is no subagent provider {name:?}; there are: {known}")]
    NoProvider {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The provider cannot do what was asked for.
    #[error("the subagent provider {provider:?} cannot do this: {capability}")]
    UnsupportedCapability {
        /// The provider.
        provider: String,
        /// What it lacks.
        capability: &'static str,
    },
    /// The shape that was asked for is none.
    #[error("the schema of the answer cannot be used: {why}")]
    InvalidSchema {
        /// What is wrong with it.
        why: String,
    },
    /// The child would lie too deep.
    #[error("subagent depth {depth} exceeds maxDepth {max}; do the work here instead")]
    TooDeep {
        /// The depth that the child would have.
        depth: u64,
        /// The deepest that is allowed.
        max: u64,
    },
    /// Too many subagents of one tree are at work.
    #[error(
        "{max} subagents are at work below the same session, which is the most; wait for one to \
         end, or stop one"
    )]
    ActivationLimitReached {
        /// The most.
        max: usize,
    },
    /// A child of that id is there already.
    #[error("there is a child session {id} already")]
    DuplicateChild {
        /// The id.
        id: SessionId,
    },
    /// The child cannot be spoken to again.
    #[error("the child session {id} cannot be spoken to: {why}")]
    NotResumable {
        /// The child.
        id: SessionId,
        /// Why not.
        why: String,
    },
    /// The caller has no say over that session.
    #[error("session {caller} has no say over session {target}: {why}")]
    Unauthorized {
        /// Who asked.
        caller: SessionId,
        /// About whom.
        target: SessionId,
        /// What would be needed.
        why: &'static str,
    },
    /// The parent is not live.
    #[error("the parent session {id} is not live")]
    ParentUnavailable {
        /// The parent.
        id: SessionId,
    },
    /// The child is being put to rest again and again.
    #[error("the child session {id} is being closed; try again")]
    ActivationClosing {
        /// The child.
        id: SessionId,
    },
    /// What the child is set up with does not exist here.
    #[error("the subagent cannot be set up: {why}")]
    Setup {
        /// What is missing.
        why: String,
    },
    /// The job that it would run as was not begun.
    #[error(transparent)]
    Job(#[from] orrery_agent::jobs::JobError),
    /// The log could not be written.
    #[error("the child's log could not be saved: {why}")]
    PersistenceUnavailable {
        /// What happened.
        why: String,
    },
    /// The Host is going down.
    #[error("the Host is going down; nothing new is started")]
    Draining,
    /// The caller went away, or stopped it.
    #[error("stopped before it was done")]
    Cancelled,
}

impl DelegationError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::DuplicateProvider { .. } => "DUPLICATE_PROVIDER",
            Self::NoProvider { .. } => "NO_PROVIDER",
            Self::UnsupportedCapability { .. } => "UNSUPPORTED_CAPABILITY",
            Self::InvalidSchema { .. } => "INVALID_SCHEMA",
            Self::TooDeep { .. } => "SUBAGENT_DEPTH",
            Self::ActivationLimitReached { .. } => "ACTIVATION_LIMIT_REACHED",
            Self::DuplicateChild { .. } => "DUPLICATE_CHILD",
            Self::NotResumable { .. } => "NOT_RESUMABLE",
            Self::Unauthorized { .. } => "UNAUTHORIZED",
            Self::ParentUnavailable { .. } => "PARENT_UNAVAILABLE",
            Self::ActivationClosing { .. } => "ACTIVATION_CLOSING",
            Self::Setup { .. } => "INVALID_SETUP",
            Self::Job(error) => error.code(),
            Self::PersistenceUnavailable { .. } => "PERSISTENCE_UNAVAILABLE",
            Self::Draining => "DRAINING",
            Self::Cancelled => "CANCELLED",
        }
    }
}
