//! The seam between the loop and a tool (`session.md` 3.7).
//!
//! A tool says what it is called, what it takes and what a call would touch; the loop decides
//! whether that is allowed, logs the call, runs it and logs the answer. A tool never asks a person
//! and never writes to the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use orrery_session::payload::ToolDefinition;
use orrery_session::{CallId, ContentBlock, Json, SessionId};
use tokio_util::sync::CancellationToken;

/// What one call would touch: the loop's policy decides on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Reads below the workspace, or touches nothing.
    Read,
    /// Writes these paths, all below the workspace.
    Write(Vec<PathBuf>),
    /// Reads or writes paths outside of the workspace.
    Outside {
        /// The paths.
        paths: Vec<PathBuf>,
        /// Whether it would write.
        write: bool,
    },
    /// Runs a command line, which may touch anything.
    Command(String),
}

/// What a call may know of its surroundings.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The call.
    pub call_id: CallId,
    /// The session that makes it, which is live while the call runs.
    pub session: SessionId,
    /// The workspace: an absolute folder. Relative paths are meant from here.
    pub cwd: Arc<Path>,
    /// Fires when the call must end at once, with everything it started.
    pub cancel: CancellationToken,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model reads.
    pub content: Vec<ContentBlock>,
    /// What a client may show beside it.
    pub meta: Option<Json>,
    /// Whether the model is told that it failed (a command that exits with an error, say).
    pub is_error: bool,
    /// Whether this answer is what the turn was for: once it is logged as a success, no further call
    /// of the same response is started and the turn ends.
    pub concludes: bool,
}

impl ToolOutput {
    /// An answer of text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::text(text)],
            meta: None,
            is_error: false,
            concludes: false,
        }
    }
}

/// How a call fails; the model reads `Error: <message>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are not what the tool takes.
    #[error("invalid arguments: {message}")]
    InvalidArguments {
        /// What is wrong, and what was expected.
        message: String,
    },
    /// It was stopped.
    #[error("stopped before it was done")]
    Aborted,
    /// It tried and could not.
    #[error("{message}")]
    Failed {
        /// A stable code, upper-case with underscores.
        code: &'static str,
        /// What happened, and what to do.
        message: String,
    },
}

impl ToolError {
    /// The stable code (`session.md` 3.7).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidArguments { .. } => "INVALID_ARGS",
            Self::Aborted => "ABORTED",
            Self::Failed { code, .. } => code,
        }
    }

    /// The class name that is logged beside the code.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::InvalidArguments { .. } => "InvalidArgumentsError",
            Self::Aborted => "AbortError",
            Self::Failed { .. } => "ToolError",
        }
    }
}

/// One tool.
#[async_trait]
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// Name, description and schema, as the model is told.
    fn definition(&self) -> ToolDefinition;

    /// Whether this call may run beside its neighbours; anything else is a barrier.
    fn parallel(&self, arguments: &Json) -> bool {
        let _ = arguments; // the default does not look
        false
    }

    /// What the call would touch; refuses arguments it cannot understand.
    fn access(&self, arguments: &Json, cwd: &Path) -> Result<Access, ToolError>;

    /// Runs the call. Ends within moments of `cx.cancel`, leaving no process behind.
    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError>;
}
