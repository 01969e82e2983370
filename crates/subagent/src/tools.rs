//! What a model is offered to work with other agents (`subagent.md` 4.15): delegate, speak, stop,
//! look.
//!
//! One tool is one file. Owns their names, their arguments and their words; leaves every decision
//! to [`crate::delegation`].

mod delegate;
mod interrupt;
mod list;
mod send;

use std::sync::Arc;

use orrery_agent::Tool;
use orrery_agent::tool::ToolError;

use crate::delegation::{Delegation, DelegationError};
use crate::listing::Lister;

pub use delegate::{Background, Delegate};
pub use interrupt::InterruptAgent;
pub use list::ListAgents;
pub use send::SendMessage;

/// The tools by which agents talk to each other, beside those that delegate.
pub fn control_tools(delegation: &Delegation, lister: &Lister) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(SendMessage::new(delegation.clone())),
        Arc::new(InterruptAgent::new(delegation.clone())),
        Arc::new(ListAgents::new(delegation.clone(), lister.clone())),
    ]
}

fn filled(name: &str, text: &str) -> Result<(), ToolError> {
    if text.trim().is_empty() {
        return Err(ToolError::InvalidArguments {
            message: format!("`{name}` must not be empty"),
        });
    }
    Ok(())
}

fn failed(error: &DelegationError) -> ToolError {
    match error {
        DelegationError::Cancelled => ToolError::Aborted,
        other => ToolError::Failed {
            code: other.code(),
            message: other.to_string(),
        },
    }
}
