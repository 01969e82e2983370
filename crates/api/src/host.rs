//! The `host` namespace: the process itself.

use orrery_session::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// `host/stats`: how the process is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostStats {
    /// The build's version.
    pub version: String,
    /// The Host's lasting id.
    #[schemars(with = "schema::Id")]
    pub host_id: String,
    /// New for every process.
    #[schemars(with = "schema::Id")]
    pub generation: String,
    /// When the process started.
    #[schemars(with = "schema::Time")]
    pub started_at: Timestamp,
    /// Sessions that the catalogue knows.
    pub sessions: u64,
    /// Sessions with an attached agent.
    pub live_sessions: u64,
    /// Sessions with a running turn.
    pub running_sessions: u64,
    /// Open connections.
    pub connections: u64,
    /// Open streams.
    pub streams: u64,
    /// Resident memory in bytes, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// What lists of subagents have cost.
    #[serde(default)]
    pub listing: ListingStats,
}

/// What lists of subagents, and reading logs for whatever reason, have cost since the process
/// started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListingStats {
    /// Lists of subagents that were begun.
    pub lists: u64,
    /// Children answered by their live state: no log is read.
    pub from_live: u64,
    /// Children answered from a checkpoint: no log is read.
    pub from_checkpoints: u64,
    /// Children whose log was observed, one reading each.
    pub observations: u64,
    /// Looks at the whole sessions root, for lists of sessions too.
    pub enumerations: u64,
    /// Logs opened to be read, for whatever reason.
    pub log_reads: u64,
    /// Frames of events that selective reads decoded.
    pub frames_decoded: u64,
}

/// `host/launchLink`: a link that signs a browser in once. Only for the bearer token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchLinkResponse {
    /// The link.
    pub url: String,
}
