//! The commands, one file each.

mod agents;
mod attach;
mod change;
mod config;
mod doctor;
mod open;
mod reference;
mod run;
mod serve;
mod sessions;

use clap::CommandFactory as _;
use tokio::runtime::Runtime;

use crate::args::{Arguments, Command};
use crate::context::Context;
use crate::output;
use crate::report::Failure;

/// Does what was asked.
pub(crate) fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    let home = arguments.home.as_deref();
    match arguments.command {
        Command::Web(web) => {
            let context = Context::load(home)?;
            runtime()?.block_on(serve::web(context, &web))
        }
        Command::Serve(serve) => {
            let context = Context::load(home)?;
            runtime()?.block_on(serve::serve(context, &serve))
        }
        Command::Run(run) => {
            let context = Context::load(home)?;
            runtime()?.block_on(run::run(context, run))
        }
        Command::Attach(asked) => {
            let context = Context::load(home)?;
            runtime()?.block_on(attach::attach(context, asked))
        }
        Command::Sessions(sessions) => {
            let context = Context::load(home)?;
            runtime()?.block_on(sessions::sessions(context, sessions))
        }
        Command::Agents(asked) => {
            let context = Context::load(home)?;
            runtime()?.block_on(agents::agents(context, &asked))
        }
        // A wrong configuration is something to tell, not something to stop at.
        Command::Doctor(args) => runtime()?.block_on(doctor::doctor(home, &args)),
        Command::Open(open) => {
            let home = crate::context::home(home)?;
            runtime()?.block_on(open::open(&home, &open))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "orrery", &mut script);
            output::data(&String::from_utf8_lossy(&script))
        }
        Command::Config(config) => config::config(home, &config),
        Command::Reference { page } => reference::reference(page),
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(Failure::io("start the runtime"))
}
