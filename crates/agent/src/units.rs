//! The projection units of the events that the loop writes.

mod agent_preset;
mod decided_approvals;
mod inbox;
mod jobs;
mod model_selection;
mod pending_approvals;
mod permissions;
mod prompt_ids;

use orrery_projection::units::{ListMetadata, SessionStats, Title, Todos, TokenUsage};
use orrery_projection::{RegisterError, Registration, Registry};

pub use agent_preset::AgentPresetUnit;
pub use decided_approvals::DecidedApprovalsUnit;
pub use inbox::InboxUnit;
pub use jobs::{JobRecord, JobsState, JobsUnit};
pub use model_selection::{ModelSelectionState, ModelSelectionUnit, ModelSelectionView};
pub use pending_approvals::{PendingApproval, PendingApprovalsUnit};
pub use permissions::{PermissionsState, PermissionsUnit, PermissionsView};
pub use prompt_ids::{PromptIdsUnit, PromptRecord, content_digest};

/// Registers the units of core events and of the loop, for as long as the answer is held.
///
/// # Errors
/// When a key is registered in another version already.
pub fn register(registry: &Registry) -> Result<Vec<Registration>, RegisterError> {
    Ok(vec![
        registry.register(Title)?,
        registry.register(ListMetadata)?,
        registry.register(SessionStats)?,
        registry.register(Todos)?,
        registry.register(TokenUsage)?,
        registry.register(AgentPresetUnit)?,
        registry.register(DecidedApprovalsUnit)?,
        registry.register(InboxUnit)?,
        registry.register(JobsUnit)?,
        registry.register(ModelSelectionUnit)?,
        registry.register(PendingApprovalsUnit)?,
        registry.register(PermissionsUnit)?,
        registry.register(PromptIdsUnit)?,
    ])
}
