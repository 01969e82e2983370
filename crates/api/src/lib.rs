//! The wire contract: operation table, request, response, stream and error types, and what is
//! generated from them.
//!
//! Owns the shapes that a client and a Host exchange, the stable error codes with their HTTP
//! status, and the emitters that turn the types into OpenAPI and TypeScript. Leaves to others:
//! what an operation does (`orrery-host`), how bytes travel (the gateway in `orrery-host`), what an
//! event means (`orrery-session`). No I/O, no async, no server types.
//!
//! Requests refuse unknown fields by name; responses and stream items tolerate them. JSON keys are
//! camelCase, ids opaque strings, times epoch milliseconds, seqs safe integers.
//!
//! Start reading at [`operations`], then [`error`], then [`frames`].

mod schema;
#[macro_use]
mod tagged;

pub mod agent_preset;
pub mod catalog;
pub mod content;
pub mod control;
pub mod emit;
pub mod error;
pub mod frames;
pub mod hello;
pub mod history;
pub mod host;
pub mod interaction;
pub mod job;
pub mod model;
pub mod operations;
pub mod queue;
pub mod session;
pub mod subagent;
pub mod workspace;

pub use error::{ApiError, ErrorBody, ErrorCode};
pub use operations::{Activation, Fence, Kind, OPERATIONS, Operation, Procedure};

/// The protocol's name in the hello frame.
pub const PROTOCOL_NAME: &str = "orrery";
/// The protocol's major version: a client refuses another one.
pub const PROTOCOL_MAJOR: u32 = 1;
/// The protocol's minor version: grows with every addition.
pub const PROTOCOL_MINOR: u32 = 0;
/// Capability: `session/follow` understands `afterSeq`.
pub const CAPABILITY_FOLLOW_AFTER_SEQ: &str = "follow.after-seq";

/// Default number of append-origin messages on a page.
pub const DEFAULT_PAGE_MESSAGES: u32 = 50;
/// Default number of rows that `session/list` returns.
pub const DEFAULT_LIST_LIMIT: u32 = 200;
/// Largest number of rows that `session/list` returns.
pub const MAX_LIST_LIMIT: u32 = 500;
