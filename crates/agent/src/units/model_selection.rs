//! `modelSelection`: which model answered last and which one is next (`controller.md` 1.8, 3.4).
//!
//! State: `{lastUsed, pending}`; view: `{lastUsed, next}` with `next = pending ?? lastUsed`.
//! Events: `model/selection` sets pending; `request/header` sets lastUsed and clears an equal
//! pending.

use orrery_projection::Unit;
use orrery_session::payload::{ModelSelection, RequestHeaderRecord};
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `modelSelection` unit.
#[derive(Debug, Clone, Copy)]
pub struct ModelSelectionUnit;

/// The models that answered and will answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSelectionState {
    /// Who answered last; the effort only where somebody chose it.
    pub last_used: Option<ModelSelection>,
    /// Who was chosen and has not answered yet.
    pub pending: Option<ModelSelection>,
}

/// What clients see.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSelectionView {
    /// Who answered last.
    #[schemars(with = "Option<Model>")]
    pub last_used: Option<ModelSelection>,
    /// Who answers next.
    #[schemars(with = "Option<Model>")]
    pub next: Option<ModelSelection>,
}

/// The schema of a model that was chosen.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "it lends its shape to the schema only")]
struct Model {
    provider: String,
    model: String,
    reasoning_effort: Option<String>,
}

impl ModelSelectionState {
    /// Who answers next, unless nobody ever chose.
    pub fn next(&self) -> Option<&ModelSelection> {
        self.pending.as_ref().or(self.last_used.as_ref())
    }
}

impl Unit for ModelSelectionUnit {
    type State = ModelSelectionState;
    type View = ModelSelectionView;

    fn key(&self) -> &'static str {
        "modelSelection"
    }

    fn state_version(&self) -> u64 {
        2
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::ModelSelection, EventType::RequestHeader]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> ModelSelectionState {
        ModelSelectionState::default()
    }

    fn apply(&self, state: &ModelSelectionState, event: &Event) -> Option<ModelSelectionState> {
        let next = match event.event_type() {
            EventType::ModelSelection => {
                let pending = Some(event.payload::<ModelSelection>().ok()?);
                ModelSelectionState {
                    pending,
                    ..state.clone()
                }
            }
            _ => {
                let header = event.payload::<RequestHeaderRecord>().ok()?.header;
                let chosen = !header.adapter_defaults.unwrap_or_default().reasoning_effort;
                let used = ModelSelection {
                    provider: header.config.provider,
                    model: header.config.model,
                    reasoning_effort: header.config.reasoning_effort.filter(|_| chosen),
                };
                let pending = state.pending.clone().filter(|pending| *pending != used);
                ModelSelectionState {
                    last_used: Some(used),
                    pending,
                }
            }
        };
        (next != *state).then_some(next)
    }

    fn view(&self, state: &ModelSelectionState) -> Option<ModelSelectionView> {
        Some(ModelSelectionView {
            last_used: state.last_used.clone(),
            next: state.next().cloned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(state: &ModelSelectionState, event_type: &str, data: &str) -> ModelSelectionState {
        let text = format!(r#"{{"type":"{event_type}","seq":0,"time":0,"data":{data}}}"#);
        let event = Event::from_json(&text).unwrap();
        ModelSelectionUnit
            .apply(state, &event)
            .unwrap_or_else(|| state.clone())
    }

    #[test]
    fn a_choice_is_pending_until_a_request_matches_it_exactly() {
        let chosen = apply(
            &ModelSelectionState::default(),
            "model/selection",
            r#"{"provider":"p","model":"m","reasoningEffort":"high"}"#,
        );
        let header = r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"initial"}"#;
        let other = apply(&chosen, "request/header", header);
        assert!(other.pending.is_some());
        let exact = r#"{"header":{"config":{"provider":"p","model":"m","reasoningEffort":"high"}},"reason":"change"}"#;
        let used = apply(&other, "request/header", exact);
        assert_eq!(
            (used.pending.clone(), used.next()),
            (None, used.last_used.as_ref())
        );
    }

    #[test]
    fn an_effort_that_the_adapter_filled_in_was_nobodys_choice() {
        let header = r#"{"header":{"config":{"provider":"p","model":"m","reasoningEffort":"high"},"adapterDefaults":{"reasoningEffort":true}},"reason":"initial"}"#;
        let used = apply(&ModelSelectionState::default(), "request/header", header);
        assert_eq!(used.last_used.unwrap().reasoning_effort, None);
    }
}
