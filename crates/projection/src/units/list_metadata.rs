//! `sessionListMetadata`: is the session blank, and when did a person last prompt it
//! (`controller.md` 1.4, 1.5).
//!
//! State and view: `{blank, lastPromptAt}`. A session is blank until its first turn, and never
//! again. Only a message of a person moves `lastPromptAt`. Events: `turn/start`, `user/message`.

use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The `sessionListMetadata` unit.
#[derive(Debug, Clone, Copy)]
pub struct ListMetadata;

/// What a session list sorts and hides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadataState {
    /// Whether no turn has ever begun.
    pub blank: bool,
    /// When a person last prompted.
    #[schemars(with = "Option<i64>")]
    pub last_prompt_at: Option<Timestamp>,
}

impl Unit for ListMetadata {
    type State = ListMetadataState;
    type View = ListMetadataState;

    fn key(&self) -> &'static str {
        "sessionListMetadata"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::TurnStart, EventType::UserMessage]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> ListMetadataState {
        ListMetadataState {
            blank: true,
            last_prompt_at: None,
        }
    }

    fn apply(&self, state: &ListMetadataState, event: &Event) -> Option<ListMetadataState> {
        #[derive(Deserialize)]
        struct Sent {
            source: Kind,
        }
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        let next = match event.event_type() {
            EventType::TurnStart => ListMetadataState {
                blank: false,
                ..*state
            },
            _ => {
                let by_a_person = event
                    .payload::<Sent>()
                    .is_ok_and(|sent| sent.source.kind == "user");
                let last = state.last_prompt_at.filter(|_| !by_a_person);
                ListMetadataState {
                    last_prompt_at: last.or(by_a_person.then(|| event.time())),
                    ..*state
                }
            }
        };
        (next != *state).then_some(next)
    }

    fn view(&self, state: &ListMetadataState) -> Option<ListMetadataState> {
        Some(*state)
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::SessionId;

    use super::*;

    fn user(seq: u64, kind: &str) -> Event {
        let text = format!(
            r#"{{"type":"user/message","seq":{seq},"time":{seq},"data":{{"source":{{"kind":"{kind}"}}}},"surfaceOp":"append"}}"#
        );
        Event::from_json(&text).unwrap()
    }

    #[test]
    fn only_a_person_moves_the_time_of_the_last_prompt() {
        let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0));
        let start = ListMetadata.init(&header, SessionLogOffset::ZERO);
        assert_eq!(ListMetadata.apply(&start, &user(3, "plugin")), None);
        let prompted = ListMetadata.apply(&start, &user(4, "user")).unwrap();
        assert_eq!(
            prompted.last_prompt_at.map(Timestamp::epoch_millis),
            Some(4)
        );
        assert_eq!(
            ListMetadata.apply(&prompted, &user(5, "agent-message")),
            None
        );
        let again = ListMetadata.apply(&prompted, &user(6, "user")).unwrap();
        assert_eq!(again.last_prompt_at.map(Timestamp::epoch_millis), Some(6));
        assert!(again.blank);
        let turn = Event::from_json(r#"{"type":"turn/start","seq":7,"time":7,"data":{"turn":1}}"#);
        assert!(!ListMetadata.apply(&again, &turn.unwrap()).unwrap().blank);
    }
}
