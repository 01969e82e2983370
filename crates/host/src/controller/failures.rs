//! Errors of the libraries below as errors of the contract. Nothing of a backend's text leaks that
//! names what only the Host's owner should read.

use orrery_api::error::{ApiError, ErrorCode};
use orrery_query::QueryError;
use orrery_session::SessionId;
use orrery_storage::StorageError;

use crate::state_file::StateFileError;

pub(crate) fn of_storage(error: &StorageError) -> ApiError {
    match error {
        StorageError::NotFound { id } => ApiError::session_not_found(id.as_str()),
        StorageError::WriterHeld { id, holder } => ApiError::new(
            ErrorCode::WriterHeld,
            format!("this session is being written by {holder}; it can be read meanwhile"),
        )
        .with("sessionId", id)
        .with("holder", holder),
        StorageError::Conflict { id, why } => conflict(id, why),
        StorageError::Io { .. } | StorageError::Changed { .. } | StorageError::Closed => {
            tracing::error!(%error, "storage failed");
            ApiError::new(ErrorCode::StorageUnavailable, unavailable(error))
        }
        _ => {
            tracing::error!(%error, "storage refused");
            ApiError::internal()
        }
    }
}

/// Nothing can be read or written just now; the log has said why.
pub(super) fn storage_unavailable() -> ApiError {
    let message = "the session logs cannot be read or written just now; the Host's log says why";
    ApiError::new(ErrorCode::StorageUnavailable, message)
}

fn conflict(id: &SessionId, why: &str) -> ApiError {
    tracing::error!(session = %id, why, "a session cannot be told apart");
    ApiError::new(
        ErrorCode::Internal,
        "more than one log claims to be this session, or another one lies in its place; \
         `orrery doctor` says where",
    )
    .with("sessionId", id)
}

fn unavailable(error: &StorageError) -> &'static str {
    match error {
        StorageError::Io {
            kind: std::io::ErrorKind::StorageFull,
            ..
        } => {
            "the disk is full: nothing was lost, but nothing new can be saved until there is space"
        }
        StorageError::Changed { .. } => {
            "another program changed the session's log; nothing was written over it"
        }
        _ => "the session logs cannot be read or written just now; the Host's log says why",
    }
}

pub(crate) fn of_query(error: &QueryError) -> ApiError {
    match error {
        QueryError::NotFound { id } => ApiError::session_not_found(id.as_str()),
        QueryError::Storage(error) => of_storage(error),
        QueryError::SourceConflict { id, why } => conflict(id, why),
        QueryError::Corrupt { id, why } => {
            tracing::error!(session = %id, why, "a log cannot be read");
            ApiError::new(
                ErrorCode::Internal,
                "the session's log is damaged; `orrery doctor` says where and what can be done",
            )
            .with("sessionId", id)
        }
        QueryError::SearchDisabled => ApiError::new(
            ErrorCode::UnknownMethod,
            "search is turned off on this Host; `search.enabled` in its config turns it on",
        )
        .with("endpoint", "session/search"),
        QueryError::Index(_) => {
            tracing::error!(%error, "the search failed");
            let message = "the search index cannot be used just now; the Host's log says why";
            ApiError::new(ErrorCode::StorageUnavailable, message)
        }
        _ => {
            tracing::error!(%error, "a query failed");
            ApiError::internal()
        }
    }
}

pub(super) fn of_state(error: &StateFileError) -> ApiError {
    tracing::error!(%error, "the Host's state file failed");
    let message = "the change could not be saved; the Host's log says why";
    ApiError::new(ErrorCode::StorageUnavailable, message)
}
