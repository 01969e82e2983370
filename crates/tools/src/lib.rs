//! The standard tools: files, search and the shell, each behind the agent's tool seam.
//!
//! Owns what the tools are called, what they take and what they do. One tool is one file; what
//! several share is in `paths` (what lies inside of the workspace),
//! `replace` (atomic writes and diffs), `walk` (ignore rules) and `process` (groups and limits).
//! Leaves to `orrery-agent` whether a call may run at all, and what is logged.
//!
//! Every answer is bounded, and says how to get the rest.

mod bash;
mod edit;
pub mod environment;
mod glob;
mod grep;
mod job_list;
mod job_output;
mod job_stop;
mod list;
mod paths;
pub mod process;
mod read;
mod replace;
mod walk;
mod write;

use std::sync::Arc;

use orrery_agent::jobs::Jobs;
use orrery_agent::tool::Tool;

pub use bash::Bash;
pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use job_list::JobList;
pub use job_output::JobOutput;
pub use job_stop::JobStop;
pub use list::List;
pub use read::Read;
pub use write::Write;

/// The tools that every session has: `list`, `read`, `write`, `edit`, `glob`, `grep`, `bash`.
pub fn standard_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(List),
        Arc::new(Read),
        Arc::new(Write),
        Arc::new(Edit),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(Bash),
    ]
}

/// The tools that work with background jobs: `job_list`, `job_output`, `job_stop`.
pub fn job_tools(jobs: &Jobs) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(JobList::new(jobs.clone())),
        Arc::new(JobOutput::new(jobs.clone())),
        Arc::new(JobStop::new(jobs.clone())),
    ]
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
