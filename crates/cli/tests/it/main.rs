//! The real binary, as a person or a script runs it.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test with a panic"
)]

mod agents;
mod attach;
mod change;
mod doctor;
mod fixture;
mod programs;
mod run;
mod serve;
