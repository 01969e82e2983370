//! `inbox`: the messages that wait, from the own suffix only: a fork inherits no pending input.
//!
//! State: the two lists and where the own suffix begins. Host-only: clients see the queue of the
//! control stream. Events: `agent/inbox/spliced`.

use orrery_projection::{HostOnly, Unit};
use orrery_session::payload::InboxSpliced;
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};
use serde::{Deserialize, Serialize};

use crate::inbox::Inbox;

/// The `inbox` unit.
#[derive(Debug, Clone, Copy)]
pub struct InboxUnit;

/// The lists, and where they begin to count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxState {
    inherited: SessionLogOffset,
    /// The lists.
    pub inbox: Inbox,
}

impl Unit for InboxUnit {
    type State = InboxState;
    type View = HostOnly;

    fn key(&self) -> &'static str {
        "inbox"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::InboxSpliced]
    }

    fn init(&self, _: &SessionHeader, inherited: SessionLogOffset) -> InboxState {
        InboxState {
            inherited,
            inbox: Inbox::default(),
        }
    }

    fn apply(&self, state: &InboxState, event: &Event) -> Option<InboxState> {
        if event.seq().offset_before() < state.inherited {
            return None;
        }
        let splice = event.payload::<InboxSpliced>().ok()?;
        let (inbox, _) = state.inbox.splice(&splice).ok()?;
        Some(InboxState { inbox, ..*state })
    }

    fn view(&self, _: &InboxState) -> Option<HostOnly> {
        None
    }
}
