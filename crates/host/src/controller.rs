//! The session controller: every operation of the API, without the wire.
//!
//! Owns resolving a session (live, cold, to be resumed), the ownership fence, and the rule of each
//! operation. One file for each family of operations below. Leaves frames, trust and credentials to
//! `gateway`, the turn itself to the session's actor.

mod catalogue;
mod cold_rows;
mod control;
mod create;
mod export;
pub(crate) mod failures;
mod fork;
mod history;
mod household;
mod import;
mod jobs;
mod models;
mod prompting;
mod put_away;
mod rows;
mod search;
pub(crate) mod subagents;
mod workspaces;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orrery_agent::actor::{self, ActorGone};
use orrery_agent::jobs::Jobs;
use orrery_agent::live::OnDisk;
use orrery_agent::units::AgentPresetUnit;
use orrery_agent::{ActorDeps, CheckpointPolicy, Preset, RetryPolicy, SessionHandle, Tool};
use orrery_api::error::{ApiError, ErrorCode};
use orrery_llm::{Adapter, Adapters};
use orrery_projection::checkpoint::CheckpointStore;
use orrery_projection::{Cells, Registration, Registry};
use orrery_query::page::tail_page;
use orrery_query::search::{Search, SearchIndex, Searcher};
use orrery_query::{Observation, Observations, Page, Wanted, tail_page_of};
use orrery_session::payload::{ApprovalPolicy, ModelSelection, SandboxMode};
use orrery_session::{
    Clock, EventDraft, IdSource, SessionHeader, SessionId, SessionLog, SessionLogOffset,
    SharedEvent, Vocabulary,
};
use orrery_storage::{Durability, LogView, LogWriter, StorageError, Store};
use orrery_subagent::delegation::Delegation;
use orrery_subagent::listing::Lister;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::checkpoints::Checkpoints;
use crate::live_sessions::LiveSessions;
use crate::log_writer::StoredLogWriter;
use crate::state_file::StateFile;

pub use catalogue::CatalogFeed;
pub use control::ControlFeed;
pub use history::{FollowFeed, FollowPiece};
pub use household::DelegationSettings;

/// What is folded of a cold log: what clients see, and what the control stream tells of it.
const WANTED: Wanted<'static> = Wanted {
    always: &[
        "title",
        "sessionListMetadata",
        "agentPreset",
        "modelSelection",
        "permissions",
        "subagent",
        "jobs",
    ],
    while_queued: &["inbox"],
    while_asking: &["pendingApprovals"],
};
/// How long a shutdown waits for what runs in the background, once everything is saved.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How often an operation follows a session that closes under its hands.
const RESUME_ATTEMPTS: usize = 5;

/// What the controller works with.
#[derive(Debug)]
pub struct ControllerParts {
    /// The logs.
    pub store: Store,
    /// What no log can say.
    pub state: StateFile,
    /// Where projections are kept; without it cold sessions are folded from their logs.
    pub checkpoints: Option<Arc<dyn CheckpointStore>>,
    /// Where words are found, unless nobody wants to; or why that place cannot be used.
    pub search: Option<Result<Arc<dyn SearchIndex>, String>>,
    /// The models.
    pub adapters: Adapters,
    /// The tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn IdSource>,
    /// How work is delegated.
    pub delegation: DelegationSettings,
    /// The rest.
    pub settings: ControllerSettings,
}

/// How the controller behaves.
#[derive(Debug, Clone)]
pub struct ControllerSettings {
    /// The folder of sessions that name none.
    pub default_cwd: PathBuf,
    /// What tools of new sessions may touch.
    pub sandbox: SandboxMode,
    /// Whether new sessions ask.
    pub approvals: ApprovalPolicy,
    /// The model of the configuration.
    pub default_model: ModelSelection,
    /// The model that this process was told to use for new sessions.
    pub model: Option<ModelSelection>,
    /// How long an idle session stays live.
    pub idle_detach: Duration,
    /// How many cold logs are read at once.
    pub cold_read_concurrency: usize,
    /// How failed model calls are repeated.
    pub retry: RetryPolicy,
    /// After how many events the projections of a live session are kept.
    pub checkpoint_every_events: usize,
    /// How long after something happened they are kept.
    pub checkpoint_interval: Duration,
}

/// All operations on sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Controller {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    subagents: Lister,
    delegation: Delegation,
    jobs: Jobs,
    store: Store,
    state: StateFile,
    registry: Arc<Registry>,
    /// Keeps the units registered.
    _registrations: Vec<Registration>,
    observations: Observations,
    adapters: Arc<Adapters>,
    tools: Arc<[Arc<dyn Tool>]>,
    preset: Preset,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    settings: ControllerSettings,
    live: Arc<LiveSessions>,
    cold: cold_rows::ColdRows,
    /// Moves when cold sessions came, went or were marked by this process.
    rearranged: watch::Sender<u64>,
    listing: tokio::sync::Mutex<Option<Arc<rows::Listing>>>,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    keeper: Option<Checkpoints>,
    search: Search,
    /// How many sessions are not searchable yet.
    unsearchable: watch::Sender<usize>,
    /// Ends what runs in the background.
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// What an actor is composed of.
struct Composition {
    tools: Arc<[Arc<dyn Tool>]>,
    preset: Preset,
    default_model: ModelSelection,
    /// Logged in the first step that opens.
    on_enter: Option<EventDraft>,
    /// What answers in place of the configured models.
    program: Option<Arc<dyn Adapter>>,
}

/// A session as an operation that only looks finds it.
enum Found {
    Live(SessionHandle),
    Cold(Arc<Observation>),
}

impl Found {
    fn header(&self) -> &SessionHeader {
        match self {
            Self::Live(handle) => handle.live().header(),
            Self::Cold(observation) => observation.header(),
        }
    }

    /// The boundary behind the last event.
    fn end(&self) -> SessionLogOffset {
        match self {
            Self::Live(handle) => handle.live().end(),
            Self::Cold(observation) => observation.end(),
        }
    }
}

impl Controller {
    /// Puts the parts together. Nothing is read before somebody asks.
    ///
    /// # Errors
    /// When two projections claim one key, which is a fault of the build.
    pub fn new(parts: ControllerParts) -> Result<Self, orrery_projection::RegisterError> {
        let ControllerParts {
            store,
            state,
            checkpoints,
            search,
            adapters,
            mut tools,
            clock,
            ids,
            delegation,
            settings,
        } = parts;
        let registry = Registry::default();
        let mut registrations = orrery_agent::units::register(&registry)?;
        registrations.extend(orrery_subagent::units::register(&registry)?);
        let registry = Arc::new(registry);
        let observations = Observations::new(
            store.clone(),
            Arc::clone(&registry),
            checkpoints.clone(),
            WANTED,
        );
        let live = Arc::new(LiveSessions::new());
        let tasks = TaskTracker::new();
        let keeper = checkpoints
            .clone()
            .map(|kept| Checkpoints::new(kept, store.clone(), tasks.clone()));
        let search = match search {
            Some(Ok(index)) => {
                Search::On(Searcher::new(store.clone(), Arc::clone(&live) as _, index))
            }
            Some(Err(why)) => Search::Failed(why),
            None => Search::Off,
        };
        let subagents = subagents::lister(
            store.clone(),
            &registry,
            checkpoints.clone(),
            Arc::clone(&live) as _,
            settings.cold_read_concurrency,
        );
        let jobs = Jobs::new(Arc::clone(&clock), Arc::clone(&ids), tasks.clone());
        let household = Arc::new(household::Household::default());
        let delegation = household::delegation(
            delegation,
            Arc::clone(&household),
            &jobs,
            &clock,
            &ids,
            &tasks,
            &subagents,
            &mut tools,
        );
        let inner = Inner {
            subagents,
            delegation,
            jobs,
            store,
            state,
            registry,
            _registrations: registrations,
            observations,
            adapters: Arc::new(adapters),
            tools: tools.into(),
            preset: Preset::standard(),
            clock,
            ids,
            settings,
            search,
            unsearchable: watch::Sender::new(0),
            closing: CancellationToken::new(),
            live,
            cold: cold_rows::ColdRows::default(),
            rearranged: watch::Sender::new(0),
            listing: tokio::sync::Mutex::default(),
            checkpoints,
            keeper,
            tasks,
        };
        let controller = Self {
            inner: Arc::new(inner),
        };
        household.belongs_to(&controller);
        Ok(controller)
    }

    /// Names this Host for life.
    pub fn host_id(&self) -> String {
        self.inner.state.get().host_id
    }

    /// How many sessions are live, and how many of them run a turn.
    pub fn live_counts(&self) -> (usize, usize) {
        let all = self.inner.live.all();
        let running = all
            .iter()
            .filter(|handle| handle.live().state_now().running)
            .count();
        (all.len(), running)
    }

    /// How many sessions there are, live or not, as storage believes them to be.
    ///
    /// # Errors
    /// When the sessions root itself cannot be read.
    pub async fn session_count(&self) -> Result<u64, ApiError> {
        let catalogue = self.inner.store.recent_catalogue().await;
        let catalogue = catalogue.map_err(|error| failures::of_storage(&error))?;
        Ok(catalogue.entries().count() as u64)
    }

    /// What went wrong in live sessions outside of their turns: a count and the newest text.
    pub(crate) fn faults(&self) -> Vec<(SessionId, (u64, String))> {
        let all = self.inner.live.all().into_iter();
        all.filter_map(|handle| {
            Some((
                handle.id().clone(),
                handle.live().state_now().fault.clone()?,
            ))
        })
        .collect()
    }

    /// To wait for changes of live sessions.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.live.changes()
    }

    /// A fresh id.
    pub(crate) fn fresh_id(&self) -> String {
        self.inner.ids.uuid()
    }

    /// Stops all turns, saves everything, closes all logs. Gives what could not be saved.
    pub async fn shutdown(&self) -> Vec<String> {
        self.inner.closing.cancel();
        self.inner.delegation.drain();
        self.inner.jobs.drain().await;
        let stops = self.inner.live.unclosed().into_iter().map(|handle| async move {
            if handle.stop().await.is_err() {
                tracing::debug!(session = %handle.id(), "closed by itself before it was stopped");
            }
            handle.closed().await;
        });
        futures_util::future::join_all(stops).await;
        if let Some(keeper) = &self.inner.keeper {
            keeper.drain().await;
        }
        let failures = self.inner.store.shutdown().await;
        self.inner.tasks.close();
        if tokio::time::timeout(LAST_WORDS, self.inner.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("something in the background does not end; it is left behind");
        }
        failures
            .into_iter()
            .map(|failure| failure.to_string())
            .collect()
    }

    /// The events of a range, from wherever they are.
    async fn events_of(
        &self,
        found: &Found,
        range: Range<SessionLogOffset>,
    ) -> Result<Vec<SharedEvent>, ApiError> {
        match found {
            Found::Cold(observation) => observation
                .events(range)
                .await
                .map_err(|error| failures::of_query(&error)),
            Found::Live(handle) => {
                let count = range.end.index().saturating_sub(range.start.index());
                let id = handle.id();
                match handle.live().events_from(range.start, count) {
                    Ok(events) => Ok(events),
                    Err(OnDisk { before }) => {
                        let view = self.view(id).await?;
                        let cut = before.min(range.end);
                        let mut events = on_disk(move || view.events(range.start..cut)).await?;
                        let rest = range.end.index().saturating_sub(cut.index());
                        let held = handle.live().events_from(cut, rest);
                        events.extend(held.map_err(|_moved_on| {
                            ApiError::agent_busy("the session is very busy; try again")
                        })?);
                        Ok(events)
                    }
                }
            }
        }
    }

    /// The newest messages before a boundary.
    async fn page_of(
        &self,
        found: &Found,
        end: SessionLogOffset,
        messages: usize,
    ) -> Result<Page, ApiError> {
        match found {
            Found::Cold(observation) => {
                let page = observation.page(end, messages).await;
                page.map_err(|error| failures::of_query(&error))
            }
            Found::Live(handle) => {
                let held = handle.live().held_from();
                let events = handle
                    .live()
                    .events_from(held, usize::MAX)
                    .unwrap_or_default();
                if held == SessionLogOffset::ZERO {
                    return Ok(tail_page(&events, end, messages));
                }
                let view = self.view(handle.id()).await?;
                on_disk(move || tail_page_of(&view, &events, end, messages)).await
            }
        }
    }

    async fn view(&self, id: &SessionId) -> Result<LogView, ApiError> {
        self.inner
            .store
            .view(id)
            .await
            .map_err(|error| failures::of_storage(&error))
    }

    /// Looks at a session without waking it.
    async fn look(&self, id: &SessionId) -> Result<Found, ApiError> {
        if let Some(handle) = self.inner.live.get(id) {
            return Ok(Found::Live(handle));
        }
        let observation = self.inner.observations.observe(id).await;
        // It may have come to life while it was read; the live view wins.
        if let Some(handle) = self.inner.live.get(id) {
            return Ok(Found::Live(handle));
        }
        observation
            .map(Found::Cold)
            .map_err(|error| failures::of_query(&error))
    }

    /// The session, live; an ordinary cold one is resumed.
    async fn resume(&self, id: &SessionId) -> Result<SessionHandle, ApiError> {
        let handle = self
            .inner
            .live
            .get_or_activate(id, || self.activate(id))
            .await?;
        fence(handle.live().header())?;
        Ok(handle)
    }

    async fn activate(&self, id: &SessionId) -> Result<SessionHandle, ApiError> {
        let entry = self
            .inner
            .store
            .find(id)
            .await
            .map_err(|error| failures::of_storage(&error))?;
        fence(&entry.header)?;
        if entry.header.cwd.is_none() {
            return Err(ApiError::session_not_found(id.as_str()));
        }
        let (log, unsaved, writer) = self.opened(id).await?;
        self.bring_to_life(log, unsaved, writer, self.ordinary())
    }

    /// A stored log, opened for writing, with the events that its opening adds.
    async fn opened(
        &self,
        id: &SessionId,
    ) -> Result<(SessionLog, Vec<SharedEvent>, LogWriter), ApiError> {
        let opened = self
            .inner
            .store
            .open(id)
            .await
            .map_err(|e| failures::of_storage(&e))?;
        let mut cells = Cells::selected(
            &self.inner.registry,
            &["agentPreset"],
            &opened.log.header,
            opened.log.inherited,
        );
        cells.feed(&opened.log.events);
        let preset = cells.state_of(&AgentPresetUnit).cloned().flatten();
        self.check_preset(preset.as_deref())?;
        let stored = opened.log.events.len();
        let log = SessionLog::from_seed(
            opened.log.header,
            opened.log.events,
            opened.log.inherited,
            Vocabulary::default(),
            self.inner.clock.now(),
        )
        .map_err(|error| {
            tracing::error!(session = %id, %error, "a log cannot be resumed");
            ApiError::internal()
        })?;
        let unsaved = log.events().get(stored..).unwrap_or_default().to_vec();
        Ok((log, unsaved, opened.writer))
    }

    /// How a session that no agent made is composed.
    fn ordinary(&self) -> Composition {
        Composition {
            tools: Arc::clone(&self.inner.tools),
            preset: self.inner.preset.clone(),
            default_model: self.default_model(),
            on_enter: None,
            program: None,
        }
    }

    fn bring_to_life(
        &self,
        log: SessionLog,
        unsaved: Vec<SharedEvent>,
        writer: LogWriter,
        composition: Composition,
    ) -> Result<SessionHandle, ApiError> {
        let (delegation, jobs) = (self.inner.delegation.clone(), self.inner.jobs.clone());
        let live = Arc::clone(&self.inner.live);
        let id = log.header().id.clone();
        let workspace_context = composition.program.is_none();
        let adapters = match composition.program {
            None => Arc::clone(&self.inner.adapters),
            Some(program) => {
                let mut alone = Adapters::new();
                alone.register(program).map_err(|error| {
                    tracing::error!(session = %id, %error, "a program cannot answer");
                    ApiError::internal()
                })?;
                Arc::new(alone)
            }
        };
        let deps = ActorDeps {
            registry: Arc::clone(&self.inner.registry),
            adapters,
            tools: composition.tools,
            preset: composition.preset,
            default_model: composition.default_model,
            retry: self.inner.settings.retry.clone(),
            clock: Arc::clone(&self.inner.clock),
            ids: Arc::clone(&self.inner.ids),
            shared_units: subagents::SHARED,
            flush_before_publishing: self.inner.store.durability() == Durability::Event,
            idle_detach: self.inner.settings.idle_detach,
            checkpoints: CheckpointPolicy {
                keeper: self
                    .inner
                    .keeper
                    .clone()
                    .map(|keeper| Arc::new(keeper) as _),
                every_events: self.inner.settings.checkpoint_every_events,
                interval: self.inner.settings.checkpoint_interval,
            },
            tasks: self.inner.tasks.clone(),
            on_change: Arc::new(move |_| live.changed()),
            stay_live: Arc::new(move |id| delegation.is_held(id) || jobs.any_runs(id)),
            on_enter: composition.on_enter,
            workspace_context,
        };
        let writer = Arc::new(StoredLogWriter::new(writer, &self.inner.tasks));
        actor::start(deps, log, unsaved, writer).map_err(|error| {
            tracing::error!(session = %id, %error, "a session cannot be brought to life");
            ApiError::internal()
        })
    }

    /// Does something with a live session, resuming it again should it close meanwhile.
    async fn with_live<T, F>(
        &self,
        id: &SessionId,
        act: impl Fn(SessionHandle) -> F,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, ActorGone>>,
    {
        for _ in 0..RESUME_ATTEMPTS {
            let handle = self.resume(id).await?;
            if let Ok(value) = act(handle).await {
                return Ok(value);
            }
        }
        Err(ApiError::agent_busy(
            "the session is being closed; try again",
        ))
    }

    /// The session, which must be live already.
    fn must_be_live(&self, id: &SessionId) -> Result<SessionHandle, ApiError> {
        let handle = self
            .inner
            .live
            .get(id)
            .ok_or_else(|| ApiError::session_not_found(id.as_str()))?;
        fence(handle.live().header())?;
        Ok(handle)
    }

    fn check_preset(&self, preset: Option<&str>) -> Result<(), ApiError> {
        let known = &self.inner.preset.id;
        match preset {
            None => Ok(()),
            Some(preset) if preset == known => Ok(()),
            Some(preset) => Err(ApiError::new(
                ErrorCode::AgentPresetNotFound,
                format!("there is no agent preset {preset:?}; there is: {known}"),
            )
            .with("agentPreset", preset)
            .with("available", [known])),
        }
    }
}

async fn on_disk<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result.map_err(|error| failures::of_storage(&error)),
        Err(error) => {
            tracing::error!(%error, "a read failed");
            Err(ApiError::internal())
        }
    }
}

/// The ownership fence (`controller.md` 1.16): a child session is spoken to through its parent.
fn fence(header: &SessionHeader) -> Result<(), ApiError> {
    if header.is_subagent() {
        Err(ApiError::subagent_owned())
    } else {
        Ok(())
    }
}
