//! Models: the seam that the loop talks to, and the adapters behind it.
//!
//! Owns the adapter seam ([`seam`]), the registry of providers, the block assembler, the stream
//! parser and the adapters themselves. Knows messages, not logs; leaves retries of a whole step,
//! what is logged and which tools run to `orrery-agent`.
//!
//! Start reading at [`seam`].

pub mod assembler;
mod driven;
pub mod offline;
pub mod openai_chat;
pub mod registry;
pub mod seam;
pub mod secret;
pub mod sse;

pub use assembler::{Assembled, Assembler};
pub use offline::Offline;
pub use openai_chat::{OpenAiChat, OpenAiChatConfig};
pub use registry::{Adapters, Catalogue, CatalogueFailure, ModelGroup};
pub use seam::{Adapter, ChunkStream, LlmRequest, ModelInfo, PreparedCall};
pub use secret::{ApiKey, Secret};
