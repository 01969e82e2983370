//! `subagent/descriptor`, version 2: what a subagent is (`subagent.md` 4.1).
//!
//! The parser is strict: a field that it does not know, of the wrong type or not allowed in the mode
//! is refused. A descriptor of another version is no error, it is not this build's to read.

use orrery_session::{Json, JsonError};
use serde::{Deserialize, Serialize};

/// The version that this build reads and writes.
pub const DESCRIPTOR_VERSION: u64 = 2;

/// What a subagent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The provider that made it.
    pub provider: String,
    /// Whether it can be spoken to again.
    pub mode: Mode,
}

/// Whether a subagent can be spoken to again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// It does one thing and is done.
    OneShot {
        /// What it was delegated, in short.
        label: Option<String>,
    },
    /// It stays, and takes more messages.
    Continuable {
        /// What it was delegated, in short.
        label: String,
        /// How it is set up again after it was put to rest.
        setup: Setup,
    },
}

/// What a continuable subagent is set up with again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// The provider of its model.
    pub agent_provider: Option<String>,
    /// Its model.
    pub agent_model: Option<String>,
    /// Who it is told to be.
    pub persona: Option<String>,
    /// Which of the parent's tools it has.
    pub tool_filter: Option<ToolFilter>,
}

/// Which tools a subagent has; at least one list is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFilter {
    /// Only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// None of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
}

/// Why a payload is no descriptor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a subagent descriptor: {why}")]
pub struct DescriptorError {
    /// What is wrong.
    pub why: String,
}

impl DescriptorError {
    fn new(why: impl std::fmt::Display) -> Self {
        Self {
            why: why.to_string(),
        }
    }
}

/// All fields of both modes, as they travel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wire {
    #[serde(rename = "version")]
    _version: serde::de::IgnoredAny,
    mode: WireMode,
    provider: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    label: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    agent_provider: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    agent_model: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    persona: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    tool_filter: Option<ToolFilter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WireMode {
    OneShot,
    Continuable,
}

/// A field that may be left out but not be null.
fn given<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    version: u64,
    mode: &'static str,
    provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_filter: Option<&'a ToolFilter>,
}

impl Descriptor {
    /// The payload as it is logged.
    ///
    /// # Errors
    /// None in practice: every field is text.
    pub fn to_json(&self) -> Result<Json, JsonError> {
        let nothing = Setup::default();
        let (mode, label, setup) = match &self.mode {
            Mode::OneShot { label } => ("one-shot", label.as_deref(), &nothing),
            Mode::Continuable { label, setup } => ("continuable", Some(label.as_str()), setup),
        };
        Json::from_value(&Written {
            version: DESCRIPTOR_VERSION,
            mode,
            provider: &self.provider,
            label,
            agent_provider: setup.agent_provider.as_deref(),
            agent_model: setup.agent_model.as_deref(),
            persona: setup.persona.as_deref(),
            tool_filter: setup.tool_filter.as_ref(),
        })
    }

    /// Reads a payload; `None` is a descriptor of another version.
    ///
    /// # Errors
    /// When the payload is no descriptor, or says something that its mode does not allow.
    pub fn read(payload: &Json) -> Result<Option<Self>, DescriptorError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: f64,
        }
        let versioned = payload.parse::<Versioned>().map_err(DescriptorError::new)?;
        #[expect(clippy::float_cmp, reason = "versions are whole numbers, or others")]
        if versioned.version != DESCRIPTOR_VERSION as f64 {
            return Ok(None);
        }
        let wire = payload.parse::<Wire>().map_err(DescriptorError::new)?;
        let filter = wire.tool_filter.as_ref();
        if filter.is_some_and(|filter| filter.allow.is_none() && filter.deny.is_none()) {
            return Err(DescriptorError::new("toolFilter names no list"));
        }
        let mode = match wire.mode {
            WireMode::OneShot => {
                let extra = [&wire.agent_provider, &wire.agent_model, &wire.persona];
                if filter.is_some() || extra.iter().any(|field| field.is_some()) {
                    let why = "a one-shot subagent carries no setup";
                    return Err(DescriptorError::new(why));
                }
                Mode::OneShot { label: wire.label }
            }
            WireMode::Continuable => {
                let missing = || DescriptorError::new("a continuable subagent needs a label");
                Mode::Continuable {
                    label: wire.label.ok_or_else(missing)?,
                    setup: Setup {
                        agent_provider: wire.agent_provider,
                        agent_model: wire.agent_model,
                        persona: wire.persona,
                        tool_filter: wire.tool_filter,
                    },
                }
            }
        };
        Ok(Some(Self {
            provider: wire.provider,
            mode,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Descriptor>, DescriptorError> {
        Descriptor::read(&Json::from_text(text).unwrap())
    }

    #[test]
    fn both_modes_are_read_with_what_they_allow() {
        let once = read(r#"{"version":2,"mode":"one-shot","provider":"fork"}"#);
        let mode = Mode::OneShot { label: None };
        let provider = "fork".to_owned();
        assert_eq!(once, Ok(Some(Descriptor { provider, mode })));
        let text = r#"{"version":2,"mode":"continuable","provider":"spawn","label":"look","agentModel":"m","toolFilter":{"deny":["bash"]}}"#;
        let Mode::Continuable { label, setup } = read(text).unwrap().unwrap().mode else {
            panic!("not continuable");
        };
        assert_eq!(
            (label.as_str(), setup.agent_model.as_deref()),
            ("look", Some("m"))
        );
        assert_eq!(setup.tool_filter.unwrap().deny.unwrap(), ["bash"]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let setup = Setup {
            agent_model: Some("m".to_owned()),
            tool_filter: Some(ToolFilter {
                allow: None,
                deny: Some(vec!["bash".to_owned()]),
            }),
            ..Setup::default()
        };
        let continuable = Mode::Continuable {
            label: "look".to_owned(),
            setup,
        };
        for mode in [continuable, Mode::OneShot { label: None }] {
            let provider = "spawn".to_owned();
            let descriptor = Descriptor { provider, mode };
            let payload = descriptor.to_json().unwrap();
            assert_eq!(
                Descriptor::read(&payload),
                Ok(Some(descriptor)),
                "{payload:?}"
            );
        }
    }

    #[test]
    fn another_version_is_not_ours_to_read_whatever_it_holds() {
        assert_eq!(read(r#"{"version":3,"anything":[1]}"#), Ok(None));
        assert_eq!(read(r#"{"version":1.5}"#), Ok(None));
    }

    #[test]
    fn what_the_mode_does_not_allow_is_refused() {
        for text in [
            "7",
            "null",
            r#"{"mode":"one-shot","provider":"p"}"#,
            r#"{"version":"2","mode":"one-shot","provider":"p"}"#,
            r#"{"version":2,"mode":"both","provider":"p"}"#,
            r#"{"version":2,"mode":"one-shot"}"#,
            r#"{"version":2,"mode":"one-shot","provider":"p","label":null}"#,
            r#"{"version":2,"mode":"one-shot","provider":"p","persona":"x"}"#,
            r#"{"version":2,"mode":"one-shot","provider":"p","colour":"red"}"#,
            r#"{"version":2,"mode":"one-shot","provider":"p","toolFilter":{"allow":[]}}"#,
            r#"{"version":2,"mode":"continuable","provider":"p"}"#,
            r#"{"version":2,"mode":"continuable","provider":"p","label":"l","toolFilter":{}}"#,
            r#"{"version":2,"mode":"continuable","provider":"p","label":"l","agentReasoningEffort":"high"}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
