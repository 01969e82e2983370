//! What a model streams (`session.md` 3.9): chunks, usage, how a stream ends, how it fails.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::CallId;
use crate::json::{Json, JsonError, parse};
use crate::message::ContentBlock;

/// The kind of a block that opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockType {
    /// Visible text.
    Text,
    /// Reasoning.
    Reasoning,
    /// A tool call.
    ToolCall,
}

/// One piece of a model's answer as it arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum StreamChunk {
    /// A block opens.
    BlockStart {
        /// The block's index within the answer.
        index: u64,
        /// The block's kind.
        block_type: BlockType,
    },
    /// More visible text.
    TextDelta {
        /// The block's index.
        index: u64,
        /// The text to add.
        text: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// The block's index.
        index: u64,
        /// The text to add.
        text: String,
    },
    /// More of a tool call's arguments.
    ToolCallDelta {
        /// The block's index.
        index: u64,
        /// The call's id.
        id: CallId,
        /// The tool's name, where the server repeats it.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The text to add to the arguments.
        arguments_delta: String,
    },
    /// A block is complete.
    BlockEnd {
        /// The block's index.
        index: u64,
        /// The whole block.
        block: ContentBlock,
    },
    /// What the answer cost; at most one per stream.
    Usage {
        /// The counts.
        usage: Usage,
    },
    /// The end; exactly one, and last.
    Finish {
        /// Why it ended.
        reason: FinishReason,
        /// What the adapter wants back verbatim with the next request.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay_state: Option<Json>,
    },
}

impl<'de> Deserialize<'de> for StreamChunk {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse_raw(raw.get()).map_err(serde::de::Error::custom)
    }
}

impl StreamChunk {
    fn parse_raw(text: &str) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Kind {
            r#type: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Start {
            index: u64,
            block_type: BlockType,
        }
        #[derive(Deserialize)]
        struct Delta {
            index: u64,
            text: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Call {
            index: u64,
            id: CallId,
            #[serde(default)]
            name: Option<String>,
            arguments_delta: String,
        }
        #[derive(Deserialize)]
        struct End {
            index: u64,
            block: ContentBlock,
        }
        #[derive(Deserialize)]
        struct Cost {
            usage: Usage,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Finish {
            reason: FinishReason,
            #[serde(default)]
            replay_state: Option<Json>,
        }
        Ok(match parse::<Kind>(text)?.r#type.as_str() {
            "block-start" => {
                let c: Start = parse(text)?;
                Self::BlockStart {
                    index: c.index,
                    block_type: c.block_type,
                }
            }
            "text-delta" => {
                let c: Delta = parse(text)?;
                Self::TextDelta {
                    index: c.index,
                    text: c.text,
                }
            }
            "reasoning-delta" => {
                let c: Delta = parse(text)?;
                Self::ReasoningDelta {
                    index: c.index,
                    text: c.text,
                }
            }
            "tool-call-delta" => {
                let c: Call = parse(text)?;
                Self::ToolCallDelta {
                    index: c.index,
                    id: c.id,
                    name: c.name,
                    arguments_delta: c.arguments_delta,
                }
            }
            "block-end" => {
                let c: End = parse(text)?;
                Self::BlockEnd {
                    index: c.index,
                    block: c.block,
                }
            }
            "usage" => Self::Usage {
                usage: parse::<Cost>(text)?.usage,
            },
            "finish" => {
                let c: Finish = parse(text)?;
                Self::Finish {
                    reason: c.reason,
                    replay_state: c.replay_state,
                }
            }
            other => {
                let message = format!("unknown stream chunk type {other:?}");
                return Err(JsonError::Shape(serde::de::Error::custom(message)));
            }
        })
    }
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Prompt tokens that were not read from a cache.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Prompt tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Prompt tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Those of the answer's tokens that were reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FinishReason {
    /// The model had said everything.
    Stop,
    /// The model wants tools to run.
    ToolCalls,
    /// The answer hit its length limit.
    MaxTokens,
    /// Somebody stopped it.
    Aborted {
        /// What happened.
        failure: LlmFailure,
    },
    /// It failed.
    Error {
        /// What happened.
        failure: LlmFailure,
    },
}

/// How a model call failed; the codes are listed in `session.md` 3.9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmFailure {
    /// What happened, for a person.
    pub message: String,
    /// The stable code, such as `RATE_LIMIT`, `AUTH`, `TRANSPORT`, `UNKNOWN`.
    pub code: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_retry_after_ms: Option<u64>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl LlmFailure {
    /// A failure with a code and a message only.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: code.into(),
            status: None,
            provider_retry_after_ms: None,
            request_id: None,
        }
    }
}

impl std::fmt::Display for LlmFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_read_back_as_they_were_written() {
        for text in [
            r#"{"type":"block-start","index":0,"blockType":"tool-call"}"#,
            r#"{"type":"text-delta","index":0,"text":"hi"}"#,
            r#"{"type":"tool-call-delta","index":1,"id":"c","argumentsDelta":"{"}"#,
            r#"{"type":"block-end","index":0,"block":{"type":"text","text":"hi"}}"#,
            r#"{"type":"usage","usage":{"inputTokens":1,"outputTokens":2}}"#,
            r#"{"type":"finish","reason":{"kind":"error","failure":{"message":"m","code":"AUTH","status":401}}}"#,
        ] {
            let chunk: StreamChunk = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&chunk).unwrap(), text);
        }
    }
}
