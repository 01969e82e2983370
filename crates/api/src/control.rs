//! The control stream: what a process knows and no log says.
//!
//! Every generation starts from one complete baseline; deltas carry whole lists or whole values.
//! A session that is absent from a map has an empty list there.

use std::collections::BTreeMap;

use orrery_session::{Json, SessionId, SessionSeq, SessionSeqCursor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content::ProjectionValues;
use crate::interaction::Interaction;
use crate::job::SessionJob;
use crate::queue::{SessionQueue, SessionQueuedItem};
use crate::schema;

/// The whole state, by session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlState {
    /// Waiting messages.
    #[schemars(with = "BTreeMap<String, SessionQueue>")]
    pub queues: BTreeMap<SessionId, SessionQueue>,
    /// Background jobs.
    #[schemars(with = "BTreeMap<String, Vec<SessionJob>>")]
    pub jobs: BTreeMap<SessionId, Vec<SessionJob>>,
    /// Projections of live sessions.
    #[schemars(with = "BTreeMap<String, ProjectionValues>")]
    pub projections: BTreeMap<SessionId, ProjectionValues>,
    /// What waits for a person, by the session that asks.
    #[schemars(with = "BTreeMap<String, Vec<Interaction>>")]
    pub interactions: BTreeMap<SessionId, Vec<Interaction>>,
    /// How far live sessions are saved. Absent from what an older Host sends.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Persistence>")]
    pub persistence: BTreeMap<SessionId, Persistence>,
}

/// How far a live session is on disk. Process-local: the same seq may be told twice, once with
/// trouble and once without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    /// The last event that is on disk; -1 for none.
    #[schemars(with = "schema::Cursor")]
    pub saved_seq: SessionSeqCursor,
    /// What the last try to save failed with; `null` while all is well. Nothing is lost then: it is
    /// kept in memory and tried again.
    pub degraded: Option<String>,
}

/// One session's persistence changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistenceUpdate {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// How far it is saved now.
    pub persistence: Persistence,
}

/// The opening of a control stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlBaseline {
    /// The whole state.
    pub value: ControlState,
}

/// The queue of one session, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueUpdate {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// Whether the rows wait for a person.
    pub parked: bool,
    /// The rows.
    pub items: Vec<SessionQueuedItem>,
}

/// The jobs of one session, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobsUpdate {
    /// The owner.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// Its jobs.
    pub jobs: Vec<SessionJob>,
}

/// What one session asks, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InteractionUpdate {
    /// The session that asks.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// What it asks.
    pub interactions: Vec<Interaction>,
}

/// One projection of one session, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionUpdate {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The projection's key.
    pub key: String,
    /// Its value.
    #[schemars(with = "schema::Any")]
    pub value: Json,
    /// The event that changed it.
    #[schemars(with = "schema::Seq")]
    pub seq: SessionSeq,
}

tagged_union! {
    /// What a control stream sends.
    pub enum ControlItem {
        /// The opening; exactly one, and first.
        Baseline(ControlBaseline) = "baseline",
        /// A queue changed.
        Queue(QueueUpdate) = "queue",
        /// Jobs changed.
        Jobs(JobsUpdate) = "jobs",
        /// Pending or expired interactions changed.
        Interaction(InteractionUpdate) = "interaction",
        /// A projection changed.
        Projection(ProjectionUpdate) = "projection",
        /// How far one session is saved.
        Persistence(PersistenceUpdate) = "persistence",
    }
}
