//! Frames of the one WebSocket that carries every stream: JSON text, tagged by `type`.
//!
//! `error` and `end` are terminal for their stream id. A binary frame closes with 1003; a malformed
//! frame or an id that is open already closes with 1008. After `cancel` nothing more is sent.

use orrery_session::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::schema;

/// Starts a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenFrame {
    /// Minted by the client; must not be open already.
    #[schemars(with = "schema::Id")]
    pub stream_id: String,
    /// The stream operation, such as `session/follow`.
    pub endpoint: String,
    /// Its request.
    #[schemars(with = "schema::Any")]
    pub request: Json,
}

/// Stops a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelFrame {
    /// The stream.
    #[schemars(with = "schema::Id")]
    pub stream_id: String,
}

tagged_union! {
    /// What a client sends.
    pub enum ClientFrame {
        /// Start a stream.
        Open(OpenFrame) = "open",
        /// Stop a stream.
        Cancel(CancelFrame) = "cancel",
    }
}

/// One value of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemFrame {
    /// The stream.
    #[schemars(with = "schema::Id")]
    pub stream_id: String,
    /// The value.
    #[schemars(with = "schema::Any")]
    pub value: Json,
}

/// A stream failed and is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorFrame {
    /// The stream.
    #[schemars(with = "schema::Id")]
    pub stream_id: String,
    /// Why.
    pub error: ApiError,
}

/// A stream is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndFrame {
    /// The stream.
    #[schemars(with = "schema::Id")]
    pub stream_id: String,
}

tagged_union! {
    /// What a Host sends.
    pub enum ServerFrame {
        /// One value.
        Item(ItemFrame) = "item",
        /// The stream failed and is over.
        Error(ErrorFrame) = "error",
        /// The stream is over.
        End(EndFrame) = "end",
    }
}

/// The text of an item frame around a value that is JSON text already.
///
/// Saves the copy and the check that going through [`Json`] costs; `value` must be valid JSON.
pub fn item_frame_text(stream_id: &str, value: &str) -> String {
    let id = serde_json::Value::from(stream_id).to_string();
    format!(r#"{{"type":"item","streamId":{id},"value":{value}}}"#)
}

/// The text of a follow stream's event item around an event that is JSON text already.
pub fn follow_event_text(event: &str) -> String {
    format!(r#"{{"type":"event","event":{event}}}"#)
}
