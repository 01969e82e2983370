//! The `subagent` namespace: the rows of `orrery-subagent` in the words of the contract
//! (`controller.md` 1.19), the address of one child, speaking to it and stopping it. Looking wakes
//! nobody.

use std::num::NonZeroUsize;
use std::sync::Arc;

use orrery_api::content::{Accepted, DeliveryMode, SubagentMode};
use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::host::ListingStats;
use orrery_api::subagent::{
    SubagentActivity, SubagentDiagnosticReason, SubagentEntry, SubagentInterruptRequest,
    SubagentListRequest, SubagentListResponse, SubagentPromptRequest, SubagentPromptResponse,
    SubagentScope,
};
use orrery_projection::checkpoint::CheckpointStore;
use orrery_projection::{Registry, Unit as _};
use orrery_query::{Corpus, LiveSessions};
use orrery_session::SessionId;
use orrery_storage::Store;
use orrery_subagent::delegation::{Authority, Hold, Lifecycle};
use orrery_subagent::listing::{Activity, Descendant, ListError, Lister, Reason, Row, Services};
use orrery_subagent::units::{Identity, SubagentUnit};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::prompting::{prompt_of, prompt_refused};
use super::{Controller, Found, failures, household};
use crate::listing_stats;

/// The units whose whole state is read off live sessions: by the list, by delegation, by jobs.
pub(super) const SHARED: &[&str] = &["subagent", "permissions", "jobs"];

/// A lister of everything that this Host knows.
pub(crate) fn lister(
    store: Store,
    registry: &Arc<Registry>,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    live: Arc<dyn LiveSessions>,
    cold_reads: usize,
) -> Lister {
    let corpus = Corpus::new(
        store,
        Arc::clone(registry),
        checkpoints.clone(),
        Arc::clone(&live),
    );
    Lister::new(Services {
        projections: Some(Arc::clone(registry)),
        sessions: Some(live),
        corpus: Some(corpus),
        checkpoints,
        cold_reads: NonZeroUsize::new(cold_reads).unwrap_or(NonZeroUsize::MIN),
    })
}

impl Controller {
    /// The subagents of a session.
    ///
    /// # Errors
    /// When the sessions root cannot be read. What is wrong with one child is its row.
    pub async fn list_subagents(
        &self,
        request: SubagentListRequest,
    ) -> Result<SubagentListResponse, ApiError> {
        let parent = &request.parent_session_id;
        // Whoever asked may go away: what is read for them ends then.
        let signal = CancellationToken::new();
        let _asking = signal.clone().drop_guard();
        let lister = &self.inner.subagents;
        let (entries, parent_available) = match request.scope {
            None | Some(SubagentScope::Children) => {
                let listed = lister.children(parent, &signal).await.map_err(failed)?;
                let entries = listed.rows.into_iter().map(|row| entry(row, None));
                (entries.collect(), listed.parent_known)
            }
            Some(SubagentScope::Descendants) => {
                let listed = lister.descendants(parent, &signal).await.map_err(failed)?;
                let entries = listed.rows.into_iter().map(|descendant| {
                    let Descendant { row, parent, depth } = descendant;
                    entry(row, Some((parent, depth)))
                });
                (entries.collect(), listed.parent_known)
            }
        };
        Ok(SubagentListResponse {
            entries,
            parent_available,
        })
    }

    /// News of subagents that begin to work and come to rest, from now on.
    pub(crate) fn lifecycle(&self) -> broadcast::Receiver<Lifecycle> {
        self.inner.delegation.lifecycle()
    }

    /// The log of a direct child, if its own descriptor says what the address says
    /// (`controller.md` 2.1). Its siblings are not looked at (decision D17).
    pub(super) async fn addressed_child(
        &self,
        parent: &SessionId,
        child: &SessionId,
        mode: SubagentMode,
    ) -> Result<Found, ApiError> {
        let refused = |code, message: &str| {
            ApiError::new(code, message)
                .with("parentSessionId", parent)
                .with("childSessionId", child)
        };
        let missing = || {
            refused(
                ErrorCode::SubagentNotFound,
                "there is no such child session",
            )
        };
        let found = match self.look(child).await {
            Err(error) if error.code == ErrorCode::SessionNotFound => return Err(missing()),
            other => other?,
        };
        let header = found.header();
        if header.cwd.is_none() {
            return Err(missing());
        }
        if !header.is_subagent() || header.parent_session.as_ref() != Some(parent) {
            let message = "this session is no child of that parent";
            return Err(refused(ErrorCode::SubagentUnauthorized, message));
        }
        let (inherited, identity) = match &found {
            Found::Live(handle) => {
                let state = handle.live().state_now();
                let state = state.states.get(SubagentUnit.key());
                let state = state.and_then(|state| state.of(&SubagentUnit));
                (
                    handle.live().inherited(),
                    state.and_then(|s| s.identity.clone()),
                )
            }
            Found::Cold(cold) => {
                let state = cold.cells.state_of(&SubagentUnit);
                (cold.inherited(), state.and_then(|s| s.identity.clone()))
            }
        };
        let Some(identity) = identity else {
            let message = "the child does not say who it is: its descriptor is damaged or missing";
            return Err(
                refused(ErrorCode::SubagentCatalogDiagnostic, message).with("reason", "corrupt")
            );
        };
        if identity.seq().offset_before() < inherited {
            let message = "the child has no descriptor of its own, only an inherited one";
            return Err(refused(ErrorCode::SubagentCatalogDiagnostic, message)
                .with("reason", "unsupported"));
        }
        if mode_of(&identity) != mode {
            let message = "the child is of the other mode; the list of subagents says which";
            return Err(refused(ErrorCode::SubagentUnauthorized, message));
        }
        Ok(found)
    }

    /// Takes a person's message to a continuable child. The child is resumed for it, and where need
    /// be the session on top of it and the chain down to its parent (decision D32).
    ///
    /// # Errors
    /// When there is no such child, or it or its parent cannot be reached.
    pub async fn prompt_subagent(
        &self,
        request: SubagentPromptRequest,
    ) -> Result<SubagentPromptResponse, ApiError> {
        if request.mode != SubagentMode::Continuable {
            let message = "a one-shot subagent does one thing; speak to its parent";
            return Err(ApiError::bad_request("mode", message));
        }
        let prompt = prompt_of(
            request.request_id,
            &request.content,
            request.delivery.unwrap_or(DeliveryMode::Queue),
            request.client_time_zone,
        )?;
        let (parent, child) = (&request.parent_session_id, &request.child_session_id);
        self.addressed_child(parent, child, request.mode).await?;
        let _holds = self.wake_chain(parent).await?;
        let said = self.inner.delegation.prompt(parent, child, prompt).await;
        let said = said.map_err(|error| household::refused(&error))?;
        let message_id = said.map_err(|refusal| prompt_refused(refusal, child))?;
        Ok(SubagentPromptResponse { message_id })
    }

    /// Makes a session and everything above it live; they stay so while the answer is held.
    async fn wake_chain(&self, session: &SessionId) -> Result<Vec<Hold>, ApiError> {
        let mut chain = vec![session.clone()];
        loop {
            let top = chain.last().unwrap_or(session);
            let found = self.look(top).await.map_err(|error| {
                if error.code == ErrorCode::SessionNotFound {
                    let message = "a session above this child is gone";
                    return ApiError::new(ErrorCode::SubagentParentUnavailable, message);
                }
                error
            })?;
            let above = found.header().parent_session.clone();
            let above = above.filter(|_| found.header().is_subagent());
            // A cycle can only be made by hand.
            let Some(above) = above.filter(|above| !chain.contains(above)) else {
                break;
            };
            chain.push(above);
        }
        let delegation = &self.inner.delegation;
        let holds = chain.iter().map(|id| delegation.hold(id)).collect();
        if let Some(root) = chain.last() {
            self.resume(root).await?;
        }
        for pair in chain.windows(2).rev() {
            if let [child, parent] = pair
                && self.inner.live.get(child).is_none()
            {
                let woken = delegation.wake(parent, child).await;
                woken.map_err(|error| {
                    let why = household::refused(&error).message;
                    ApiError::new(ErrorCode::SubagentParentUnavailable, why)
                        .with("reason", error.code())
                })?;
            }
        }
        Ok(holds)
    }

    /// Stops a child's running turn; nothing is resumed for it. What is not there to be stopped is
    /// stopped already.
    ///
    /// # Errors
    /// When the child is of another parent.
    pub async fn interrupt_subagent(
        &self,
        request: SubagentInterruptRequest,
    ) -> Result<Accepted, ApiError> {
        let authority = Authority::Person {
            parent: request.parent_session_id,
        };
        let child = &request.child_session_id;
        let stopped = self.inner.delegation.interrupt(child, &authority).await;
        stopped.map_err(|error| household::refused(&error))?;
        Ok(Accepted::YES)
    }

    /// What listing subagents has cost since the Host began, and what reading logs has, for whatever
    /// reason.
    pub fn listing_stats(&self) -> ListingStats {
        listing_stats::stats(self.inner.subagents.cost(), self.inner.store.reads())
    }
}

fn entry(row: Row, place: Option<(SessionId, u32)>) -> SubagentEntry {
    let (parent_id, depth) = place.unzip();
    match row {
        Row::Child(child) => {
            let mode = mode_of(&child.identity);
            let label = match child.identity {
                Identity::OneShot { label, .. } => label,
                Identity::Continuable { label, .. } => Some(label),
            };
            SubagentEntry::Child {
                id: child.id,
                activity: match child.activity {
                    Activity::Running => SubagentActivity::Running,
                    Activity::Inactive => SubagentActivity::Inactive,
                },
                has_children: child.has_children,
                mode,
                label,
                parent_id,
                depth,
            }
        }
        Row::Diagnostic { id, reason } => SubagentEntry::Diagnostic {
            id,
            reason: match reason {
                Reason::Corrupt => SubagentDiagnosticReason::Corrupt,
                Reason::Unsupported => SubagentDiagnosticReason::Unsupported,
                Reason::Unavailable => SubagentDiagnosticReason::Unavailable,
            },
            parent_id,
            depth,
        },
    }
}

const fn mode_of(identity: &Identity) -> SubagentMode {
    match identity {
        Identity::OneShot { .. } => SubagentMode::OneShot,
        Identity::Continuable { .. } => SubagentMode::Continuable,
    }
}

pub(crate) fn failed(error: ListError) -> ApiError {
    let code = match &error {
        ListError::Enumeration(error) => return failures::of_query(error),
        ListError::ProjectionsUnavailable => ErrorCode::SubagentProjectionsUnavailable,
        ListError::SessionStoreUnavailable => ErrorCode::SubagentSessionStoreUnavailable,
        ListError::QueryUnavailable => ErrorCode::SubagentQueryUnavailable,
        ListError::Cancelled => ErrorCode::Cancelled,
        _ => return ApiError::internal(),
    };
    ApiError::new(code, error.to_string()).with("reason", error.code())
}
