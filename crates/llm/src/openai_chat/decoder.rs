//! From the provider's chunks to ours.
//!
//! Owns the quirks of many servers: calls without index or id, names repeated with every delta,
//! arguments in one piece or as an object, usage in the last chunk or in one of its own, answers
//! that are not streamed at all, characters cut in two. What comes out keeps the grammar of
//! `session.md` 3.9: unique indices, deltas inside their open block, one usage.

use orrery_session::chunk::BlockType;
use orrery_session::json::parse;
use orrery_session::{
    CallId, ContentBlock, FinishReason, IdSource, LlmFailure, RandomIds, StreamChunk, Usage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure;
use crate::secret::ApiKey;

mod text;

use text::TextPieces;

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    /// `message` where the server does not stream.
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
    /// Some servers put it here.
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Box<RawValue>>,
    #[serde(default)]
    refusal: Option<Box<RawValue>>,
    #[serde(default)]
    reasoning_content: Option<Box<RawValue>>,
    #[serde(default)]
    reasoning: Option<Box<RawValue>>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let details = wire.prompt_tokens_details.and_then(|d| d.cached_tokens);
        let cached = details.or(wire.prompt_cache_hit_tokens);
        let prompt = wire.prompt_tokens.unwrap_or(0);
        Self {
            input_tokens: prompt.saturating_sub(cached.unwrap_or(0)),
            output_tokens: wire.completion_tokens.unwrap_or(0),
            cache_read_tokens: cached,
            cache_write_tokens: None,
            reasoning_tokens: wire
                .completion_tokens_details
                .and_then(|d| d.reasoning_tokens),
        }
    }
}

/// What to do after an event.
#[derive(Debug)]
pub(super) enum Flow {
    /// Read on.
    More,
    /// The server says that this was all.
    Done,
    /// The server says that it failed.
    Failed(LlmFailure),
}

/// The state of one answer.
#[derive(Debug)]
pub(super) struct Decoder {
    next_index: u64,
    /// The text or reasoning block that is open.
    words: Option<Words>,
    calls: Vec<Call>,
    usage: Option<Usage>,
    finish: Option<String>,
    done: bool,
    out: Vec<StreamChunk>,
}

#[derive(Debug)]
struct Words {
    index: u64,
    kind: BlockType,
    pieces: TextPieces,
    whole: String,
}

#[derive(Debug)]
struct Call {
    index: u64,
    /// The server's own index, where it gave one.
    slot: Option<u64>,
    /// The server's own id, where it gave one.
    given_id: Option<String>,
    id: CallId,
    name: String,
    pieces: TextPieces,
    arguments: String,
}

impl Decoder {
    pub(super) const fn new() -> Self {
        Self {
            next_index: 0,
            words: None,
            calls: Vec::new(),
            usage: None,
            finish: None,
            done: false,
            out: Vec::new(),
        }
    }

    /// Takes the data of one event; the chunks it amounts to wait in [`Self::take`].
    pub(super) fn event(&mut self, data: &str, key: &ApiKey) -> Flow {
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Flow::Done;
        }
        let chunk: Chunk = match parse(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                // Servers and proxies put all sorts of things between the chunks.
                tracing::debug!(%error, bytes = data.len(), "an event of the stream is no chunk");
                return Flow::More;
            }
        };
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Flow::Failed(failure::from_error_value(&error, key));
        }
        // Cumulative where it comes more than once: the last one counts.
        self.usage = chunk.usage.map(Usage::from).or(self.usage);
        for choice in chunk.choices.unwrap_or_default() {
            self.usage = choice.usage.map(Usage::from).or(self.usage);
            if let Some(delta) = choice.delta {
                self.delta(delta);
            }
            self.finish = choice
                .finish_reason
                .filter(|reason| !reason.is_empty())
                .or_else(|| self.finish.take());
        }
        Flow::More
    }

    /// The chunks since the last time.
    pub(super) fn take(&mut self) -> Vec<StreamChunk> {
        std::mem::take(&mut self.out)
    }

    /// Whether the answer is complete, though its usage may still come.
    pub(super) const fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// The stream is over: closes the blocks and says why it ended.
    pub(super) fn end(&mut self) -> FinishReason {
        let error = |failure| FinishReason::Error { failure };
        let failed = |code: &str, message: &str| error(LlmFailure::new(code, message));
        let empty = self.next_index == 0;
        let reason = match self.finish.as_deref() {
            Some("length" | "max_tokens") => FinishReason::MaxTokens,
            Some("content_filter") => failed(
                "UNKNOWN",
                "the provider's content filter stopped the answer",
            ),
            Some("insufficient_system_resource" | "error") => {
                failed("SERVER", "the provider gave up in the middle of the answer")
            }
            None if empty => failed("EMPTY_RESPONSE", "the provider answered nothing"),
            None if !self.done => error(failure::cut()),
            _ if self.calls.is_empty() => FinishReason::Stop,
            // Also where the server says `stop`: what counts is that calls wait.
            _ => FinishReason::ToolCalls,
        };
        if !matches!(reason, FinishReason::Error { .. }) {
            self.close_words();
            self.close_calls();
        }
        if let Some(usage) = self.usage.take() {
            self.out.push(StreamChunk::Usage { usage });
        }
        reason
    }

    fn delta(&mut self, delta: Delta) {
        let present = |raw: Option<Box<RawValue>>| raw.filter(|raw| raw.get() != "null");
        let strings = |raw: &RawValue| raw.get().starts_with('"');
        let reasoning = present(delta.reasoning_content)
            .or_else(|| present(delta.reasoning))
            .filter(|raw| strings(raw));
        if let Some(raw) = reasoning {
            self.words(BlockType::Reasoning, &raw);
        }
        if let Some(raw) = present(delta.content).or_else(|| present(delta.refusal)) {
            self.words(BlockType::Text, &raw);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call);
        }
    }

    fn words(&mut self, kind: BlockType, raw: &RawValue) {
        if self.words.as_ref().is_some_and(|words| words.kind != kind) {
            // An empty delta of the other kind ends nothing.
            if raw.get() == "\"\"" {
                return;
            }
            self.close_words();
        }
        let mut pieces = match &mut self.words {
            Some(words) => std::mem::take(&mut words.pieces),
            None => TextPieces::default(),
        };
        let text = pieces.push(raw.get());
        if text.is_empty() && pieces.is_empty() {
            return;
        }
        if self.words.is_none() {
            let index = self.open(kind);
            self.words = Some(Words {
                index,
                kind,
                pieces: TextPieces::default(),
                whole: String::new(),
            });
        }
        if let Some(words) = &mut self.words {
            words.pieces = pieces;
            words.whole.push_str(&text);
            if !text.is_empty() {
                self.out.push(words_delta(kind, words.index, text));
            }
        }
    }

    fn call(&mut self, delta: CallDelta) {
        self.close_words();
        let given_id = delta.id.filter(|id| !id.is_empty());
        let (name, arguments) = match delta.function {
            Some(function) => (function.name, function.arguments),
            None => (None, None),
        };
        let name = name.filter(|name| !name.is_empty());
        let at = match self.find(delta.index, given_id.as_deref(), name.as_deref()) {
            Some(at) => at,
            None => {
                let index = self.open(BlockType::ToolCall);
                let id = given_id
                    .as_deref()
                    .and_then(|id| CallId::new(id).ok())
                    // Ids must differ within a session, so the place alone is not enough.
                    .or_else(|| CallId::new(format!("call-{}", RandomIds.uuid())).ok())
                    .unwrap_or_else(|| CallId::for_block(index));
                self.calls.push(Call {
                    index,
                    slot: delta.index,
                    given_id,
                    id,
                    name: String::new(),
                    pieces: TextPieces::default(),
                    arguments: String::new(),
                });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else {
            return;
        };
        let new_name = name.filter(|_| call.name.is_empty());
        if let Some(name) = &new_name {
            call.name.clone_from(name);
        }
        let arguments = arguments.filter(|raw| raw.get() != "null");
        let text = match arguments {
            Some(raw) if raw.get().starts_with('"') => call.pieces.push(raw.get()),
            // An object instead of its text.
            Some(raw) => raw.get().to_owned(),
            None => String::new(),
        };
        call.arguments.push_str(&text);
        if new_name.is_some() || !text.is_empty() {
            self.out.push(StreamChunk::ToolCallDelta {
                index: call.index,
                id: call.id.clone(),
                name: new_name,
                arguments_delta: text,
            });
        }
    }

    /// Which call a delta belongs to; `None` begins a new one.
    fn find(&self, slot: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        if let Some(id) = id {
            let known = |call: &Call| call.given_id.as_deref() == Some(id);
            if let Some(at) = self.calls.iter().rposition(known) {
                return Some(at);
            }
        }
        if let Some(slot) = slot {
            let at = self
                .calls
                .iter()
                .rposition(|call| call.slot == Some(slot))?;
            // Some servers give every call of an answer the index 0 and an id of its own.
            let other = id.is_some() && self.calls.get(at)?.given_id.is_some();
            return (!other).then_some(at);
        }
        let last = self.calls.last()?;
        let begins = id.is_some()
            || name.is_some_and(|name| {
                let complete = serde_json::from_str::<&RawValue>(&last.arguments).is_ok();
                !last.name.is_empty() && (last.name != name || complete)
            });
        (!begins).then(|| self.calls.len() - 1)
    }

    fn open(&mut self, block_type: BlockType) -> u64 {
        let index = self.next_index;
        self.next_index += 1;
        self.out.push(StreamChunk::BlockStart { index, block_type });
        index
    }

    fn close_words(&mut self) {
        let Some(mut words) = self.words.take() else {
            return;
        };
        let rest = words.pieces.finish();
        words.whole.push_str(&rest);
        if !rest.is_empty() {
            self.out.push(words_delta(words.kind, words.index, rest));
        }
        let text = words.whole;
        let block = match words.kind {
            BlockType::Reasoning => ContentBlock::Reasoning { text },
            BlockType::Text | BlockType::ToolCall => ContentBlock::Text { text },
        };
        self.out.push(StreamChunk::BlockEnd {
            index: words.index,
            block,
        });
    }

    fn close_calls(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.out.push(StreamChunk::BlockEnd {
                index: call.index,
                block: ContentBlock::ToolCall {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                },
            });
        }
    }
}

fn words_delta(kind: BlockType, index: u64, text: String) -> StreamChunk {
    match kind {
        BlockType::Reasoning => StreamChunk::ReasoningDelta { index, text },
        BlockType::Text | BlockType::ToolCall => StreamChunk::TextDelta { index, text },
    }
}

#[cfg(test)]
mod tests;
