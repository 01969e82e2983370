//! The provider `offline`: a deterministic stand-in that needs no key and no network.
//!
//! It is not a language model and says so in its first answer. It reads the request's messages and
//! tools, finds a simple intention in the prompt (`intent`), asks for the real tools that serve
//! it (`plan`), and reports what they answered. The same request always gives the same stream.
//!
//! Owns pace and framing of the stream. A prompt such as `count slowly to 50` streams that many
//! numbers, which is the easy way to try stopping, reconnecting and killing.

mod delegate;
mod intent;
mod plan;
mod summary;
mod talk;

use std::time::Duration;

use async_trait::async_trait;
use orrery_session::chunk::BlockType;
use orrery_session::payload::RequestConfig;
use orrery_session::{CallId, ContentBlock, FinishReason, LlmFailure, StreamChunk, Usage};
use tokio_util::sync::CancellationToken;

use crate::driven::{Emitter, aborted, drive};
use crate::seam::{Adapter, ChunkStream, LlmRequest, ModelInfo, PreparedCall};

/// The provider's name.
pub const PROVIDER: &str = "offline";
/// Its only model.
pub const MODEL: &str = "demo";
/// The wait before each piece of an answer, unless configured otherwise.
pub const DEFAULT_DELAY: Duration = Duration::from_millis(8);
/// How many delays one number of `count slowly` takes.
const SLOW_FACTOR: u32 = 25;
/// Characters of one argument delta.
const ARGUMENT_PIECE: usize = 16;
/// The window it advertises, in tokens; it reads everything, so this only feeds the display.
const CONTEXT_WINDOW: u64 = 128_000;

/// The adapter of the provider `offline`.
#[derive(Debug, Clone)]
pub struct Offline {
    delay: Duration,
}

impl Default for Offline {
    fn default() -> Self {
        Self::new(DEFAULT_DELAY)
    }
}

impl Offline {
    /// An adapter that waits `delay` before each piece of an answer; zero for tests.
    pub const fn new(delay: Duration) -> Self {
        Self { delay }
    }
}

#[async_trait]
impl Adapter for Offline {
    fn provider(&self) -> &str {
        PROVIDER
    }

    fn display_name(&self) -> String {
        "Offline".to_owned()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, LlmFailure> {
        Ok(vec![ModelInfo {
            id: MODEL.to_owned(),
            name: "Offline demo".to_owned(),
            description: Some(
                "Not a language model: follows simple instructions with the real tools, without \
                 key or network."
                    .to_owned(),
            ),
            context_window: Some(CONTEXT_WINDOW),
            reasoning_efforts: Vec::new(),
            default_effort: None,
            images: false,
        }])
    }

    async fn prepare(&self, config: RequestConfig) -> Result<PreparedCall, LlmFailure> {
        if config.model != MODEL {
            let message = format!(
                "the provider `offline` has only the model `{MODEL}`, not `{}`",
                config.model
            );
            return Err(LlmFailure::new("INVALID_MODEL", message));
        }
        if let Some(effort) = &config.reasoning_effort {
            let message = format!("the offline demo has no reasoning effort `{effort}`");
            return Err(LlmFailure::new("UNSUPPORTED_REASONING_EFFORT", message));
        }
        Ok(PreparedCall {
            config,
            defaults: Default::default(),
            context_window: Some(CONTEXT_WINDOW),
        })
    }

    fn stream(&self, request: LlmRequest, cancel: CancellationToken) -> ChunkStream {
        let delay = self.delay;
        drive(move |emitter| async move {
            let pace = Pace {
                emitter,
                cancel,
                delay,
            };
            match pace.answer(&request).await {
                Ok(reason) => reason,
                Err(Cancelled) => aborted(),
            }
        })
    }
}

/// Somebody does not want to hear the rest.
struct Cancelled;

struct Pace {
    emitter: Emitter,
    cancel: CancellationToken,
    delay: Duration,
}

impl Pace {
    async fn answer(&self, request: &LlmRequest) -> Result<FinishReason, Cancelled> {
        let answer = plan::answer(request);
        let mut next_index = 0..;
        let mut index = || next_index.next().unwrap_or_default();
        if !answer.reasoning.is_empty() {
            let index = index();
            self.open(index, BlockType::Reasoning).await?;
            for piece in words(&answer.reasoning) {
                let text = piece.to_owned();
                self.step(StreamChunk::ReasoningDelta { index, text }, 1)
                    .await?;
            }
            let text = answer.reasoning.clone();
            self.close(index, ContentBlock::Reasoning { text }).await;
        }
        if !answer.text.is_empty() {
            let index = index();
            self.open(index, BlockType::Text).await?;
            for piece in words(&answer.text) {
                let number = piece.starts_with(|c: char| c.is_ascii_digit());
                let factor = if answer.slow && number {
                    SLOW_FACTOR
                } else {
                    1
                };
                let text = piece.to_owned();
                self.step(StreamChunk::TextDelta { index, text }, factor)
                    .await?;
            }
            self.close(index, ContentBlock::text(answer.text.clone()))
                .await;
        }
        for (at, call) in answer.calls.iter().enumerate() {
            let index = index();
            // The length of the conversation makes the id differ from those of all earlier steps.
            let id = CallId::new(format!("offline-{}-{at}", request.messages.len()))
                .unwrap_or_else(|_never_empty| CallId::for_block(index));
            self.open(index, BlockType::ToolCall).await?;
            let mut name = Some(call.name.to_owned());
            for piece in pieces(&call.arguments, ARGUMENT_PIECE) {
                let delta = StreamChunk::ToolCallDelta {
                    index,
                    id: id.clone(),
                    name: name.take(),
                    arguments_delta: piece.to_owned(),
                };
                self.step(delta, 1).await?;
            }
            let block = ContentBlock::ToolCall {
                id,
                name: call.name.to_owned(),
                arguments: call.arguments.clone(),
            };
            self.close(index, block).await;
        }
        let usage = usage(request, &answer);
        self.emitter.send(StreamChunk::Usage { usage }).await;
        Ok(if answer.calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        })
    }

    async fn open(&self, index: u64, block_type: BlockType) -> Result<(), Cancelled> {
        self.step(StreamChunk::BlockStart { index, block_type }, 1)
            .await
    }

    async fn close(&self, index: u64, block: ContentBlock) {
        self.emitter
            .send(StreamChunk::BlockEnd { index, block })
            .await;
    }

    async fn step(&self, chunk: StreamChunk, factor: u32) -> Result<(), Cancelled> {
        if self.cancel.is_cancelled() {
            return Err(Cancelled);
        }
        if !self.delay.is_zero() {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Cancelled),
                () = tokio::time::sleep(self.delay * factor) => {}
            }
        }
        self.emitter.send(chunk).await;
        Ok(())
    }
}

/// The text in words with the space behind them; text without spaces in small runs.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '\n']).flat_map(|word| {
        let most = if word.is_ascii() { usize::MAX } else { 4 };
        pieces(word, most)
    })
}

/// The text in pieces of at most `most` characters; one empty piece for an empty text.
fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut rest = text;
    let mut out = Vec::new();
    loop {
        let cut = rest
            .char_indices()
            .nth(most)
            .map_or(rest.len(), |(at, _)| at);
        let (piece, tail) = rest.split_at(cut);
        out.push(piece);
        rest = tail;
        if rest.is_empty() {
            return out;
        }
    }
}

/// Counts as a tokenizer would roughly count: four bytes make a token.
fn usage(request: &LlmRequest, answer: &plan::Answer) -> Usage {
    fn bytes(blocks: &[ContentBlock]) -> usize {
        let sizes = blocks.iter().map(|block| match block {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text } => text.len(),
            ContentBlock::ToolCall {
                name, arguments, ..
            } => name.len() + arguments.len(),
            ContentBlock::ToolResult { content, .. } => bytes(content),
            ContentBlock::Image { attachment } => attachment.text().len(),
            ContentBlock::Other(raw) => raw.text().len(),
        });
        sizes.sum()
    }
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
    let said: usize = request.messages.iter().map(|m| bytes(&m.content)).sum();
    let system = request.system.as_ref().map_or(0, |text| text.len());
    let calls: usize = answer.calls.iter().map(|c| c.arguments.len()).sum();
    Usage {
        input_tokens: tokens(said + system),
        output_tokens: tokens(answer.reasoning.len() + answer.text.len() + calls),
        reasoning_tokens: Some(tokens(answer.reasoning.len())),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
