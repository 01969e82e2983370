//! `orrery run`: one task, in the terminal, with a Host in this process and no socket.
//!
//! Owns what is shown and how the turn's end becomes an exit code. The session is an ordinary one:
//! it can be continued here with `--session`, or in the page.

mod asking;

use std::io::Read as _;
use std::path::Path;

use orrery_api::content::{Address, DeliveryMode, PromptContentPart};
use orrery_api::history::{FollowItem, FollowRequest};
use orrery_api::model::SelectModelRequest;
use orrery_api::session::{CancelRequest, CreateRequest, PromptRequest};
use orrery_host::controller::{Controller, FollowFeed};
use orrery_session::payload::{ApprovalAsked, AssistantMessage, TurnEnd, TurnEndReason, TurnStart};
use orrery_session::{Event, EventType, LlmFailure, Message, SessionId, Source, Usage};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::asking::Asking;
use crate::args;
use crate::context::{self, Context};
use crate::output;
use crate::report::{Exit, Failure};
use crate::transcript::{Piece, piece};

/// The last line of `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    r#type: &'static str,
    session_id: SessionId,
    outcome: &'static str,
    text: String,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<LlmFailure>,
}

pub(super) async fn run(mut context: Context, run: args::Run) -> Result<(), Failure> {
    let prompt = prompt_of(&run.prompt)?;
    let cwd = match &run.session {
        Some(_) => None,
        None => Some(folder_of(run.cwd.as_deref())?),
    };
    if let Some(preset) = run.permission {
        context.config.permissions.preset = preset.into();
    }
    // For a new session the Host is told the model and nothing is saved: choosing it for one task
    // must not make it the choice of every later session.
    let model = run.model.clone().filter(|_| run.session.is_none());
    context.prepare()?;
    let host = context::host(context.home, context.config, model)?;
    let task = Task {
        controller: host.controller(),
        run: &run,
        prompt,
        cwd,
    };
    let done = task.perform().await;
    let unsaved = host.shutdown().await;
    done?;
    if !unsaved.is_empty() {
        return Err(Failure::Unsaved(unsaved.join("; ")));
    }
    Ok(())
}

fn prompt_of(text: &str) -> Result<String, Failure> {
    let prompt = if text == "-" {
        let mut prompt = String::new();
        let read = std::io::stdin().read_to_string(&mut prompt);
        read.map_err(Failure::io("read the prompt from standard input"))?;
        prompt
    } else {
        text.to_owned()
    };
    if prompt.trim().is_empty() {
        return Err(Failure::Usage("the prompt is empty".to_owned()));
    }
    Ok(prompt)
}

fn folder_of(asked: Option<&Path>) -> Result<String, Failure> {
    let folder = asked.unwrap_or(Path::new("."));
    let action = format!("work in {}", folder.display());
    let folder = folder.canonicalize().map_err(Failure::io(action))?;
    if !folder.is_dir() {
        let message = format!("{} is not a folder", folder.display());
        return Err(Failure::Usage(message));
    }
    let text = folder.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::Usage(format!("{} is not Unicode", folder.display())))
}

struct Task<'a> {
    controller: &'a Controller,
    run: &'a args::Run,
    prompt: String,
    cwd: Option<String>,
}

/// What asks this process to stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::io("listen to signals"));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// What is known of the turn that answers the prompt.
#[derive(Debug, Default)]
struct Turn {
    number: Option<u64>,
    text: String,
    usage: Usage,
    refused: Vec<String>,
    /// Whether the answer stands in the middle of a line.
    open_line: bool,
}

impl Task<'_> {
    async fn perform(&self) -> Result<(), Failure> {
        let session_id = self.session().await?;
        let mut feed = self
            .controller
            .follow(FollowRequest {
                address: Address::Session {
                    session_id: session_id.clone(),
                },
                max_messages: Some(1),
                after_seq: None,
            })
            .await?;
        // The snapshot is what was before; only what follows is ours.
        feed.next().await?;
        let signals = Signals::listen()?;
        let request_id = orrery_session::RandomIds;
        let request_id = orrery_session::IdSource::uuid(&request_id);
        self.controller
            .prompt(PromptRequest {
                request_id: request_id.clone(),
                session_id: session_id.clone(),
                mode: DeliveryMode::Queue,
                content: vec![PromptContentPart::Text {
                    text: self.prompt.clone(),
                }],
                client_time_zone: None,
            })
            .await?;
        let mut turn = Turn::default();
        let reason = self
            .watch(&session_id, &request_id, &mut feed, signals, &mut turn)
            .await?;
        self.conclude(session_id, turn, reason)
    }

    async fn session(&self) -> Result<SessionId, Failure> {
        if let Some(text) = &self.run.session {
            let id = super::sessions::find(self.controller, text).await?;
            if let Some(model) = &self.run.model {
                let request = SelectModelRequest {
                    session_id: id.clone(),
                    provider: model.provider().to_owned(),
                    model: model.model().to_owned(),
                    reasoning_effort: None,
                };
                self.controller.select_model(request).await?;
            }
            return Ok(id);
        }
        let request = CreateRequest {
            cwd: self.cwd.clone(),
            ..CreateRequest::default()
        };
        let created = self.controller.create(request).await?;
        if !self.run.json {
            output::say(&format!("session {}", created.session_id));
        }
        Ok(created.session_id)
    }

    /// Follows the log until the turn that takes the prompt in has ended.
    async fn watch(
        &self,
        session_id: &SessionId,
        request_id: &str,
        feed: &mut FollowFeed,
        mut signals: Signals,
        turn: &mut Turn,
    ) -> Result<TurnEndReason, Failure> {
        let mut asking = Asking::new(self.controller, session_id, self.run.yes);
        let mut latest = None;
        let mut stopped = false;
        loop {
            let piece = tokio::select! {
                piece = feed.next() => piece?,
                () = asking.answered() => continue,
                () = signals.any() => {
                    if stopped {
                        return Err(Failure::Unfinished("interrupted", Exit::Interrupted));
                    }
                    stopped = true;
                    self.stop(session_id);
                    continue;
                }
            };
            let item = serde_json::from_str(&piece.json);
            let FollowItem::Event(record) = item.map_err(|e| Failure::Strange(e.to_string()))?
            else {
                continue;
            };
            let event = Event::from_json(record.event.text())
                .map_err(|error| Failure::Strange(error.to_string()))?;
            if self.run.json {
                output::line(&piece.json)?;
            }
            match event.event_type() {
                EventType::TurnStart => latest = of::<TurnStart>(&event).map(|start| start.turn),
                EventType::UserMessage if is_ours(&event, request_id) => turn.number = latest,
                EventType::ApprovalAsked => {
                    if let Some(asked) = of::<ApprovalAsked>(&event) {
                        turn.close_line(self.run.json)?;
                        turn.refused.extend(asking.ask(asked));
                    }
                }
                EventType::ApprovalDecided => asking.settled(&event),
                EventType::TurnEnd => {
                    let end = of::<TurnEnd>(&event);
                    if let Some(end) = end.filter(|end| Some(end.turn) == turn.number) {
                        return Ok(end.reason);
                    }
                }
                _ => {}
            }
            self.show(&event, turn)?;
        }
    }

    fn stop(&self, session_id: &SessionId) {
        output::say("stopping; interrupt again to leave at once");
        let (controller, session_id) = (self.controller.clone(), session_id.clone());
        tokio::spawn(async move {
            if let Err(error) = controller.cancel(CancelRequest { session_id }).await {
                output::say(&format!("cannot stop: {}", error.message));
            }
        });
    }

    fn show(&self, event: &Event, turn: &mut Turn) -> Result<(), Failure> {
        if *event.event_type() == EventType::AssistantMessage
            && let Some(said) = of::<AssistantMessage>(event)
        {
            turn.add(&said);
        }
        if self.run.json {
            return Ok(());
        }
        match piece(event) {
            Some(Piece::Speaking(text)) => {
                output::foreign(&text)?;
                turn.open_line = !text.ends_with('\n');
            }
            Some(Piece::Said(_)) => turn.close_line(false)?,
            Some(Piece::Doing(line)) => {
                turn.close_line(false)?;
                output::say(&line);
            }
            Some(Piece::Prompt(_)) | None => {}
        }
        Ok(())
    }

    fn conclude(
        &self,
        session_id: SessionId,
        mut turn: Turn,
        reason: TurnEndReason,
    ) -> Result<(), Failure> {
        turn.close_line(self.run.json)?;
        let refused = turn.refused.first().cloned();
        let (outcome, error, failure) = judge(reason, refused);
        if self.run.json {
            output::json(&Outcome {
                r#type: "result",
                session_id,
                outcome,
                text: turn.text,
                usage: turn.usage,
                error,
            })?;
        }
        failure.map_or(Ok(()), Err)
    }
}

impl Turn {
    fn add(&mut self, said: &AssistantMessage) {
        let text = said.message.visible_text();
        if !text.trim().is_empty() {
            self.text = text;
        }
        if let Some(usage) = &said.usage {
            add(&mut self.usage, usage);
        }
    }

    fn close_line(&mut self, json: bool) -> Result<(), Failure> {
        if std::mem::take(&mut self.open_line) && !json {
            output::data("\n")?;
        }
        Ok(())
    }
}

fn add(sum: &mut Usage, more: &Usage) {
    let both = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
    sum.cache_read_tokens = both(sum.cache_read_tokens, more.cache_read_tokens);
    sum.cache_write_tokens = both(sum.cache_write_tokens, more.cache_write_tokens);
    sum.reasoning_tokens = both(sum.reasoning_tokens, more.reasoning_tokens);
}

/// The outcome's name, the error in it, and what the command ends with.
fn judge(
    reason: TurnEndReason,
    refused: Option<String>,
) -> (&'static str, Option<LlmFailure>, Option<Failure>) {
    let unfinished = |what, exit| Some(Failure::Unfinished(what, exit));
    match reason {
        TurnEndReason::Completed => ("completed", None, refused.map(Failure::Refused)),
        TurnEndReason::Aborted { .. } => (
            "aborted",
            None,
            unfinished("the turn was stopped", Exit::Interrupted),
        ),
        TurnEndReason::Blocked => (
            "blocked",
            None,
            unfinished("the prompt was refused", Exit::Refused),
        ),
        TurnEndReason::MaxTokens => (
            "max-tokens",
            None,
            unfinished("the answer hit its length limit", Exit::Failed),
        ),
        TurnEndReason::Error { error } => {
            let failure = Failure::Turn(error.clone());
            ("error", Some(error), Some(failure))
        }
        TurnEndReason::Interrupted | TurnEndReason::Other => (
            "interrupted",
            None,
            unfinished("the turn was interrupted", Exit::Interrupted),
        ),
    }
}

fn of<T: serde::de::DeserializeOwned>(event: &Event) -> Option<T> {
    event.payload().ok()
}

fn is_ours(event: &Event, request_id: &str) -> bool {
    let message: Option<Message> = of(event);
    let source = message.map(|message| message.source);
    matches!(source, Some(Source::User { rpc_id: Some(id), .. }) if id == request_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turns_end_has_its_name_and_its_exit_code() {
        let exit = |reason, refused: Option<&str>| {
            let (name, _, failure) = judge(reason, refused.map(str::to_owned));
            (name, failure.and_then(|failure| failure.report().exit))
        };
        let cause = orrery_session::payload::AbortCause::User;
        let aborted = TurnEndReason::Aborted { reason: cause };
        let error = TurnEndReason::Error {
            error: LlmFailure::new("MISSING_CREDENTIAL", "m"),
        };
        assert_eq!(exit(TurnEndReason::Completed, None), ("completed", None));
        assert_eq!(
            exit(TurnEndReason::Completed, Some("bash")),
            ("completed", Some(Exit::Refused))
        );
        assert_eq!(exit(aborted, None), ("aborted", Some(Exit::Interrupted)));
        assert_eq!(exit(error, None), ("error", Some(Exit::NoModel)));
    }

    #[test]
    fn usage_adds_up() {
        let mut sum = Usage::default();
        let more = Usage {
            input_tokens: 1,
            output_tokens: 2,
            reasoning_tokens: Some(3),
            ..Usage::default()
        };
        add(&mut sum, &more);
        add(&mut sum, &more);
        assert_eq!((sum.input_tokens, sum.output_tokens), (2, 4));
        assert_eq!(
            (sum.reasoning_tokens, sum.cache_read_tokens),
            (Some(6), None)
        );
    }

    #[test]
    fn an_empty_prompt_and_a_folder_that_is_none_are_refused() {
        assert!(matches!(prompt_of(" \n"), Err(Failure::Usage(_))));
        assert!(folder_of(Some(Path::new("/nowhere/at/all"))).is_err());
        assert!(folder_of(Some(Path::new("/dev/null"))).is_err());
    }
}
