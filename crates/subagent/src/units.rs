//! The projections of subagents.

mod identity;
mod timing;

use orrery_projection::{RegisterError, Registration, Registry};

pub use identity::{Identity, IdentityState, SubagentUnit};
pub use timing::{Active, SubagentTimingUnit, TimingState, TimingView};

/// Registers the units of subagents, for as long as the answer is held.
///
/// # Errors
/// When a key is registered in another version already.
pub fn register(registry: &Registry) -> Result<Vec<Registration>, RegisterError> {
    Ok(vec![
        registry.register(SubagentUnit)?,
        registry.register(SubagentTimingUnit)?,
    ])
}
