//! The handle of a live session: commands in, answers out.

use std::sync::Arc;

use orrery_session::payload::{AbortCause, ApprovalOutcome, ModelSelection};
use orrery_session::{CallId, ContentBlock, EventDraft, MessageId, SessionId, SessionSeq, Source};
use tokio::sync::{mpsc, oneshot};

use crate::live::Live;
use crate::machine::{QueueAction, QueueRefusal};

/// The session is no longer live; resume it and try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is no longer live")]
pub struct ActorGone;

/// A message of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The client's id of it: the same id is accepted once.
    pub request_id: String,
    /// What is said.
    pub content: Vec<ContentBlock>,
    /// Whether it should join the running turn; without one it opens a turn like any other.
    pub steer: bool,
    /// The client's IANA time zone, canonical.
    pub client_time_zone: Option<String>,
}

/// A message from somebody else than a person: another agent, or the house.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// What is said.
    pub content: Vec<ContentBlock>,
    /// Who says it.
    pub source: Source,
    /// When it is read.
    pub urgency: Urgency,
}

/// When a relayed message is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// In the next step of a running turn; without one it opens a turn.
    NextStep,
    /// In a turn of its own.
    NextTurn,
    /// In the next step of a running turn; without one it waits for somebody to wake the session.
    Quiet,
}

/// Why a prompt was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptRefusal {
    /// The request id was used for other content.
    #[error("this request id was used for another prompt")]
    Conflict,
    /// It could not be made durable, so it must not be acknowledged.
    #[error("the prompt could not be saved: {0}")]
    NotSaved(String),
    /// Its content cannot be written.
    #[error("the prompt cannot be written: {0}")]
    Malformed(String),
}

/// What a stop stopped; given once it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelReceipt {
    /// The turn that ended, if one ran.
    pub turn: Option<u64>,
    /// The calls that ran.
    pub tools: Vec<CallId>,
    /// How many of them were commands.
    pub commands: usize,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerReceipt {
    /// It settled the question.
    Accepted,
    /// The question was settled before.
    Settled(ApprovalOutcome),
    /// No such question was ever asked here.
    Unknown,
}

/// What an actor is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Take a prompt.
    Prompt {
        /// The prompt.
        prompt: Prompt,
        /// Answered once it is durable.
        reply: oneshot::Sender<Result<MessageId, PromptRefusal>>,
    },
    /// Take a message that no person sent.
    Relay {
        /// The message.
        relay: Relay,
        /// Answered once it is durable.
        reply: oneshot::Sender<Result<MessageId, PromptRefusal>>,
    },
    /// Log an event that stands for itself.
    Record {
        /// The event.
        draft: EventDraft,
        /// Answered once it is durable.
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Stop the turn.
    Cancel {
        /// Who stops it.
        cause: AbortCause,
        /// Answered once it is over.
        reply: oneshot::Sender<CancelReceipt>,
    },
    /// Change the queue.
    Queue {
        /// The waiting message.
        item: MessageId,
        /// What to do with it.
        action: QueueAction,
        /// The answer.
        reply: oneshot::Sender<Result<(), QueueRefusal>>,
    },
    /// Go on with a parked queue.
    ResumeQueue {
        /// The answer.
        reply: oneshot::Sender<()>,
    },
    /// Give the session a title of a person's choice.
    Rename {
        /// The text, not yet normalised.
        title: String,
        /// The title and its event; none when nothing visible was left of it.
        reply: oneshot::Sender<Result<Option<(String, SessionSeq)>, String>>,
    },
    /// Choose the next model.
    SelectModel {
        /// Which.
        selection: ModelSelection,
        /// The answer.
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Answer a question for approval.
    Answer {
        /// The question.
        interaction: String,
        /// The decision.
        outcome: ApprovalOutcome,
        /// What the person says with it.
        message: Option<String>,
        /// The answer.
        reply: oneshot::Sender<AnswerReceipt>,
    },
    /// Save everything and end, if nothing runs; answers whether it does.
    StopIfIdle {
        /// The answer; what is asked of a session that ends is answered by nobody.
        reply: oneshot::Sender<bool>,
    },
    /// Stop the turn, save everything, end.
    Stop {
        /// Answered at the end.
        reply: oneshot::Sender<()>,
    },
}

/// A live session.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    live: Arc<Live>,
    commands: mpsc::Sender<Command>,
}

impl SessionHandle {
    pub(super) const fn new(live: Arc<Live>, commands: mpsc::Sender<Command>) -> Self {
        Self { live, commands }
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.live.header().id
    }

    /// What the session shows.
    pub const fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Whether the actor still takes commands.
    pub fn is_live(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Waits until the session is closed and its log is free.
    pub async fn closed(&self) {
        let mut head = self.live.head();
        // An error means that the actor is gone altogether.
        drop(head.wait_for(|head| head.closed).await);
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ActorGone> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_closed| ActorGone)?;
        answer.await.map_err(|_dropped| ActorGone)
    }

    /// Takes a prompt; answered once it is durable.
    pub async fn prompt(
        &self,
        prompt: Prompt,
    ) -> Result<Result<MessageId, PromptRefusal>, ActorGone> {
        self.ask(|reply| Command::Prompt { prompt, reply }).await
    }

    /// Takes a message that no person sent; answered once it is durable.
    pub async fn relay(&self, relay: Relay) -> Result<Result<MessageId, PromptRefusal>, ActorGone> {
        self.ask(|reply| Command::Relay { relay, reply }).await
    }

    /// Logs an event that stands for itself; answered once it is durable.
    pub async fn record(&self, draft: EventDraft) -> Result<Result<(), String>, ActorGone> {
        self.ask(|reply| Command::Record { draft, reply }).await
    }

    /// Stops the turn; answered once it is over. The queue stays.
    pub async fn cancel(&self, cause: AbortCause) -> Result<CancelReceipt, ActorGone> {
        self.ask(|reply| Command::Cancel { cause, reply }).await
    }

    /// Ends the session's life in this process if no turn runs; says whether it did. Whatever was
    /// accepted before runs first.
    pub async fn stop_if_idle(&self) -> Result<bool, ActorGone> {
        self.ask(|reply| Command::StopIfIdle { reply }).await
    }

    /// Changes the queue.
    pub async fn change_queue(
        &self,
        item: MessageId,
        action: QueueAction,
    ) -> Result<Result<(), QueueRefusal>, ActorGone> {
        self.ask(|reply| Command::Queue {
            item,
            action,
            reply,
        })
        .await
    }

    /// Goes on with a parked queue.
    pub async fn resume_queue(&self) -> Result<(), ActorGone> {
        self.ask(|reply| Command::ResumeQueue { reply }).await
    }

    /// Pins a title.
    pub async fn rename(
        &self,
        title: String,
    ) -> Result<Result<Option<(String, SessionSeq)>, String>, ActorGone> {
        self.ask(|reply| Command::Rename { title, reply }).await
    }

    /// Chooses the next model.
    pub async fn select_model(
        &self,
        selection: ModelSelection,
    ) -> Result<Result<(), String>, ActorGone> {
        self.ask(|reply| Command::SelectModel { selection, reply })
            .await
    }

    /// Answers a question for approval.
    pub async fn answer(
        &self,
        interaction: String,
        outcome: ApprovalOutcome,
        message: Option<String>,
    ) -> Result<AnswerReceipt, ActorGone> {
        self.ask(|reply| Command::Answer {
            interaction,
            outcome,
            message,
            reply,
        })
        .await
    }

    /// Stops the turn, saves everything and ends the session's life in this process.
    pub async fn stop(&self) -> Result<(), ActorGone> {
        self.ask(|reply| Command::Stop { reply }).await
    }
}
