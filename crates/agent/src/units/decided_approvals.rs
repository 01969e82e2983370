//! `decidedApprovals`: how the newest questions for approval were settled, for answers that come
//! late.
//!
//! State: the newest 1,000 decisions. Host-only. Events: `approval/decided`.

use std::collections::VecDeque;

use orrery_projection::{HostOnly, Unit};
use orrery_session::payload::{ApprovalDecided, ApprovalOutcome};
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};
use serde::{Deserialize, Serialize};

/// How many decisions are remembered.
const REMEMBERED: usize = 1_000;

/// The `decidedApprovals` unit.
#[derive(Debug, Clone, Copy)]
pub struct DecidedApprovalsUnit;

/// The decisions, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedApprovals(VecDeque<ApprovalDecided>);

impl DecidedApprovals {
    /// How a question was settled.
    pub fn get(&self, approval_id: &str) -> Option<ApprovalOutcome> {
        self.0
            .iter()
            .rev()
            .find(|decided| decided.id == approval_id)
            .map(|decided| decided.outcome)
    }
}

impl Unit for DecidedApprovalsUnit {
    type State = DecidedApprovals;
    type View = HostOnly;

    fn key(&self) -> &'static str {
        "decidedApprovals"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::ApprovalDecided]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> DecidedApprovals {
        DecidedApprovals::default()
    }

    fn apply(&self, state: &DecidedApprovals, event: &Event) -> Option<DecidedApprovals> {
        let mut next = state.clone();
        next.0.push_back(event.payload().ok()?);
        if next.0.len() > REMEMBERED {
            next.0.pop_front();
        }
        Some(next)
    }

    fn view(&self, _: &DecidedApprovals) -> Option<HostOnly> {
        None
    }
}
