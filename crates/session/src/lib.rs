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
pub mod chunk_row;
pub mod enclosure;
pub mod event;
pub mod event_type;
pub mod fork;
pub mod header;
pub mod ids;
pub mod import;
pub mod json;
pub mod log;
pub mod message;
pub mod payload;
mod ranges;
pub mod repair;
pub mod seq;
mod shape;
pub mod surface;
#[cfg(test)]
mod testing;
pub mod time;
pub mod title;
pub mod v0;

pub use chunk::{FinishReason, LlmFailure, StreamChunk, Usage};
pub use event::{Event, EventDraft, SharedEvent, SurfaceOp};
pub use event_type::{EventType, Vocabulary};
pub use header::{Origin, SessionHeader};
pub use ids::{CallId, IdSource, MessageId, RandomIds, SessionId};
pub use json::{Json, JsonError};
pub use log::{AppendError, ConstructError, SessionLog};
pub use message::{ContentBlock, Message, Role, Source};
pub use seq::{OptionalSessionSeq, SessionLogOffset, SessionSeq, SessionSeqCursor};
pub use shape::ShapeError;
pub use surface::{Surface, SurfaceError};
pub use time::{Clock, Millis, SystemClock, Timestamp};
