//! The control stream: queues, questions and projections of all sessions (`controller.md` 3).
//!
//! A pulled feed. It remembers what it told of each session and, when something changed, tells
//! whole lists and whole values, the newest once (decision D21). Cold sessions with a waiting queue
//! or an expired question are part of the baseline (decision D25).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use orrery_agent::live::Placement;
use orrery_agent::machine::Asking;
use orrery_agent::units::PendingApproval;
use orrery_agent::{LiveState, QueuedItem, Saved};
use orrery_api::content::ProjectionValues;
use orrery_api::control::{
    ControlBaseline, ControlItem, ControlState, InteractionUpdate, JobsUpdate, Persistence,
    PersistenceUpdate, ProjectionUpdate, QueueUpdate,
};
use orrery_api::error::ApiError;
use orrery_api::interaction::{
    ApprovalRequest, Interaction, InteractionKind, InteractionRequest, InteractionState,
};
use orrery_api::job::SessionJob;
use orrery_api::queue::{QueuePlacement, QueuedMessage, SessionQueue, SessionQueuedItem};
use orrery_session::{Json, SessionId, SessionSeq};
use serde::Deserialize;
use tokio::sync::watch;

use super::{Controller, failures};

/// The control state, item by item.
#[derive(Debug)]
pub struct ControlFeed {
    controller: Controller,
    changes: watch::Receiver<u64>,
    opened: bool,
    told: BTreeMap<SessionId, Arc<LiveState>>,
    /// Sessions whose expired questions or waiting queue were told while they were cold.
    told_cold: Vec<SessionId>,
    told_jobs: BTreeMap<SessionId, Vec<SessionJob>>,
    waiting: VecDeque<ControlItem>,
}

impl Controller {
    /// Opens the control stream.
    pub fn control(&self) -> ControlFeed {
        ControlFeed {
            controller: self.clone(),
            changes: self.inner.live.changes(),
            opened: false,
            told: BTreeMap::new(),
            told_cold: Vec::new(),
            told_jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }
}

impl ControlFeed {
    /// The next item; waits for one.
    ///
    /// # Errors
    /// When the sessions root itself cannot be read.
    pub async fn next(&mut self) -> Result<ControlItem, ApiError> {
        if !self.opened {
            self.opened = true;
            self.changes.mark_unchanged();
            return self.baseline().await;
        }
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Ok(item);
            }
            if self.changes.changed().await.is_err() {
                return Err(ApiError::cancelled());
            }
            self.look();
        }
    }

    async fn baseline(&mut self) -> Result<ControlItem, ApiError> {
        let mut value = ControlState::default();
        for handle in self.controller.inner.live.all() {
            let (id, state) = (handle.id().clone(), handle.live().state_now());
            let queue = queue_of(&state.queue, state.parked);
            if !queue.items.is_empty() {
                value.queues.insert(id.clone(), queue);
            }
            if !state.asking.is_empty() {
                value
                    .interactions
                    .insert(id.clone(), pending(&id, &state.asking));
            }
            let jobs = self.controller.jobs_of(&id, &state);
            if !jobs.is_empty() {
                value.jobs.insert(id.clone(), jobs.clone());
                self.told_jobs.insert(id.clone(), jobs);
            }
            value.projections.insert(id.clone(), projections_of(&state));
            value.persistence.insert(id.clone(), persistence_of(&state));
            self.told.insert(id, state);
        }
        let catalogue = self.controller.inner.store.catalogue().await;
        let catalogue = catalogue.map_err(|e| failures::of_storage(&e))?;
        let told = &self.told;
        let cold = || {
            catalogue
                .entries()
                .filter(|entry| !told.contains_key(&entry.header.id))
        };
        let look = async || {
            let rows = self.controller.cold_rows(cold()).await.into_iter();
            let waiting = rows.map(|(id, row)| (id, (row.queue(), row.expired(), row)));
            waiting.collect::<BTreeMap<_, _>>()
        };
        let mut rows = look().await;
        if rows.values().any(|(_, _, row)| row.is_wrong()) {
            rows = look().await;
        }
        for (id, (queue, unanswered, row)) in &rows {
            let jobs = row.lost_jobs();
            if !jobs.is_empty() {
                value.jobs.insert(id.clone(), jobs.clone());
                self.told_jobs.insert(id.clone(), jobs);
            }
            if !queue.is_empty() {
                value.queues.insert(id.clone(), queue_of(queue, true));
                self.told_cold.push(id.clone());
            }
            if !unanswered.is_empty() {
                value
                    .interactions
                    .insert(id.clone(), expired(id, unanswered));
                self.told_cold.push(id.clone());
            }
        }
        Ok(ControlItem::Baseline(ControlBaseline { value }))
    }

    fn look(&mut self) {
        let live = self.controller.inner.live.all();
        for handle in &live {
            let id = handle.id().clone();
            let state = handle.live().state_now();
            self.look_at_jobs(&id, &state);
            let before = self.told.get(&id);
            if before.is_some_and(|before| Arc::ptr_eq(before, &state)) {
                continue;
            }
            let was_cold = self.told_cold.contains(&id);
            self.told_cold.retain(|cold| *cold != id);
            let items = changes(&id, before.map(AsRef::as_ref), &state, was_cold);
            self.waiting.extend(items);
            self.told.insert(id, state);
        }
        let gone: Vec<SessionId> = self
            .told
            .keys()
            .filter(|id| !live.iter().any(|handle| handle.id() == *id))
            .cloned()
            .collect();
        for session_id in gone {
            self.told_jobs.remove(&session_id);
            // A session detaches without an open question. What waited still waits, on disk: a
            // subagent comes to rest with messages that were parked by a stop.
            if let Some(state) = self.told.remove(&session_id) {
                if !state.queue.is_empty() {
                    self.told_cold.push(session_id.clone());
                    if !state.parked {
                        let SessionQueue { items, .. } = queue_of(&state.queue, true);
                        self.waiting.push_back(ControlItem::Queue(QueueUpdate {
                            session_id: session_id.clone(),
                            parked: true,
                            items,
                        }));
                    }
                }
                if !state.asking.is_empty() {
                    let interactions = Vec::new();
                    let update = InteractionUpdate {
                        session_id,
                        interactions,
                    };
                    self.waiting.push_back(ControlItem::Interaction(update));
                }
            }
        }
    }
}

impl ControlFeed {
    /// Jobs change without their session: one that is told to stop has logged nothing yet.
    fn look_at_jobs(&mut self, id: &SessionId, state: &LiveState) {
        let jobs = self.controller.jobs_of(id, state);
        let told = self.told_jobs.get(id);
        if told.map_or(jobs.is_empty(), |told| *told == jobs) {
            return;
        }
        self.waiting.push_back(ControlItem::Jobs(JobsUpdate {
            session_id: id.clone(),
            jobs: jobs.clone(),
        }));
        self.told_jobs.insert(id.clone(), jobs);
    }
}

/// What is new of a session since it was told last.
fn changes(
    id: &SessionId,
    before: Option<&LiveState>,
    now: &LiveState,
    was_cold: bool,
) -> Vec<ControlItem> {
    let mut items = Vec::new();
    let same_queue = before.is_some_and(|b| b.queue == now.queue && b.parked == now.parked);
    let nothing_queued = before.is_none() && now.queue.is_empty() && !was_cold;
    if !same_queue && !nothing_queued {
        let SessionQueue {
            parked,
            items: rows,
        } = queue_of(&now.queue, now.parked);
        items.push(ControlItem::Queue(QueueUpdate {
            session_id: id.clone(),
            parked,
            items: rows,
        }));
    }
    let same_asking = before.is_some_and(|b| b.asking == now.asking);
    let nothing_asked = before.is_none() && now.asking.is_empty() && !was_cold;
    if !same_asking && !nothing_asked {
        items.push(ControlItem::Interaction(InteractionUpdate {
            session_id: id.clone(),
            interactions: pending(id, &now.asking),
        }));
    }
    // While a turn runs, how far it is saved moves all the time: it is told when something is wrong
    // and when the session comes to rest.
    let resting = !now.running && now.saved.through.cursor() >= now.as_of;
    let trouble =
        before.map(|b| b.saved.degraded.is_some()).unwrap_or(false) != now.saved.degraded.is_some();
    let moved = before.is_none_or(|b| b.saved != now.saved);
    if trouble || (moved && (resting || before.is_none())) {
        items.push(ControlItem::Persistence(PersistenceUpdate {
            session_id: id.clone(),
            persistence: persistence_of(now),
        }));
    }
    for (key, cell) in now.projections.iter() {
        let same = before
            .and_then(|b| b.projections.get(key))
            .is_some_and(|b| b == cell);
        // A projection that nothing has moved yet has no event to be told with.
        let seq = cell.seq.offset().last_seq();
        if let Some(seq) = seq.filter(|_| !same) {
            items.push(projection(id, key, &cell.value, seq));
        }
    }
    items
}

fn projection(id: &SessionId, key: &str, value: &Json, seq: SessionSeq) -> ControlItem {
    ControlItem::Projection(ProjectionUpdate {
        session_id: id.clone(),
        key: key.to_owned(),
        value: value.clone(),
        seq,
    })
}

fn projections_of(state: &LiveState) -> ProjectionValues {
    let values = state
        .projections
        .iter()
        .map(|(key, cell)| ((*key).to_owned(), cell.value.clone()))
        .collect();
    ProjectionValues {
        as_of_seq: state.as_of,
        values,
    }
}

fn persistence_of(state: &LiveState) -> Persistence {
    let Saved { through, degraded } = &state.saved;
    Persistence {
        saved_seq: through.cursor(),
        degraded: degraded.clone(),
    }
}

fn queue_of(items: &[QueuedItem], parked: bool) -> SessionQueue {
    let row = |item: &QueuedItem| SessionQueuedItem {
        id: item.id.clone(),
        placement: match item.placement {
            Placement::Queued => QueuePlacement::Queued,
            Placement::Steering => QueuePlacement::Steering,
            Placement::Context => QueuePlacement::Context,
        },
        rpc_id: item.rpc_id.clone(),
        message: QueuedMessage {
            id: item.id.clone(),
            content: content_of(&item.message),
        },
    };
    SessionQueue {
        parked,
        items: items.iter().map(row).collect(),
    }
}

fn content_of(message: &Json) -> Vec<Json> {
    #[derive(Deserialize)]
    struct Said {
        content: Vec<Json>,
    }
    message
        .parse::<Said>()
        .map(|said| said.content)
        .unwrap_or_default()
}

fn pending(id: &SessionId, asking: &[Asking]) -> Vec<Interaction> {
    let interaction = |asking: &Asking| Interaction {
        interaction_id: asking.approval_id.clone(),
        session_id: id.clone(),
        root_session_id: id.clone(),
        kind: InteractionKind::Approval,
        state: InteractionState::Pending,
        created_at: asking.asked_at,
        request: InteractionRequest::Approval(ApprovalRequest {
            tool_name: asking.tool.clone(),
            call_id: Some(asking.call_id.clone()),
            reason: Some(asking.reason.clone()),
        }),
    };
    asking.iter().map(interaction).collect()
}

fn expired(id: &SessionId, asked: &[PendingApproval]) -> Vec<Interaction> {
    let interaction = |pending: &PendingApproval| Interaction {
        interaction_id: pending.asked.id.clone(),
        session_id: id.clone(),
        root_session_id: id.clone(),
        kind: InteractionKind::Approval,
        state: InteractionState::Expired,
        created_at: pending.asked_at,
        request: InteractionRequest::Approval(ApprovalRequest {
            tool_name: pending.asked.tool_name.clone(),
            call_id: pending.asked.call_id.clone(),
            reason: pending.asked.reason.clone(),
        }),
    };
    asked.iter().map(interaction).collect()
}
