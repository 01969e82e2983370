//! `title`: the last `session/title` wins (`session.md` 2.17).
//!
//! State: the last payload, or null. View: the title's text, or null. Events: `session/title`.

use orrery_session::payload::SessionTitle;
use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};

use crate::unit::Unit;

/// The `title` unit.
#[derive(Debug, Clone, Copy)]
pub struct Title;

impl Unit for Title {
    type State = Option<SessionTitle>;
    type View = Option<String>;

    fn key(&self) -> &'static str {
        "title"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::SessionTitle]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> Self::State {
        None
    }

    fn apply(&self, state: &Self::State, event: &Event) -> Option<Self::State> {
        let next = event.payload::<SessionTitle>().ok();
        (*state != next).then_some(next)
    }

    fn view(&self, state: &Self::State) -> Option<Self::View> {
        Some(state.as_ref().map(|title| title.title.clone()))
    }
}
