//! `pendingApprovals`: questions for approval that nobody has decided, in the order they were asked.
//!
//! State: the questions. Host-only: clients see interactions on the control stream; on a session
//! that is not live they are expired (decision D22). Events: `approval/asked`, `approval/decided`,
//! `turn/start`, which leaves what an interrupted turn asked behind.

use orrery_projection::{HostOnly, Unit};
use orrery_session::payload::{ApprovalAsked, ApprovalDecided};
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset, Timestamp};
use serde::{Deserialize, Serialize};

/// The `pendingApprovals` unit.
#[derive(Debug, Clone, Copy)]
pub struct PendingApprovalsUnit;

/// One undecided question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// When it was asked.
    pub asked_at: Timestamp,
    /// What was asked.
    pub asked: ApprovalAsked,
}

impl Unit for PendingApprovalsUnit {
    type State = Vec<PendingApproval>;
    type View = HostOnly;

    fn key(&self) -> &'static str {
        "pendingApprovals"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[
            EventType::ApprovalAsked,
            EventType::ApprovalDecided,
            EventType::TurnStart,
        ]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> Vec<PendingApproval> {
        Vec::new()
    }

    fn apply(&self, state: &Vec<PendingApproval>, event: &Event) -> Option<Vec<PendingApproval>> {
        let mut next = state.clone();
        match event.event_type() {
            EventType::ApprovalAsked => {
                let asked = event.payload::<ApprovalAsked>().ok()?;
                next.push(PendingApproval {
                    asked_at: event.time(),
                    asked,
                });
            }
            EventType::ApprovalDecided => {
                let decided = event.payload::<ApprovalDecided>().ok()?;
                next.retain(|pending| pending.asked.id != decided.id);
            }
            _ => next.clear(),
        }
        (next != *state).then_some(next)
    }

    fn view(&self, _: &Vec<PendingApproval>) -> Option<HostOnly> {
        None
    }
}
