//! The `agentPreset` namespace: under which set of tools and instructions a session runs.

use orrery_session::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// `agentPreset/list`: the presets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentPresetListResponse {
    /// What a new session gets.
    pub default: String,
    /// The presets.
    pub items: Vec<AgentPresetInfo>,
}

/// One preset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPresetInfo {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it comes with the product.
    pub built_in: bool,
}

/// `agentPreset/select`: switch a session; also repairs one whose preset is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentPresetSelectRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The preset.
    pub agent_preset: String,
}

/// The preset that is in force now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPresetSelectResponse {
    /// The preset.
    pub agent_preset: String,
}
