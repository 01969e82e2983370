//! `subagentTiming`: how long a subagent has worked (`subagent.md` 1.10).
//!
//! State: `{settledMs, active?, pendingTurnStart?, descriptorSeen}`; view: `{settledMs, active?}`.
//! Events: all of them, since any moves the end of a running turn. What an inherited prefix took is
//! dropped when the descriptor comes. Times are milliseconds and never negative.

use orrery_projection::Unit;
use orrery_session::{Event, EventType, Millis, SessionHeader, SessionLogOffset, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `subagentTiming` unit.
#[derive(Debug, Clone, Copy)]
pub struct SubagentTimingUnit;

/// A turn that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Active {
    /// When it began.
    #[schemars(with = "i64")]
    pub since: Timestamp,
    /// When something last happened in it.
    #[schemars(with = "i64")]
    pub through: Timestamp,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimingState {
    settled_ms: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active: Option<Active>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending_turn_start: Option<Timestamp>,
    descriptor_seen: bool,
}

/// What clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimingView {
    /// All turns that have ended, together.
    #[schemars(with = "u64")]
    pub settled_ms: Millis,
    /// The turn that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
}

impl Unit for SubagentTimingUnit {
    type State = TimingState;
    type View = TimingView;

    fn key(&self) -> &'static str {
        "subagentTiming"
    }

    fn state_version(&self) -> u64 {
        2
    }

    fn event_types(&self) -> &'static [EventType] {
        EventType::KNOWN
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> TimingState {
        TimingState {
            settled_ms: Millis(0),
            active: None,
            pending_turn_start: None,
            descriptor_seen: false,
        }
    }

    fn apply(&self, state: &TimingState, event: &Event) -> Option<TimingState> {
        let now = event.time();
        let next = match event.event_type() {
            EventType::TurnStart if state.descriptor_seen => TimingState {
                active: Some(Active {
                    since: now,
                    through: now,
                }),
                ..*state
            },
            EventType::TurnStart => TimingState {
                pending_turn_start: Some(now),
                ..*state
            },
            EventType::SubagentDescriptor => {
                let open = state.active.map(|active| active.since);
                let since = open.or(state.pending_turn_start);
                TimingState {
                    settled_ms: Millis(0),
                    active: since.map(|since| Active {
                        since,
                        through: now,
                    }),
                    pending_turn_start: None,
                    descriptor_seen: true,
                }
            }
            EventType::TurnEnd if state.descriptor_seen => {
                let since = state.active?.since;
                let took = now.epoch_millis() - since.epoch_millis();
                let took = u64::try_from(took).unwrap_or(0);
                TimingState {
                    settled_ms: Millis(state.settled_ms.0.saturating_add(took)),
                    active: None,
                    ..*state
                }
            }
            EventType::TurnEnd => TimingState {
                pending_turn_start: None,
                ..*state
            },
            _ => TimingState {
                active: state.active.map(|active| Active {
                    through: now,
                    ..active
                }),
                ..*state
            },
        };
        (next != *state).then_some(next)
    }

    fn view(&self, state: &TimingState) -> Option<TimingView> {
        Some(TimingView {
            settled_ms: state.settled_ms,
            active: state.active,
        })
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::SessionId;

    use super::*;

    fn fold(log: &[(&str, i64)]) -> TimingState {
        let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0));
        let mut state = SubagentTimingUnit.init(&header, SessionLogOffset::ZERO);
        for (event_type, time) in log {
            let text = format!(r#"{{"type":"{event_type}","seq":0,"time":{time},"data":{{}}}}"#);
            let event = Event::from_json(&text).unwrap();
            state = SubagentTimingUnit.apply(&state, &event).unwrap_or(state);
        }
        state
    }

    #[test]
    fn what_the_inherited_prefix_took_is_dropped_and_the_open_turn_counts_from_its_start() {
        let inherited = [("turn/start", 0), ("turn/end", 500), ("turn/start", 600)];
        let state = fold(&[inherited.as_slice(), &[("subagent/descriptor", 650)]].concat());
        let view = SubagentTimingUnit.view(&state).unwrap();
        let at = |active: Option<Active>| {
            active.map(|a| (a.since.epoch_millis(), a.through.epoch_millis()))
        };
        assert_eq!(
            (view.settled_ms, at(view.active)),
            (Millis(0), Some((600, 650)))
        );
    }

    #[test]
    fn turns_add_up_and_a_clock_that_goes_back_takes_nothing_away() {
        let state = fold(&[
            ("subagent/descriptor", 0),
            ("turn/start", 10),
            ("step/start", 30),
            ("turn/end", 40),
            ("turn/end", 90),
            ("turn/start", 100),
            ("turn/end", 80),
            ("turn/start", 200),
            ("tool/call", 230),
        ]);
        assert_eq!(state.settled_ms, Millis(30));
        assert_eq!(state.active.map(|a| a.through.epoch_millis()), Some(230));
        assert_eq!(fold(&[("tool/call", 5), ("turn/end", 9)]).active, None);
    }
}
