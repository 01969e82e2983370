//! `orrery`: the command line of the Host.
//!
//! Owns words, flags, standard output and exit codes. What a command does is the Host's: commands
//! drive [`orrery_host::Host`] in this process, or speak to one that runs. Everything that can go
//! wrong gets its message, hint and exit code in [`report`].
//!
//! Start reading at [`args`], then the command's file in [`commands`].

mod args;
mod commands;
mod context;
mod memory;
mod output;
mod progress;
mod reach;
mod report;
mod running;
mod transcript;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Arguments;

fn main() -> ExitCode {
    memory::share();
    let arguments = Arguments::parse();
    match commands::dispatch(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let report = failure.report();
            let Some(exit) = report.exit else {
                return ExitCode::SUCCESS;
            };
            output::say(&format!("orrery: {}", report.message));
            if let Some(hint) = report.hint {
                output::say(&format!("hint: {hint}"));
            }
            ExitCode::from(exit as u8)
        }
    }
}
