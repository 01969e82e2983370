//! The tool `glob`: files by name.

use std::path::Path;

use async_trait::async_trait;
use globset::GlobBuilder;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::paths::{io_failed, resolve};
use crate::walk::{reading, walk};
use orrery_agent::arguments::{self, invalid, output};

/// Paths of one answer.
const PATHS_MAX: usize = 500;
/// Entries looked at before the search gives up.
const ENTRIES_MAX: usize = 200_000;

/// Finds files by name.
#[derive(Debug, Clone, Copy)]
pub struct Glob;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// A glob such as `**/*.rs` or `src/*.{ts,tsx}`. `*` stays within a folder, `**` does not.
    pattern: String,
    /// The folder to search in; the pattern and the answer are relative to it. Default: the
    /// workspace.
    #[serde(default)]
    path: Option<String>,
    /// How many paths to skip, to go on after a capped answer. Default: 0.
    #[serde(default)]
    offset: Option<usize>,
}

#[derive(Serialize)]
struct Meta {
    pattern: String,
    path: String,
    files: usize,
    truncated: bool,
}

#[async_trait]
impl Tool for Glob {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "glob",
            "Finds files whose path fits a pattern, sorted by path, without those that .gitignore \
             hides.",
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
        reading(cx.cancel, move |token| find(&arguments, &cx.cwd, token)).await
    }
}

fn find(
    arguments: &Arguments,
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let place = resolve(cwd, arguments.path.as_deref().unwrap_or("."))?;
    let pattern = arguments.pattern.trim_start_matches("./");
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| invalid(format!("`pattern` is not a glob: {error}")))?
        .compile_matcher();
    std::fs::read_dir(&place.real).map_err(|error| io_failed("search", &place.shown, &error))?;
    let offset = arguments.offset.unwrap_or(0);
    let mut found = 0;
    let mut seen = 0;
    let mut shown = Vec::new();
    for entry in walk(&place.real, None, false) {
        if cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        seen += 1;
        if seen > ENTRIES_MAX {
            break;
        }
        // What cannot be read is not there for the model either.
        let Ok(entry) = entry else { continue };
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let Ok(relative) = entry.path().strip_prefix(&place.real) else {
            continue;
        };
        if is_folder || !matcher.is_match(relative) {
            continue;
        }
        found += 1;
        if found > offset && shown.len() < PATHS_MAX {
            shown.push(relative.to_string_lossy().into_owned());
        }
    }
    let until = offset + shown.len();
    let truncated = until < found;
    let word = if found == 1 { "file" } else { "files" };
    let more = if seen > ENTRIES_MAX { " or more" } else { "" };
    let note = if truncated {
        format!(
            "({found}{more} {word}; these are {} to {until}: narrow the pattern or pass offset {until})",
            offset + 1
        )
    } else {
        format!("({found}{more} {word})")
    };
    shown.push(note);
    let meta = Meta {
        pattern: arguments.pattern.clone(),
        path: place.shown,
        files: found,
        truncated,
    };
    output(shown.join("\n"), &meta)
}
