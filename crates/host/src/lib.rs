//! The host: configuration and folders; the controller and the gateway stand on them.

pub mod config;
pub mod home;
