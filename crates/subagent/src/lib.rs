//! Subagents: sessions that another session's agent delegated work to.
//!
//! Owns what a subagent is, as its log says it (the descriptor), the projections that its list is
//! made of, and the list. Leaves to others: when a child runs and who may speak to it, which no build does yet.
//!
//! Invariant: a child is identified by its own descriptor only. One that it inherited identifies an
//! ancestor; a damaged one identifies nobody.
//!
//! Start reading at [`descriptor`], then [`units`] and [`listing`].

pub mod delegation;
pub mod descriptor;
pub mod listing;
pub mod tools;
pub mod units;

pub use descriptor::{Descriptor, DescriptorError, Mode};
