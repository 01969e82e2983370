//! How a run of a program fails, in words that are safe to show: never what it printed to its
//! standard error, never a value of its environment.

use orrery_session::{FinishReason, LlmFailure};

use crate::delegation::bounded_diagnostic;

/// The code of a turn whose program declined the task.
pub const REFUSAL: &str = "REFUSAL";
/// The code of a turn that the program itself stopped.
pub const ABORTED: &str = "ABORTED";

/// How a program's turn ended, as it said itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    MaxTokens,
    Refusal,
    /// It stopped without having been asked to.
    Aborted,
}

/// Why there is no such answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{program} cannot be started: {why}")]
    Start { program: String, why: String },
    #[error("it ended before it had answered ({how})")]
    Ended { how: String },
    #[error("its input is closed: it takes no more messages")]
    Deaf,
    #[error("it wrote a line of more than {limit} bytes")]
    LineTooLong { limit: usize },
    #[error("it said more than {limit} bytes")]
    SaidTooMuch { limit: usize },
    #[error("it does not speak {protocol}: {why}")]
    Protocol { protocol: &'static str, why: String },
    #[error("it refused {method}: {message} ({code})")]
    Answered {
        method: &'static str,
        code: i64,
        message: String,
    },
    #[error("it failed: {why}")]
    Reported { why: String },
    #[error("its output cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

impl Failure {
    const fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "PROCESS_NOT_STARTED",
            Self::Ended { .. } | Self::Deaf | Self::Read(_) => "PROCESS_ENDED",
            Self::LineTooLong { .. } | Self::SaidTooMuch { .. } => "PROCESS_OUTPUT_LIMIT",
            Self::Protocol { .. } => "PROCESS_PROTOCOL",
            Self::Answered { .. } | Self::Reported { .. } => "PROCESS_FAILED",
        }
    }
}

/// The finish of the one step that a program's turn has. No code here is one that is tried again:
/// a program that failed half-way may have done half of its work.
pub(super) fn finish(
    ended: &Result<Ending, Failure>,
    scrub: impl Fn(&str) -> String,
) -> FinishReason {
    let failed = |code: &str, message: &str| FinishReason::Error {
        failure: LlmFailure::new(code, bounded_diagnostic(&scrub(message))),
    };
    match ended {
        Ok(Ending::Completed) => FinishReason::Stop,
        Ok(Ending::MaxTokens) => FinishReason::MaxTokens,
        Ok(Ending::Refusal) => failed(REFUSAL, "the program declined the task"),
        Ok(Ending::Aborted) => failed(ABORTED, "the program stopped by itself"),
        Err(failure) => failed(failure.code(), &failure.to_string()),
    }
}
