//! The tool `bash`: a command line, run to its end within limits.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process::{self, End};
use orrery_agent::arguments::{self, failed, invalid, output};

/// The time a command has unless it asks for another, in milliseconds.
const TIMEOUT_DEFAULT_MS: u64 = 120_000;
/// The most time a command can ask for, in milliseconds.
const TIMEOUT_MAX_MS: u64 = 600_000;
/// Characters of output that are kept.
const OUTPUT_MAX: usize = 30_000;

/// Runs a command line.
#[derive(Debug, Clone, Copy)]
pub struct Bash;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The command line, given to `bash -c` in the workspace.
    command: String,
    /// The time it may take, in milliseconds, at most 600000. Default: 120000.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    command: String,
    /// `null` when it was killed.
    exit_code: Option<i32>,
    duration_ms: u64,
    truncated: bool,
}

#[async_trait]
impl Tool for Bash {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "bash",
            "Runs a command line with bash in the workspace and answers its output and errors. \
             There is no terminal and no input. Every call starts afresh: folder changes and \
             variables do not carry over. Background processes are stopped when the command ends. \
             Of more than 30000 characters of output only the head and the tail are kept.",
        )
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        Ok(Access::Command(parse(arguments)?.command))
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments = parse(&arguments)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        let limit = arguments.timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS);
        let timeout = Duration::from_millis(limit);
        let done = process::run(&arguments.command, &cx.cwd, timeout, OUTPUT_MAX, &cx.cancel)
            .await
            .map_err(|error| failed("SPAWN_FAILED", format!("could not run bash: {error}")))?;

        let mut notes = Vec::new();
        let exit_code = match done.end {
            End::Cancelled => return Err(ToolError::Aborted),
            End::TimedOut => {
                notes.push(format!("(killed: not done after {limit} ms)"));
                None
            }
            End::Exited(status) => {
                match status.code() {
                    Some(0) => {}
                    Some(code) => notes.push(format!("(exit code {code})")),
                    None => notes.push(format!("({status})")),
                }
                status.code()
            }
        };
        if done.stopped_leftovers && matches!(done.end, End::Exited(_)) {
            notes.push("(processes left in the background were stopped)".to_owned());
        }
        let mut text = done.output.trim_end_matches('\n').to_owned();
        if text.is_empty() {
            text.push_str("(no output)");
        }
        for note in notes {
            text.push('\n');
            text.push_str(&note);
        }
        let meta = Meta {
            command: arguments.command,
            exit_code,
            duration_ms: u64::try_from(done.duration.as_millis()).unwrap_or(u64::MAX),
            truncated: done.truncated,
        };
        let mut answer = output(text, &meta)?;
        answer.is_error = exit_code != Some(0);
        Ok(answer)
    }
}

fn parse(arguments: &Json) -> Result<Arguments, ToolError> {
    let arguments: Arguments = arguments::parse(arguments)?;
    if arguments.command.trim().is_empty() || arguments.command.contains('\0') {
        return Err(invalid("`command` must be a command line without NUL"));
    }
    let limit = arguments.timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS);
    if limit == 0 || limit > TIMEOUT_MAX_MS {
        let message = format!("`timeoutMs` must be between 1 and {TIMEOUT_MAX_MS}");
        return Err(invalid(message));
    }
    Ok(arguments)
}
