//! How storage fails.

use std::path::{Path, PathBuf};

use orrery_session::{SessionId, SessionLogOffset};

/// What went wrong with a log.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// No log of that id.
    #[error("no session {id} in the log root")]
    NotFound {
        /// The id.
        id: SessionId,
    },
    /// The log says something that no writer of this format wrote.
    #[error("{}: damaged log: {why}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What, and at which byte where that is known.
        why: String,
    },
    /// More than one log, or the log of another session, stands where a session's log should.
    #[error("session {id} cannot be told apart: {why}")]
    Conflict {
        /// The session that was asked for.
        id: SessionId,
        /// What was found, and where.
        why: String,
    },
    /// A format version that this build does not read.
    #[error("{}: unsupported log format: {why} (the log is untouched)", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Which version, and what to do.
        why: String,
    },
    /// Another process writes this session.
    #[error("session {id} is being written by {holder}; it can be read meanwhile")]
    WriterHeld {
        /// The session.
        id: SessionId,
        /// Who, as far as the lock file tells.
        holder: String,
    },
    /// The session exists already.
    #[error("session {id} exists already")]
    Exists {
        /// The session.
        id: SessionId,
    },
    /// Somebody else changed the file behind our back.
    #[error("{}: changed by another program: {why}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What was expected and found.
        why: String,
    },
    /// Events out of order were handed in.
    #[error("expected events from {expected}, got {found}")]
    OutOfOrder {
        /// The end of what was handed in before.
        expected: SessionLogOffset,
        /// Where the new events begin.
        found: SessionLogOffset,
    },
    /// The operating system refused.
    #[error("{}: could not {action}: {message}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        message: String,
        /// Its kind.
        kind: std::io::ErrorKind,
    },
    /// The storage thread has ended.
    #[error("storage is shut down")]
    Closed,
}

impl StorageError {
    pub(crate) fn io(action: &'static str, path: &Path, error: &std::io::Error) -> Self {
        let (path, message, kind) = (path.to_owned(), error.to_string(), error.kind());
        Self::Io {
            action,
            path,
            message,
            kind,
        }
    }

    pub(crate) fn corrupt(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }

    /// Whether the file was simply not there.
    pub const fn is_missing_file(&self) -> bool {
        matches!(
            self,
            Self::Io {
                kind: std::io::ErrorKind::NotFound,
                ..
            }
        )
    }
}
