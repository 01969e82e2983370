//! Approvals on a terminal: asked one at a time, answered by a person, by `--yes`, or refused.
//!
//! Reading a line cannot be cancelled, so it happens on a thread of its own.

use std::collections::VecDeque;
use std::io::{BufRead as _, IsTerminal as _};

use orrery_api::interaction::{AnswerRequest, ApprovalValue, InteractionOutcome};
use orrery_host::controller::Controller;
use orrery_session::payload::{ApprovalAsked, ApprovalDecided};
use orrery_session::{Event, SessionId};
use tokio::sync::mpsc;

use crate::output;

/// What the model is told when nobody could be asked.
const NOBODY: &str = "nobody is there to approve it";

/// The questions of one turn.
pub(super) struct Asking<'a> {
    controller: &'a Controller,
    session_id: &'a SessionId,
    yes: bool,
    waiting: VecDeque<ApprovalAsked>,
    /// Whether a thread reads a line.
    reading: bool,
    /// The question that the person sees.
    shown: Option<String>,
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
            shown: None,
            lines,
            read,
        }
    }

    /// Takes a question on. Gives the name of what is refused because nobody can answer.
    pub(super) fn ask(&mut self, asked: ApprovalAsked) -> Option<String> {
        if self.yes {
            self.answer(&asked, ApprovalValue::AllowedOnce, None);
            return None;
        }
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            self.answer(&asked, ApprovalValue::Rejected, Some(NOBODY));
            return Some(asked.tool_name);
        }
        self.waiting.push_back(asked);
        None
    }

    /// Forgets a question that was settled, by whomever.
    pub(super) fn settled(&mut self, event: &Event) {
        if let Ok(decided) = event.payload::<ApprovalDecided>() {
            self.waiting.retain(|asked| asked.id != decided.id);
        }
    }

    /// Puts the next question to the person and settles it; waits for ever while there is none.
    /// Nothing is lost when it is dropped before it is done.
    pub(super) async fn answered(&mut self) {
        let Some(asked) = self.waiting.front().cloned() else {
            return std::future::pending().await;
        };
        if self.shown.as_ref() != Some(&asked.id) {
            let reason = asked.reason.as_deref().unwrap_or("it needs your approval");
            output::say(&format!("? {}: {reason}", asked.tool_name));
            output::say("  allow it once? [y/N]");
            self.shown = Some(asked.id.clone());
        }
        if !self.reading {
            self.reading = true;
            let lines = self.lines.clone();
            std::thread::spawn(move || drop(lines.blocking_send(read_line())));
        }
        let line = self.read.recv().await.flatten();
        self.reading = false;
        let allowed = line.is_some_and(|line| matches!(line.trim(), "y" | "Y" | "yes"));
        let value = match allowed {
            true => ApprovalValue::AllowedOnce,
            false => ApprovalValue::Rejected,
        };
        self.waiting.pop_front();
        self.answer(&asked, value, None);
    }

    /// Settles a question, on a task of its own: whoever waits here may be dropped meanwhile.
    fn answer(&self, asked: &ApprovalAsked, value: ApprovalValue, message: Option<&str>) {
        let controller = self.controller.clone();
        let request = AnswerRequest {
            session_id: self.session_id.clone(),
            interaction_id: asked.id.clone(),
            outcome: InteractionOutcome::Approval {
                value,
                message: message.map(str::to_owned),
            },
        };
        tokio::spawn(async move {
            if let Err(error) = controller.answer(request).await {
                output::say(&format!("the answer did not count: {}", error.message));
            }
        });
    }
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}
