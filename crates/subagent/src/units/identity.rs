//! `subagent`: who a subagent is (`subagent.md` 1.9, decision D11).
//!
//! State: `{identity?, invalidSeq?}`; view: the identity or null. Events: `subagent/descriptor`, of
//! which the last wins, a damaged one too: a healthy ancestor lends a fork no identity. Whether the
//! descriptor is the session's own is judged outside, by its seq against the inherited cut.

use orrery_projection::Unit;
use orrery_session::{Event, EventType, Json, SessionHeader, SessionLogOffset, SessionSeq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::descriptor::{Descriptor, Mode};

/// The `subagent` unit.
#[derive(Debug, Clone, Copy)]
pub struct SubagentUnit;

/// Who a subagent is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Identity {
    /// It does one thing and is done.
    OneShot {
        /// What it was delegated, in short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// The descriptor that says so.
        #[schemars(with = "u64")]
        seq: SessionSeq,
    },
    /// It takes more messages.
    Continuable {
        /// What it was delegated, in short.
        label: String,
        /// The descriptor that says so.
        #[schemars(with = "u64")]
        seq: SessionSeq,
    },
}

impl Identity {
    /// The descriptor that says so.
    pub const fn seq(&self) -> SessionSeq {
        match self {
            Self::OneShot { seq, .. } | Self::Continuable { seq, .. } => *seq,
        }
    }
}

/// What the last descriptor says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityState {
    /// Who it is, where the last descriptor is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The last descriptor, where it is damaged or of an unknown version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_seq: Option<SessionSeq>,
}

impl Unit for SubagentUnit {
    type State = IdentityState;
    type View = Option<Identity>;

    fn key(&self) -> &'static str {
        "subagent"
    }

    fn state_version(&self) -> u64 {
        2
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::SubagentDescriptor]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> IdentityState {
        IdentityState::default()
    }

    fn apply(&self, _: &IdentityState, event: &Event) -> Option<IdentityState> {
        let seq = event.seq();
        let read = Json::from_text(event.data())
            .ok()
            .and_then(|payload| Descriptor::read(&payload).ok().flatten());
        Some(match read.map(|descriptor| descriptor.mode) {
            Some(mode) => IdentityState {
                identity: Some(match mode {
                    Mode::OneShot { label } => Identity::OneShot { label, seq },
                    Mode::Continuable { label, .. } => Identity::Continuable { label, seq },
                }),
                invalid_seq: None,
            },
            None => IdentityState {
                identity: None,
                invalid_seq: Some(seq),
            },
        })
    }

    fn view(&self, state: &IdentityState) -> Option<Option<Identity>> {
        Some(state.identity.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_descriptor_wins_and_a_damaged_one_takes_the_identity_away() {
        let descriptor = |seq: u64, data: &str| {
            let text =
                format!(r#"{{"type":"subagent/descriptor","seq":{seq},"time":0,"data":{data}}}"#);
            Event::from_json(&text).unwrap()
        };
        let whole = r#"{"version":2,"mode":"continuable","provider":"spawn","label":"look"}"#;
        let first = SubagentUnit.apply(&IdentityState::default(), &descriptor(4, whole));
        let first = first.unwrap();
        assert_eq!(first.identity.as_ref().unwrap().seq().get(), 4);
        for bad in [
            "7",
            r#"{"version":3}"#,
            r#"{"version":2,"mode":"one-shot"}"#,
        ] {
            let damaged = SubagentUnit.apply(&first, &descriptor(9, bad)).unwrap();
            assert_eq!(
                (&damaged.identity, damaged.invalid_seq.unwrap().get()),
                (&None, 9)
            );
            let again = SubagentUnit
                .apply(&damaged, &descriptor(12, whole))
                .unwrap();
            assert_eq!(
                (again.identity.unwrap().seq().get(), again.invalid_seq),
                (12, None)
            );
        }
        let view = Json::from_value(&SubagentUnit.view(&first)).unwrap();
        let expected = r#"{"mode":"continuable","label":"look","seq":4}"#;
        assert_eq!(view.text(), expected);
        let nobody = SubagentUnit.view(&IdentityState::default()).unwrap();
        assert_eq!(Json::from_value(&nobody).unwrap().text(), "null");
    }
}
