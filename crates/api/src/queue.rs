//! Messages that wait: rows, changes to them, and waking a parked queue.

use orrery_session::{Json, MessageId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content::PromptContentPart;
use crate::schema;

/// Where a waiting message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueuePlacement {
    /// It starts the next turn.
    Queued,
    /// It joins the running turn at its next step; a person sent it.
    Steering,
    /// It joins the running turn at its next step; the house sent it.
    Context,
}

/// The message of a waiting row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedMessage {
    /// The message's id.
    #[schemars(with = "schema::Id")]
    pub id: MessageId,
    /// Its content blocks.
    #[schemars(with = "Vec<schema::Any>")]
    pub content: Vec<Json>,
}

/// One waiting message. Next-turn rows come first, then next-step rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionQueuedItem {
    /// The row's id: the message's id.
    #[schemars(with = "schema::Id")]
    pub id: MessageId,
    /// Where it stands.
    pub placement: QueuePlacement,
    /// The `requestId` of the prompt that it came by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_id: Option<String>,
    /// What waits.
    pub message: QueuedMessage,
}

/// The whole queue of one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionQueue {
    /// Whether the rows wait for a person: after a cancelled, blocked or failed turn nothing starts
    /// by itself.
    pub parked: bool,
    /// The rows.
    pub items: Vec<SessionQueuedItem>,
}

/// `session/updateQueue`: change one waiting row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UpdateQueueRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The row.
    #[schemars(with = "schema::Id")]
    pub item_id: MessageId,
    /// What to do with it.
    pub action: QueueAction,
}

/// A change of one waiting row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum QueueAction {
    /// Replace the text; attachments, id and source stay. Only text parts are allowed.
    Edit {
        /// The new text.
        content: Vec<PromptContentPart>,
    },
    /// Take the row away.
    Remove,
    /// Let it join the running turn.
    Steer,
    /// Put it before another row, or last.
    Move {
        /// The row that comes next; last when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<schema::Id>")]
        before_item_id: Option<MessageId>,
    },
}

/// `session/resumeQueue`: let a parked queue run on; may resume the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ResumeQueueRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
}
