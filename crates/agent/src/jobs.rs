//! Background jobs: work that goes on beside the turns of the session that owns it.
//!
//! Owns which jobs run in this process, their output and their end. That a job began and how it
//! ended is in its owner's log (decision D24), so that after a crash an unfinished one is known as
//! lost. Leaves to others what a job does: it is a future that is given a [`JobFeed`].
//!
//! Output is kept in memory, the newest [`OUTPUT_MAX`] bytes of a job, for as long as the process
//! lives and the job is among the newest of its owner.

mod output;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_session::payload::{JobEnd, JobFinished, JobStarted};
use orrery_session::{
    CallId, Clock, ContentBlock, EventDraft, EventType, IdSource, SessionId, Source, Timestamp,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{Relay, SessionHandle, Urgency};
use output::Output;

pub use output::{OUTPUT_MAX, PIECE_MAX, Piece};

/// How many jobs of one owner keep their output after they have ended.
const ENDED_MAX: usize = 20;
/// Names the house as the source of what a model is told of a job.
const PLUGIN: &str = "orrery/jobs";

/// Why a job is not there, or was not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The owner has no such job in this process.
    #[error("there is no job {job:?} of this session; job_list says which there are")]
    NotFound {
        /// The id.
        job: String,
    },
    /// Its beginning could not be logged, so it was not begun.
    #[error("the job could not be begun: {why}")]
    NotSaved {
        /// What happened.
        why: String,
    },
    /// The Host is going down.
    #[error("the Host is going down; nothing new is started")]
    Draining,
}

impl JobError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "JOB_NOT_FOUND",
            Self::NotSaved { .. } => "PERSISTENCE_UNAVAILABLE",
            Self::Draining => "DRAINING",
        }
    }
}

/// What a job is called.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// What it is, such as `subagent`.
    pub kind: &'static str,
    /// What it does, for people.
    pub label: String,
    /// The call that begins it.
    pub call_id: Option<CallId>,
}

/// What a job works with.
#[derive(Debug, Clone)]
pub struct JobFeed {
    /// Fires when the job is to end.
    pub cancel: CancellationToken,
    output: Output,
}

impl JobFeed {
    /// Adds output.
    pub fn write(&self, text: &str) {
        self.output.push(text);
    }
}

/// How the work of a job came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    /// Whether it did what it was for.
    pub succeeded: bool,
    /// More about it, one line.
    pub detail: Option<String>,
}

/// What a running process knows of a job beside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// It runs.
    Yes,
    /// It was told to stop.
    Stopping,
    /// It ended, or is not of this process.
    No,
}

#[derive(Debug)]
struct Entry {
    cancel: CancellationToken,
    output: Output,
    kind: &'static str,
    label: String,
    started_at: Timestamp,
    /// None while it runs.
    ended: Option<JobEnd>,
}

impl Entry {
    const fn runs(&self) -> bool {
        self.ended.is_none()
    }
}

/// A job of this process, for its owner's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: &'static str,
    /// What it does.
    pub label: String,
    /// When it began.
    pub started_at: Timestamp,
    /// How it ended; none while it runs.
    pub ended: Option<JobEnd>,
    /// Whether it was told to stop.
    pub stopping: bool,
}

#[derive(Debug, Default)]
struct Entries {
    jobs: BTreeMap<(SessionId, String), Entry>,
    draining: bool,
}

/// The jobs of this process. Copies share them.
#[derive(Debug, Clone)]
pub struct Jobs {
    entries: Arc<Mutex<Entries>>,
    changed: watch::Sender<u64>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    tasks: TaskTracker,
}

impl Jobs {
    /// No jobs yet.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>, tasks: TaskTracker) -> Self {
        Self {
            entries: Arc::default(),
            changed: watch::Sender::new(0),
            clock,
            ids,
            tasks,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a job once its beginning is durable; answers with its id. The owner is told when it
    /// ends, unless it was stopped.
    ///
    /// # Errors
    /// When the owner's log cannot be written, or the Host is going down.
    pub async fn start<F>(
        &self,
        owner: &SessionHandle,
        spec: JobSpec,
        work: impl FnOnce(JobFeed) -> F + Send,
    ) -> Result<String, JobError>
    where
        F: Future<Output = JobResult> + Send + 'static,
    {
        let id = self.ids.uuid();
        let feed = JobFeed {
            cancel: CancellationToken::new(),
            output: Output::new(self.changed.clone()),
        };
        let key = (owner.id().clone(), id.clone());
        {
            let mut entries = self.lock();
            if entries.draining {
                return Err(JobError::Draining);
            }
            let entry = Entry {
                cancel: feed.cancel.clone(),
                output: feed.output.clone(),
                kind: spec.kind,
                label: spec.label.clone(),
                started_at: self.clock.now(),
                ended: None,
            };
            entries.jobs.insert(key.clone(), entry);
        }
        let started = JobStarted {
            version: 1,
            job_id: id.clone(),
            kind: spec.kind.to_owned(),
            label: spec.label.clone(),
            call_id: spec.call_id,
            started_at: self.clock.now(),
        };
        if let Err(why) = record(owner, EventType::JobStarted, &started).await {
            self.lock().jobs.remove(&key);
            return Err(JobError::NotSaved { why });
        }
        let (jobs, owner, work) = (self.clone(), owner.clone(), work(feed.clone()));
        self.tasks.spawn(async move {
            // In a task of its own, so that a panic ends the job and not our account of it.
            let result = tokio::spawn(work)
                .await
                .unwrap_or_else(|_panicked| JobResult {
                    succeeded: false,
                    detail: Some("it failed in an unexpected way".to_owned()),
                });
            jobs.ended(&owner, &key.1, &spec.label, &feed, result).await;
        });
        Ok(id)
    }

    async fn ended(
        &self,
        owner: &SessionHandle,
        id: &str,
        label: &str,
        feed: &JobFeed,
        result: JobResult,
    ) {
        let killed = feed.cancel.is_cancelled();
        let status = match result.succeeded {
            _ if killed => JobEnd::Killed,
            true => JobEnd::Completed,
            false => JobEnd::Failed,
        };
        let finished = JobFinished {
            version: 1,
            job_id: id.to_owned(),
            status,
            detail: result.detail.clone(),
            finished_at: self.clock.now(),
        };
        if let Err(why) = record(owner, EventType::JobFinished, &finished).await {
            tracing::warn!(session = %owner.id(), job = id, why, "the end of a job was not logged");
        }
        feed.output.finish();
        if !killed {
            tell(owner, id, label, status, result.detail.as_deref()).await;
        }
        let mut entries = self.lock();
        if let Some(entry) = entries.jobs.get_mut(&(owner.id().clone(), id.to_owned())) {
            entry.ended = Some(status);
        }
        forget_oldest(&mut entries, owner.id());
        drop(entries);
        self.changed.send_modify(|count| *count += 1);
    }

    /// The jobs of a session in this process, oldest first.
    pub fn rows(&self, owner: &SessionId) -> Vec<JobRow> {
        let entries = self.lock();
        let of_owner = entries.jobs.iter().filter(|((o, _), _)| o == owner);
        let row = |((_, id), entry): (&(SessionId, String), &Entry)| JobRow {
            id: id.clone(),
            kind: entry.kind,
            label: entry.label.clone(),
            started_at: entry.started_at,
            ended: entry.ended,
            stopping: entry.runs() && entry.cancel.is_cancelled(),
        };
        of_owner.map(row).collect()
    }

    /// Whether a session owns a job that runs.
    pub fn any_runs(&self, owner: &SessionId) -> bool {
        let entries = self.lock();
        entries
            .jobs
            .iter()
            .any(|((o, _), e)| o == owner && e.runs())
    }

    /// What this process knows of a job.
    pub fn running(&self, owner: &SessionId, job: &str) -> Running {
        let entries = self.lock();
        match entries.jobs.get(&(owner.clone(), job.to_owned())) {
            Some(entry) if entry.runs() && entry.cancel.is_cancelled() => Running::Stopping,
            Some(entry) if entry.runs() => Running::Yes,
            _ => Running::No,
        }
    }

    /// A piece of a job's output from a byte on; reading it takes nothing away.
    ///
    /// # Errors
    /// When the output is not in this process.
    pub fn output(&self, owner: &SessionId, job: &str, from: u64) -> Result<Piece, JobError> {
        let entries = self.lock();
        let entry = entries.jobs.get(&(owner.clone(), job.to_owned()));
        let entry = entry.ok_or_else(|| JobError::NotFound {
            job: job.to_owned(),
        })?;
        Ok(entry.output.read(from))
    }

    /// To wait for output and ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Tells a job to end; says whether it ran.
    ///
    /// # Errors
    /// When there is no such job in this process.
    pub fn kill(&self, owner: &SessionId, job: &str) -> Result<bool, JobError> {
        let entries = self.lock();
        let entry = entries.jobs.get(&(owner.clone(), job.to_owned()));
        let entry = entry.ok_or_else(|| JobError::NotFound {
            job: job.to_owned(),
        })?;
        let runs = entry.runs() && !entry.cancel.is_cancelled();
        entry.cancel.cancel();
        drop(entries);
        self.changed.send_modify(|count| *count += 1);
        Ok(runs)
    }

    /// Stops all jobs and waits for their ends; nothing new begins.
    pub async fn drain(&self) {
        {
            let mut entries = self.lock();
            entries.draining = true;
            entries
                .jobs
                .values()
                .for_each(|entry| entry.cancel.cancel());
        }
        let mut changes = self.changes();
        while self.lock().jobs.values().any(Entry::runs) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

fn forget_oldest(entries: &mut Entries, owner: &SessionId) {
    // Ids are ordered by time.
    let ended: Vec<_> = entries
        .jobs
        .iter()
        .filter(|((o, _), entry)| o == owner && !entry.runs())
        .map(|(key, _)| key.clone())
        .collect();
    for key in ended.iter().take(ended.len().saturating_sub(ENDED_MAX)) {
        entries.jobs.remove(key);
    }
}

async fn record<T: serde::Serialize>(
    owner: &SessionHandle,
    event_type: EventType,
    payload: &T,
) -> Result<(), String> {
    let draft = EventDraft::new(event_type, payload).map_err(|error| error.to_string())?;
    match owner.record(draft.skippable()).await {
        Ok(saved) => saved,
        Err(gone) => Err(gone.to_string()),
    }
}

/// The model is told that a job ended; an idle one in a turn of its own.
async fn tell(owner: &SessionHandle, id: &str, label: &str, status: JobEnd, detail: Option<&str>) {
    let how = match status {
        JobEnd::Completed => "is done",
        JobEnd::Failed => "failed",
        JobEnd::Killed => "was stopped",
    };
    let mut text = format!("Background job {id} ({label}) {how}.");
    if let Some(detail) = detail {
        text.push(' ');
        text.push_str(detail);
    }
    text.push_str(" job_output has what it left.");
    let summary = format!("Job {label}: {how}");
    let relay = Relay {
        content: vec![ContentBlock::text(text)],
        source: Source::Plugin {
            plugin: PLUGIN.to_owned(),
            form: Some("notice".to_owned()),
            sections: None,
            summary: Some(summary.chars().take(120).collect()),
        },
        urgency: if owner.live().stopped_by_person() {
            Urgency::Quiet
        } else {
            Urgency::NextStep
        },
    };
    match owner.relay(relay).await {
        Ok(Ok(_)) => {}
        Ok(Err(refusal)) => {
            tracing::warn!(session = %owner.id(), %refusal, "the end of a job was not told");
        }
        Err(_gone) => tracing::debug!(session = %owner.id(), "the owner of a job was gone"),
    }
}
