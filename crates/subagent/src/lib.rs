//! Subagents: sessions that another session's agent delegated work to.
//!
//! Owns what a subagent is, as its log says it (the descriptor), the projections that its list is
//! made of, the list, and delegation: who starts, reaches and stops whom, and when a child rests.
//! Leaves to others: how a session is made, resumed and written ([`delegation::ports`]).
//!
//! Invariant: a child is identified by its own descriptor only. One that it inherited identifies an
//! ancestor; a damaged one identifies nobody.
//!
//! Start reading at [`descriptor`], then [`units`], [`listing`] and [`delegation`].

pub mod delegation;
pub mod descriptor;
pub mod listing;
pub mod process;
pub mod tools;
pub mod units;

pub use descriptor::{Descriptor, DescriptorError, Mode};
