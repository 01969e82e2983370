//! `jobs`: the background jobs of a session, from the own suffix only: a fork inherits none.
//!
//! State: all jobs that have not ended and the newest that have, oldest first. Host-only: clients
//! see the jobs of the control stream. Events: `job/started`, `job/finished`.

use orrery_projection::{HostOnly, Unit};
use orrery_session::payload::{JobEnd, JobFinished, JobStarted};
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset, Timestamp};
use serde::{Deserialize, Serialize};

/// How many jobs that have ended are remembered.
const ENDED_MAX: usize = 50;

/// The `jobs` unit.
#[derive(Debug, Clone, Copy)]
pub struct JobsUnit;

/// The jobs of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsState {
    inherited: SessionLogOffset,
    /// Oldest first.
    pub jobs: Vec<JobRecord>,
}

/// What the log says of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: String,
    /// What it does.
    pub label: String,
    /// When it began.
    pub started_at: Timestamp,
    /// How and when it ended, and more about that; none while it runs, or after the Host died.
    pub ended: Option<(JobEnd, Timestamp, Option<String>)>,
}

impl Unit for JobsUnit {
    type State = JobsState;
    type View = HostOnly;

    fn key(&self) -> &'static str {
        "jobs"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::JobStarted, EventType::JobFinished]
    }

    fn init(&self, _: &SessionHeader, inherited: SessionLogOffset) -> JobsState {
        let jobs = Vec::new();
        JobsState { inherited, jobs }
    }

    fn apply(&self, state: &JobsState, event: &Event) -> Option<JobsState> {
        if event.seq().offset_before() < state.inherited {
            return None;
        }
        let mut next = state.clone();
        if *event.event_type() == EventType::JobStarted {
            let started = event.payload::<JobStarted>().ok()?;
            next.jobs.retain(|job| job.id != started.job_id);
            next.jobs.push(JobRecord {
                id: started.job_id,
                kind: started.kind,
                label: started.label,
                started_at: started.started_at,
                ended: None,
            });
        } else {
            let finished = event.payload::<JobFinished>().ok()?;
            let job = next.jobs.iter_mut().find(|j| j.id == finished.job_id)?;
            job.ended = Some((finished.status, finished.finished_at, finished.detail));
        }
        let ended = next.jobs.iter().filter(|job| job.ended.is_some()).count();
        if ended > ENDED_MAX
            && let Some(oldest) = next.jobs.iter().position(|job| job.ended.is_some())
        {
            next.jobs.remove(oldest);
        }
        Some(next)
    }

    fn view(&self, _: &JobsState) -> Option<HostOnly> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_session::SessionId;

    fn fold(events: &[(&str, String)], inherited: usize) -> JobsState {
        let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0));
        let start = JobsUnit.init(&header, SessionLogOffset::of_len(inherited));
        events
            .iter()
            .enumerate()
            .fold(start, |state, (seq, (kind, data))| {
                let text = format!(
                    r#"{{"type":"{kind}","seq":{seq},"time":0,"data":{data},"ignorable":true}}"#
                );
                let event = Event::from_json(&text).unwrap();
                JobsUnit.apply(&state, &event).unwrap_or(state)
            })
    }

    fn started(id: usize) -> (&'static str, String) {
        let data = format!(
            r#"{{"version":1,"jobId":"j{id}","kind":"subagent","label":"l","startedAt":{id}}}"#
        );
        ("job/started", data)
    }

    fn finished(id: usize) -> (&'static str, String) {
        let data =
            format!(r#"{{"version":1,"jobId":"j{id}","status":"completed","finishedAt":9}}"#);
        ("job/finished", data)
    }

    #[test]
    fn a_job_runs_until_its_end_is_logged_and_an_inherited_one_is_none() {
        let state = fold(&[started(0), started(1), finished(1)], 0);
        let ended: Vec<bool> = state.jobs.iter().map(|j| j.ended.is_some()).collect();
        assert_eq!(ended, [false, true]);
        let state = fold(&[started(0), started(1), finished(1)], 1);
        assert_eq!(state.jobs.len(), 1);
    }

    #[test]
    fn jobs_that_ended_long_ago_are_forgotten_and_running_ones_are_not() {
        let mut events = vec![started(0)];
        for id in 1..100 {
            events.extend([started(id), finished(id)]);
        }
        let state = fold(&events, 0);
        assert_eq!(state.jobs.len(), ENDED_MAX + 1);
        assert_eq!(state.jobs[0].id, "j0");
        assert_eq!(state.jobs[1].id, "j50");
    }
}
