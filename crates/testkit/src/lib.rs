//! What several crates' tests need: a scripted model server.
//!
//! Owns test doubles that speak real protocols on real sockets. Nothing here is linked into the
//! product; nothing here knows the product's types, so that a test checks what goes over the wire.

pub mod model_server;

pub use model_server::{Gate, ModelServer, Received, Reply};
