//! The session log as a value: ids, header, event vocabulary, lossless JSON, surface, in-memory log.
//!
//! Owns what an event *is* and which sequences of events are legal: envelope and payload shapes,
//! seq arithmetic, the surface fold, construction from a seed with its inherited cut, forks, repair
//! of an interrupted tail, imports of older dialects, the packed chunk rows and the range form of
//! provenance. Leaves to others: where bytes lie (`orrery-storage`), what is derived from a log
//! (`orrery-projection`), who writes it (`orrery-agent`). No I/O, no async, no clock of its own.
//!
//! Start reading at [`event`], then [`log`], then [`surface`].

pub mod chunk;
pub mod ids;
pub mod json;
pub mod message;
pub mod payload;
pub mod seq;
pub mod time;

pub use chunk::{FinishReason, LlmFailure, StreamChunk, Usage};
pub use ids::{CallId, IdSource, MessageId, RandomIds, SessionId};
pub use json::{Json, JsonError};
pub use message::{ContentBlock, Message, Role, Source};
pub use seq::{OptionalSessionSeq, SessionLogOffset, SessionSeq, SessionSeqCursor};
pub use time::{Clock, Millis, Timestamp};
