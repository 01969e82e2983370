//! The tool `edit`: one text in a file replaced by another.
//!
//! The text must occur exactly once unless all are meant, so that an edit never lands in a place
//! the model did not think of. Models write `\n`; files that end their lines with `\r\n` keep that.

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
use orrery_agent::arguments::{self, failed, invalid, output};

/// Edits a file.
#[derive(Debug, Clone, Copy)]
pub struct Edit;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace or absolute.
    path: String,
    /// The text to replace, exactly as in the file, without line numbers. It must occur exactly
    /// once: take as many lines around it as that needs.
    old_text: String,
    /// The text to put there.
    new_text: String,
    /// Replace every occurrence instead of exactly one. Default: false.
    #[serde(default)]
    replace_all: Option<bool>,
}

#[async_trait]
impl Tool for Edit {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "edit",
            "Replaces a text in a file by another text. Read the file first: oldText must match it \
             exactly, white space included.",
        )
    }

    fn access(&self, arguments: &Json, cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        Ok(resolve(cwd, &arguments.path)?.writing())
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        writing(cx.cancel, move || edit(&arguments, &cx.cwd)).await
    }
}

fn edit(arguments: &Arguments, cwd: &Path) -> Result<ToolOutput, ToolError> {
    if arguments.old_text.is_empty() {
        return Err(invalid("`oldText` is empty; use write to make a file"));
    }
    if arguments.old_text == arguments.new_text {
        return Err(invalid("`oldText` and `newText` are the same"));
    }
    let place = resolve(cwd, &arguments.path)?;
    let shown = &place.shown;
    let bytes = current(&place)?.ok_or_else(|| {
        failed(
            "NOT_FOUND",
            format!("there is no file {shown}; use write to make one"),
        )
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let message = format!(
            "{shown} is not UTF-8 text (at byte {})",
            error.valid_up_to()
        );
        failed("BINARY_FILE", message)
    })?;
    let (old, new) = with_line_ends_of(text, &arguments.old_text, &arguments.new_text);
    let count = text.matches(&old).count();
    let all = arguments.replace_all.unwrap_or(false);
    if count == 0 {
        let message = format!(
            "`oldText` does not occur in {shown}; read the file again and copy the text exactly"
        );
        return Err(failed("NO_MATCH", message));
    }
    if count > 1 && !all {
        let message = format!(
            "`oldText` occurs {count} times in {shown}; take more lines around it, or pass \
             replaceAll"
        );
        return Err(failed("AMBIGUOUS_MATCH", message));
    }
    let changed = text.replace(&old, &new);
    replace(&place, changed.as_bytes())?;
    let times = if count == 1 {
        "1 place".to_owned()
    } else {
        format!("{count} places")
    };
    let answer = format!("Changed {times} in {shown}.");
    let meta = Meta {
        diff: diff(shown, Some(&bytes), &changed),
        path: place.shown,
    };
    output(answer, &meta)
}

/// The two texts with the line ends of the file: a file of `\r\n` gets `\r\n`.
fn with_line_ends_of(text: &str, old: &str, new: &str) -> (String, String) {
    let crlf = text.matches("\r\n").count();
    let mostly_crlf = crlf * 2 > text.matches('\n').count();
    let wide = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    if !mostly_crlf {
        return (old.to_owned(), new.to_owned());
    }
    // In a mixed file the text may stand in one of the lines that end plainly.
    let old = if text.contains(old) && old.contains('\n') {
        return (old.to_owned(), new.to_owned());
    } else {
        wide(old)
    };
    (old, wide(new))
}
