//! The `job` namespace: background work of a session, its output and its end.

use orrery_session::{SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// How a job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobStatus {
    /// It runs.
    Running,
    /// It was told to stop.
    Stopping,
    /// It ended by itself.
    Completed,
    /// It was stopped.
    Killed,
    /// It failed.
    Failed,
    /// The Host restarted before it ended.
    Lost,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionJob {
    /// The job's id.
    #[schemars(with = "schema::Id")]
    pub id: String,
    /// What it is, such as `shell`.
    pub kind: String,
    /// What it does, for people.
    pub label: String,
    /// How it is doing.
    pub status: JobStatus,
    /// More about the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When it started.
    #[schemars(with = "schema::Time")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub finished_at: Option<Timestamp>,
}

/// `job/output`: a piece of a job's output; reading it takes nothing from the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct JobOutputRequest {
    /// The owner.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The job.
    #[schemars(with = "schema::Id")]
    pub job_id: String,
    /// Where to start, in UTF-8 bytes; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
}

/// A piece of output, at most 256 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobOutputResponse {
    /// The text.
    pub text: String,
    /// Where it starts, in UTF-8 bytes; later than asked when older output is gone.
    pub from: u64,
    /// Where to go on.
    pub next: u64,
    /// Whether output before `from` is gone.
    pub truncated: bool,
    /// Whether nothing will follow.
    pub done: bool,
}

/// `job/kill`: stop a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct JobKillRequest {
    /// The owner.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The job.
    #[schemars(with = "schema::Id")]
    pub job_id: String,
}
