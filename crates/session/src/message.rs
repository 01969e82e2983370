//! Messages as the model sees them: role, content blocks, source. Open where the format is open.
//!
//! Typed views of payloads: unknown block kinds and sources are kept as raw JSON. The authority is
//! the event's own text; nothing here is used to rewrite a logged message.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{CallId, MessageId};
use crate::json::{Json, JsonError, parse};

/// Nested tool results beyond this depth stay raw: it bounds recursion on hostile logs.
const MAX_BLOCK_DEPTH: u8 = 8;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, a tool, or the house: everything that is not the model.
    User,
    /// The model.
    Assistant,
}

/// One block of a message's content (`session.md` 1.6). The set is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ContentBlock {
    /// Visible text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought before it answered.
    Reasoning {
        /// The text.
        text: String,
    },
    /// An attached image.
    Image {
        /// The reference to the stored attachment, kept raw.
        attachment: Json,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The call's id.
        id: CallId,
        /// The tool's name.
        name: String,
        /// The arguments as the model wrote them: unparsed text, not always JSON.
        arguments: String,
    },
    /// What a tool answered.
    #[serde(rename_all = "camelCase")]
    ToolResult {
        /// The call that is answered.
        tool_call_id: CallId,
        /// The answer.
        content: Vec<Self>,
        /// Whether the call failed; written explicitly, also when it did not.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
    /// A block of a kind this build does not know.
    #[serde(untagged)]
    Other(Json),
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text of a text block; `None` for every other kind.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    fn parse_at(raw: &RawValue, depth: u8) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Kind {
            r#type: Option<String>,
        }
        #[derive(Deserialize)]
        struct Text {
            text: String,
        }
        #[derive(Deserialize)]
        struct Image {
            attachment: Json,
        }
        #[derive(Deserialize)]
        struct Call {
            id: CallId,
            name: String,
            arguments: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            tool_call_id: CallId,
            content: Vec<Box<RawValue>>,
            #[serde(default)]
            is_error: Option<bool>,
        }
        let text = raw.get();
        let kind = parse::<Kind>(text)?.r#type;
        let known = match kind.as_deref() {
            Some("text") => parse::<Text>(text).map(|b| Self::Text { text: b.text }),
            Some("reasoning") => parse::<Text>(text).map(|b| Self::Reasoning { text: b.text }),
            Some("image") => parse::<Image>(text).map(|b| Self::Image {
                attachment: b.attachment,
            }),
            Some("tool-call") => parse::<Call>(text).map(|b| Self::ToolCall {
                id: b.id,
                name: b.name,
                arguments: b.arguments,
            }),
            Some("tool-result") if depth < MAX_BLOCK_DEPTH => parse::<Answer>(text).and_then(|b| {
                let content = b.content.iter().map(|raw| Self::parse_at(raw, depth + 1));
                Ok(Self::ToolResult {
                    tool_call_id: b.tool_call_id,
                    content: content.collect::<Result<_, _>>()?,
                    is_error: b.is_error,
                })
            }),
            _ => return Ok(Self::Other(Json::from_text(text)?)),
        };
        // Block internals belong to whoever wrote them and are not checked at load: a known kind
        // in a foreign shape is carried like an unknown kind.
        known.or_else(|_foreign_shape| Json::from_text(text).map(Self::Other))
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse_at(&raw, 0).map_err(serde::de::Error::custom)
    }
}

/// Where a message came from (`session.md` 1.6). The set is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Source {
    /// A person, through a client.
    User {
        /// The client's request id of the prompt, by which it recognises its own message.
        #[serde(skip_serializing_if = "Option::is_none")]
        rpc_id: Option<String>,
        /// The client's IANA time zone.
        #[serde(skip_serializing_if = "Option::is_none")]
        client_time_zone: Option<String>,
    },
    /// The model.
    Model {
        /// The provider's name.
        provider: String,
        /// The model's name.
        model: String,
        /// What the adapter wants back verbatim with the next request.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay_state: Option<Json>,
    },
    /// A tool.
    Tool {
        /// The call that is answered.
        call_id: CallId,
    },
    /// The house itself: instructions, snapshots, notices.
    Plugin {
        /// Which part of the house.
        plugin: String,
        /// What kind of text, when it has one of the known forms.
        #[serde(skip_serializing_if = "Option::is_none")]
        form: Option<String>,
        /// The named sections of a `snapshot`.
        #[serde(skip_serializing_if = "Option::is_none")]
        sections: Option<Json>,
        /// The one-line summary of a `notice`, at most 120 characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// Any other source, kept whole.
    #[serde(untagged)]
    Other(Json),
}

impl Source {
    /// The source's kind as logged.
    pub fn kind(&self) -> String {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        match self {
            Self::User { .. } => "user".to_owned(),
            Self::Model { .. } => "model".to_owned(),
            Self::Tool { .. } => "tool".to_owned(),
            Self::Plugin { .. } => "plugin".to_owned(),
            Self::Other(raw) => raw.parse::<Kind>().map(|k| k.kind).unwrap_or_default(),
        }
    }

    fn parse_raw(text: &str) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct User {
            #[serde(default)]
            rpc_id: Option<String>,
            #[serde(default)]
            client_time_zone: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Model {
            provider: String,
            model: String,
            #[serde(default)]
            replay_state: Option<Json>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            call_id: CallId,
        }
        #[derive(Deserialize)]
        struct Plugin {
            plugin: String,
            #[serde(default)]
            form: Option<String>,
            #[serde(default)]
            sections: Option<Json>,
            #[serde(default)]
            summary: Option<String>,
        }
        let kind = parse::<Kind>(text)?.kind;
        if kind.is_empty() {
            return Err(JsonError::Shape(serde::de::Error::custom(
                "source.kind is empty",
            )));
        }
        let known = match kind.as_str() {
            "user" => parse::<User>(text).map(|s| Self::User {
                rpc_id: s.rpc_id,
                client_time_zone: s.client_time_zone,
            }),
            // Needed to answer a request, so its shape is demanded (`session.md` 1.6).
            "model" => {
                return parse::<Model>(text).map(|s| Self::Model {
                    provider: s.provider,
                    model: s.model,
                    replay_state: s.replay_state,
                });
            }
            "tool" => return parse::<Tool>(text).map(|s| Self::Tool { call_id: s.call_id }),
            "plugin" => parse::<Plugin>(text).map(|s| Self::Plugin {
                plugin: s.plugin,
                form: s.form,
                sections: s.sections,
                summary: s.summary,
            }),
            _ => return Ok(Self::Other(Json::from_text(text)?)),
        };
        known.or_else(|_foreign_shape| Json::from_text(text).map(Self::Other))
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse_raw(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// One message: of a person, the model, a tool or the house.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<ContentBlock>,
    /// Where it came from.
    pub source: Source,
    /// The message's id.
    pub id: MessageId,
}

impl Message {
    /// A message that a person sent.
    pub fn user(id: MessageId, content: Vec<ContentBlock>, source: Source) -> Self {
        Self {
            role: Role::User,
            content,
            source,
            id,
        }
    }

    /// The answer of a tool to one call.
    pub fn tool_result(
        id: MessageId,
        call_id: CallId,
        content: Vec<ContentBlock>,
        is_error: bool,
    ) -> Self {
        Self {
            role: Role::User,
            content: vec![ContentBlock::ToolResult {
                tool_call_id: call_id.clone(),
                content,
                is_error: Some(is_error),
            }],
            source: Source::Tool { call_id },
            id,
        }
    }

    /// All text blocks, joined by newlines.
    pub fn visible_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(ContentBlock::as_text)
            .collect();
        texts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Message>(text).unwrap()).unwrap()
    }

    #[test]
    fn unknown_blocks_and_sources_survive_a_round_trip_verbatim() {
        let text = r#"{"role":"user","content":[{"type":"hologram","z":1,"a":[2]}],"source":{"kind":"goal","goalId":"g","revision":3},"id":"m"}"#;
        assert_eq!(round_trip(text), text);
    }

    #[test]
    fn a_tool_result_keeps_its_inner_blocks_and_its_explicit_error_mark() {
        let text = r#"{"role":"user","content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"x"}],"isError":false}],"source":{"kind":"tool","callId":"c"},"id":"m"}"#;
        assert_eq!(round_trip(text), text);
    }

    #[test]
    fn tool_results_nested_a_hundred_thousand_deep_do_not_overflow_the_stack() {
        let open = r#"{"type":"tool-result","toolCallId":"c","content":["#.repeat(100_000);
        let text = format!("{open}{}", "]}".repeat(100_000));
        assert!(serde_json::from_str::<ContentBlock>(&text).is_ok());
    }

    #[test]
    fn a_model_source_without_its_model_is_refused() {
        assert!(serde_json::from_str::<Source>(r#"{"kind":"model","provider":"p"}"#).is_err());
        assert!(serde_json::from_str::<Source>(r#"{"kind":""}"#).is_err());
    }
}
