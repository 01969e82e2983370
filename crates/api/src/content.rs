//! What several namespaces share: addresses, prompt content, projections, plain acceptances.

use std::collections::BTreeMap;

use orrery_session::{Json, SessionId, SessionSeqCursor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A request without parameters: `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// The operation was taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Always `true`, except where an operation says what `false` means.
    pub accepted: bool,
}

impl Accepted {
    /// The usual answer.
    pub const YES: Self = Self { accepted: true };
}

/// How a subagent may be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentMode {
    /// It had one task; its transcript can be read.
    OneShot,
    /// It can be given further messages.
    Continuable,
}

/// Which log a history operation reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Address {
    /// An ordinary session.
    Session {
        /// The session.
        #[schemars(with = "schema::Id")]
        session_id: SessionId,
    },
    /// A direct child of a session.
    Subagent {
        /// The direct parent.
        #[schemars(with = "schema::Id")]
        parent_session_id: SessionId,
        /// The child.
        #[schemars(with = "schema::Id")]
        child_session_id: SessionId,
        /// The mode that the child's own descriptor must state.
        mode: SubagentMode,
    },
}

impl Address {
    /// The session whose log is read.
    pub fn target(&self) -> &SessionId {
        match self {
            Self::Session { session_id } => session_id,
            Self::Subagent {
                child_session_id, ..
            } => child_session_id,
        }
    }
}

/// One part of what a person sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum PromptContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, carried in the request.
    Image {
        /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`.
        media_type: String,
        /// Canonical base64.
        data: String,
        /// The file's name, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A file that was uploaded before.
    File {
        /// What the upload returned.
        receipt_id: String,
    },
}

/// When a message is taken in while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryMode {
    /// As the next turn.
    Queue,
    /// At the next step boundary of the running turn; when idle the same as `queue`.
    Steer,
}

/// Values of projections at one cut of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionValues {
    /// The last seq that the values include; -1 for an empty log.
    #[schemars(with = "schema::Cursor")]
    pub as_of_seq: SessionSeqCursor,
    /// The value of each projection by its key. The set of keys is open.
    #[schemars(with = "BTreeMap<String, schema::Any>")]
    pub values: BTreeMap<String, Json>,
}
