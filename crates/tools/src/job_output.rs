//! The tool `job_output`: what a background job has written, waiting for more where asked.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use orrery_agent::arguments::{self, failed, invalid, output};
use orrery_agent::jobs::{Jobs, Piece, Running};
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::payload::ToolDefinition;
use orrery_session::{Json, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Characters of output in one answer.
const OUTPUT_MAX: usize = 30_000;
/// The longest wait, in milliseconds.
const WAIT_MAX_MS: u64 = 600_000;

/// Reads the output of a background job.
#[derive(Debug, Clone)]
pub struct JobOutput {
    jobs: Jobs,
}

impl JobOutput {
    /// The tool.
    pub const fn new(jobs: Jobs) -> Self {
        Self { jobs }
    }

    /// The output from a byte on, once the job has ended or the time is over.
    async fn wait(
        &self,
        owner: &SessionId,
        job: &str,
        from: u64,
        wait: Duration,
    ) -> Result<Piece, ToolError> {
        let mut changes = self.jobs.changes();
        let read = || {
            let piece = self.jobs.output(owner, job, from);
            piece.map_err(|error| failed(error.code(), error.to_string()))
        };
        let ended = async {
            while self.jobs.running(owner, job) != Running::No {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        read()?;
        if tokio::time::timeout(wait, ended).await.is_err() {
            tracing::trace!(job, "still running after the wait");
        }
        read()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The job's id.
    job_id: String,
    /// Where to start, in bytes: the `next` of an earlier answer. Default: 0.
    #[serde(default)]
    from: Option<u64>,
    /// How long to wait for the job to end, in milliseconds, at most 600000. Default: 0.
    #[serde(default)]
    wait_ms: Option<u64>,
}

#[derive(Serialize)]
struct Meta {
    from: u64,
    next: u64,
    done: bool,
}

#[async_trait]
impl Tool for JobOutput {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "job_output",
            "Reads what a background job has written so far, or waits for its end first. The answer \
             says where to go on. You are told when a job ends, so there is no need to ask again \
             and again.",
        )
    }

    fn parallel(&self, _arguments: &Json) -> bool {
        true
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        if arguments.wait_ms.is_some_and(|wait| wait > WAIT_MAX_MS) {
            return Err(invalid(format!("`waitMs` must be at most {WAIT_MAX_MS}")));
        }
        Ok(Access::Read)
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        let wait = Duration::from_millis(arguments.wait_ms.unwrap_or(0).min(WAIT_MAX_MS));
        let from = arguments.from.unwrap_or(0);
        let reading = self.wait(&cx.session, &arguments.job_id, from, wait);
        let piece = cx.cancel.run_until_cancelled(reading).await;
        let piece = piece.ok_or(ToolError::Aborted)??;
        let shown: String = piece.text.chars().take(OUTPUT_MAX).collect();
        let next = piece.from + shown.len() as u64;
        let done = piece.done && next == piece.next;
        let mut text = shown;
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if piece.truncated {
            text.insert_str(0, "(older output is gone)\n");
        }
        text.push_str(&if done {
            "\n(the job has ended; this is all)".to_owned()
        } else {
            format!("\n(go on with from: {next})")
        });
        let meta = Meta {
            from: piece.from,
            next,
            done,
        };
        output(text, &meta)
    }
}
