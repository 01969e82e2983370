//! What most commands begin with: the folders, the configuration, diagnostics.

use std::path::{Path, PathBuf};

use orrery_host::config::{Config, ModelRef};
use orrery_host::home::Home;
use orrery_host::{Host, HostError, HostOptions};
use tracing_subscriber::EnvFilter;

use crate::report::Failure;

/// Overrides `log.filter` of the configuration.
const LOG_VARIABLE: &str = "ORRERY_LOG";

/// Folders and configuration of this call.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) home: Home,
    pub(crate) config: Config,
}

impl Context {
    /// Finds the folders and reads the configuration; makes nothing.
    pub(crate) fn load(folder: Option<&Path>) -> Result<Self, Failure> {
        let home = home(folder)?;
        let config = Config::load(&home.config_file())?;
        Ok(Self { home, config })
    }

    /// Makes the folders and turns diagnostics on, for commands that start a Host.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        self.home.create()?;
        let variable = std::env::var(LOG_VARIABLE).ok();
        let filter = variable.as_deref().unwrap_or(&self.config.log.filter);
        let filter = EnvFilter::try_new(filter).map_err(|error| {
            let name = match variable {
                Some(_) => LOG_VARIABLE.to_owned(),
                None => format!("{}: log.filter", self.home.config_file().display()),
            };
            Failure::Usage(format!("{name}: {error}"))
        })?;
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
        // Set already means that a test runs several commands in one process.
        drop(subscriber.try_init());
        Ok(())
    }
}

/// A Host in this process, for one command; it listens nowhere. `model` is for new sessions.
pub(crate) fn host(home: Home, config: Config, model: Option<ModelRef>) -> Result<Host, HostError> {
    Host::start(HostOptions {
        home,
        config,
        default_cwd: PathBuf::from("/"),
        model,
    })
}

/// The folders of this call.
pub(crate) fn home(folder: Option<&Path>) -> Result<Home, Failure> {
    let Some(folder) = folder else {
        return Ok(Home::from_environment(|name| std::env::var_os(name))?);
    };
    let folder =
        std::path::absolute(folder).map_err(Failure::io(format!("find {}", folder.display())))?;
    Ok(Home::at(folder))
}
