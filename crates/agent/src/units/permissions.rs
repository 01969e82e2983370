//! `permissions`: what tools may touch and whether questions are asked.
//!
//! State: preset, sandbox mode, approval policy. View: `{options, currentValue}` over the presets.
//! Events: `permission/preset`, `sandbox/mode`, `approval/policy`; the whole log counts, so a fork
//! inherits them.

use orrery_projection::Unit;
use orrery_session::payload::{
    ApprovalPolicy, ApprovalPolicyRecord, PermissionPreset, SandboxMode, SandboxModeRecord,
};
use orrery_session::{Event, EventType, Json, SessionHeader, SessionLogOffset};
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

impl Unit for PermissionsUnit {
    type State = PermissionsState;

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

    fn view(&self, state: &PermissionsState) -> Option<Json> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct View<'a> {
            options: [Choice; 3],
            current_value: &'a str,
        }
        #[derive(Serialize)]
        struct Choice {
            value: &'static str,
            name: &'static str,
            description: &'static str,
        }
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
        .map(|(mode, name, description)| Choice {
            value: mode.as_str(),
            name,
            description,
        });
        let current_value = state.preset.as_deref().unwrap_or(state.sandbox.as_str());
        Json::from_value(&View {
            options,
            current_value,
        })
        .ok()
    }
}
