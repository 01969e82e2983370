//! From a failure to what a person reads: one message, one hint, one exit code. Only here.
//!
//! Libraries say what is wrong; what to do about it, and what the shell gets, is decided in this
//! file.

use std::io;

use orrery_api::error::{ApiError, ErrorCode};
use orrery_host::HostError;
use orrery_host::config::ConfigError;
use orrery_host::home::HomeError;
use orrery_session::LlmFailure;

/// What the shell gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Somebody interrupted it.
    Interrupted = 3,
    /// A permission or a budget refused it.
    Refused = 4,
    /// There is no model, or no key for it.
    NoModel = 5,
}

/// Everything that can end a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A folder or small file is in the way.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The Host could not start.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An operation was refused.
    #[error("{}", .0.message)]
    Api(#[from] ApiError),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The operating system refused something else.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why not.
        source: io::Error,
    },
    /// No Host answers here.
    #[error("no Host is running here")]
    NotRunning,
    /// The running Host answered with something else than was asked for.
    #[error("the running Host gave no usable answer: {0}")]
    Strange(String),
    /// A turn failed.
    #[error("the turn failed: {0}")]
    Turn(LlmFailure),
    /// A turn ended without being done.
    #[error("{0}")]
    Unfinished(&'static str, Exit),
    /// Something was refused on the way.
    #[error("{0} refused: nobody was there to approve")]
    Refused(String),
    /// Some checks found problems, which were told already.
    #[error("{0}")]
    Unhealthy(String),
    /// Shutting down could not save everything.
    #[error("not everything could be saved: {0}")]
    Unsaved(String),
    /// The reader of our output went away; not a failure.
    #[error("nobody reads")]
    NobodyReads,
}

/// What is told of a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// What is wrong.
    pub(crate) message: String,
    /// What to do, where that is not plain.
    pub(crate) hint: Option<String>,
    /// What the shell gets; `None` is success.
    pub(crate) exit: Option<Exit>,
}

impl Failure {
    /// The message, the hint and the exit code.
    pub(crate) fn report(&self) -> Report {
        let (hint, exit) = match self {
            Self::Config(ConfigError::Invalid { .. }) => (
                Some("docs/config.md lists every key; `orrery config path` names the file"),
                Exit::Usage,
            ),
            Self::Config(_) | Self::Usage(_) => (None, Exit::Usage),
            Self::Home(HomeError::Nowhere) => (Some("pass `--home DIR`"), Exit::Usage),
            Self::Home(_) | Self::Io { .. } | Self::Unhealthy(_) | Self::Strange(_) => {
                (None, Exit::Failed)
            }
            Self::Host(error) => of_host(error),
            Self::Api(error) => of_api(error),
            Self::NotRunning => (
                Some("start one with `orrery web` or `orrery serve`"),
                Exit::Failed,
            ),
            Self::Turn(failure) => of_model(failure),
            Self::Unfinished(_, exit) => (None, *exit),
            Self::Refused(_) => (
                Some("pass `--yes` to allow it, or run where a person can answer"),
                Exit::Refused,
            ),
            Self::Unsaved(_) => (Some("`orrery doctor` says what is on disk"), Exit::Failed),
            Self::NobodyReads => {
                return Report {
                    message: String::new(),
                    hint: None,
                    exit: None,
                };
            }
        };
        Report {
            message: self.to_string(),
            hint: hint.map(str::to_owned),
            exit: Some(exit),
        }
    }

    /// For `map_err`: names what was tried.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// For `map_err` after writing to standard output.
    pub(crate) fn writing(source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            Self::NobodyReads
        } else {
            Self::Io {
                action: "write to standard output".to_owned(),
                source,
            }
        }
    }
}

const KEY_HINT: &str = "set the variable that `api_key_env` of the provider names; `orrery doctor` \
                        shows which are set";
const MODEL_HINT: &str = "`orrery doctor` shows the providers, `--model` chooses one; \
                          `offline/demo` needs no key";

fn of_host(error: &HostError) -> (Option<&'static str>, Exit) {
    match error {
        HostError::Listen { source, .. } => (of_listen(source), Exit::Failed),
        HostError::Provider { .. } => (
            Some("look at this provider in the file that `orrery config path` names"),
            Exit::Usage,
        ),
        HostError::Storage(_) => (Some("`orrery doctor` says what is on disk"), Exit::Failed),
        _ => (None, Exit::Failed),
    }
}

fn of_api(error: &ApiError) -> (Option<&'static str>, Exit) {
    match &error.code {
        ErrorCode::ModelUnavailable => (Some(MODEL_HINT), Exit::NoModel),
        ErrorCode::BadRequest | ErrorCode::InvalidTimeZone => (None, Exit::Usage),
        ErrorCode::SessionNotFound => (
            Some("`orrery sessions list` shows the sessions"),
            Exit::Failed,
        ),
        ErrorCode::WriterHeld => (
            Some("speak to it through the Host that holds it, or stop that Host first"),
            Exit::Failed,
        ),
        ErrorCode::StorageUnavailable => {
            (Some("`orrery doctor` says what is on disk"), Exit::Failed)
        }
        ErrorCode::Cancelled => (None, Exit::Interrupted),
        ErrorCode::Unauthenticated => (
            Some("the Host was started with another token; start it again"),
            Exit::Failed,
        ),
        _ => (None, Exit::Failed),
    }
}

fn of_model(failure: &LlmFailure) -> (Option<&'static str>, Exit) {
    match failure.code.as_str() {
        "MISSING_CREDENTIAL" | "INVALID_CREDENTIAL" | "AUTH" => (Some(KEY_HINT), Exit::NoModel),
        "NO_ADAPTER" | "INVALID_MODEL" | "MODEL_NOT_FOUND" | "INVALID_ADAPTER" => {
            (Some(MODEL_HINT), Exit::NoModel)
        }
        _ => (None, Exit::Failed),
    }
}

fn of_listen(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(
            "something listens there already: `orrery open` opens a running Host, `--port 0` takes \
             any free port",
        ),
        io::ErrorKind::PermissionDenied => Some("ports below 1024 need privileges; take another"),
        io::ErrorKind::AddrNotAvailable => Some("this machine has no such address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(failure: &Failure) -> Option<Exit> {
        failure.report().exit
    }

    #[test]
    fn every_kind_of_failure_has_its_exit_code() {
        let api = |code| Failure::Api(ApiError::new(code, "m"));
        let turn = |code: &str| Failure::Turn(LlmFailure::new(code, "m"));
        assert_eq!(exit(&api(ErrorCode::SessionNotFound)), Some(Exit::Failed));
        assert_eq!(exit(&api(ErrorCode::BadRequest)), Some(Exit::Usage));
        assert_eq!(exit(&api(ErrorCode::ModelUnavailable)), Some(Exit::NoModel));
        assert_eq!(exit(&turn("MISSING_CREDENTIAL")), Some(Exit::NoModel));
        assert_eq!(exit(&turn("TRANSPORT")), Some(Exit::Failed));
        assert_eq!(exit(&Failure::Refused("x".into())), Some(Exit::Refused));
        assert_eq!(exit(&Failure::Usage("x".into())), Some(Exit::Usage));
        let stopped = Failure::Unfinished("stopped", Exit::Interrupted);
        assert_eq!(exit(&stopped), Some(Exit::Interrupted));
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = Failure::writing(io::ErrorKind::BrokenPipe.into());
        assert_eq!(exit(&gone), None);
        let full = Failure::writing(io::ErrorKind::StorageFull.into());
        assert_eq!(exit(&full), Some(Exit::Failed));
    }

    #[test]
    fn what_can_be_done_is_said() {
        let busy = Failure::Host(HostError::Listen {
            address: ([127, 0, 0, 1], 80).into(),
            source: io::ErrorKind::AddrInUse.into(),
        });
        let report = busy.report();
        assert!(report.message.starts_with("cannot listen on 127.0.0.1:80"));
        assert!(report.hint.unwrap().contains("orrery open"));
    }
}
