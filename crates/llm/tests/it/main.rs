//! The adapters against servers on real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper that fails is a test that fails"
)]

mod failures;
mod fixture;
mod models;
mod streams;
