//! Why a query fails, each with its stable code (`subagent.md` 3.5).

use orrery_session::{SessionId, SessionSeq};
use orrery_storage::StorageError;

use crate::search::IndexError;

/// Why a query fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The caller took the question back; what it had started has ended.
    #[error("the query was cancelled")]
    Aborted,
    /// No such session.
    #[error("no session {id}")]
    NotFound {
        /// The id.
        id: SessionId,
    },
    /// Its log is damaged.
    #[error("session {id} cannot be read: {why}")]
    Corrupt {
        /// The session.
        id: SessionId,
        /// What is wrong.
        why: String,
    },
    /// Several logs claim the id, or the log that lies in its place is that of another session.
    /// Between a live session and its log there is no conflict: the live one counts (decision D13).
    #[error("session {id} cannot be told apart: {why}")]
    SourceConflict {
        /// The id that was asked for.
        id: SessionId,
        /// What was found instead, and where.
        why: String,
    },
    /// Storage failed.
    #[error(transparent)]
    Storage(StorageError),
    /// The session has no such event.
    #[error("session {id} has no event {seq}")]
    EventNotFound {
        /// The session.
        id: SessionId,
        /// The event.
        seq: SessionSeq,
    },
    /// An event that is no message claims a place among those that the model sees.
    #[error("session {id}: {why}")]
    InvalidSurface {
        /// The session.
        id: SessionId,
        /// What is wrong.
        why: String,
    },
    /// A session is its own ancestor.
    #[error("session {id} is its own ancestor")]
    InvalidLineage {
        /// A session on the circle.
        id: SessionId,
    },
    /// A window of events is too wide.
    #[error("at most {max} events before and after; asked for {asked}")]
    InvalidWindow {
        /// The most there may be.
        max: usize,
        /// What was asked for.
        asked: usize,
    },
    /// A filter makes no sense.
    #[error("filter {field}: {why}")]
    InvalidFilter {
        /// Which filter.
        field: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A query without anything to look for.
    #[error("the query {why}")]
    InvalidQuery {
        /// What is wrong.
        why: &'static str,
    },
    /// A page of no legal size.
    #[error("the limit must be between 1 and {max}")]
    InvalidLimit {
        /// The most there may be.
        max: usize,
    },
    /// Not a cursor of this search.
    #[error("not a cursor of this search; start again without one")]
    InvalidCursor,
    /// What the cursor counted has changed.
    #[error("something was written since the last page; start again without a cursor")]
    StaleCursor,
    /// Whoever set this up wants no search. Said before anything of the question is looked at.
    #[error("search is turned off")]
    SearchDisabled,
    /// The search index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl QueryError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Aborted => "SESSION_QUERY_ABORTED",
            Self::NotFound { .. } => "SESSION_QUERY_SESSION_NOT_FOUND",
            Self::Corrupt { .. } => "SESSION_QUERY_CORRUPT_SESSION",
            Self::SourceConflict { .. } => "SESSION_QUERY_SOURCE_CONFLICT",
            Self::Storage(_) => "SESSION_QUERY_PERSISTENCE_FAILED",
            Self::EventNotFound { .. } => "SESSION_QUERY_EVENT_NOT_FOUND",
            Self::InvalidSurface { .. } => "SESSION_QUERY_INVALID_SURFACE",
            Self::InvalidLineage { .. } => "SESSION_QUERY_INVALID_LINEAGE",
            Self::InvalidWindow { .. } => "SESSION_QUERY_INVALID_WINDOW",
            Self::InvalidFilter { .. } => "SESSION_QUERY_INVALID_FILTER",
            Self::InvalidQuery { .. } => "SESSION_QUERY_INVALID_QUERY",
            Self::InvalidLimit { .. } => "SESSION_QUERY_INVALID_LIMIT",
            Self::InvalidCursor => "SESSION_QUERY_INVALID_CURSOR",
            Self::StaleCursor => "SESSION_QUERY_STALE_CURSOR",
            Self::SearchDisabled => "SESSION_QUERY_SEARCH_DISABLED",
            Self::Index(_) => "SESSION_QUERY_INDEX_FAILED",
        }
    }

    /// What a failed read of a session's log means.
    pub fn of_storage(id: &SessionId, error: StorageError) -> Self {
        match error {
            StorageError::NotFound { id } => Self::NotFound { id },
            StorageError::Conflict { id, why } => Self::SourceConflict { id, why },
            StorageError::Corrupt { .. } | StorageError::Unsupported { .. } => Self::Corrupt {
                id: id.clone(),
                why: error.to_string(),
            },
            other if other.is_missing_file() => Self::NotFound { id: id.clone() },
            other => Self::Storage(other),
        }
    }
}
