//! Reading a log: records, pages and the follow stream.

use orrery_session::{Json, SessionSeq, SessionSeqCursor, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content::{Address, ProjectionValues};
use crate::schema;

/// One event as it stands in the log. The set of types is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionWireEvent {
    /// The event's type, such as `user/message`.
    pub r#type: String,
    /// Its position in the log.
    #[schemars(with = "schema::Seq")]
    pub seq: SessionSeq,
    /// When it was appended.
    #[schemars(with = "schema::Time")]
    pub time: Timestamp,
    /// Its payload, untouched.
    #[schemars(with = "schema::Any")]
    pub data: Json,
    /// The earlier events that a message is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schema::Seq>>")]
    pub source_event_seqs: Option<Vec<SessionSeq>>,
    /// `"append"`, or `{op:"replace", start, end}`; only on what the model sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Any>")]
    pub surface_op: Option<Json>,
    /// `true` when a reader that does not know the type may skip the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignorable: Option<bool>,
}

/// Consecutive pieces of one block, packed without loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChunkRowEvent {
    /// `chunkrow/text-chunks`, `chunkrow/reasoning-chunks` or `chunkrow/tool-call-chunks`.
    pub r#type: String,
    /// The first member's seq.
    #[schemars(with = "schema::Seq")]
    pub seq: SessionSeq,
    /// The first member's time.
    #[schemars(with = "schema::Time")]
    pub time: Timestamp,
    /// `{turn, step, index, dt, texts}`, or `{turn, step, index, id, name?, dt, args}`.
    #[schemars(with = "ChunkRowData")]
    pub data: Json,
}

/// The members of a packed row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChunkRowData {
    /// The turn.
    pub turn: u64,
    /// The step.
    pub step: u64,
    /// The block's index within the answer.
    pub index: u64,
    /// The tool call's id; only in `chunkrow/tool-call-chunks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name, where the server repeats it; only in `chunkrow/tool-call-chunks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Milliseconds between neighbours; one shorter than the members, may be negative.
    pub dt: Vec<i64>,
    /// The pieces of text or reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Vec<String>>,
    /// The pieces of a tool call's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

/// What a session's first record says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionHeaderView {
    /// The format's version.
    pub version: u32,
    /// The session's id.
    pub id: String,
    /// When the session was made.
    #[schemars(with = "schema::Time")]
    pub created_at: Timestamp,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session it was forked or delegated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// The number of inherited events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_length: Option<u64>,
    /// `subagent` for a session that a parent owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// How many delegations stand above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_depth: Option<u32>,
    /// The preset it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
}

/// The body of a record: one event, kept as the bytes it was stored with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventRecord {
    /// The event.
    #[schemars(with = "SessionWireEvent")]
    pub event: Json,
}

/// The body of a record: one packed row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChunksRecord {
    /// The row.
    #[schemars(with = "ChunkRowEvent")]
    pub event: Json,
}

tagged_union! {
    /// One record of a page. Both kinds carry `type, seq, time, data` inside `event`, so that a
    /// client keeps what it received.
    pub enum HistoryRecord {
        /// One event.
        Event(EventRecord) = "event",
        /// Three or more consecutive pieces of one block.
        Chunks(ChunksRecord) = "chunks",
    }
}

impl HistoryRecord {
    /// A record of one event.
    pub fn event(event: Json) -> Self {
        Self::Event(EventRecord { event })
    }

    /// A record of one packed row.
    pub fn chunks(event: Json) -> Self {
        Self::Chunks(ChunksRecord { event })
    }
}

/// `session/page`: older history, aligned to messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PageRequest {
    /// Which log.
    pub address: Address,
    /// The last seq that the client knows, so that appends do not shift the window; -1 for none.
    #[schemars(with = "schema::Cursor")]
    pub through_seq: SessionSeqCursor,
    /// Return only events before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Seq>")]
    pub before_seq: Option<SessionSeq>,
    /// How many append-origin messages, at least 1; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u32>,
}

/// A page of history, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageResponse {
    /// The records.
    pub records: Vec<HistoryRecord>,
    /// Whether older events exist.
    pub has_more: bool,
}

/// `session/follow`: the tail of a log, then every event as it is appended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FollowRequest {
    /// Which log.
    pub address: Address,
    /// How many append-origin messages the snapshot holds, at least 1; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u32>,
    /// Continue after this event without a snapshot; beyond the end it is `gateway/bad-request`.
    /// Needs the capability `follow.after-seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Seq>")]
    pub after_seq: Option<SessionSeq>,
}

/// The opening of a follow stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FollowSnapshot {
    /// The session's header.
    #[schemars(with = "SessionHeaderView")]
    pub header: Json,
    /// How many of the log's first events were inherited from a parent.
    pub inherited_event_count: u64,
    /// The last seq that the snapshot includes; -1 for an empty log.
    #[schemars(with = "schema::Cursor")]
    pub cursor: SessionSeqCursor,
    /// The newest page, ending at the cursor.
    pub records: Vec<HistoryRecord>,
    /// Whether older events exist.
    pub has_more: bool,
    /// Every projection at the cursor.
    pub projections: ProjectionValues,
}

tagged_union! {
    /// What a follow stream sends: one snapshot (none after `afterSeq`), then events without a gap.
    pub enum FollowItem {
        /// The opening; exactly one, and first.
        Snapshot(FollowSnapshot) = "snapshot",
        /// The next event; never packed.
        Event(EventRecord) = "event",
    }
}
