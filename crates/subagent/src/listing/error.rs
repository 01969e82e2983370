//! Why there is no list, each with its stable code (`subagent.md` 4.8).

use orrery_query::QueryError;

/// Why there is no list.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// Nobody folds projections here.
    #[error("subagents cannot be listed: there are no projections")]
    ProjectionsUnavailable,
    /// Nobody knows which sessions are live.
    #[error("subagents cannot be listed: there is no store of live sessions")]
    SessionStoreUnavailable,
    /// Nobody can ask for sessions.
    #[error("subagents cannot be listed: sessions cannot be asked for")]
    QueryUnavailable,
    /// The caller took the list back; the reads that it had started have ended.
    #[error("the list was cancelled")]
    Cancelled,
    /// The sessions cannot be enumerated.
    #[error(transparent)]
    Enumeration(QueryError),
}

impl ListError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ProjectionsUnavailable => "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE",
            Self::SessionStoreUnavailable => "SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE",
            Self::QueryUnavailable => "SUBAGENT_CONTROL_QUERY_UNAVAILABLE",
            Self::Cancelled => "CANCELLED",
            Self::Enumeration(error) => error.code(),
        }
    }
}
