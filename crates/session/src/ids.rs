//! Typed ids. Opaque outside: only non-emptiness is demanded of an id that comes in.

use serde::{Deserialize, Serialize};

/// An id was empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id must be a non-empty string")]
pub struct EmptyId;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Wraps a non-empty string.
            pub fn new(text: impl AsRef<str>) -> Result<Self, EmptyId> {
                let text = text.as_ref();
                if text.is_empty() { Err(EmptyId) } else { Ok(Self(text.into())) }
            }

            /// The id's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }

        impl std::str::FromStr for $name {
            type Err = EmptyId;
            fn from_str(text: &str) -> Result<Self, EmptyId> {
                Self::new(text)
            }
        }
    };
}

id! {
    /// Names a session for life: `session-<uuidv7>` for roots, `<uuidv7>` for subagents, anything
    /// non-empty when it comes from elsewhere.
    SessionId
}
id! {
    /// Names a message; a UUID minted at creation, or `legacy-message:…` from an import.
    MessageId
}
id! {
    /// Names one tool call within a session; minted by the model's server.
    CallId
}

impl MessageId {
    /// The id of the answer that repair gives to a call that was never answered.
    pub(crate) fn of_interrupted_result(call: &CallId, seq: crate::seq::SessionSeq) -> Self {
        Self(format!("interrupted-tool-result-{call}-{seq}").into())
    }

    /// The id of a message that was logged before messages had ids.
    pub(crate) fn of_legacy(session: &SessionId, seq: crate::seq::SessionSeq) -> Self {
        Self(format!("legacy-message:{session}:{seq}").into())
    }
}

impl CallId {
    /// The id given to the `index`-th block when the model's server sent none.
    pub fn for_block(index: u64) -> Self {
        Self(format!("call-{index}").into())
    }
}

/// Where fresh ids come from. Passed in, so that tests are repeatable.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// A fresh UUID (v7: time-ordered) in its hyphenated form.
    fn uuid(&self) -> String;

    /// A fresh id for a root session.
    fn root_session(&self) -> SessionId {
        SessionId(format!("session-{}", self.uuid()).into())
    }

    /// A fresh id for a subagent's session.
    fn child_session(&self) -> SessionId {
        SessionId(self.uuid().into())
    }

    /// A fresh message id.
    fn message(&self) -> MessageId {
        MessageId(self.uuid().into())
    }
}

/// Ids from the system's clock and random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn uuid(&self) -> String {
        uuid::Uuid::now_v7().hyphenated().to_string()
    }
}
