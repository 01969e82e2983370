//! `cargo xtask run`: from a fresh clone to an open page.
//!
//! The dev profile is used: it builds several times faster than release, and the waiting is in the
//! models, not here.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;

use anyhow::Context;

use crate::house::{Steps, cargo, execute, program, say, target};
use crate::web;

/// Builds everything and starts the Host with its page; `arguments` go to `orrery web`.
pub(crate) fn run(steps: &mut Steps, arguments: &[&str]) -> anyhow::Result<()> {
    steps.step("the page");
    web::install()?;
    web::build()?;
    steps.step("the program");
    execute(&mut program(&cargo(), &["build", "--package", "orrery"])?)?;
    let binary = target()?.join("debug/orrery");
    steps.step("orrery web");
    if std::io::stdout().is_terminal() {
        say("stop it with Ctrl-C");
    }
    let mut command = std::process::Command::new(&binary);
    // Started where the person is, so that relative paths mean what they typed.
    command.arg("web").args(arguments);
    // In place of this process, so that signals and the exit code are the program's own.
    let error = command.exec();
    Err(error).with_context(|| format!("starting {}", binary.display()))
}
