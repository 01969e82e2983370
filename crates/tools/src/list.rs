//! The tool `list`: what is in a folder.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::paths::{io_failed, resolve};
use crate::walk::{reading, walk};
use orrery_agent::arguments::{self, output};

/// Entries of one answer.
const ENTRIES_MAX: usize = 500;

/// Lists a folder.
#[derive(Debug, Clone, Copy)]
pub struct List;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The folder, relative to the workspace or absolute. Default: the workspace itself.
    #[serde(default)]
    path: Option<String>,
    /// Show entries that .gitignore hides, too. Default: false.
    #[serde(default)]
    ignored: Option<bool>,
    /// How many entries to skip, to go on after a capped answer. Default: 0.
    #[serde(default)]
    offset: Option<usize>,
}

#[derive(Serialize)]
struct Meta {
    path: String,
    entries: usize,
    truncated: bool,
}

#[async_trait]
impl Tool for List {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "list",
            "Lists the entries of one folder: folders first, with a slash behind their name, then \
             files with their size. Not recursive; use glob to find files by name.",
        )
    }

    fn parallel(&self, _arguments: &Json) -> bool {
        true
    }

    fn access(&self, arguments: &Json, cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        Ok(resolve(cwd, arguments.path.as_deref().unwrap_or("."))?.reading())
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        reading(cx.cancel, move |_token| list(&arguments, &cx.cwd)).await
    }
}

fn list(arguments: &Arguments, cwd: &Path) -> Result<ToolOutput, ToolError> {
    let place = resolve(cwd, arguments.path.as_deref().unwrap_or("."))?;
    // Opening it first gives the plain reason when it is missing or not a folder.
    std::fs::read_dir(&place.real).map_err(|error| io_failed("list", &place.shown, &error))?;
    let mut folders = Vec::new();
    let mut files = Vec::new();
    for entry in walk(&place.real, Some(1), arguments.ignored.unwrap_or(false)) {
        // An entry that vanished or cannot be read is not there for the model either.
        let Ok(entry) = entry else { continue };
        if entry.depth() == 0 {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type();
        if kind.is_some_and(|kind| kind.is_dir()) {
            folders.push(format!("{name}/"));
        } else if kind.is_some_and(|kind| kind.is_symlink()) {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            files.push(format!("{name} (link to {})", target.display()));
        } else {
            let size = entry.metadata().map_or(0, |meta| meta.len());
            files.push(format!("{name} ({size} bytes)"));
        }
    }
    folders.append(&mut files);
    let offset = arguments.offset.unwrap_or(0);
    let total = folders.len();
    let shown: Vec<String> = folders.into_iter().skip(offset).take(ENTRIES_MAX).collect();
    let until = offset + shown.len();
    let truncated = until < total;
    let mut text = shown.join("\n");
    if truncated {
        text.push_str(&format!(
            "\n(entries {} to {until} of {total}; pass offset {until} for more)",
            offset + 1
        ));
    } else if shown.is_empty() {
        text.push_str(if total == 0 {
            "(the folder is empty, or everything in it is ignored)"
        } else {
            "(no more entries)"
        });
    }
    let meta = Meta {
        path: place.shown,
        entries: total,
        truncated,
    };
    output(text, &meta)
}
