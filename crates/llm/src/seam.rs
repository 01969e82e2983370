//! The seam between the loop and a model (`session.md` 3.9).
//!
//! An [`Adapter`] speaks for one provider. The loop asks it to prepare a call, which fills in
//! defaults, and then to stream. A failure after preparation is never an `Err`: it is the last
//! chunk of the stream, a `finish` of kind `error` or `aborted`, so that retry can see it.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::Stream;
use orrery_session::payload::{AdapterDefaults, RequestConfig, ToolDefinition};
use orrery_session::{LlmFailure, Message, SessionId, StreamChunk};
use tokio_util::sync::CancellationToken;

/// The chunks of one answer, ending with exactly one `finish`.
pub type ChunkStream = Pin<Box<dyn Stream<Item = StreamChunk> + Send>>;

/// One request to a model: header and messages.
#[derive(Debug, Clone)]
pub struct LlmRequest {
    /// Which model, and how, defaults filled in.
    pub config: RequestConfig,
    /// The system prompt.
    pub system: Option<Arc<str>>,
    /// The tools on offer, in order.
    pub tools: Arc<[ToolDefinition]>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The session that asks: for the provider's cache routing, never for its logs.
    pub session_id: SessionId,
}

/// One model on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name by which it is selected.
    pub id: String,
    /// Its name for a person.
    pub name: String,
    /// One line for a person.
    pub description: Option<String>,
    /// The window it advertises, in tokens.
    pub context_window: Option<u64>,
    /// Its reasoning efforts, weakest first; empty when it has no such knob.
    pub reasoning_efforts: Vec<String>,
    /// Which effort it uses when none is asked for.
    pub default_effort: Option<String>,
    /// Whether it sees images.
    pub images: bool,
}

impl ModelInfo {
    /// A model of which only the name is known.
    pub fn named(id: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            description: None,
            context_window: None,
            reasoning_efforts: Vec::new(),
            default_effort: None,
            images: false,
        }
    }
}

/// A call bound to its adapter, with defaults filled in.
#[derive(Debug, Clone)]
pub struct PreparedCall {
    /// The effective config.
    pub config: RequestConfig,
    /// Which of its fields the adapter filled in.
    pub defaults: AdapterDefaults,
    /// The window that the route advertises, in tokens.
    pub context_window: Option<u64>,
}

/// Speaks for one provider.
#[async_trait]
pub trait Adapter: Send + Sync + std::fmt::Debug {
    /// The provider's name, as configured and logged.
    fn provider(&self) -> &str;

    /// The provider's name for a person.
    fn display_name(&self) -> String;

    /// The models on offer; discovery may ask the provider.
    async fn models(&self) -> Result<Vec<ModelInfo>, LlmFailure>;

    /// Checks a config and fills in defaults; makes no request of its own where it can avoid it.
    async fn prepare(&self, config: RequestConfig) -> Result<PreparedCall, LlmFailure>;

    /// Asks the model. The stream ends with one `finish`, also when it fails or is cancelled, and
    /// stops within moments of the cancellation.
    fn stream(&self, request: LlmRequest, cancel: CancellationToken) -> ChunkStream;
}
