//! `session/modelCatalog` and `session/selectModel` (`controller.md` 1.8).

use orrery_api::error::ApiError;
use orrery_api::model::{
    ModelCatalog, ModelChoice, ModelEffort, ModelFailure, ModelGroup, ModelInfo, ModelReasoning,
    SelectModelRequest, SelectModelResponse,
};
use orrery_session::payload::{ModelSelection, RequestConfig};

use super::Controller;
use super::create::not_saved;

impl Controller {
    /// What can be chosen; one failing provider hides no other.
    pub async fn model_catalog(&self) -> ModelCatalog {
        let catalogue = self.inner.adapters.catalogue().await;
        let default = self.default_model();
        let effort = |id: &String| ModelEffort {
            id: id.clone(),
            name: id.clone(),
            description: None,
        };
        let info = |model: orrery_llm::ModelInfo| ModelInfo {
            id: model.id,
            name: model.name,
            description: model.description,
            reasoning: (!model.reasoning_efforts.is_empty()).then(|| ModelReasoning {
                efforts: model.reasoning_efforts.iter().map(effort).collect(),
                default_effort: model.default_effort,
            }),
        };
        ModelCatalog {
            default: Some(choice(&default)),
            routable_providers: self.inner.adapters.providers().map(str::to_owned).collect(),
            groups: catalogue
                .groups
                .into_iter()
                .filter(|group| !group.models.is_empty())
                .map(|group| ModelGroup {
                    id: group.provider,
                    name: group.display_name,
                    models: group.models.into_iter().map(info).collect(),
                })
                .collect(),
            failures: catalogue
                .failures
                .into_iter()
                .map(|failed| ModelFailure {
                    id: failed.provider,
                    name: failed.display_name,
                    message: failed.failure.message,
                })
                .collect(),
        }
    }

    /// Chooses the model of the next prompt, and of sessions to come.
    pub async fn select_model(
        &self,
        request: SelectModelRequest,
    ) -> Result<SelectModelResponse, ApiError> {
        let SelectModelRequest {
            session_id,
            provider,
            model,
            reasoning_effort,
        } = request;
        let selection = ModelSelection {
            provider,
            model,
            reasoning_effort,
        };
        let config = RequestConfig {
            provider: selection.provider.clone(),
            model: selection.model.clone(),
            reasoning_effort: selection.reasoning_effort.clone(),
            temperature: None,
            max_tokens: None,
            stop: None,
        };
        self.inner
            .adapters
            .prepare(config)
            .await
            .map_err(|failure| {
                let (provider, model) = (&selection.provider, &selection.model);
                ApiError::model_unavailable(provider, model, failure.message)
                    .with("reason", failure.code)
            })?;
        let selected = self
            .with_live(&session_id, |handle| {
                let selection = selection.clone();
                async move { handle.select_model(selection).await }
            })
            .await?;
        selected.map_err(|why| not_saved(&why))?;
        let configured = name_of(&self.inner.settings.default_model);
        let saved = self.inner.state.change(|state| {
            state.default_model = Some(selection.clone());
            state.default_model_over = Some(configured);
        });
        if let Err(error) = saved {
            // The session has its model; only the wish for later sessions is lost.
            tracing::warn!(%error, "the default model could not be saved");
        }
        Ok(SelectModelResponse {
            selected: choice(&selection),
        })
    }

    /// The model of sessions that never chose one: what this process was told, otherwise what a
    /// person chose last, as long as the configuration says what it said then and the provider is
    /// still there.
    pub(super) fn default_model(&self) -> ModelSelection {
        if let Some(told) = &self.inner.settings.model {
            return told.clone();
        }
        let configured = &self.inner.settings.default_model;
        let state = self.inner.state.get();
        let unchanged = state.default_model_over.as_deref() == Some(&name_of(configured));
        state
            .default_model
            .filter(|chosen| unchanged && self.inner.adapters.get(&chosen.provider).is_ok())
            .unwrap_or_else(|| configured.clone())
    }
}

fn name_of(selection: &ModelSelection) -> String {
    format!("{}/{}", selection.provider, selection.model)
}

fn choice(selection: &ModelSelection) -> ModelChoice {
    ModelChoice {
        provider: selection.provider.clone(),
        model: selection.model.clone(),
        reasoning_effort: selection.reasoning_effort.clone(),
    }
}
