//! When a live session's projections are kept, and the port to whatever keeps them
//! (`subagent.md` 2.4).
//!
//! A checkpoint is taken between two events and handed over; the keeper writes it down only after
//! the log is on disk at least as far, so that the log always leads. Keeping never holds up the
//! session and never fails it.

use std::sync::Arc;
use std::time::Duration;

use orrery_projection::checkpoint::CheckpointRecord;
use orrery_session::{EventType, SessionId, SharedEvent};
use tokio::time::Instant;

use crate::actor::LogWriter;

/// Why a checkpoint is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The session was made, or came to life again.
    Create,
    /// A turn ended.
    TurnEnd,
    /// The session goes to rest.
    Detach,
    /// Enough happened since the last one.
    Count,
    /// Enough time went by since something happened.
    Interval,
}

impl Trigger {
    /// The name that warnings use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::TurnEnd => "turn/end",
            Self::Detach => "detach",
            Self::Count => "count threshold",
            Self::Interval => "interval",
        }
    }
}

/// A checkpoint on its way to the disk.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The session.
    pub id: SessionId,
    /// Its projections.
    pub record: CheckpointRecord,
    /// Why.
    pub trigger: Trigger,
    /// Flushed before the record is written; `None` once the log is closed.
    pub log: Option<Arc<dyn LogWriter>>,
}

/// Keeps checkpoints. Returns at once; a newer one of a session may take an older one's place.
pub trait CheckpointKeeper: Send + Sync + std::fmt::Debug {
    /// Takes a checkpoint over.
    fn keep(&self, kept: Kept);
}

/// Who keeps the checkpoints of live sessions, and how often beside the mandatory moments.
#[derive(Debug, Clone)]
pub struct CheckpointPolicy {
    /// Who keeps them; without anybody none are taken.
    pub keeper: Option<Arc<dyn CheckpointKeeper>>,
    /// After how many events other than `turn/end`.
    pub every_events: usize,
    /// How long after the first event that none holds yet.
    pub interval: Duration,
}

/// How far a session has moved on since its last checkpoint.
#[derive(Debug)]
pub(crate) struct Pace {
    every_events: usize,
    interval: Duration,
    events: usize,
    due: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(policy: &CheckpointPolicy) -> Self {
        Self {
            every_events: policy.every_events.max(1),
            interval: policy.interval,
            events: 0,
            due: None,
        }
    }

    /// Counts new events; says when a checkpoint is due at once.
    pub(crate) fn note(&mut self, events: &[SharedEvent]) -> Option<Trigger> {
        let ends = |event: &SharedEvent| *event.event_type() == EventType::TurnEnd;
        if events.is_empty() {
            return None;
        }
        self.events += events.iter().filter(|event| !ends(event)).count();
        self.due
            .get_or_insert_with(|| Instant::now() + self.interval);
        if events.iter().any(ends) {
            Some(Trigger::TurnEnd)
        } else {
            (self.events >= self.every_events).then_some(Trigger::Count)
        }
    }

    /// When the interval has gone by; `None` while nothing is new.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A checkpoint was taken.
    pub(crate) const fn taken(&mut self) {
        self.events = 0;
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::Event;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_turn_is_due_at_once_and_everything_else_by_count_or_time() {
        let policy = CheckpointPolicy {
            keeper: None,
            every_events: 3,
            interval: Duration::from_secs(5),
        };
        let event = |event_type: &str| {
            let text = format!(r#"{{"type":"{event_type}","seq":0,"time":0,"data":{{}}}}"#);
            SharedEvent::new(Event::from_json(&text).unwrap())
        };
        let mut pace = Pace::new(&policy);
        assert_eq!((pace.note(&[]), pace.due()), (None, None));
        assert_eq!(pace.note(&[event("step/start"), event("step/end")]), None);
        let due = pace.due().unwrap();
        assert_eq!(due - Instant::now(), Duration::from_secs(5));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pace.note(&[event("turn/end")]), Some(Trigger::TurnEnd));
        assert_eq!(pace.due(), Some(due), "the first event counts");
        assert_eq!(pace.note(&[event("step/start")]), Some(Trigger::Count));
        pace.taken();
        assert_eq!((pace.note(&[event("step/start")]), pace.events), (None, 1));
    }
}
