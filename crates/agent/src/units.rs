//! The projection units of the events that the loop writes.

mod agent_preset;
mod decided_approvals;
mod inbox;
mod model_selection;
mod pending_approvals;
mod permissions;
mod prompt_ids;

use orrery_projection::{RegisterError, Registry};

pub use agent_preset::AgentPresetUnit;
pub use decided_approvals::DecidedApprovalsUnit;
pub use inbox::InboxUnit;
pub use model_selection::{ModelSelectionState, ModelSelectionUnit};
pub use pending_approvals::{PendingApproval, PendingApprovalsUnit};
pub use permissions::{PermissionsState, PermissionsUnit};
pub use prompt_ids::{PromptIdsUnit, PromptRecord, content_digest};

/// Registers the units of core events and of the loop.
pub fn register(registry: &mut Registry) -> Result<(), RegisterError> {
    registry.register(orrery_projection::units::Title)?;
    registry.register(orrery_projection::units::ListMetadata)?;
    registry.register(AgentPresetUnit)?;
    registry.register(DecidedApprovalsUnit)?;
    registry.register(InboxUnit)?;
    registry.register(ModelSelectionUnit)?;
    registry.register(PendingApprovalsUnit)?;
    registry.register(PermissionsUnit)?;
    registry.register(PromptIdsUnit)
}
