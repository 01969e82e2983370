//! The tool `interrupt_agent`.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::arguments;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::payload::ToolDefinition;
use orrery_session::{Json, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;

use super::failed;
use crate::delegation::{Authority, Delegation};

/// Stops the running turn of a subagent.
#[derive(Debug)]
pub struct InterruptAgent {
    delegation: Delegation,
}

impl InterruptAgent {
    /// The tool.
    pub const fn new(delegation: Delegation) -> Self {
        Self { delegation }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id of a subagent of yours, or of one of theirs.
    #[schemars(with = "String")]
    agent_id: SessionId,
}

#[async_trait]
impl Tool for InterruptAgent {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "interrupt_agent",
            "Stops what a subagent is doing right now. Messages that wait for it stay, and its own \
             subagents go on. It can be given another message with send_message.",
        )
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        arguments::parse::<Arguments>(arguments).map(|_| Access::Read)
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Arguments { agent_id } = arguments::parse(&arguments)?;
        let authority = Authority::Agent {
            session: cx.session,
        };
        let stopped = self.delegation.interrupt(&agent_id, &authority).await;
        let text = if stopped.map_err(|error| failed(&error))? {
            format!("interrupted agent {agent_id}")
        } else {
            format!("agent {agent_id} was doing nothing that could be interrupted")
        };
        Ok(ToolOutput::text(text))
    }
}
