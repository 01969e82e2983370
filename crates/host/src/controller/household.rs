//! The house that delegation lives in: children made, resumed and found over this Host's store and
//! actors.
//!
//! The port of `orrery-subagent` on the controller. It holds the controller weakly: the controller's
//! tools hold delegation, which holds this.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use orrery_agent::jobs::Jobs;
use orrery_agent::{SessionHandle, Tool};
use orrery_api::error::{ApiError, ErrorCode};
use orrery_projection::Cells;
use orrery_session::fork::turn_cut;
use orrery_session::{
    Clock, IdSource, SessionId, SessionLog, SessionLogOffset, SharedEvent, Vocabulary,
};
use orrery_subagent::delegation::ports::{NewChild, Sessions};
use orrery_subagent::delegation::{
    Context, Delegation, DelegationError, DelegationParts, Limits, Providers, preset_of, tools_of,
};
use orrery_subagent::descriptor::{Descriptor, Mode, Setup};
use orrery_subagent::listing::Lister;
use orrery_subagent::tools::{Background, Delegate, control_tools};
use orrery_subagent::units::SubagentUnit;
use tokio_util::task::TaskTracker;

use super::{Composition, Controller, Found, Inner, failures};

/// How work is delegated.
#[derive(Debug, Clone)]
pub struct DelegationSettings {
    /// How children come to be.
    pub providers: Providers,
    /// How far it may go.
    pub limits: Limits,
    /// Whether children that inherit their parent's conversation can be spoken to again.
    pub continuable_forks: bool,
}

impl Default for DelegationSettings {
    fn default() -> Self {
        Self {
            providers: Providers::in_process(),
            limits: Limits::default(),
            continuable_forks: false,
        }
    }
}

/// This Host's sessions, for delegation.
#[derive(Debug, Default)]
pub(super) struct Household {
    controller: OnceLock<Weak<Inner>>,
}

/// Delegation over this Host, and its tools beside the others.
#[expect(
    clippy::too_many_arguments,
    reason = "called once, with what the controller is made of"
)]
pub(super) fn delegation(
    settings: DelegationSettings,
    household: Arc<Household>,
    jobs: &Jobs,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn IdSource>,
    tasks: &TaskTracker,
    lister: &Lister,
    tools: &mut Vec<Arc<dyn Tool>>,
) -> Delegation {
    let DelegationSettings {
        providers,
        limits,
        continuable_forks,
    } = settings;
    let delegation = Delegation::new(DelegationParts {
        sessions: household,
        providers,
        limits,
        jobs: jobs.clone(),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        tasks: tasks.clone(),
    });
    if limits.max_depth > 0 {
        let (programs, ours): (Vec<_>, Vec<_>) = delegation
            .providers()
            .list()
            .iter()
            .cloned()
            .partition(|provider| provider.process.is_some());
        for provider in ours {
            let (name, background) = match provider.context {
                Context::Fresh => ("subagent".to_owned(), Background::Continuable),
                Context::Inherited if continuable_forks => (
                    format!("subagent_{}", provider.name),
                    Background::Continuable,
                ),
                Context::Inherited => (format!("subagent_{}", provider.name), Background::OneShot),
            };
            let fresh = provider.context == Context::Fresh;
            let mut tool = Delegate::new(name, provider, background, delegation.clone());
            if fresh {
                tool = tool.with_programs(programs.clone());
            }
            tools.push(Arc::new(tool));
        }
        tools.extend(control_tools(&delegation, lister));
    }
    tools.extend(orrery_tools::job_tools(jobs));
    delegation
}

impl Household {
    /// Says whose house this is; until then there are no sessions.
    pub(super) fn belongs_to(&self, controller: &Controller) {
        // Only the first controller counts, and there is one.
        if self
            .controller
            .set(Arc::downgrade(&controller.inner))
            .is_err()
        {
            tracing::error!("a household was given away twice");
        }
    }

    fn controller(&self) -> Result<Controller, DelegationError> {
        let inner = self.controller.get().and_then(Weak::upgrade);
        let inner = inner.ok_or(DelegationError::Draining)?;
        Ok(Controller { inner })
    }
}

#[async_trait]
impl Sessions for Household {
    fn live(&self, id: &SessionId) -> Option<SessionHandle> {
        self.controller().ok()?.inner.live.get(id)
    }

    async fn closed_turns(
        &self,
        parent: &SessionHandle,
    ) -> Result<Vec<SharedEvent>, DelegationError> {
        let controller = self.controller()?;
        let found = Found::Live(parent.clone());
        let whole = SessionLogOffset::ZERO..found.end();
        let mut events = controller
            .events_of(&found, whole)
            .await
            .map_err(|error| unavailable(&error))?;
        let cut = turn_cut(&events, None).map_or(0, |cut| cut.index());
        events.truncate(cut);
        Ok(events)
    }

    async fn create(&self, child: NewChild) -> Result<SessionHandle, DelegationError> {
        let controller = self.controller()?;
        let NewChild {
            header,
            seed,
            first,
            on_enter,
            model,
            setup,
            tools,
            instructions,
            program,
        } = child;
        let mut composition = Composition {
            default_model: model,
            on_enter,
            ..controller.composed(&setup)?
        };
        if !tools.is_empty() {
            composition.tools = composition.tools.iter().cloned().chain(tools).collect();
        }
        if let Some(said) = instructions {
            composition.preset.system.push_str("\n\n");
            composition.preset.system.push_str(said);
        }
        if let Some(program) = program {
            composition.tools = Arc::default();
            composition.preset.system.clear();
            composition.program = Some(program);
        }
        let id = header.id.clone();
        let cut = SessionLogOffset::of_len(seed.len());
        let now = controller.inner.clock.now();
        let malformed = |why: String| DelegationError::Setup { why };
        let vocabulary = Vocabulary::default();
        let log = if header.is_seeded {
            SessionLog::from_seed(header.clone(), seed, cut, vocabulary, now)
        } else {
            SessionLog::fresh(header.clone(), vocabulary)
        };
        let mut log = log.map_err(|error| malformed(error.to_string()))?;
        for draft in first {
            log.append(draft, now)
                .map_err(|error| malformed(error.to_string()))?;
        }
        // Made where it counts as arriving: a list that finds the log before its first events does
        // not take the child for a damaged one.
        let make = || async {
            let writer = controller.inner.store.create(header, cut).await;
            let writer = writer.map_err(|error| failures::of_storage(&error))?;
            let appended = writer.append(log.events().to_vec());
            appended.map_err(|error| failures::of_storage(&error))?;
            let flushed = writer.flush().await;
            flushed.map_err(|error| failures::of_storage(&error))?;
            controller.bring_to_life(log, Vec::new(), writer, composition)
        };
        let live = &controller.inner.live;
        let made = live.get_or_activate(&id, make).await;
        made.map_err(|error| unavailable(&error))
    }

    async fn resume(
        &self,
        child: &SessionId,
        parent: &SessionId,
    ) -> Result<(SessionHandle, Descriptor), DelegationError> {
        let controller = self.controller()?;
        let refuse = |why: String| DelegationError::NotResumable {
            id: child.clone(),
            why,
        };
        let entry = controller.inner.store.find(child).await;
        let entry = entry.map_err(|error| refuse(error.to_string()))?;
        let header = &entry.header;
        if !header.is_subagent() || header.parent_session.as_ref() != Some(parent) {
            return Err(DelegationError::Unauthorized {
                caller: parent.clone(),
                target: child.clone(),
                why: "only the direct parent speaks to a child",
            });
        }
        let mut found = None;
        let handle = controller
            .inner
            .live
            .get_or_activate(child, || async {
                let (log, unsaved, writer) = controller.opened(child).await?;
                let descriptor = own_descriptor(&controller, &log).ok_or_else(|| {
                    let message = "its log does not say that it can be continued";
                    ApiError::new(ErrorCode::SubagentNotResumable, message)
                })?;
                let composition = match &descriptor.mode {
                    Mode::Continuable { setup, .. } => controller.composed(setup),
                    Mode::OneShot { .. } => {
                        let message = "it does one thing only, and is done";
                        return Err(ApiError::new(ErrorCode::SubagentNotResumable, message));
                    }
                };
                let composition = composition.map_err(|error| {
                    ApiError::new(ErrorCode::SubagentNotResumable, error.to_string())
                })?;
                found = Some(descriptor);
                controller.bring_to_life(log, unsaved, writer, composition)
            })
            .await
            .map_err(|error| refuse(error.message))?;
        // A child is brought to life by whoever holds its place in the table, which is us.
        let descriptor = found.ok_or_else(|| refuse("somebody else woke it".to_owned()))?;
        Ok((handle, descriptor))
    }
}

impl Controller {
    /// A child's tools, prompt and model as its set-up says.
    fn composed(&self, setup: &Setup) -> Result<Composition, DelegationError> {
        let inner = &self.inner;
        let mut default_model = self.default_model();
        if let Some(provider) = &setup.agent_provider {
            default_model.provider.clone_from(provider);
        }
        if let Some(model) = &setup.agent_model {
            default_model.model.clone_from(model);
        }
        Ok(Composition {
            tools: tools_of(&inner.tools, setup.tool_filter.as_ref())?,
            preset: preset_of(&inner.preset, setup),
            default_model,
            on_enter: None,
            program: None,
        })
    }
}

/// The descriptor that a log's own part ends up with.
fn own_descriptor(controller: &Controller, log: &SessionLog) -> Option<Descriptor> {
    let inherited = log.inherited_event_count();
    let registry = &controller.inner.registry;
    let mut cells = Cells::selected(registry, &["subagent"], log.header(), inherited);
    cells.feed(log.events());
    let identity = cells.state_of(&SubagentUnit)?.identity.clone()?;
    if identity.seq().offset_before() < inherited {
        return None;
    }
    let payload = log.event_at(identity.seq())?.payload().ok()?;
    Descriptor::read(&payload).ok().flatten()
}

fn unavailable(error: &ApiError) -> DelegationError {
    DelegationError::PersistenceUnavailable {
        why: error.message.clone(),
    }
}

/// A refusal of delegation in the words of the contract (`controller.md` 1.19, decision D20).
pub(super) fn refused(error: &DelegationError) -> ApiError {
    use DelegationError as E;
    let code = match error {
        E::Unauthorized { .. } => ErrorCode::SubagentUnauthorized,
        E::ParentUnavailable { .. } => ErrorCode::SubagentParentUnavailable,
        E::NotResumable { .. } | E::Setup { .. } => ErrorCode::SubagentNotResumable,
        E::PersistenceUnavailable { why } => {
            tracing::error!(why, "a child's log could not be used");
            return failures::storage_unavailable();
        }
        E::Cancelled => ErrorCode::Cancelled,
        _ => ErrorCode::SubagentDeliveryUnavailable,
    };
    ApiError::new(code, error.to_string()).with("reason", error.code())
}
