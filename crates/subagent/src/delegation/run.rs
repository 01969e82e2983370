//! A one-shot run: started, waited for, taken down, then reported (`subagent.md` 4.6).

use std::sync::Arc;

use orrery_agent::SessionHandle;
use orrery_agent::actor::{Prompt, PromptRefusal, TurnOutcome};
use orrery_agent::jobs::{JobFeed, JobResult, JobSpec};
use orrery_session::payload::AbortCause;
use orrery_session::{CallId, ContentBlock, Json, MessageId, SessionId};
use tokio_util::sync::CancellationToken;

use super::notice::{answer_of, diagnostic_of, said};
use super::{Delegation, DelegationError, Established, Kind, STRUCTURED_OUTPUT, StopReason, Task};

/// What came of a one-shot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// The child's session.
    pub child: SessionId,
    /// How it ended.
    pub reason: StopReason,
    /// The child's last answer that was not empty.
    pub output: Vec<ContentBlock>,
    /// The answer in the shape that was asked for; there whenever one was and the run completed.
    pub structured: Option<Json>,
    /// What went wrong, at most 4,096 bytes; never part of the output.
    pub diagnostic: Option<String>,
}

impl Delegation {
    /// Has a child do one thing, and waits for it. The child is taken down before this answers; a
    /// signal stops it first.
    ///
    /// # Errors
    /// What keeps the child from being started. How the work itself ended is the answer.
    pub async fn run(
        &self,
        parent: &SessionId,
        task: Task,
        signal: &CancellationToken,
    ) -> Result<RunEnd, DelegationError> {
        let parent = self.live_parent(parent)?;
        let _hold = self.hold(super::header_id(&parent));
        if signal.is_cancelled() {
            return Err(DelegationError::Cancelled);
        }
        let established = self.establish(&parent, &task, Kind::OneShot).await?;
        let Established {
            child,
            slot,
            program,
        } = established;
        let id = slot.child.clone();
        let started = self.first_prompt(&child, &task.prompt).await;
        let mut begun = None;
        if started.is_ok() {
            self.table.update(&id, |active| active.accepted = true);
            let local = program.is_none();
            begun = Some(
                self.herald
                    .begin(&task.provider, &id, super::header_id(&parent), local),
            );
            self.until_done(&child, signal).await;
        }
        let outcome = child.live().state_now().outcome.clone();
        self.take_down(&child).await;
        if let Some(program) = &program {
            program.dispose().await;
        }
        drop(slot);
        started?;
        let outcome = outcome.or_else(|| child.live().state_now().outcome.clone());
        let mut end = run_end(id, outcome.as_ref(), task.answer.is_some());
        // A program's turn is one message of the log; its answer is the last of its own.
        if let Some(answer) = program.map(|program| program.answer())
            && !answer.is_empty()
        {
            end.output = vec![ContentBlock::text(answer)];
        }
        if let Some(begun) = begun {
            begun.end(end.reason, said(&end.output));
        }
        Ok(end)
    }

    /// Has a child do one thing beside the parent's turns; answers at once with the job's id. What
    /// keeps the child from being started is the job's failure.
    ///
    /// # Errors
    /// When there is no such parent or provider, or the job cannot be begun.
    pub async fn start_job(
        &self,
        parent: &SessionId,
        task: Task,
        call_id: &CallId,
    ) -> Result<String, DelegationError> {
        self.parts.providers.get(&task.provider)?;
        let owner = self.live_parent(parent)?;
        let spec = JobSpec {
            kind: "subagent",
            label: task.label.clone(),
            call_id: Some(call_id.clone()),
        };
        let (delegation, parent) = (self.clone(), parent.clone());
        let work = move |feed: JobFeed| async move {
            let (succeeded, text) = match delegation.run(&parent, task, &feed.cancel).await {
                Ok(end) => answer_of(&end),
                Err(error) => (false, error.to_string()),
            };
            feed.write(&text);
            let detail = (!succeeded).then(|| text.lines().next().unwrap_or_default().to_owned());
            JobResult { succeeded, detail }
        };
        Ok(self.parts.jobs.start(&owner, spec, work).await?)
    }

    /// Waits for the first rest; a signal stops the turn.
    async fn until_done(&self, child: &SessionHandle, signal: &CancellationToken) {
        let mut state = child.live().state();
        // An error means that the actor is gone, which is a rest too.
        let rests = async { state.wait_for(|state| !state.running).await.is_ok() };
        tokio::select! {
            _rested = rests => {}
            () = child.closed() => {}
            () = signal.cancelled() => {
                if child.cancel(AbortCause::Parent).await.is_err() {
                    tracing::debug!(session = %child.id(), "closed before it was stopped");
                }
            }
        }
    }

    /// Says the task; accepted once it is durable.
    pub(super) async fn first_prompt(
        &self,
        child: &SessionHandle,
        text: &str,
    ) -> Result<MessageId, DelegationError> {
        let prompt = Prompt {
            request_id: self.parts.ids.uuid(),
            content: vec![ContentBlock::text(text)],
            steer: false,
            client_time_zone: None,
        };
        match child.prompt(prompt).await {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(refusal)) => Err(refused(&refusal)),
            Err(_gone) => Err(DelegationError::ActivationClosing {
                id: child.id().clone(),
            }),
        }
    }

    /// Stops a session and everything below it; nobody is woken by what ends.
    pub(super) async fn take_down(&self, session: &SessionHandle) {
        let id = session.id().clone();
        self.table.close(&id, true);
        // From above, so that nobody starts anything new; each is waited for, so the last to rest
        // is the session itself.
        let below = self.table.below(&id);
        for (_, handle) in &below {
            if let Some(handle) = handle
                && handle.cancel(AbortCause::Parent).await.is_err()
            {
                tracing::debug!(session = %handle.id(), "closed before it was stopped");
            }
        }
        for (_, handle) in below.iter().rev() {
            if let Some(handle) = handle {
                stop(handle).await;
            }
        }
        stop(session).await;
        self.table.close(&id, false);
    }
}

async fn stop(session: &SessionHandle) {
    if session.stop().await.is_err() {
        tracing::debug!(session = %session.id(), "closed by itself before it was taken down");
    }
    session.closed().await;
}

pub(super) fn refused(refusal: &PromptRefusal) -> DelegationError {
    DelegationError::PersistenceUnavailable {
        why: refusal.to_string(),
    }
}

fn run_end(child: SessionId, outcome: Option<&Arc<TurnOutcome>>, shaped: bool) -> RunEnd {
    let outcome = outcome.map(AsRef::as_ref);
    let structured = outcome.and_then(|o| o.concluded.clone());
    let (mut reason, mut diagnostic) = (StopReason::of(outcome), diagnostic_of(outcome));
    if shaped && reason == StopReason::Completed && structured.is_none() {
        reason = StopReason::Error;
        diagnostic = Some(format!("it ended without calling {STRUCTURED_OUTPUT}"));
    }
    RunEnd {
        child,
        reason,
        output: outcome.map(|o| o.output.clone()).unwrap_or_default(),
        structured,
        diagnostic,
    }
}
