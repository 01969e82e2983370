//! The task that owns a live session, and the handle by which everybody else talks to it.
//!
//! The actor feeds the machine, hands its events to the writer, shows them to followers, then runs
//! the effects (`effects`). A prompt is acknowledged once its event is durable; a model is asked and
//! a tool is run only once everything before is (`session.md` 2.16).

mod checkpointing;
mod effects;
mod handle;
mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orrery_llm::Adapters;
use orrery_projection::units::ListMetadata;
use orrery_projection::{Registry, UnitState};
use orrery_session::payload::{AbortCause, InboxTarget, ModelSelection, SessionTitle, TitleSource};
use orrery_session::{
    Clock, EventDraft, EventType, IdSource, Json, Message, SessionId, SessionLog, SharedEvent,
    Source, title,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::checkpoints::{CheckpointPolicy, Pace, Trigger};
use crate::inbox::Waiting;
use crate::live::{Live, LiveState, ProjectionCell, QueuedItem, Saved};
use crate::machine::{Effect, Input, Machine, MachineError, MachineSettings, Output, RetryPolicy};
use crate::prompt::Preset;
use crate::tool::Tool;
use crate::units::content_digest;
use effects::Effects;

pub use handle::{
    ActorGone, AnswerReceipt, CancelReceipt, Command, Prompt, PromptRefusal, Relay, SessionHandle,
    Urgency,
};
pub use outcome::TurnOutcome;

/// Inputs that wait for the actor: bounds how far a fast model may run ahead.
const INPUT_QUEUE: usize = 256;
/// How much of a live log is held in memory: between this and twice as much, in bytes of JSON.
const HELD_BYTES: usize = 4 * 1024 * 1024;
/// Commands that wait for the actor.
const COMMAND_QUEUE: usize = 64;

/// Makes events durable; implemented by the host over storage.
#[async_trait]
pub trait LogWriter: Send + Sync + std::fmt::Debug {
    /// Queues events, which continue the log.
    fn append(&self, events: Vec<SharedEvent>) -> Result<(), String>;
    /// Waits until everything queued before is on disk.
    async fn flush(&self) -> Result<(), String>;
    /// Flushes and lets go of the log.
    async fn close(&self) -> Result<(), String>;
    /// How far the log is on disk, to wait on.
    fn saved(&self) -> watch::Receiver<Saved>;
}

/// Told whenever a session's visible state changed.
pub type OnChange = Arc<dyn Fn(&SessionId) + Send + Sync>;

/// Whether a session must stay live although it has nothing to do.
pub type StayLive = Arc<dyn Fn(&SessionId) -> bool + Send + Sync>;

/// What an actor works with.
#[derive(Clone)]
pub struct ActorDeps {
    /// The projections.
    pub registry: Arc<Registry>,
    /// The models.
    pub adapters: Arc<Adapters>,
    /// The tools.
    pub tools: Arc<[Arc<dyn Tool>]>,
    /// The preset.
    pub preset: Preset,
    /// The model for sessions that never chose one.
    pub default_model: ModelSelection,
    /// How failed model calls are repeated.
    pub retry: RetryPolicy,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn IdSource>,
    /// The units whose whole state readers of this process may see, not their view alone.
    pub shared_units: &'static [&'static str],
    /// Whether every event is on disk before anybody sees it.
    pub flush_before_publishing: bool,
    /// How long an idle session stays live.
    pub idle_detach: Duration,
    /// When projections are kept, and by whom.
    pub checkpoints: CheckpointPolicy,
    /// Where tasks are counted, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
    /// Told of changes.
    pub on_change: OnChange,
    /// Asked before an idle session leaves memory.
    pub stay_live: StayLive,
    /// Logged in the first step that opens, behind its prompt.
    pub on_enter: Option<EventDraft>,
    /// Whether turns begin with what the workspace says of itself (AGENTS.md, surroundings). A
    /// program finds that out for itself.
    pub workspace_context: bool,
}

impl std::fmt::Debug for ActorDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActorDeps")
            .field("preset", &self.preset.id)
            .finish_non_exhaustive()
    }
}

/// Makes a log live. `unsaved` are its events that the writer has not been given yet.
///
/// # Errors
/// When the inbox cannot be rebuilt from the log.
pub fn start(
    deps: ActorDeps,
    log: SessionLog,
    unsaved: Vec<SharedEvent>,
    writer: Arc<dyn LogWriter>,
) -> Result<SessionHandle, MachineError> {
    let mut definitions: Vec<_> = deps.tools.iter().map(|tool| tool.definition()).collect();
    definitions.sort_by(|a, b| a.name.encode_utf16().cmp(b.name.encode_utf16()));
    let settings = MachineSettings {
        system: deps.preset.system.as_str().into(),
        tools: definitions.into(),
        retry: deps.retry.clone(),
        max_parallel_tool_calls: 10,
    };
    let (model, ids) = (deps.default_model.clone(), Arc::clone(&deps.ids));
    let now = deps.clock.now();
    let (mut machine, output) = Machine::new(log, &deps.registry, settings, model, ids, now)?;
    if let Some(draft) = deps.on_enter.clone() {
        machine.log_on_enter(draft);
    }
    let as_of = machine.log().end().cursor();
    let snapshot = machine.cells().snapshot();
    let projections = snapshot
        .values
        .into_iter()
        .map(|(key, value)| (key, ProjectionCell { value, seq: as_of }))
        .collect();
    let header = machine.log().header().clone();
    let inherited = machine.log().inherited_event_count();
    let events = machine.log().events().to_vec();
    let (inputs_in, inputs) = mpsc::channel(INPUT_QUEUE);
    let (commands_in, commands) = mpsc::channel(COMMAND_QUEUE);
    let mut actor = Actor {
        effects: Effects::new(&deps, &header, inputs_in, Arc::clone(&writer)),
        machine,
        writer,
        projections: Arc::new(projections),
        states: Arc::default(),
        cancel_waiters: Vec::new(),
        fault: None,
        outcome: outcome::Outcomes::default(),
        held_bytes: events.iter().map(|event| event.json().len()).sum(),
        live: None,
        pace: Pace::new(&deps.checkpoints),
        deps,
    };
    actor.share_states();
    let live = Arc::new(Live::new(header, inherited, events, actor.state()));
    actor.live = Some(Arc::clone(&live));
    let handle = SessionHandle::new(Arc::clone(&live), commands_in);
    let tasks = actor.deps.tasks.clone();
    tasks.spawn(async move {
        let mut first = unsaved;
        first.extend(output.events);
        if !first.is_empty()
            && let Err(why) = actor.writer.append(first)
        {
            actor.say_fault(&format!("the log could not be saved: {why}"));
        }
        actor.forget_old();
        actor.checkpoint(Trigger::Create);
        actor.run(commands, inputs).await;
    });
    Ok(handle)
}

struct CancelWaiter {
    receipt: CancelReceipt,
    reply: oneshot::Sender<CancelReceipt>,
}

struct Actor {
    deps: ActorDeps,
    machine: Machine,
    effects: Effects,
    writer: Arc<dyn LogWriter>,
    projections: Arc<BTreeMap<&'static str, ProjectionCell>>,
    states: Arc<BTreeMap<&'static str, UnitState>>,
    cancel_waiters: Vec<CancelWaiter>,
    fault: Option<(u64, String)>,
    outcome: outcome::Outcomes,
    /// How many bytes of events are held in memory.
    held_bytes: usize,
    /// Set right after construction.
    live: Option<Arc<Live>>,
    /// How far it is to the next checkpoint.
    pace: Pace,
}

impl Actor {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut inputs: mpsc::Receiver<Input>,
    ) {
        let mut stopping: Option<oneshot::Sender<()>> = None;
        let mut saved = self.writer.saved();
        let mut saving = true;
        loop {
            let idle = self.machine.phase().is_idle();
            if stopping.is_some() && idle {
                break;
            }
            let may_detach = idle && self.machine.inbox().is_empty();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Stop { reply }) => {
                        self.input(Input::Cancel(AbortCause::Disposed)).await;
                        stopping = Some(reply);
                    }
                    Some(Command::StopIfIdle { reply }) => {
                        answer(reply, idle);
                        if idle {
                            break;
                        }
                    }
                    Some(command) => self.command(command).await,
                    // Every handle is gone: nobody can ask for anything any more.
                    None if idle => break,
                    None => self.input(Input::Cancel(AbortCause::Disposed)).await,
                },
                Some(input) = inputs.recv() => self.input(input).await,
                moved = saved.changed(), if saving => {
                    saving = moved.is_ok();
                    self.show_state();
                }
                () = checkpointing::at(self.pace.due()) => self.checkpoint(Trigger::Interval),
                () = tokio::time::sleep(self.deps.idle_detach), if may_detach => {
                    if !(self.deps.stay_live)(&self.id()) {
                        break;
                    }
                }
            }
        }
        // A child that was stopped before its first step is still told what it was.
        if let Some(draft) = self.machine.never_entered() {
            self.input(Input::Record(draft)).await;
        }
        commands.close();
        match self.writer.close().await {
            Ok(()) => self.checkpoint(Trigger::Detach),
            Err(why) => {
                tracing::error!(session = %self.id(), why, "a session was closed with unsaved events");
            }
        }
        if let Some(live) = &self.live {
            live.close();
        }
        (self.deps.on_change)(&self.id());
        if let Some(reply) = stopping {
            answer(reply, ());
        }
    }

    fn id(&self) -> SessionId {
        self.machine.log().header().id.clone()
    }

    async fn input(&mut self, input: Input) {
        let now = self.deps.clock.now();
        let output = self.machine.step(input, now);
        self.commit(output).await;
    }

    /// Commits, then acts.
    async fn commit(&mut self, output: Output) {
        let Output {
            events,
            changed,
            effects,
            refused: _,
            concluded,
            streamed,
            faults,
        } = output;
        for fault in faults {
            self.say_fault(&fault);
        }
        if !events.is_empty() {
            if let Err(why) = self.writer.append(events.clone()) {
                self.say_fault(&format!("the log could not be saved: {why}"));
            }
            if self.deps.flush_before_publishing
                && let Err(why) = self.writer.flush().await
            {
                self.say_fault(&format!("the log could not be saved: {why}"));
            }
        }
        if !changed.is_empty() {
            let projections = Arc::make_mut(&mut self.projections);
            for change in changed {
                let seq = change.seq.offset_after().cursor();
                projections.insert(
                    change.key,
                    ProjectionCell {
                        value: change.value,
                        seq,
                    },
                );
            }
        }
        self.share_states();
        self.outcome.concluded(concluded);
        self.outcome.feed(&events, &streamed);
        if let Some(live) = &self.live {
            live.publish(&events);
        }
        self.held_bytes += events.iter().map(|event| event.json().len()).sum::<usize>();
        self.forget_old();
        self.pace_checkpoints(&events);
        let chunks_only = effects.is_empty()
            && events
                .iter()
                .all(|e| *e.event_type() == EventType::AssistantChunk);
        if !chunks_only {
            self.show_state();
        }
        for effect in effects {
            if let Effect::TurnEnded { turn, reason } = &effect {
                tracing::debug!(session = %self.id(), turn, ?reason, "turn ended");
                for waiter in std::mem::take(&mut self.cancel_waiters) {
                    answer(waiter.reply, waiter.receipt);
                }
            }
            self.effects.run(effect);
        }
    }

    /// Lets go of old events that are on disk, down to the newest few MiB (decision D30).
    fn forget_old(&mut self) {
        if self.held_bytes <= 2 * HELD_BYTES {
            return;
        }
        let durable = self.writer.saved().borrow().through;
        let log = self.machine.log();
        let mut boundary = log.held_from();
        let mut left = self.held_bytes;
        for event in log.events() {
            if left <= HELD_BYTES || event.seq().offset_after() > durable {
                break;
            }
            left -= event.json().len().min(left);
            boundary = event.seq().offset_after();
        }
        self.held_bytes = left;
        self.machine.forget_before(boundary);
        if let Some(live) = &self.live {
            live.forget_before(boundary);
        }
    }

    /// Takes over the states that are shared, where one is another than before.
    fn share_states(&mut self) {
        for key in self.deps.shared_units {
            let state = self.machine.cells().shared_state(key);
            let same = match (self.states.get(key), &state) {
                (Some(before), Some(now)) => before.is(now),
                (None, None) => true,
                _ => false,
            };
            if same {
                continue;
            }
            let states = Arc::make_mut(&mut self.states);
            match state {
                Some(state) => states.insert(key, state),
                None => states.remove(key),
            };
        }
    }

    fn state(&self) -> LiveState {
        let metadata = self.machine.cells().state_of(&ListMetadata).copied();
        let turn = self.machine.phase().turn();
        LiveState {
            running: turn.is_some(),
            queue: QueuedItem::of(self.machine.inbox()).into(),
            parked: self.machine.parked(),
            asking: turn.map(|turn| turn.asking()).unwrap_or_default().into(),
            projections: Arc::clone(&self.projections),
            states: Arc::clone(&self.states),
            next_model: self.machine.next_model(),
            as_of: self.machine.log().end().cursor(),
            last_prompt_at: metadata.and_then(|m| m.last_prompt_at),
            blank: metadata.is_none_or(|m| m.blank),
            saved: self.writer.saved().borrow().clone(),
            fault: self.fault.clone(),
            outcome: self.outcome.last(),
        }
    }

    fn show_state(&self) {
        if let Some(live) = &self.live {
            live.publish_state(self.state());
        }
        (self.deps.on_change)(&self.id());
    }

    fn say_fault(&mut self, why: &str) {
        tracing::error!(session = %self.id(), why, "session fault");
        let count = self.fault.as_ref().map_or(1, |(count, _)| count + 1);
        self.fault = Some((count, why.to_owned()));
        self.show_state();
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Prompt { prompt, reply } => self.prompt(prompt, reply).await,
            Command::Cancel { cause, reply } => {
                let turn = self.machine.phase().turn();
                let receipt = CancelReceipt {
                    turn: turn.map(|turn| turn.number),
                    tools: turn.map(|turn| turn.running_calls()).unwrap_or_default(),
                    commands: turn.map_or(0, |turn| turn.running_commands()),
                };
                if receipt.turn.is_none() {
                    answer(reply, receipt);
                    return;
                }
                self.cancel_waiters.push(CancelWaiter { receipt, reply });
                self.input(Input::Cancel(cause)).await;
            }
            Command::Queue {
                item,
                action,
                reply,
            } => {
                let now = self.deps.clock.now();
                let output = self.machine.step(Input::Queue { item, action }, now);
                let result = output.refused.map_or(Ok(()), Err);
                self.commit(output).await;
                self.reply_when_saved(reply, result);
            }
            Command::ResumeQueue { reply } => {
                self.input(Input::Wake).await;
                self.reply_when_saved(reply, ());
            }
            Command::Rename { title, reply } => {
                let Some(title) = title::normalise(&title) else {
                    answer(reply, Ok(None));
                    return;
                };
                let record = SessionTitle {
                    title: title.clone(),
                    message_seqs: Vec::new(),
                    source: TitleSource::User,
                };
                let end = self.machine.log().end();
                self.record(EventType::SessionTitle, &record).await;
                self.reply_saved_result(reply, Some((title, end.next_seq())));
            }
            Command::SelectModel { selection, reply } => {
                self.record(EventType::ModelSelection, &selection).await;
                self.reply_saved_result(reply, ());
            }
            Command::Answer {
                interaction,
                outcome,
                message,
                reply,
            } => {
                let open = self.machine.phase().turn().map(|turn| turn.asking());
                let known = open.is_some_and(|o| o.iter().any(|a| a.approval_id == interaction));
                if known {
                    let approval_id = interaction;
                    self.input(Input::Decide {
                        approval_id,
                        outcome,
                        message,
                    })
                    .await;
                    self.reply_when_saved(reply, AnswerReceipt::Accepted);
                } else {
                    let receipt = self
                        .machine
                        .decided(&interaction)
                        .map_or(AnswerReceipt::Unknown, AnswerReceipt::Settled);
                    answer(reply, receipt);
                }
            }
            Command::Relay { relay, reply } => self.relay(relay, reply).await,
            Command::Record { draft, reply } => {
                self.input(Input::Record(draft)).await;
                self.reply_saved_result(reply, ());
            }
            Command::StopIfIdle { reply } => answer(reply, false),
            Command::Stop { reply } => answer(reply, ()),
        }
    }

    async fn record<T: serde::Serialize>(&mut self, event_type: EventType, payload: &T) {
        match EventDraft::new(event_type, payload) {
            Ok(draft) => self.input(Input::Record(draft)).await,
            Err(error) => self.say_fault(&error.to_string()),
        }
    }

    async fn prompt(
        &mut self,
        prompt: Prompt,
        reply: oneshot::Sender<Result<orrery_session::MessageId, PromptRefusal>>,
    ) {
        let id = self.deps.ids.message();
        let source = Source::User {
            rpc_id: Some(prompt.request_id.clone()),
            client_time_zone: prompt.client_time_zone,
        };
        let message = Message::user(id.clone(), prompt.content, source);
        let (content, whole) = match (
            Json::from_value(&message.content),
            Json::from_value(&message),
        ) {
            (Ok(content), Ok(whole)) => (content, whole),
            (Err(error), _) | (_, Err(error)) => {
                answer(reply, Err(PromptRefusal::Malformed(error.to_string())));
                return;
            }
        };
        if let Some(accepted) = self.machine.accepted_prompt(&prompt.request_id) {
            let result = if accepted.digest == content_digest(&content) {
                Ok(accepted.message_id.clone())
            } else {
                Err(PromptRefusal::Conflict)
            };
            self.reply_saved(reply, result);
            return;
        }
        let target = if prompt.steer {
            InboxTarget::NextStep
        } else {
            InboxTarget::NextTurn
        };
        let message = Waiting {
            id: id.clone(),
            message: whole,
        };
        let wake = true;
        self.input(Input::Deliver {
            message,
            target,
            wake,
        })
        .await;
        self.reply_saved(reply, Ok(id));
    }

    async fn relay(
        &mut self,
        relay: Relay,
        reply: oneshot::Sender<Result<orrery_session::MessageId, PromptRefusal>>,
    ) {
        let id = self.deps.ids.message();
        let message = Message::user(id.clone(), relay.content, relay.source);
        let message = match Json::from_value(&message) {
            Ok(message) => Waiting {
                id: id.clone(),
                message,
            },
            Err(error) => {
                answer(reply, Err(PromptRefusal::Malformed(error.to_string())));
                return;
            }
        };
        let target = match relay.urgency {
            Urgency::NextStep | Urgency::Quiet => InboxTarget::NextStep,
            Urgency::NextTurn => InboxTarget::NextTurn,
        };
        let wake = relay.urgency != Urgency::Quiet;
        self.input(Input::Deliver {
            message,
            target,
            wake,
        })
        .await;
        self.reply_saved(reply, Ok(id));
    }

    /// Answers once everything logged so far is on disk.
    fn reply_saved<T: Send + 'static>(
        &self,
        reply: oneshot::Sender<Result<T, PromptRefusal>>,
        result: Result<T, PromptRefusal>,
    ) {
        let writer = Arc::clone(&self.writer);
        self.deps.tasks.spawn(async move {
            let result = match writer.flush().await {
                Ok(()) => result,
                Err(why) => Err(PromptRefusal::NotSaved(why)),
            };
            answer(reply, result);
        });
    }

    fn reply_saved_result<T: Send + 'static>(
        &self,
        reply: oneshot::Sender<Result<T, String>>,
        value: T,
    ) {
        let writer = Arc::clone(&self.writer);
        self.deps.tasks.spawn(async move {
            let result = writer.flush().await.map(|()| value);
            answer(reply, result);
        });
    }

    /// Answers once the log is flushed; a failed flush is said by the writer's own state, and the
    /// answer, which concerns this process only, stands.
    fn reply_when_saved<T: Send + 'static>(&self, reply: oneshot::Sender<T>, value: T) {
        let writer = Arc::clone(&self.writer);
        self.deps.tasks.spawn(async move {
            if let Err(why) = writer.flush().await {
                tracing::error!(why, "the log could not be saved");
            }
            answer(reply, value);
        });
    }
}

/// Answers a caller. One that went away does not undo what was done: it finds it in the log.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::debug!("a caller did not wait for its answer");
    }
}
