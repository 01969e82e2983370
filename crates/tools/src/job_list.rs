//! The tool `job_list`: the background jobs of the session.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::arguments;
use orrery_agent::jobs::Jobs;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::{JobEnd, ToolDefinition};
use schemars::JsonSchema;
use serde::Deserialize;

/// Lists background jobs.
#[derive(Debug, Clone)]
pub struct JobList {
    jobs: Jobs,
}

impl JobList {
    /// The tool.
    pub const fn new(jobs: Jobs) -> Self {
        Self { jobs }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[async_trait]
impl Tool for JobList {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "job_list",
            "Lists your background jobs with their ids: what runs, and what ended lately.",
        )
    }

    fn parallel(&self, _arguments: &Json) -> bool {
        true
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        arguments::parse::<Arguments>(arguments).map(|_| Access::Read)
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        arguments::parse::<Arguments>(&arguments)?;
        let rows = self.jobs.rows(&cx.session).into_iter().map(|job| {
            let status = match job.ended {
                Some(end) => name_of(end),
                None if job.stopping => "stopping",
                None => "running",
            };
            format!("{} [{status}] {} — {}", job.id, job.kind, job.label)
        });
        let lines: Vec<String> = rows.collect();
        Ok(ToolOutput::text(if lines.is_empty() {
            "(no jobs)".to_owned()
        } else {
            lines.join("\n")
        }))
    }
}

pub(crate) const fn name_of(end: JobEnd) -> &'static str {
    match end {
        JobEnd::Completed => "completed",
        JobEnd::Killed => "killed",
        JobEnd::Failed => "failed",
    }
}
