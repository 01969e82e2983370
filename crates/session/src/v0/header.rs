//! The first line of a log (`session.md` 2.2). `isSeeded` is never stored: the presence of
//! `seedLength` says it, and its value is the inherited cut.

use serde::{Deserialize, Serialize};

use crate::header::{Common, FORMAT_VERSION, HeaderError, Origin, SessionHeader, check_version};
use crate::ids::SessionId;
use crate::json::parse;
use crate::seq::SessionLogOffset;
use crate::time::Timestamp;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'a> {
    r#type: &'static str,
    version: u64,
    id: &'a SessionId,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_length: Option<SessionLogOffset>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    delegation_depth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_preset: Option<&'a str>,
}

/// The header line, with its newline.
pub fn encode_header(header: &SessionHeader, inherited: SessionLogOffset) -> Vec<u8> {
    let stored = Stored {
        r#type: "session",
        version: FORMAT_VERSION,
        id: &header.id,
        created_at: header.created_at,
        cwd: header.cwd.as_deref(),
        parent_session: header.parent_session.as_ref(),
        seed_length: header.is_seeded.then_some(inherited),
        origin: header.origin,
        delegation_depth: header.delegation_depth,
        agent_preset: header.agent_preset.as_deref(),
    };
    // Strings and integers only: serialising them cannot fail.
    let mut line = serde_json::to_vec(&stored).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a header line, without its newline; gives the logical header and the inherited cut.
pub fn decode_header(line: &str) -> Result<(SessionHeader, SessionLogOffset), HeaderError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Physical {
        r#type: String,
        #[serde(default, deserialize_with = "given")]
        seed_length: Option<SessionLogOffset>,
        #[serde(default)]
        sandbox_mode: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        approval_policy: Option<serde::de::IgnoredAny>,
    }
    check_version(line)?;
    let physical: Physical = parse(line)?;
    if physical.r#type != "session" {
        return Err(HeaderError::field(
            "type",
            "the first record of a log is its header",
        ));
    }
    if physical.sandbox_mode.is_some() {
        return Err(HeaderError::field(
            "sandboxMode",
            "policy fields left the header",
        ));
    }
    if physical.approval_policy.is_some() {
        return Err(HeaderError::field(
            "approvalPolicy",
            "policy fields left the header",
        ));
    }
    let common: Common = parse(line)?;
    if !common.has_depth() {
        return Err(HeaderError::field("delegationDepth", "is required"));
    }
    let header = common.into_header(physical.seed_length.is_some())?;
    Ok((
        header,
        physical.seed_length.unwrap_or(SessionLogOffset::ZERO),
    ))
}

/// A present key must hold an offset; `null` is not one.
fn given<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SessionLogOffset>, D::Error> {
    SessionLogOffset::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDED: &str = r#"{"type":"session","version":0,"id":"s","createdAt":5,"cwd":"/p","parentSession":"r","seedLength":0,"delegationDepth":0}"#;

    #[test]
    fn a_seed_length_of_zero_is_seeded_and_an_absent_one_is_not() {
        let (header, cut) = decode_header(SEEDED).unwrap();
        assert!(header.is_seeded && cut == SessionLogOffset::ZERO);
        assert_eq!(
            encode_header(&header, cut),
            format!("{SEEDED}\n").into_bytes()
        );
        let (header, _) = decode_header(&SEEDED.replace(r#""seedLength":0,"#, "")).unwrap();
        assert!(!header.is_seeded);
    }

    #[test]
    fn unknown_keys_are_ignored_and_illegal_ones_refused() {
        assert!(
            decode_header(&SEEDED.replace("}", r#","isSeeded":false}"#))
                .unwrap()
                .0
                .is_seeded
        );
        for bad in [
            SEEDED.replace(r#","delegationDepth":0"#, ""),
            SEEDED.replace(r#""delegationDepth":0"#, r#""delegationDepth":-0"#),
            SEEDED.replace(r#""seedLength":0"#, r#""seedLength":null"#),
            SEEDED.replace("}", r#","sandboxMode":"read-only"}"#),
            SEEDED.replace(r#""type":"session""#, r#""type":"turn/start""#),
            SEEDED.replace("/p", "p"),
        ] {
            assert!(decode_header(&bad).is_err(), "{bad}");
        }
        let newer = SEEDED.replace(r#""version":0"#, r#""version":2"#);
        assert!(matches!(
            decode_header(&newer),
            Err(HeaderError::UnsupportedVersion { .. })
        ));
    }
}
