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
}

/// `host/launchLink`: a link that signs a browser in once. Only for the bearer token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchLinkResponse {
    /// The link.
    pub url: String,
}
