//! The `session` namespace: rows, making, prompting, stopping, naming, forking, keeping.

use orrery_session::{CallId, MessageId, SessionId, SessionSeq, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content::{DeliveryMode, ProjectionValues, PromptContentPart};
use crate::schema;

/// How a session came to be owned by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionOrigin {
    /// A parent agent delegated to it.
    Subagent,
}

/// One row of the session list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// When it was made.
    #[schemars(with = "schema::Time")]
    pub created_at: Timestamp,
    /// When a person last spoke, or when it was made. Nothing else moves a row.
    #[schemars(with = "schema::Time")]
    pub updated_at: Timestamp,
    /// Whether a turn is running.
    pub running: bool,
    /// Whether an agent is attached in this process.
    pub live: bool,
    /// Whether no turn ever started.
    pub blank: bool,
    /// Whether it was put away.
    pub archived: bool,
    /// The session it was forked or delegated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Id>")]
    pub parent_session_id: Option<SessionId>,
    /// How it came to be owned; absent for ordinary sessions and forks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<SessionOrigin>,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The workspace whose path equals its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// How many direct children it has.
    pub child_count: u64,
    /// Some of its projections: `title`, `sessionListMetadata`, `agentPreset`, `modelSelection`,
    /// `subagent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projections: Option<ProjectionValues>,
}

/// Why a log cannot be shown as a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosticReason {
    /// Its content makes no sense.
    Corrupt,
    /// It was written by a newer build.
    UnsupportedVersion,
    /// Two logs claim one id.
    DuplicateId,
    /// It lies where another id belongs.
    Misplaced,
    /// The system would not let it be read.
    Unreadable,
}

/// A log that cannot be shown as a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionDiagnostic {
    /// Its id, where it can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Id>")]
    pub session_id: Option<SessionId>,
    /// Where it lies, relative to the root of the sessions.
    pub path: String,
    /// What kind of trouble.
    pub reason: DiagnosticReason,
    /// What is wrong, for a person.
    pub message: String,
}

/// `session/list`: rows, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListRequest {
    /// Where the previous page ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many rows, 1 to 500; 200 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Rows of the session list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListResponse {
    /// The rows: `updatedAt` descending, then id ascending.
    pub items: Vec<SessionSummary>,
    /// Logs that cannot be shown as rows.
    pub diagnostics: Vec<SessionDiagnostic>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// `session/search`: text in titles and messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SearchRequest {
    /// What to find: 1 to 500 UTF-16 units after trimming.
    pub query: String,
}

/// What a search found; at most 20 sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResponse {
    /// The best hit of each session.
    pub items: Vec<SearchHit>,
    /// Whether there are more than these.
    pub has_more: bool,
    /// Whether parts of the corpus are not searchable yet.
    pub indexing: bool,
}

/// One session that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// Text around the match, at most 240 code points.
    pub snippet: String,
    /// Where the words are in the snippet: start and end in UTF-16 units.
    pub highlights: Vec<(u32, u32)>,
    /// The event that matches.
    pub r#match: SearchMatch,
}

/// The event that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatch {
    /// Its position.
    #[schemars(with = "schema::Seq")]
    pub seq: SessionSeq,
    /// Its type; `session/title` for a title.
    pub r#type: String,
    /// `current` when the model still sees it.
    pub surface: String,
}

/// `session/create`: a new session, or the same one again when the id exists already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CreateRequest {
    /// Its folder, made when missing; the Host's own default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its id, minted by the client so that a retry is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Id>")]
    pub session_id: Option<SessionId>,
    /// The preset it runs under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
}

/// The session that exists now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateResponse {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The preset it runs under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
}

/// `session/prompt`: say something. The same `requestId` is accepted once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PromptRequest {
    /// Minted by the client; comes back as `source.rpcId` in the log and `rpcId` in the queue.
    #[schemars(with = "schema::Id")]
    pub request_id: String,
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// When it is taken in while a turn runs.
    pub mode: DeliveryMode,
    /// What is said: visible text or an attachment at least.
    pub content: Vec<PromptContentPart>,
    /// `UTC` or an Area/Location name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_time_zone: Option<String>,
}

/// The message was written down and will be taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptResponse {
    /// Always `true`.
    pub accepted: bool,
    /// The message's id.
    #[schemars(with = "schema::Id")]
    pub message_id: MessageId,
}

/// `session/cancel`: stop the running turn; what waits stays and is parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CancelRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
}

/// What a cancel stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelResponse {
    /// Always `true`.
    pub accepted: bool,
    /// The inventory.
    pub stopped: Stopped,
}

/// The inventory of a cancel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// The turn that was stopped; `null` when the session was idle.
    pub turn: Option<u64>,
    /// The tool calls that were stopped.
    #[schemars(with = "Vec<schema::Id>")]
    pub tools: Vec<CallId>,
    /// How many processes were ended.
    pub processes: u64,
    /// The children that were stopped with it.
    #[schemars(with = "Vec<schema::Id>")]
    pub children: Vec<SessionId>,
    /// What still runs, and why.
    pub left_running: Vec<LeftRunning>,
}

/// Work that a cancel left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftRunning {
    /// What it is: `job`, `session`, `tool`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Why it was left.
    pub reason: String,
}

/// `session/rename`: give a title that no automatic one replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RenameRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The title; it needs a visible character.
    pub title: String,
}

/// The title as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenameResponse {
    /// The tidied title.
    pub title: String,
    /// The event that records it.
    #[schemars(with = "schema::Seq")]
    pub seq: SessionSeq,
}

/// `session/fork`: a new session that shares the past up to the end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ForkRequest {
    /// The source; it is only read.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// An event of the last turn to keep; the last finished turn when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Seq>")]
    pub at_seq: Option<SessionSeq>,
}

/// The fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkResponse {
    /// The new session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
}

/// `session/attachment`: the bytes of an image that the session's log mentions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttachmentRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The attachment's opaque id.
    #[schemars(with = "schema::Id")]
    pub attachment_id: String,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachmentResponse {
    /// What it is.
    pub attachment: ImageAttachmentRef,
    /// Its bytes in base64.
    pub data: String,
}

/// An image that the log mentions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageAttachmentRef {
    /// Its opaque id.
    pub attachment_id: String,
    /// Its media type.
    pub media_type: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Its file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `session/archive`, `unarchive`, `delete`, `restore`: one session, nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SessionRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
}

/// `POST /api/session/import`: the sessions that came out of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportResponse {
    /// The sessions as they are called here, the exported one first, then its subagents.
    #[schemars(with = "Vec<schema::Id>")]
    pub session_ids: Vec<SessionId>,
    /// Those whose id was taken here.
    pub renamed: Vec<RenamedSession>,
}

/// A session that came in under a new id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenamedSession {
    /// Its id in the archive.
    #[schemars(with = "schema::Id")]
    pub from: SessionId,
    /// Its id here.
    #[schemars(with = "schema::Id")]
    pub to: SessionId,
}

/// `session/trash`: what was deleted and can come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrashResponse {
    /// The sessions, last deleted first.
    pub items: Vec<TrashedSession>,
}

/// A deleted session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashedSession {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it was deleted.
    #[schemars(with = "schema::Time")]
    pub deleted_at: Timestamp,
}
