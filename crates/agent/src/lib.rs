//! The loop: the turn machine, the session actor, the tool seam, approvals, prompts.
//!
//! Owns what happens between a prompt and its answer: the inbox, turns and steps, which model is
//! asked and what is logged of it, which tools may run and in which order, and the task that owns a
//! live session. Leaves to others: where bytes go ([`actor::LogWriter`] is implemented by the
//! host), what a tool does (`orrery-tools`), how a model is spoken to (`orrery-llm`).
//!
//! Start reading at [`machine`], then [`actor`].

pub mod actor;
pub mod arguments;
pub mod checkpoints;
mod context;
pub mod inbox;
pub mod jobs;
pub mod live;
pub mod machine;
pub mod policy;
pub mod prompt;
pub mod tool;
pub mod units;

pub use actor::{ActorDeps, LogWriter, SessionHandle};
pub use checkpoints::{CheckpointKeeper, CheckpointPolicy, Kept};
pub use context::TurnContext;
pub use live::{LiveState, LogHead, QueuedItem, Saved};
pub use machine::{Machine, MachineSettings, RetryPolicy};
pub use prompt::Preset;
pub use tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
