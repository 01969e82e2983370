//! The hello stream: who the Host is, and one-way news. Its end is the end of the generation.

use orrery_session::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What the two sides speak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// `orrery`.
    pub name: String,
    /// A client refuses another major version.
    pub major: u32,
    /// Grows with every addition.
    pub minor: u32,
}

/// The first item: everything that a client needs before it opens other streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// This connection's id, minted by the Host.
    #[schemars(with = "schema::Id")]
    pub client_id: String,
    /// What is spoken.
    pub protocol: Protocol,
    /// Optional behaviours that this Host has, such as `follow.after-seq`.
    pub capabilities: Vec<String>,
    /// The Host's lasting id.
    #[schemars(with = "schema::Id")]
    pub host_id: String,
    /// New for every process.
    #[schemars(with = "schema::Id")]
    pub generation: String,
    /// The home folder of the person whose Host this is.
    pub home: String,
}

/// One piece of news. It is not repeated for those who were away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Emit {
    /// `session/error`, `subagent/start`, `subagent/end`, `settings/changed`, `credentials/changed`
    /// or `llm/changed`.
    pub event: String,
    /// An object: `{sessionId, message}`, `{runId, provider, sessionId, parentSessionId, local}` (at
    /// the end with `stopReason` and `lastAssistantMessage?`), `{ns}`, `{ref}` or `{}`.
    #[schemars(with = "schema::Any")]
    pub args: Json,
}

tagged_union! {
    /// What a hello stream sends.
    pub enum HelloItem {
        /// The opening; exactly one, and first.
        Ready(Ready) = "ready",
        /// One piece of news.
        Emit(Emit) = "emit",
    }
}
