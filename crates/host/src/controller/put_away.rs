//! Sessions that are put away: the archive, which only hides, and the trash (`session/archive`,
//! `unarchive`, `delete`, `restore`, `trash`).
//!
//! None of it brings a session to life. A session goes with all subagents below it, and stays where
//! it is as long as anything of it is at work.

use std::collections::BTreeSet;

use orrery_api::content::Accepted;
use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::session::{SessionRequest, TrashResponse, TrashedSession};
use orrery_projection::Unit as _;
use orrery_projection::units::Title;
use orrery_session::{SessionHeader, SessionId};
use orrery_storage::{Catalogue, Deleted, StorageError};

use super::{Controller, failures, fence};

impl Controller {
    /// Hides a session from lists and searches.
    ///
    /// # Errors
    /// When there is no such session, it is a subagent's, or the mark cannot be saved.
    pub async fn archive(&self, request: SessionRequest) -> Result<Accepted, ApiError> {
        self.marked(request.session_id, true).await
    }

    /// Shows it again.
    ///
    /// # Errors
    /// As [`Controller::archive`].
    pub async fn unarchive(&self, request: SessionRequest) -> Result<Accepted, ApiError> {
        self.marked(request.session_id, false).await
    }

    async fn marked(&self, id: SessionId, archived: bool) -> Result<Accepted, ApiError> {
        fence(&self.header_of(&id).await?)?;
        let changed = self.inner.state.change(|state| {
            state.archived.retain(|known| *known != id);
            if archived {
                state.archived.push(id);
            }
        });
        changed.map_err(|error| failures::of_state(&error))?;
        self.rearranged().await;
        Ok(Accepted::YES)
    }

    /// Moves a session and all its subagents to the trash.
    ///
    /// # Errors
    /// `session/agent-busy` while anything of it is at work and for a subagent's session,
    /// `session/writer-held` when another process has it, and what keeps it from being moved.
    pub async fn delete(&self, request: SessionRequest) -> Result<Accepted, ApiError> {
        let id = request.session_id;
        let header = self.header_of(&id).await?;
        fence(&header)?;
        let catalogue = self.inner.store.catalogue().await;
        let catalogue = catalogue.map_err(|error| failures::of_storage(&error))?;
        let belonging = subagents_below(&catalogue, &id);
        let all = || std::iter::once(&id).chain(&belonging);
        let busy = || ApiError::agent_busy("it is at work; stop it first").with("sessionId", &id);
        if all().any(|one| self.is_at_work(one)) {
            return Err(busy());
        }
        for one in all() {
            if let Some(handle) = self.inner.live.get(one) {
                // One that has closed by itself is as free.
                if !handle.stop_if_idle().await.unwrap_or(true) {
                    return Err(busy());
                }
                handle.closed().await;
            }
        }
        let moved = match self.inner.store.find(&id).await {
            Ok(entry) => {
                let rows = self.cold_rows(std::iter::once(&entry)).await;
                let title = rows.get(&id).and_then(|row| {
                    let value = row.snapshot()?.values.get(Title.key())?.clone();
                    value.parse::<Option<String>>().ok()?
                });
                let note = Deleted {
                    session_id: id.clone(),
                    deleted_at: self.inner.clock.now(),
                    title,
                    cwd: entry.header.cwd,
                };
                self.inner.store.delete(note, belonging.clone()).await
            }
            // Nothing was ever said in it, so there is nothing to keep.
            Err(StorageError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        moved.map_err(|error| failures::of_storage(&error))?;
        if let Some(checkpoints) = &self.inner.checkpoints {
            let ids: Vec<SessionId> = all().cloned().collect();
            let checkpoints = std::sync::Arc::clone(checkpoints);
            // Kept ones cost a little space and mislead nobody.
            let removed = tokio::task::spawn_blocking(move || checkpoints.remove(&ids)).await;
            if !matches!(removed, Ok(Ok(()))) {
                tracing::warn!(session = %id, "checkpoints of a deleted session stay");
            }
        }
        self.inner.live.sweep();
        self.rearranged().await;
        Ok(Accepted::YES)
    }

    /// Takes a session out of the trash, with its subagents.
    ///
    /// # Errors
    /// When it is not there, or another session has its id by now.
    pub async fn restore(&self, request: SessionRequest) -> Result<Accepted, ApiError> {
        let restored = self.inner.store.restore(&request.session_id).await;
        restored.map_err(|error| match error {
            StorageError::Exists { id } => ApiError::new(
                ErrorCode::SessionConflict,
                "another session has this id by now; delete that one first",
            )
            .with("sessionId", id),
            error => failures::of_storage(&error),
        })?;
        self.rearranged().await;
        Ok(Accepted::YES)
    }

    /// What can be taken out of the trash, the last deleted first.
    ///
    /// # Errors
    /// When the trash cannot be read.
    pub async fn trash(&self) -> Result<TrashResponse, ApiError> {
        let deleted = self.inner.store.deleted().await;
        let deleted = deleted.map_err(|error| failures::of_storage(&error))?;
        let items = deleted.into_iter().map(|note| TrashedSession {
            session_id: note.session_id,
            title: note.title,
            cwd: note.cwd,
            deleted_at: note.deleted_at,
        });
        Ok(TrashResponse {
            items: items.collect(),
        })
    }

    /// Lists are made anew, and whoever follows them looks at once.
    pub(super) async fn rearranged(&self) {
        *self.inner.listing.lock().await = None;
        self.inner.rearranged.send_modify(|count| *count += 1);
        self.inner.live.changed();
    }

    /// Whether a session runs a turn, has a job, or is a subagent that has not come to rest.
    fn is_at_work(&self, id: &SessionId) -> bool {
        let running = |handle: orrery_agent::SessionHandle| {
            let state = handle.live().state_now();
            state.running || (!state.queue.is_empty() && !state.parked)
        };
        self.inner.live.get(id).is_some_and(running)
            || self.inner.live.is_arriving(id)
            || self.inner.jobs.any_runs(id)
            || self.inner.delegation.is_at_work(id)
            || self.inner.delegation.is_held(id)
    }

    async fn header_of(&self, id: &SessionId) -> Result<SessionHeader, ApiError> {
        if let Some(handle) = self.inner.live.get(id) {
            return Ok(handle.live().header().clone());
        }
        let entry = self.inner.store.find(id).await;
        entry
            .map(|entry| entry.header)
            .map_err(|error| failures::of_storage(&error))
    }
}

/// All subagents below a session, parents before their children.
pub(super) fn subagents_below(catalogue: &Catalogue, id: &SessionId) -> Vec<SessionId> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::from([id.clone()]));
    let mut open = vec![id.clone()];
    while let Some(parent) = open.pop() {
        for child in catalogue.children(&parent) {
            if child.header.is_subagent() && seen.insert(child.header.id.clone()) {
                found.push(child.header.id.clone());
                open.push(child.header.id.clone());
            }
        }
    }
    found
}
