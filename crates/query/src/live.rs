//! The port to the sessions that are live in this process. Live wins over what lies on disk, for its
//! own id only (decision D13).

use std::ops::Range;
use std::sync::Arc;

use orrery_projection::{Snapshot, UnitState};
use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};

/// The log of a live session, as readers see it.
pub trait LiveLog: Send + Sync + std::fmt::Debug {
    /// The header.
    fn header(&self) -> &SessionHeader;
    /// The exact inherited cut.
    fn inherited(&self) -> SessionLogOffset;
    /// The boundary behind the last event.
    fn end(&self) -> SessionLogOffset;
    /// The boundary behind the last event that is on disk.
    fn saved(&self) -> SessionLogOffset;
    /// The boundary before the first event that is held in memory; older ones are on disk.
    fn held_from(&self) -> SessionLogOffset;
    /// The events of a range that are held in memory.
    fn held(&self, range: Range<SessionLogOffset>) -> Vec<SharedEvent>;
    /// The projections that clients see.
    fn projections(&self) -> Snapshot;
    /// The whole state of a unit that the Host shares; `None` of any other and of a poisoned one.
    fn state(&self, key: &str) -> Option<UnitState>;
}

/// The live sessions of this process.
pub trait LiveSessions: Send + Sync + std::fmt::Debug {
    /// The live session of that id.
    fn get(&self, id: &SessionId) -> Option<Arc<dyn LiveLog>>;
    /// All of them.
    fn all(&self) -> Vec<Arc<dyn LiveLog>>;
    /// Whether a session of that id is being made or brought to life just now: it may be on disk
    /// already and not have said everything that it begins with.
    fn is_arriving(&self, id: &SessionId) -> bool {
        let _ = id; // Nobody arrives unless somebody says so.
        false
    }
}

/// No session is ever live: for programs that only read logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyLive;

impl LiveSessions for NobodyLive {
    fn get(&self, _: &SessionId) -> Option<Arc<dyn LiveLog>> {
        None
    }
    fn all(&self) -> Vec<Arc<dyn LiveLog>> {
        Vec::new()
    }
}
