//! Live sessions as the queries see them: the port of `orrery-query` over the handles.

use std::ops::Range;
use std::sync::Arc;

use orrery_agent::SessionHandle;
use orrery_projection::{Snapshot, UnitState};
use orrery_query::{LiveLog, LiveSessions as Port};
use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};

use crate::live_sessions::LiveSessions;

#[derive(Debug)]
struct Log(SessionHandle);

impl LiveLog for Log {
    fn header(&self) -> &SessionHeader {
        self.0.live().header()
    }

    fn inherited(&self) -> SessionLogOffset {
        self.0.live().inherited()
    }

    fn end(&self) -> SessionLogOffset {
        self.0.live().end()
    }

    fn saved(&self) -> SessionLogOffset {
        self.0.live().state_now().saved.through
    }

    fn held_from(&self) -> SessionLogOffset {
        self.0.live().held_from()
    }

    fn held(&self, range: Range<SessionLogOffset>) -> Vec<SharedEvent> {
        let live = self.0.live();
        let from = range.start.max(live.held_from());
        let count = range.end.index().saturating_sub(from.index());
        // What was let go of between the two looks is on disk, like what lies before it.
        live.events_from(from, count).unwrap_or_default()
    }

    fn state(&self, key: &str) -> Option<UnitState> {
        self.0.live().state_now().states.get(key).cloned()
    }

    fn projections(&self) -> Snapshot {
        let state = self.0.live().state_now();
        Snapshot {
            as_of_seq: state.as_of,
            values: state
                .projections
                .iter()
                .map(|(key, cell)| (*key, cell.value.clone()))
                .collect(),
        }
    }
}

impl Port for LiveSessions {
    fn get(&self, id: &SessionId) -> Option<Arc<dyn LiveLog>> {
        let handle = Self::get(self, id)?;
        Some(Arc::new(Log(handle)))
    }

    fn all(&self) -> Vec<Arc<dyn LiveLog>> {
        Self::all(self)
            .into_iter()
            .map(|handle| Arc::new(Log(handle)) as Arc<dyn LiveLog>)
            .collect()
    }

    fn is_arriving(&self, id: &SessionId) -> bool {
        Self::is_arriving(self, id)
    }
}
