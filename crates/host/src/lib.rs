//! The Host: session controller, gateway, and the place where everything above is put together.
//!
//! Start reading at [`controller`], then [`gateway`].

mod checkpoints;
pub mod checkup;
pub mod config;
pub mod controller;
pub mod gateway;
pub mod home;
mod host;
pub mod listing_stats;
mod live_logs;
mod live_sessions;
mod log_writer;
pub mod state_file;

pub use host::{Host, HostError, HostOptions, Listening};
