//! The tool `job_stop`.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::arguments::{self, failed};
use orrery_agent::jobs::Jobs;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use serde::Deserialize;

/// Stops a background job.
#[derive(Debug, Clone)]
pub struct JobStop {
    jobs: Jobs,
}

impl JobStop {
    /// The tool.
    pub const fn new(jobs: Jobs) -> Self {
        Self { jobs }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The job's id.
    job_id: String,
}

#[async_trait]
impl Tool for JobStop {
    fn definition(&self) -> ToolDefinition {
        arguments::definition::<Arguments>(
            "job_stop",
            "Stops a background job with everything that it started.",
        )
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        arguments::parse::<Arguments>(arguments).map(|_| Access::Read)
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Arguments { job_id } = arguments::parse(&arguments)?;
        let stopped = self.jobs.kill(&cx.session, &job_id);
        let ran = stopped.map_err(|error| failed(error.code(), error.to_string()))?;
        Ok(ToolOutput::text(if ran {
            format!("job {job_id} is being stopped")
        } else {
            format!("job {job_id} had ended already")
        }))
    }
}
