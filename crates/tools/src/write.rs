//! The tool `write`: a whole file, new or in the place of an old one.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::paths::resolve;
use crate::replace::{Meta, current, diff, replace};
use crate::walk::writing;
use orrery_agent::arguments::{self, output};

/// Writes a file.
#[derive(Debug, Clone, Copy)]
pub struct Write;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace or absolute. Missing folders are made.
    path: String,
    /// The whole new content of the file.
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "write",
            "Writes a whole file, and replaces it if there is one. To change a part of a file, use \
             edit.",
        )
    }

    fn access(&self, arguments: &Json, cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        Ok(resolve(cwd, &arguments.path)?.writing())
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        writing(cx.cancel, move || write(&arguments, &cx.cwd)).await
    }
}

fn write(arguments: &Arguments, cwd: &Path) -> Result<ToolOutput, ToolError> {
    let place = resolve(cwd, &arguments.path)?;
    let old = current(&place)?;
    replace(&place, arguments.content.as_bytes())?;
    let verb = if old.is_some() { "Replaced" } else { "Created" };
    let lines = match arguments.content.lines().count() {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    };
    let text = format!("{verb} {} ({lines}).", place.shown);
    let meta = Meta {
        diff: diff(&place.shown, old.as_deref(), &arguments.content),
        path: place.shown,
    };
    output(text, &meta)
}
