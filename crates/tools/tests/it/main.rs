//! The offline demo model with the real tools, in a loop as small as it can be.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper that fails is a test that fails"
)]

mod offline;
