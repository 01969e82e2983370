//! What a live session shows: its log's tail and the state that clients watch.
//!
//! Written by the actor, read by anybody without asking it. A follower waits for the head to move
//! and takes the events it lacks (decision D21): nothing is queued for it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use orrery_projection::UnitState;
use orrery_session::payload::{AbortCause, InboxTarget, ModelSelection, TurnEndReason};
use orrery_session::{
    Json, MessageId, SessionHeader, SessionLogOffset, SessionSeqCursor, SharedEvent, Timestamp,
};
use tokio::sync::watch;

use crate::actor::TurnOutcome;
use crate::inbox::{Inbox, Waiting};
use crate::machine::Asking;

/// How far a live log reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHead {
    /// The boundary behind the last event.
    pub end: SessionLogOffset,
    /// Whether the session is no longer live: nothing more will come from here.
    pub closed: bool,
}

/// Where a waiting message stands (`controller.md` 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It waits for a turn of its own.
    Queued,
    /// A person wants it to join the running turn.
    Steering,
    /// Something else will join the running turn.
    Context,
}

/// One waiting message as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedItem {
    /// The message's id.
    pub id: MessageId,
    /// Where it stands.
    pub placement: Placement,
    /// The client's request id, where a person sent it.
    pub rpc_id: Option<String>,
    /// The whole message.
    pub message: Json,
}

impl QueuedItem {
    /// The lists of an inbox in the order clients see: the queue, then the step's messages.
    pub fn of(inbox: &Inbox) -> Vec<Self> {
        let item = |waiting: &Waiting, target| {
            let (kind, rpc_id) = waiting.source();
            let placement = match target {
                InboxTarget::NextTurn => Placement::Queued,
                InboxTarget::NextStep if kind == "user" => Placement::Steering,
                InboxTarget::NextStep => Placement::Context,
            };
            let rpc_id = rpc_id.filter(|_| kind == "user");
            Self {
                id: waiting.id.clone(),
                placement,
                rpc_id,
                message: waiting.message.clone(),
            }
        };
        [InboxTarget::NextTurn, InboxTarget::NextStep]
            .into_iter()
            .flat_map(|target| inbox.list(target).iter().map(move |w| item(w, target)))
            .collect()
    }
}

/// A projection's value and the event that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionCell {
    /// The view.
    pub value: Json,
    /// The last event that changed it, or the one it was first computed at.
    pub seq: SessionSeqCursor,
}

/// How far a live session is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Everything before this boundary is written.
    pub through: SessionLogOffset,
    /// What the last try to write failed with; `None` while all is well.
    pub degraded: Option<String>,
}

/// The process-local state of a live session.
#[derive(Debug, Clone)]
pub struct LiveState {
    /// Whether a turn runs.
    pub running: bool,
    /// What waits.
    pub queue: Arc<[QueuedItem]>,
    /// Whether it waits for a person to wake it.
    pub parked: bool,
    /// The questions that wait for a person.
    pub asking: Arc<[Asking]>,
    /// The client-visible projections.
    pub projections: Arc<BTreeMap<&'static str, ProjectionCell>>,
    /// The states of the units that the Host shares, where they are not poisoned.
    pub states: Arc<BTreeMap<&'static str, UnitState>>,
    /// The model that answers next.
    pub next_model: ModelSelection,
    /// Everything up to here is folded in.
    pub as_of: SessionSeqCursor,
    /// When a person last prompted, for sorting.
    pub last_prompt_at: Option<Timestamp>,
    /// Whether no turn has ever begun.
    pub blank: bool,
    /// How far the log is on disk.
    pub saved: Saved,
    /// Counts the failures that clients were told of; the newest is with it.
    pub fault: Option<(u64, String)>,
    /// How the last turn ended since the session came to life, and what was said by then.
    pub outcome: Option<Arc<TurnOutcome>>,
}

/// The newest events of a live log; older ones are on disk (decision D30).
#[derive(Debug)]
struct Tail {
    base: SessionLogOffset,
    events: Vec<SharedEvent>,
}

/// Part of what was asked for is no longer held here: it is on disk, before this boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("events before {before} are on disk only")]
pub struct OnDisk {
    /// The first event that is still held stands behind it.
    pub before: SessionLogOffset,
}

/// A live session, for everybody to look at.
#[derive(Debug)]
pub struct Live {
    header: SessionHeader,
    inherited: SessionLogOffset,
    tail: RwLock<Tail>,
    head: watch::Sender<LogHead>,
    state: watch::Sender<Arc<LiveState>>,
}

impl Live {
    pub(crate) fn new(
        header: SessionHeader,
        inherited: SessionLogOffset,
        events: Vec<SharedEvent>,
        state: LiveState,
    ) -> Self {
        let end = SessionLogOffset::of_len(events.len());
        Self {
            header,
            inherited,
            tail: RwLock::new(Tail {
                base: SessionLogOffset::ZERO,
                events,
            }),
            head: watch::Sender::new(LogHead { end, closed: false }),
            state: watch::Sender::new(Arc::new(state)),
        }
    }

    /// The header.
    pub const fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// The exact inherited cut.
    pub const fn inherited(&self) -> SessionLogOffset {
        self.inherited
    }

    /// How far the log reaches, to wait on.
    pub fn head(&self) -> watch::Receiver<LogHead> {
        self.head.subscribe()
    }

    /// The state, to wait on.
    pub fn state(&self) -> watch::Receiver<Arc<LiveState>> {
        self.state.subscribe()
    }

    /// The state now.
    pub fn state_now(&self) -> Arc<LiveState> {
        Arc::clone(&self.state.borrow())
    }

    /// Whether nothing runs because a person stopped it: nothing but a person starts it again.
    pub fn stopped_by_person(&self) -> bool {
        let state = self.state_now();
        let reason = AbortCause::User;
        let stopped = TurnEndReason::Aborted { reason };
        !state.running && state.outcome.as_ref().is_some_and(|o| o.reason == stopped)
    }

    /// The boundary behind the last event.
    pub fn end(&self) -> SessionLogOffset {
        self.head.borrow().end
    }

    /// The events from `from` on, at most `limit` of them.
    ///
    /// # Errors
    /// When the first of them is no longer held here.
    pub fn events_from(
        &self,
        from: SessionLogOffset,
        limit: usize,
    ) -> Result<Vec<SharedEvent>, OnDisk> {
        let tail = self.tail.read().unwrap_or_else(PoisonError::into_inner);
        let Some(skip) = from.index().checked_sub(tail.base.index()) else {
            return Err(OnDisk { before: tail.base });
        };
        Ok(tail.events.iter().skip(skip).take(limit).cloned().collect())
    }

    /// The boundary before the first event that is held here.
    pub fn held_from(&self) -> SessionLogOffset {
        self.tail
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .base
    }

    pub(crate) fn forget_before(&self, boundary: SessionLogOffset) {
        let mut tail = self.tail.write().unwrap_or_else(PoisonError::into_inner);
        let count = boundary
            .index()
            .saturating_sub(tail.base.index())
            .min(tail.events.len());
        tail.events.drain(..count);
        let room = 2 * tail.events.len();
        tail.events.shrink_to(room);
        tail.base = tail.base.advance(count);
    }

    pub(crate) fn publish(&self, events: &[SharedEvent]) {
        if events.is_empty() {
            return;
        }
        let end = {
            let mut tail = self.tail.write().unwrap_or_else(PoisonError::into_inner);
            tail.events.extend_from_slice(events);
            tail.base.advance(tail.events.len())
        };
        self.head.send_modify(|head| head.end = end);
    }

    pub(crate) fn publish_state(&self, state: LiveState) {
        self.state.send_replace(Arc::new(state));
    }

    pub(crate) fn close(&self) {
        self.head.send_modify(|head| head.closed = true);
    }
}
