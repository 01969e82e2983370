//! The logical header of a session (`session.md` 1.2): frozen when the session is made.

use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::json::{JsonError, parse};
use crate::seq::MAX_SAFE_INTEGER;
use crate::time::Timestamp;

/// The only format version that this build reads and writes.
pub const FORMAT_VERSION: u64 = 0;

/// What made the session, where that is not a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A parent's delegation.
    Subagent,
}

/// Why a header is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not a JSON object of the right shape.
    #[error("malformed session header: {0}")]
    Shape(#[from] JsonError),
    /// A version that this build does not read; its shape was not looked at.
    #[error("session {id} has format version {version}; this build reads version 0")]
    UnsupportedVersion {
        /// The header's id, as text, for the message only.
        id: String,
        /// The version found.
        version: String,
    },
    /// A field with an illegal value.
    #[error("session header field {field:?}: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// What was expected.
        why: String,
    },
}

impl HeaderError {
    pub(crate) fn field(field: &'static str, why: impl Into<String>) -> Self {
        Self::Field {
            field,
            why: why.into(),
        }
    }
}

/// Who and where a session is. A title never lives here; it is folded from events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHeader {
    /// The session's id.
    pub id: SessionId,
    /// When it was made; not negative.
    pub created_at: Timestamp,
    /// The workspace: an absolute path.
    pub cwd: Option<String>,
    /// The fork's source, or the delegating session.
    pub parent_session: Option<SessionId>,
    /// Whether the log starts with an inherited prefix, be it empty.
    pub is_seeded: bool,
    /// What made it.
    pub origin: Option<Origin>,
    /// How many delegations lie above it.
    pub delegation_depth: u64,
    /// The preset it was composed from.
    pub agent_preset: Option<String>,
}

/// The header as it travels: keys in their fixed order, absent options left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    version: u64,
    id: &'a SessionId,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session: Option<&'a SessionId>,
    is_seeded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    delegation_depth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_preset: Option<&'a str>,
}

impl Serialize for SessionHeader {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            version: FORMAT_VERSION,
            id: &self.id,
            created_at: self.created_at,
            cwd: self.cwd.as_deref(),
            parent_session: self.parent_session.as_ref(),
            is_seeded: self.is_seeded,
            origin: self.origin,
            delegation_depth: self.delegation_depth,
            agent_preset: self.agent_preset.as_deref(),
        }
        .serialize(serializer)
    }
}

impl SessionHeader {
    /// A header of a session that nobody delegated and that inherits nothing.
    pub const fn root(id: SessionId, created_at: Timestamp) -> Self {
        Self {
            id,
            created_at,
            cwd: None,
            parent_session: None,
            is_seeded: false,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        }
    }

    /// Reads the logical form; a header that still owns `seedLength` is refused.
    pub fn from_json(text: &str) -> Result<Self, HeaderError> {
        check_version(text)?;
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Logical {
            is_seeded: bool,
            #[serde(default)]
            seed_length: Option<serde::de::IgnoredAny>,
            #[serde(flatten)]
            common: Common,
        }
        let logical: Logical = parse(text)?;
        if logical.seed_length.is_some() {
            return Err(HeaderError::field(
                "seedLength",
                "belongs to the stored form only",
            ));
        }
        logical.common.into_header(logical.is_seeded)
    }

    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<(), HeaderError> {
        if self.created_at.epoch_millis() < 0 {
            return Err(HeaderError::field("createdAt", "must not be negative"));
        }
        if self.delegation_depth > MAX_SAFE_INTEGER {
            return Err(HeaderError::field(
                "delegationDepth",
                "must be a safe integer",
            ));
        }
        match &self.cwd {
            Some(cwd) if !std::path::Path::new(cwd).is_absolute() => Err(HeaderError::field(
                "cwd",
                format!("{cwd:?} is not an absolute path"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether a parent delegated this session.
    pub const fn is_subagent(&self) -> bool {
        matches!(self.origin, Some(Origin::Subagent))
    }
}

/// The fields that the logical and the stored form share.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Common {
    id: SessionId,
    created_at: Timestamp,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    parent_session: Option<SessionId>,
    #[serde(default)]
    origin: Option<Origin>,
    #[serde(default, deserialize_with = "depth")]
    delegation_depth: Option<u64>,
    #[serde(default)]
    agent_preset: Option<String>,
}

fn depth<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    crate::seq::SessionSeq::deserialize(deserializer).map(|n| Some(n.get()))
}

impl Common {
    pub(crate) const fn has_depth(&self) -> bool {
        self.delegation_depth.is_some()
    }

    pub(crate) fn into_header(self, is_seeded: bool) -> Result<SessionHeader, HeaderError> {
        let header = SessionHeader {
            id: self.id,
            created_at: self.created_at,
            cwd: self.cwd,
            parent_session: self.parent_session,
            is_seeded,
            origin: self.origin,
            delegation_depth: self.delegation_depth.unwrap_or(0),
            agent_preset: self.agent_preset,
        };
        header.validate()?;
        Ok(header)
    }
}

/// Refuses every version but 0 before anything else of the header is looked at.
pub(crate) fn check_version(text: &str) -> Result<(), HeaderError> {
    #[derive(Deserialize)]
    struct Version {
        version: serde_json::Value,
        #[serde(default)]
        id: serde_json::Value,
    }
    let found: Version = parse(text)?;
    match found.version.as_f64() {
        Some(0.0) => Ok(()),
        Some(_) => Err(HeaderError::UnsupportedVersion {
            id: found
                .id
                .as_str()
                .map_or_else(|| found.id.to_string(), str::to_owned),
            version: found.version.to_string(),
        }),
        None => Err(HeaderError::field("version", "must be a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_version_is_unsupported_whatever_its_shape() {
        let error = SessionHeader::from_json(r#"{"version":3,"id":7,"strange":true}"#).unwrap_err();
        assert!(matches!(error, HeaderError::UnsupportedVersion { ref id, .. } if id == "7"));
    }

    #[test]
    fn the_logical_form_reads_back_and_refuses_the_stored_key() {
        let text = r#"{"version":0,"id":"s","createdAt":1,"cwd":"/a","isSeeded":true,"origin":"subagent","delegationDepth":2}"#;
        let header = SessionHeader::from_json(text).unwrap();
        assert_eq!(serde_json::to_string(&header).unwrap(), text);
        for bad in [
            r#"{"version":0,"id":"s","createdAt":1,"isSeeded":true,"seedLength":1}"#,
            r#"{"version":0,"id":"s","createdAt":1}"#,
            r#"{"version":0,"id":"s","createdAt":-1,"isSeeded":false}"#,
            r#"{"version":0,"id":"","createdAt":1,"isSeeded":false}"#,
            r#"{"version":0,"id":"s","createdAt":1,"isSeeded":false,"cwd":"a/b"}"#,
            r#"{"version":0,"id":"s","createdAt":1,"isSeeded":false,"origin":"elsewhere"}"#,
        ] {
            assert!(SessionHeader::from_json(bad).is_err(), "{bad}");
        }
    }
}
