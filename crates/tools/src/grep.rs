//! The tool `grep`: lines by content.

use std::path::Path;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::paths::{io_failed, resolve};
use crate::walk::{reading, walk};
use orrery_agent::arguments::{self, invalid, output};

/// Matching lines of one answer.
const MATCHES_MAX: usize = 200;
/// Characters shown of one line.
const LINE_MAX: usize = 300;
/// Bytes of a file that is searched.
const FILE_MAX: u64 = 8 * 1024 * 1024;

/// Finds lines by content.
#[derive(Debug, Clone, Copy)]
pub struct Grep;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// A regular expression (Rust syntax: no look-around, no back-references), matched line by line.
    pattern: String,
    /// The folder or file to search. Default: the workspace.
    #[serde(default)]
    path: Option<String>,
    /// Only files that fit this glob, such as `*.rs`; without a slash it fits in every folder.
    #[serde(default)]
    glob: Option<String>,
    /// Take the pattern as plain text. Default: false.
    #[serde(default)]
    literal: Option<bool>,
    /// Do not tell upper from lower case. Default: false.
    #[serde(default)]
    ignore_case: Option<bool>,
    /// How many matches to skip, to go on after a capped answer. Default: 0.
    #[serde(default)]
    offset: Option<usize>,
}

#[derive(Serialize)]
struct Meta {
    pattern: String,
    path: String,
    matches: usize,
    files: usize,
    truncated: bool,
}

#[async_trait]
impl Tool for Grep {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "grep",
            "Searches the content of text files and answers matching lines as path:line: text, \
             sorted by path, without files that .gitignore hides.",
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
        reading(cx.cancel, move |token| search(&arguments, &cx.cwd, token)).await
    }
}

/// What was found so far.
struct Found {
    skip: usize,
    lines: Vec<String>,
    matches: usize,
    files: usize,
    too_large: usize,
    more: bool,
}

fn search(
    arguments: &Arguments,
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let pattern = if arguments.literal.unwrap_or(false) {
        regex::escape(&arguments.pattern)
    } else {
        arguments.pattern.clone()
    };
    let regex = RegexBuilder::new(&pattern)
        .case_insensitive(arguments.ignore_case.unwrap_or(false))
        .build()
        .map_err(|error| invalid(format!("`pattern` is not a regular expression: {error}")))?;
    let filter = arguments.glob.as_deref().map(matcher).transpose()?;
    let place = resolve(cwd, arguments.path.as_deref().unwrap_or("."))?;
    let workspace = resolve(cwd, ".")?.real;
    let meta = std::fs::metadata(&place.real)
        .map_err(|error| io_failed("search", &place.shown, &error))?;

    let mut found = Found {
        skip: arguments.offset.unwrap_or(0),
        lines: Vec::new(),
        matches: 0,
        files: 0,
        too_large: 0,
        more: false,
    };
    for entry in walk(&place.real, None, false) {
        if cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        if found.more {
            break;
        }
        // What cannot be read is not there for the model either.
        let Ok(entry) = entry else { continue };
        let named = entry.depth() == 0 && meta.is_file();
        let relative = entry
            .path()
            .strip_prefix(&place.real)
            .unwrap_or(entry.path());
        let fits = named || filter.as_ref().is_none_or(|glob| glob.is_match(relative));
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file()) || named;
        if !is_file || !fits {
            continue;
        }
        if entry.metadata().is_ok_and(|meta| meta.len() > FILE_MAX) {
            found.too_large += 1;
            continue;
        }
        let Ok(content) = std::fs::read(entry.path()) else {
            continue;
        };
        let shown = crate::paths::show(entry.path(), &workspace);
        search_file(&regex, &content, &shown, &mut found);
    }
    let text = report(&mut found);
    let meta = Meta {
        pattern: arguments.pattern.clone(),
        path: place.shown,
        matches: found.matches,
        files: found.files,
        truncated: found.more,
    };
    output(text, &meta)
}

fn matcher(glob: &str) -> Result<GlobMatcher, ToolError> {
    let glob = if glob.contains('/') {
        glob.trim_start_matches("./").to_owned()
    } else {
        format!("**/{glob}")
    };
    let built = GlobBuilder::new(&glob).literal_separator(true).build();
    let glob = built.map_err(|error| invalid(format!("`glob` is not a glob: {error}")))?;
    Ok(glob.compile_matcher())
}

fn search_file(regex: &Regex, content: &[u8], shown: &str, found: &mut Found) {
    if content.iter().take(8 * 1024).any(|byte| *byte == 0) {
        return; // binary
    }
    if content.is_empty() {
        return;
    }
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    let mut hit = false;
    for (at, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !regex.is_match(line) {
            continue;
        }
        if found.lines.len() >= MATCHES_MAX {
            found.more = true;
            return;
        }
        if !hit {
            hit = true;
            found.files += 1;
        }
        found.matches += 1;
        if found.matches <= found.skip {
            continue;
        }
        let text = String::from_utf8_lossy(line);
        let text = match text.char_indices().nth(LINE_MAX) {
            None => text.into_owned(),
            Some((cut, _)) => format!("{}…", text.split_at(cut).0),
        };
        found.lines.push(format!("{shown}:{}: {text}", at + 1));
    }
}

fn report(found: &mut Found) -> String {
    let plural = |count: usize, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    let matches = plural(found.matches, "match", "matches");
    let files = plural(found.files, "file", "files");
    let mut note = if found.more {
        format!(
            "(at least {matches} in {files}; more exist: narrow the search or pass offset {})",
            found.matches
        )
    } else if found.matches == 0 {
        "(0 matches)".to_owned()
    } else {
        format!("({matches} in {files})")
    };
    if found.too_large > 0 {
        let skipped = plural(found.too_large, "file", "files");
        note.push_str(&format!(" ({skipped} above 8 MiB not searched)"));
    }
    let mut lines = std::mem::take(&mut found.lines);
    lines.push(note);
    lines.join("\n")
}
