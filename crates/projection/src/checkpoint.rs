//! Checkpoints: the states of a session's units at one moment, kept so that a cold session need not
//! be folded from its first event (`subagent.md` 2).
//!
//! Owns the record, whose it is, and the port to whatever keeps records. A record is derived: it may
//! be missing, foreign or behind its log, and then costs time. It is never ahead of what is on disk.

use std::collections::BTreeMap;

use orrery_session::header::FORMAT_VERSION;
use orrery_session::{
    Json, SessionHeader, SessionId, SessionLogOffset, SessionSeqCursor, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Which log a record is of: every field must be equal, or the record counts as absent
/// (`subagent.md` 2.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointIdentity {
    /// The version of the log's format.
    pub format_version: u64,
    /// When the session was made.
    pub created_at: Timestamp,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether its log starts with an inherited prefix.
    pub is_seeded: bool,
    /// The exact inherited cut; 0 of a session that is not seeded.
    pub inherited: SessionLogOffset,
}

impl CheckpointIdentity {
    /// The identity of a log.
    pub fn of(header: &SessionHeader, inherited: SessionLogOffset) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            created_at: header.created_at,
            cwd: header.cwd.clone(),
            is_seeded: header.is_seeded,
            inherited,
        }
    }
}

/// One unit's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRow {
    /// The unit's `stateVersion`.
    pub ver: u64,
    /// The last event that is folded in; -1 for none.
    pub seq: SessionSeqCursor,
    /// The state, as JSON.
    pub val: Json,
}

/// The states of all units, by key.
pub type Checkpoint = BTreeMap<String, CheckpointRow>;

/// What is kept of one session; each write replaces it whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Which log it is of.
    pub identity: CheckpointIdentity,
    /// The state of the file at whose end the rows stand, as text. While the file is still in that
    /// state the rows are its newest. `None` of a live session.
    pub revision: Option<String>,
    /// The checksum of the last events before [`CheckpointRecord::reach`], which tells a log that
    /// grew since from another one that took its place. `None` where nobody looked: the rows then
    /// count at `revision` alone.
    pub anchor: Option<u32>,
    /// The rows.
    pub rows: Checkpoint,
}

impl CheckpointRecord {
    /// The boundary behind the last event that any row has seen.
    pub fn reach(&self) -> SessionLogOffset {
        let ends = self.rows.values().map(|row| row.seq.offset());
        ends.max().unwrap_or(SessionLogOffset::ZERO)
    }
}

/// Why a record cannot be read or written. Whoever meets this goes on without it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the checkpoints failed: {0}")]
pub struct CheckpointError(pub String);

/// Keeps records. All calls may wait for a disk: they belong on a thread that may block.
pub trait CheckpointStore: Send + Sync + std::fmt::Debug {
    /// One session's record; damaged ones count as absent.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&self, id: &SessionId) -> Result<Option<CheckpointRecord>, CheckpointError>;

    /// The records of these sessions, those that there are; damaged ones count as absent. One look,
    /// however many they are.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load_these(
        &self,
        ids: &[SessionId],
    ) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError>;

    /// All records; damaged ones count as absent.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load_all(&self) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError>;

    /// Replaces the records of these sessions, all or none.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put(&self, records: &[(SessionId, CheckpointRecord)]) -> Result<(), CheckpointError>;

    /// Forgets sessions.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn remove(&self, ids: &[SessionId]) -> Result<(), CheckpointError>;
}
