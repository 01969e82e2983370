//! The tool `read`: the lines of a text file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use async_trait::async_trait;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::paths::{Place, io_failed, resolve};
use crate::walk::reading;
use orrery_agent::arguments::{self, failed, invalid, output};

/// Lines of one answer.
const LINES_MAX: usize = 2_000;
/// Bytes of one answer.
const BYTES_MAX: usize = 256 * 1024;
/// Bytes shown of one line: minified files have lines of megabytes.
const LINE_MAX: usize = 4_000;
/// Bytes looked at to tell text from binary.
const PROBE: usize = 8 * 1024;

/// Reads a text file.
#[derive(Debug, Clone, Copy)]
pub struct Read;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace or absolute.
    path: String,
    /// The first line to show, counted from 1. Default: 1.
    #[serde(default)]
    offset: Option<usize>,
    /// How many lines to show, at most 2000. Default: 2000.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    path: String,
    first_line: usize,
    lines: usize,
}

#[async_trait]
impl Tool for Read {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "read",
            "Reads a text file. Each line comes with its number and a tab in front, which are not \
             part of the file. Long files are cut at 2000 lines or 256 KiB; pass offset and limit \
             to read the rest.",
        )
    }

    fn parallel(&self, _arguments: &Json) -> bool {
        true
    }

    fn access(&self, arguments: &Json, cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        Ok(resolve(cwd, &arguments.path)?.reading())
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        reading(cx.cancel, move |token| read(&arguments, &cx.cwd, token)).await
    }
}

fn read(
    arguments: &Arguments,
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let first = arguments.offset.unwrap_or(1).max(1);
    let limit = arguments.limit.unwrap_or(LINES_MAX).min(LINES_MAX);
    if limit == 0 {
        return Err(invalid("`limit` must be at least 1"));
    }
    let place = resolve(cwd, &arguments.path)?;
    let mut file = open_text(&place)?;

    let mut text = String::new();
    let mut total = 0;
    let mut shown = 0;
    let mut full = false;
    let mut line = Vec::new();
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        let read = next_line(&mut file, &mut line);
        let length = read.map_err(|error| io_failed("read", &place.shown, &error))?;
        if length == 0 {
            break;
        }
        total += 1;
        if total < first || shown >= limit || full {
            continue;
        }
        let cut = length > line.len() && line.len() >= LINE_MAX;
        let words = String::from_utf8_lossy(&line);
        let words = words.trim_end_matches(['\r', '\n']);
        let mark = if cut { "… (line cut)" } else { "" };
        let row = format!("{total:>6}\t{words}{mark}\n");
        if text.len() + row.len() > BYTES_MAX && shown > 0 {
            full = true;
            continue;
        }
        text.push_str(&row);
        shown += 1;
    }
    let last = (first + shown).saturating_sub(1);
    if total == 0 {
        text.push_str("(the file is empty)");
    } else if shown == 0 {
        return Err(invalid(format!(
            "`offset` is {first}, but {} has only {total} lines",
            place.shown
        )));
    } else if last < total {
        text.push_str(&format!(
            "(lines {first} to {last} of {total}; pass offset {} for more)",
            last + 1
        ));
    }
    let meta = Meta {
        path: place.shown,
        first_line: first,
        lines: shown,
    };
    output(text, &meta)
}

/// Opens a regular file that looks like text.
fn open_text(place: &Place) -> Result<BufReader<File>, ToolError> {
    let shown = &place.shown;
    let io = |error: std::io::Error| io_failed("read", shown, &error);
    // Asked before opening: opening a pipe or a device may block or do something.
    let meta = std::fs::metadata(&place.real).map_err(io)?;
    if meta.is_dir() {
        let message = format!("{shown} is a folder; use list to see what is in it");
        return Err(failed("IS_A_FOLDER", message));
    }
    if !meta.is_file() {
        let message = format!("{shown} is not a regular file");
        return Err(failed("NOT_A_FILE", message));
    }
    let mut file = BufReader::with_capacity(PROBE, File::open(&place.real).map_err(io)?);
    if file.fill_buf().map_err(io)?.contains(&0) {
        let message = format!(
            "{shown} is a binary file of {} bytes and cannot be shown as text",
            meta.len()
        );
        return Err(failed("BINARY_FILE", message));
    }
    Ok(file)
}

/// Reads one line with its end; keeps at most [`LINE_MAX`] bytes of it, returns its whole length.
fn next_line(file: &mut BufReader<File>, line: &mut Vec<u8>) -> std::io::Result<usize> {
    line.clear();
    let most = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
    let mut length = file.by_ref().take(most).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') || length < LINE_MAX {
        return Ok(length);
    }
    loop {
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            return Ok(length);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        file.consume(used);
        length += used;
        if end.is_some() {
            return Ok(length);
        }
    }
}
