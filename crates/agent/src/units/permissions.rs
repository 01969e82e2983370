//! `permissions`: what tools may touch and whether questions are asked.
//!
//! State: preset, sandbox mode, approval policy. View: `{options, currentValue}` over the presets.
//! Events: `permission/preset`, `sandbox/mode`, `approval/policy`; the whole log counts, so a fork
//! inherits them.

use orrery_projection::Unit;
use orrery_session::payload::{
    ApprovalPolicy, ApprovalPolicyRecord, PermissionPreset, SandboxMode, SandboxModeRecord,
};
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `permissions` unit.
#[derive(Debug, Clone, Copy)]
pub struct PermissionsUnit;

/// The knobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionsState {
    /// The preset that set them.
    pub preset: Option<String>,
    /// What tools may touch.
    pub sandbox: SandboxMode,
    /// Whether questions are asked.
    pub policy: ApprovalPolicy,
}

/// What clients see.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsView {
    /// What can be chosen.
    pub options: [PermissionChoice; 3],
    /// The `value` of what is chosen.
    pub current_value: String,
}

/// One way of being careful.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct PermissionChoice {
    /// Its name in the log.
    pub value: &'static str,
    /// Its name for a person.
    pub name: &'static str,
    /// What it means.
    pub description: &'static str,
}

impl Unit for PermissionsUnit {
    type State = PermissionsState;
    type View = PermissionsView;

    fn key(&self) -> &'static str {
        "permissions"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[
            EventType::PermissionPreset,
            EventType::SandboxMode,
            EventType::ApprovalPolicy,
        ]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> PermissionsState {
        // A log that never said anything gets the careful reading.
        PermissionsState {
            preset: None,
            sandbox: SandboxMode::ReadOnly,
            policy: ApprovalPolicy::Ask,
        }
    }

    fn apply(&self, state: &PermissionsState, event: &Event) -> Option<PermissionsState> {
        let mut next = state.clone();
        match event.event_type() {
            EventType::PermissionPreset => {
                next.preset = Some(event.payload::<PermissionPreset>().ok()?.preset);
            }
            EventType::SandboxMode => {
                next.sandbox = event.payload::<SandboxModeRecord>().ok()?.mode;
            }
            _ => next.policy = event.payload::<ApprovalPolicyRecord>().ok()?.policy,
        }
        (next != *state).then_some(next)
    }

    fn view(&self, state: &PermissionsState) -> Option<PermissionsView> {
        let options = [
            (
                SandboxMode::ReadOnly,
                "Read only",
                "Nothing is written; commands ask.",
            ),
            (
                SandboxMode::WorkspaceWrite,
                "Workspace write",
                "Files in the workspace may be written; commands ask.",
            ),
            (
                SandboxMode::DangerFullAccess,
                "Full access",
                "Nothing is asked.",
            ),
        ]
        .map(|(mode, name, description)| PermissionChoice {
            value: mode.as_str(),
            name,
            description,
        });
        let current_value = state.preset.as_deref().unwrap_or(state.sandbox.as_str());
        Some(PermissionsView {
            options,
            current_value: current_value.to_owned(),
        })
    }
}
