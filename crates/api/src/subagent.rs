//! The `subagent` namespace: listing children, speaking to one, stopping one.

use orrery_session::{MessageId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content::{DeliveryMode, PromptContentPart, SubagentMode};
use crate::schema;

/// How deep a listing goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentScope {
    /// Direct children.
    Children,
    /// The whole tree, parents before their children.
    Descendants,
}

/// `subagent/list`: the children of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SubagentListRequest {
    /// The parent; an unknown one has no children.
    #[schemars(with = "schema::Id")]
    pub parent_session_id: SessionId,
    /// How deep; `children` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SubagentScope>,
}

/// The children of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentListResponse {
    /// The rows.
    pub entries: Vec<SubagentEntry>,
    /// Whether the parent is live or can be resumed, so that children can be spoken to.
    pub parent_available: bool,
}

/// Whether a child is in this process. Whether it works right now is `running` of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentActivity {
    /// It is.
    Running,
    /// It is not.
    Inactive,
}

/// Why a child cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentDiagnosticReason {
    /// Its identity makes no sense.
    Corrupt,
    /// Its identity is of a newer kind.
    Unsupported,
    /// It cannot be read right now.
    Unavailable,
}

/// One row of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum SubagentEntry {
    /// A child.
    Child {
        /// Its session.
        #[schemars(with = "schema::Id")]
        id: SessionId,
        /// Whether it is in this process.
        activity: SubagentActivity,
        /// Whether it has children of its own.
        has_children: bool,
        /// How it may be spoken to.
        mode: SubagentMode,
        /// Its name; always there for a continuable one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// Its direct parent; only among descendants.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<schema::Id>")]
        parent_id: Option<SessionId>,
        /// Its distance from the listed parent, 1 for a direct child; only among descendants.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
    /// A child that cannot be shown.
    Diagnostic {
        /// Its session.
        #[schemars(with = "schema::Id")]
        id: SessionId,
        /// Why.
        reason: SubagentDiagnosticReason,
        /// Its direct parent; only among descendants.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<schema::Id>")]
        parent_id: Option<SessionId>,
        /// Its distance from the listed parent; only among descendants.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
}

/// `subagent/prompt`: speak to a continuable child; may resume the chain down to its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SubagentPromptRequest {
    /// Minted by the client; accepted once.
    #[schemars(with = "schema::Id")]
    pub request_id: String,
    /// The direct parent.
    #[schemars(with = "schema::Id")]
    pub parent_session_id: SessionId,
    /// The child.
    #[schemars(with = "schema::Id")]
    pub child_session_id: SessionId,
    /// Must be `continuable`.
    pub mode: SubagentMode,
    /// When it is taken in; `queue` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryMode>,
    /// What is said.
    pub content: Vec<PromptContentPart>,
    /// `UTC` or an Area/Location name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_time_zone: Option<String>,
}

/// The message was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentPromptResponse {
    /// The message's id.
    #[schemars(with = "schema::Id")]
    pub message_id: MessageId,
}

/// `subagent/interrupt`: stop a child's running turn; never resumes anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SubagentInterruptRequest {
    /// The direct parent.
    #[schemars(with = "schema::Id")]
    pub parent_session_id: SessionId,
    /// The child.
    #[schemars(with = "schema::Id")]
    pub child_session_id: SessionId,
    /// The child's mode.
    pub mode: SubagentMode,
}
