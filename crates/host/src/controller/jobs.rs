//! `job/output` and `job/kill`, and the jobs of a session as the control stream tells them
//! (`controller.md` 3.3, decision D24).

use orrery_agent::LiveState;
use orrery_agent::jobs::{JobError, Jobs, Running};
use orrery_agent::units::{JobRecord, JobsState, JobsUnit};
use orrery_api::content::Accepted;
use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::job::{JobKillRequest, JobOutputRequest, JobOutputResponse, JobStatus, SessionJob};
use orrery_projection::Unit as _;
use orrery_session::SessionId;
use orrery_session::payload::JobEnd;

use super::Controller;

impl Controller {
    /// A piece of a job's output.
    ///
    /// # Errors
    /// When this process knows no such job; the output of jobs ends with the process.
    pub fn job_output(&self, request: &JobOutputRequest) -> Result<JobOutputResponse, ApiError> {
        let (owner, job) = (&request.session_id, &request.job_id);
        let piece = self
            .inner
            .jobs
            .output(owner, job, request.from.unwrap_or(0));
        let piece = piece.map_err(|error| refused(&error, job))?;
        Ok(JobOutputResponse {
            text: piece.text,
            from: piece.from,
            next: piece.next,
            truncated: piece.truncated,
            done: piece.done,
        })
    }

    /// Tells a job to end; one that has ended stays so.
    ///
    /// # Errors
    /// When this process knows no such job.
    pub fn kill_job(&self, request: &JobKillRequest) -> Result<Accepted, ApiError> {
        let killed = self.inner.jobs.kill(&request.session_id, &request.job_id);
        killed.map_err(|error| refused(&error, &request.job_id))?;
        self.inner.live.changed();
        Ok(Accepted::YES)
    }

    /// The jobs of a live session.
    pub(super) fn jobs_of(&self, id: &SessionId, state: &LiveState) -> Vec<SessionJob> {
        let state = state.states.get(JobsUnit.key());
        let known = state.and_then(|state| state.of(&JobsUnit));
        known.map_or_else(Vec::new, |known| {
            rows(known, |job| status(&self.inner.jobs, id, job))
        })
    }
}

/// The jobs of a session that is in no process: what has not ended is lost.
pub(super) fn cold_jobs(state: &JobsState) -> Vec<SessionJob> {
    rows(state, |_| JobStatus::Lost)
}

fn rows(state: &JobsState, unfinished: impl Fn(&JobRecord) -> JobStatus) -> Vec<SessionJob> {
    let row = |job: &JobRecord| {
        let ended = job.ended.as_ref();
        SessionJob {
            id: job.id.clone(),
            kind: job.kind.clone(),
            label: job.label.clone(),
            status: ended.map_or_else(
                || unfinished(job),
                |(end, ..)| match end {
                    JobEnd::Completed => JobStatus::Completed,
                    JobEnd::Killed => JobStatus::Killed,
                    JobEnd::Failed => JobStatus::Failed,
                },
            ),
            detail: ended.and_then(|(_, _, detail)| detail.clone()),
            started_at: job.started_at,
            finished_at: ended.map(|(_, at, _)| *at),
        }
    };
    state.jobs.iter().map(row).collect()
}

fn status(jobs: &Jobs, owner: &SessionId, job: &JobRecord) -> JobStatus {
    match jobs.running(owner, &job.id) {
        Running::Yes => JobStatus::Running,
        Running::Stopping => JobStatus::Stopping,
        Running::No => JobStatus::Lost,
    }
}

fn refused(error: &JobError, job: &str) -> ApiError {
    ApiError::new(ErrorCode::JobNotFound, error.to_string()).with("jobId", job)
}
