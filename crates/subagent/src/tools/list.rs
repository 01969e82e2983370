//! The tool `list_agents`.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::arguments;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::payload::ToolDefinition;
use orrery_session::{Json, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::delegation::Delegation;
use crate::listing::{ListError, Lister, Reason, Row};
use crate::units::Identity;

/// Lists the subagents of whoever calls.
#[derive(Debug)]
pub struct ListAgents {
    delegation: Delegation,
    lister: Lister,
}

impl ListAgents {
    /// The tool.
    pub const fn new(delegation: Delegation, lister: Lister) -> Self {
        Self { delegation, lister }
    }

    /// One line, or none for a child that only ever did one thing.
    fn line(&self, row: &Row, place: Option<(&SessionId, u32)>) -> Option<String> {
        let place = place.map_or_else(String::new, |(parent, depth)| {
            format!(" parent={parent} depth={depth}")
        });
        match row {
            Row::Child(child) => {
                let Identity::Continuable { label, .. } = &child.identity else {
                    return None;
                };
                let id = &child.id;
                let status = self.delegation.status(id);
                Some(format!("{id} [{}]{place} — {label}", status.as_str()))
            }
            Row::Diagnostic { id, reason } => {
                let reason = match reason {
                    Reason::Corrupt => "corrupt",
                    Reason::Unsupported => "unsupported",
                    Reason::Unavailable => "unavailable",
                };
                Some(format!("{id} [diagnostic: {reason}]{place}"))
            }
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// `children` for your own subagents, `descendants` for theirs too. Default: `children`.
    #[serde(default)]
    scope: Scope,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Scope {
    #[default]
    Children,
    Descendants,
}

#[async_trait]
impl Tool for ListAgents {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "list_agents",
            "Lists your subagents that can be continued: `running` ones work, `idle` ones wait for \
             subagents of their own, `ready` ones rest until you send them a message.",
        )
    }

    fn parallel(&self, _arguments: &Json) -> bool {
        true
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        arguments::parse::<Arguments>(arguments).map(|_| Access::Read)
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Arguments { scope } = arguments::parse(&arguments)?;
        let lines: Vec<String> = match scope {
            Scope::Children => {
                let listed = self.lister.children(&cx.session, &cx.cancel).await;
                let rows = listed.map_err(|error| failed(&error))?.rows;
                rows.iter().filter_map(|row| self.line(row, None)).collect()
            }
            Scope::Descendants => {
                let listed = self.lister.descendants(&cx.session, &cx.cancel).await;
                let rows = listed.map_err(|error| failed(&error))?.rows;
                rows.iter()
                    .filter_map(|d| self.line(&d.row, Some((&d.parent, d.depth))))
                    .collect()
            }
        };
        if lines.is_empty() {
            return Ok(ToolOutput::text("(no subagents)"));
        }
        Ok(ToolOutput::text(lines.join("\n")))
    }
}

fn failed(error: &ListError) -> ToolError {
    match error {
        ListError::Cancelled => ToolError::Aborted,
        other => ToolError::Failed {
            code: other.code(),
            message: other.to_string(),
        },
    }
}
