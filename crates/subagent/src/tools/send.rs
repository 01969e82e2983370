//! The tool `send_message`.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::arguments;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::payload::ToolDefinition;
use orrery_session::{Json, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{failed, filled};
use crate::delegation::Delegation;

/// Says something to a child, or to the parent.
#[derive(Debug)]
pub struct SendMessage {
    delegation: Delegation,
}

impl SendMessage {
    /// The tool.
    pub const fn new(delegation: Delegation) -> Self {
        Self { delegation }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id of one of your subagents, or of the agent that you are a subagent of.
    #[schemars(with = "String")]
    agent_id: SessionId,
    /// What to say. It must stand by itself: the other agent does not see your conversation.
    message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    agent_id: SessionId,
    message_id: orrery_session::MessageId,
}

#[async_trait]
impl Tool for SendMessage {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "send_message",
            "Sends a message to one of your subagents that can be continued, or to your parent \
             agent. One that works reads it in its next step; one that rests takes it as a new \
             task. This does not wait for an answer: you are told when a subagent comes to rest.",
        )
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        filled("message", &arguments.message)?;
        Ok(Access::Read)
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        let to = arguments.agent_id;
        let sent = self.delegation.send(&cx.session, &to, &arguments.message);
        let message_id = sent.await.map_err(|error| failed(&error))?;
        let mut output = ToolOutput::text(format!("message delivered to agent {to}"));
        let meta = Meta {
            agent_id: to,
            message_id,
        };
        output.meta = Json::from_value(&meta).ok();
        Ok(output)
    }
}
