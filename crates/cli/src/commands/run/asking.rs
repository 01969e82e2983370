//! Approvals on a terminal: asked one at a time, answered by a person, by `--yes`, or refused.
//!
//! Reading a line cannot be cancelled, so it happens on a thread of its own; an answer that comes
//! after the question was settled counts for nothing.

use std::collections::VecDeque;
use std::io::{BufRead as _, IsTerminal as _};

use orrery_api::interaction::{AnswerRequest, ApprovalValue, InteractionOutcome};
use orrery_host::controller::Controller;
use orrery_session::payload::{ApprovalAsked, ApprovalDecided};
use orrery_session::{Event, SessionId};
use tokio::sync::mpsc;

use crate::output;
use crate::report::Failure;

/// The questions of one turn.
pub(super) struct Asking<'a> {
    controller: &'a Controller,
    session_id: &'a SessionId,
    yes: bool,
    waiting: VecDeque<ApprovalAsked>,
    /// Whether a line is being read for the first question.
    reading: bool,
    lines: mpsc::Sender<Option<String>>,
    read: mpsc::Receiver<Option<String>>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(controller: &'a Controller, session_id: &'a SessionId, yes: bool) -> Self {
        let (lines, read) = mpsc::channel(1);
        Self {
            controller,
            session_id,
            yes,
            waiting: VecDeque::new(),
            reading: false,
            lines,
            read,
        }
    }

    /// Takes a question on.
    pub(super) fn ask(&mut self, asked: ApprovalAsked) {
        self.waiting.push_back(asked);
    }

    /// Forgets a question that was settled, by whomever.
    pub(super) fn settled(&mut self, event: &Event) {
        if let Ok(decided) = event.payload::<ApprovalDecided>() {
            self.waiting.retain(|asked| asked.id != decided.id);
        }
    }

    /// Settles the next question; waits for ever while there is none. Gives the name of what was
    /// refused because nobody could answer.
    pub(super) async fn answered(&mut self) -> Result<Option<String>, Failure> {
        loop {
            let Some(asked) = self.waiting.front().cloned() else {
                return std::future::pending().await;
            };
            let person = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
            if self.yes {
                return self.answer(&asked, ApprovalValue::AllowedOnce).await;
            }
            if !person {
                self.answer(&asked, ApprovalValue::Rejected).await?;
                return Ok(Some(asked.tool_name));
            }
            if !self.reading {
                let reason = asked.reason.as_deref().unwrap_or("it needs your approval");
                output::say(&format!("? {}: {reason}", asked.tool_name));
                output::say("  allow it once? [y/N]");
                self.reading = true;
                let lines = self.lines.clone();
                std::thread::spawn(move || drop(lines.blocking_send(read_line())));
            }
            let line = self.read.recv().await.flatten();
            self.reading = false;
            if self.waiting.front() != Some(&asked) {
                // Settled while the line was typed; the next question is asked afresh.
                continue;
            }
            let allowed = line.is_some_and(|line| matches!(line.trim(), "y" | "Y" | "yes"));
            let value = match allowed {
                true => ApprovalValue::AllowedOnce,
                false => ApprovalValue::Rejected,
            };
            return self.answer(&asked, value).await;
        }
    }

    async fn answer(
        &mut self,
        asked: &ApprovalAsked,
        value: ApprovalValue,
    ) -> Result<Option<String>, Failure> {
        self.waiting.retain(|other| other.id != asked.id);
        let request = AnswerRequest {
            session_id: self.session_id.clone(),
            interaction_id: asked.id.clone(),
            outcome: InteractionOutcome::Approval {
                value,
                message: None,
            },
        };
        self.controller.answer(request).await?;
        Ok(None)
    }
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}
