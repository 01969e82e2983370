//! `todos`: the to-do list that the agent keeps during a turn (`subagent.md` 1.8).
//!
//! State and view: the list, or null. Events: `todo/write` sets it whole; `turn/start` clears it.

use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The `todos` unit.
#[derive(Debug, Clone, Copy)]
pub struct Todos;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// What.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a thing to do is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Nobody began.
    Pending,
    /// Somebody is at it.
    InProgress,
    /// It is done.
    Completed,
}

impl Unit for Todos {
    type State = Option<Vec<Todo>>;
    type View = Option<Vec<Todo>>;

    fn key(&self) -> &'static str {
        "todos"
    }

    fn state_version(&self) -> u64 {
        2
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::TodoWrite, EventType::TurnStart]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> Self::State {
        None
    }

    fn apply(&self, state: &Self::State, event: &Event) -> Option<Self::State> {
        #[derive(Deserialize)]
        struct Written {
            todos: Vec<Todo>,
        }
        let next = match event.event_type() {
            EventType::TodoWrite => Some(event.payload::<Written>().ok()?.todos),
            _ => None,
        };
        (*state != next).then_some(next)
    }

    fn view(&self, state: &Self::State) -> Option<Self::View> {
        Some(state.clone())
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::{SessionId, Timestamp};

    use super::*;

    #[test]
    fn the_last_list_counts_until_the_next_turn_begins() {
        let event = |event_type: &str, data: &str| {
            let text = format!(r#"{{"type":"{event_type}","seq":0,"time":0,"data":{data}}}"#);
            Event::from_json(&text).unwrap()
        };
        let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0));
        let none = Todos.init(&header, SessionLogOffset::ZERO);
        let start = event("turn/start", r#"{"turn":1}"#);
        assert_eq!(Todos.apply(&none, &start), None);
        let write = r#"{"todos":[{"content":"look","status":"in_progress"}]}"#;
        let list = Todos.apply(&none, &event("todo/write", write)).unwrap();
        let first = &list.as_ref().unwrap()[0];
        assert_eq!(
            (first.content.as_str(), first.status),
            ("look", TodoStatus::InProgress)
        );
        assert_eq!(
            Todos.apply(&list, &event("todo/write", r#"{"todos":7}"#)),
            None
        );
        assert_eq!(Todos.apply(&list, &start), Some(None));
    }
}
