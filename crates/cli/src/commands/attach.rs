//! `orrery attach`: a session live in the terminal. What happens is shown as it happens, a line that
//! is typed is a prompt, and what asks is answered here.
//!
//! The session stays where it is: leaving changes nothing in it. Through the Host that runs here,
//! or one that is started for the while.

mod following;

use std::collections::VecDeque;
use std::io::BufRead as _;

use orrery_api::content::{DeliveryMode, PromptContentPart};
use orrery_api::interaction::{AnswerRequest, ApprovalValue, InteractionOutcome};
use orrery_api::operations::{InteractionAnswer, SessionCancel, SessionPrompt};
use orrery_api::session::{CancelRequest, PromptRequest};
use orrery_session::payload::{ApprovalAsked, ApprovalDecided, TurnEnd, TurnEndReason};
use orrery_session::{Event, EventType, IdSource as _, RandomIds, SessionId};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::following::Told;
use super::change;
use crate::args::Attach;
use crate::context::Context;
use crate::output;
use crate::reach::Reach;
use crate::report::Failure;
use crate::transcript::{Piece, piece};

/// Lines that wait to be taken.
const LINES: usize = 16;
const HELP: &str =
    "type to prompt; /steer TEXT joins the running turn, /stop ends it, /quit leaves";

pub(super) async fn attach(context: Context, asked: Attach) -> Result<(), Failure> {
    let reach = Reach::open(context).await?;
    let done = match change::find(&reach, &asked.session).await {
        Ok(session) => Attached::new(&reach, session, asked.json).stay().await,
        Err(failure) => Err(failure),
    };
    // What went wrong first is told first.
    done.and(reach.close().await)
}

struct Attached<'a> {
    reach: &'a Reach,
    session: SessionId,
    json: bool,
    /// Whether a turn runs.
    running: bool,
    /// Whether what is being said stands in the middle of a line.
    open_line: bool,
    /// Whether the answer that is being told was told piece by piece.
    spoken: bool,
    /// Questions that wait, the first of which was shown.
    asking: VecDeque<ApprovalAsked>,
}

impl<'a> Attached<'a> {
    fn new(reach: &'a Reach, session: SessionId, json: bool) -> Self {
        Self {
            reach,
            session,
            json,
            running: false,
            open_line: false,
            spoken: false,
            asking: VecDeque::new(),
        }
    }

    async fn stay(mut self) -> Result<(), Failure> {
        let (home, running) = self.reach.way();
        let mut told = following::follow(home, running, self.session.clone());
        let mut lines = typed();
        let interrupt = signal(SignalKind::interrupt());
        let mut interrupt = interrupt.map_err(Failure::io("listen to signals"))?;
        let mut typing = true;
        loop {
            tokio::select! {
                item = told.recv() => match item {
                    Some(Told::Over(failure)) => return Err(failure),
                    Some(item) => self.take(item)?,
                    None => return Ok(()),
                },
                line = lines.recv(), if typing => match line {
                    Some(line) if line.trim() == "/quit" => return Ok(()),
                    Some(line) => self.line(line.trim()).await?,
                    // Nobody types any more: it goes on until the turn is over.
                    None => typing = false,
                },
                _ = interrupt.recv() => {
                    if !self.running {
                        return Ok(());
                    }
                    output::say("stopping; interrupt again to leave");
                    self.running = false;
                    self.stop().await;
                }
            }
            if !typing && !self.running {
                return Ok(());
            }
        }
    }

    fn take(&mut self, told: Told) -> Result<(), Failure> {
        match told {
            Told::Past(event) => self.show(&event, false),
            Told::Event(event) => self.show(&event, true),
            Told::Caught => {
                if !self.json {
                    output::say(&format!("attached to {}; {HELP}", self.session));
                }
                self.ask();
                Ok(())
            }
            Told::Gap => {
                self.close_line()?;
                output::say("… more was said meanwhile; `orrery sessions show` has all of it");
                Ok(())
            }
            Told::Lost => {
                self.close_line()?;
                output::say("the connection is lost; trying again");
                Ok(())
            }
            Told::Back => {
                output::say("connected again");
                Ok(())
            }
            Told::Over(failure) => Err(failure),
        }
    }

    fn show(&mut self, event: &Event, live: bool) -> Result<(), Failure> {
        if self.json {
            output::line(event.text())?;
        }
        match event.event_type() {
            EventType::TurnStart => self.running = true,
            EventType::TurnEnd => {
                self.running = false;
                self.asking.clear();
                self.close_line()?;
                if let Some(why) = ending(event) {
                    self.say(&why);
                }
            }
            EventType::ApprovalAsked => {
                self.close_line()?;
                if let Ok(asked) = event.payload::<ApprovalAsked>() {
                    self.asking.push_back(asked);
                    if live && self.asking.len() == 1 {
                        self.ask();
                    }
                }
            }
            EventType::ApprovalDecided => {
                if let Ok(decided) = event.payload::<ApprovalDecided>() {
                    let first = self.asking.front().map(|asked| asked.id.clone());
                    self.asking.retain(|asked| asked.id != decided.id);
                    if live && first == Some(decided.id) {
                        self.ask();
                    }
                }
            }
            _ => {}
        }
        if self.json {
            return Ok(());
        }
        match piece(event) {
            Some(Piece::Prompt(said)) => {
                self.close_line()?;
                let said = said.trim_end().replace('\n', "\n> ");
                output::foreign(&format!("\n> {said}\n\n"))?;
            }
            // What was begun before is told whole once it is there.
            Some(Piece::Speaking(text)) if live => {
                output::foreign(&text)?;
                self.open_line = !text.ends_with('\n');
                self.spoken = true;
            }
            Some(Piece::Said(text)) if !std::mem::take(&mut self.spoken) => {
                output::foreign(&format!("{}\n", text.trim_end()))?;
            }
            Some(Piece::Said(_)) => self.close_line()?,
            Some(Piece::Doing(line)) => {
                self.close_line()?;
                output::foreign(&format!("{line}\n"))?;
            }
            Some(Piece::Speaking(_)) | None => {}
        }
        Ok(())
    }

    /// Puts the first question to the person.
    fn ask(&self) {
        let Some(asked) = self.asking.front() else {
            return;
        };
        let reason = asked.reason.as_deref().unwrap_or("it needs your approval");
        output::say(&format!("? {}: {reason}", asked.tool_name));
        output::say("  allow it once? [y/n]");
    }

    async fn line(&mut self, line: &str) -> Result<(), Failure> {
        let answer = match line {
            "" => return Ok(()),
            "y" | "Y" | "yes" => Some(ApprovalValue::AllowedOnce),
            "n" | "N" | "no" => Some(ApprovalValue::Rejected),
            _ => None,
        };
        if let (Some(value), Some(asked)) = (answer, self.asking.front()) {
            let request = AnswerRequest {
                session_id: self.session.clone(),
                interaction_id: asked.id.clone(),
                outcome: InteractionOutcome::Approval {
                    value,
                    message: None,
                },
            };
            let done = self.reach.call::<InteractionAnswer>(&request).await;
            return told(done.map(drop));
        }
        match line.split_once(' ') {
            _ if line == "/stop" => self.stop().await,
            Some(("/steer", text)) => self.prompt(text, DeliveryMode::Steer).await?,
            _ if line.starts_with('/') => output::say(HELP),
            _ => self.prompt(line, DeliveryMode::Queue).await?,
        }
        Ok(())
    }

    async fn prompt(&mut self, text: &str, mode: DeliveryMode) -> Result<(), Failure> {
        let request = PromptRequest {
            request_id: RandomIds.uuid(),
            session_id: self.session.clone(),
            mode,
            content: vec![PromptContentPart::Text {
                text: text.to_owned(),
            }],
            client_time_zone: None,
        };
        let done = self.reach.call::<SessionPrompt>(&request).await;
        // The turn may be over before it is heard of; one that is awaited is not left.
        self.running |= done.is_ok();
        told(done.map(drop))
    }

    async fn stop(&self) {
        let session_id = self.session.clone();
        let request = CancelRequest { session_id };
        if let Err(failure) = self.reach.call::<SessionCancel>(&request).await {
            output::say(&format!("not stopped: {failure}"));
        }
    }

    fn say(&self, text: &str) {
        if !self.json {
            output::say(text);
        }
    }

    fn close_line(&mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.open_line) {
            true => output::data("\n"),
            false => Ok(()),
        }
    }
}

/// What the Host refused is told, and nothing else changes.
fn told(done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Err(Failure::Api(error)) => {
            output::say(&format!("refused: {}", error.message));
            Ok(())
        }
        Err(Failure::NotRunning | Failure::Strange(_)) => {
            output::say("not sent: there is no connection to the Host right now");
            Ok(())
        }
        other => other,
    }
}

/// How a turn ended, where that needs a word.
fn ending(event: &Event) -> Option<String> {
    match event.payload::<TurnEnd>().ok()?.reason {
        TurnEndReason::Completed => None,
        TurnEndReason::Aborted { .. } => Some("(stopped)".to_owned()),
        TurnEndReason::Interrupted => Some("(interrupted)".to_owned()),
        TurnEndReason::MaxTokens => Some("(the answer hit its length limit)".to_owned()),
        TurnEndReason::Error { error } => Some(format!("(failed: {})", error.message)),
        _ => Some("(ended)".to_owned()),
    }
}

/// The lines that are typed. Reading one cannot be cancelled, so it has a thread of its own.
fn typed() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
