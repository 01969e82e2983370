//! Models: the catalogue and a session's selection.

use orrery_session::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A model as it is selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelChoice {
    /// The provider's id.
    pub provider: String,
    /// The model's id at that provider.
    pub model: String,
    /// How much it should think, by the model's own names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// `session/selectModel`: what the next request uses; also becomes the default for new sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SelectModelRequest {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The provider's id.
    pub provider: String,
    /// The model's id at that provider.
    pub model: String,
    /// How much it should think; the model's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// The selection that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectModelResponse {
    /// What was selected.
    pub selected: ModelChoice,
}

/// `session/modelCatalog`: what can be selected. One provider's failure does not hide the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCatalog {
    /// What a new session starts with; `null` when nothing is configured.
    pub default: Option<ModelChoice>,
    /// The ids of every provider that a request can be sent to, also those without listed models.
    pub routable_providers: Vec<String>,
    /// Providers that list models.
    pub groups: Vec<ModelGroup>,
    /// Providers that failed to list theirs.
    pub failures: Vec<ModelFailure>,
}

/// The models of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelGroup {
    /// The provider's id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// Its models.
    pub models: Vec<ModelInfo>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// The model's id at its provider.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it can be told to think; absent when it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ModelReasoning>,
}

/// How a model can be told to think.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReasoning {
    /// The levels, least first.
    pub efforts: Vec<ModelEffort>,
    /// The level that is used when none is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_effort: Option<String>,
}

/// One level of thinking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelEffort {
    /// The level's id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A provider that could not list its models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailure {
    /// The provider's id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What went wrong.
    pub message: String,
}
