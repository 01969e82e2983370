//! `agentPreset`: which preset the session runs on, after any switch.
//!
//! State and view: the preset's id, or null. Events: `agent-preset/selected`; before the first one
//! the header's value counts.

use orrery_projection::Unit;
use orrery_session::payload::AgentPresetSelected;
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};

/// The `agentPreset` unit.
#[derive(Debug, Clone, Copy)]
pub struct AgentPresetUnit;

impl Unit for AgentPresetUnit {
    type State = Option<String>;
    type View = Option<String>;

    fn key(&self) -> &'static str {
        "agentPreset"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::AgentPresetSelected]
    }

    fn init(&self, header: &SessionHeader, _: SessionLogOffset) -> Option<String> {
        header.agent_preset.clone()
    }

    fn apply(&self, state: &Option<String>, event: &Event) -> Option<Option<String>> {
        let selected = event.payload::<AgentPresetSelected>().ok()?.agent_preset;
        (state.as_ref() != Some(&selected)).then_some(Some(selected))
    }

    fn view(&self, state: &Option<String>) -> Option<Option<String>> {
        Some(state.clone())
    }
}
