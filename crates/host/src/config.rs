//! The configuration file: what may stand in it, and what is wrong with it.
//!
//! Owns the typed form of `config.toml`, its defaults, its checks and its reference page. One
//! definition gives all of them, so a key cannot exist without a default, a unit and a sentence.
//! Leaves to others: what a setting does. Keys of model servers never stand here; a provider names
//! the environment variable that holds its key.
//!
//! Start reading at [`Config`].

mod error;
mod programs;
mod reference;
mod sections;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use orrery_subagent::process::ProcessAgent;

use crate::home::Home;

pub use error::ConfigError;
pub use programs::{ProcessKind, ProcessSettings};
pub use reference::reference;
pub use sections::{
    Approval, Compression, Durability, LogSettings, PermissionSettings, Provider, ProviderKind,
    SearchSettings, ServerSettings, SessionSettings, SubagentSettings,
};
pub use values::{Authority, ModelRef};

/// The provider that is always there and needs no key.
pub const OFFLINE_PROVIDER: &str = "offline";

/// Everything that `config.toml` may say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The model of new sessions, as `provider/model`. Not set: the first model of the first
    /// provider in this file that lists its models, otherwise `offline/demo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<ModelRef>,
    /// The model servers, each under a name of your choice: `[providers.NAME]`.
    pub providers: BTreeMap<String, Provider>,
    /// Sessions and their logs.
    pub session: SessionSettings,
    /// The HTTP server.
    pub server: ServerSettings,
    /// What agents may do.
    pub permissions: PermissionSettings,
    /// Subagents: sessions that an agent delegates work to.
    pub subagents: SubagentSettings,
    /// Finding words in sessions.
    pub search: SearchSettings,
    /// Diagnostics of the Host itself.
    pub log: LogSettings,
    #[serde(skip)]
    first_model: Option<ModelRef>,
    #[serde(skip)]
    programs: Vec<ProcessAgent>,
}

impl Config {
    /// Reads a configuration file. No file means the defaults.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with file, line, key and what was expected.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                let path = path.to_owned();
                return Err(ConfigError::Read { path, source });
            }
        };
        Self::parse(path, &text)
    }

    /// Reads a configuration from its text; `path` is for messages and for relative folders.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = error::Source::new(path, text);
        let document = toml::Deserializer::parse(text).map_err(|e| source.syntax(&e))?;
        let mut config: Self =
            serde_path_to_error::deserialize(document).map_err(|e| source.value(&e))?;
        config.check_names(&source)?;
        config.programs = config.read_programs(path, &source)?;
        config.first_model = source
            .keys_in_order(&["providers"])
            .iter()
            .find_map(|name| {
                let model = config.providers.get(name)?.models.first()?;
                ModelRef::new(name, model).ok()
            });
        if let Some(root) = &config.session.root
            && root.is_relative()
            && let Some(folder) = path.parent()
        {
            config.session.root = Some(folder.join(root));
        }
        Ok(config)
    }

    /// The model of new sessions.
    pub fn default_model(&self) -> ModelRef {
        let set = self.default_model.as_ref().or(self.first_model.as_ref());
        set.cloned().unwrap_or_else(ModelRef::offline)
    }

    /// The root of the session logs.
    pub fn sessions_root(&self, home: &Home) -> PathBuf {
        let root = self.session.root.clone();
        root.unwrap_or_else(|| home.sessions())
    }

    /// The programs that agents may delegate to.
    pub fn programs(&self) -> &[ProcessAgent] {
        &self.programs
    }

    fn read_programs(
        &self,
        path: &Path,
        source: &error::Source<'_>,
    ) -> Result<Vec<ProcessAgent>, ConfigError> {
        let mut programs = Vec::new();
        for (name, settings) in &self.subagents.process {
            let agent = settings.agent(name, path.parent()).map_err(|wrong| {
                let mut key = vec!["subagents", "process", name];
                key.extend(Some(wrong.key).filter(|key| !key.is_empty()));
                source.at(&key, wrong.expected)
            })?;
            programs.extend(settings.enabled.then_some(agent));
        }
        Ok(programs)
    }

    fn check_names(&self, source: &error::Source<'_>) -> Result<(), ConfigError> {
        for name in self.providers.keys() {
            let key = ["providers", name.as_str()];
            if name == OFFLINE_PROVIDER {
                let why = "this name belongs to the built-in model; choose another one";
                return Err(source.at(&key, why.to_owned()));
            }
            let bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
            if name.is_empty() || name.contains(bad) {
                let why = "expected a name without `/` and without spaces";
                return Err(source.at(&key, why.to_owned()));
            }
        }
        let Some(model) = &self.default_model else {
            return Ok(());
        };
        let refuse = |expected: String| Err(source.at(&["default_model"], expected));
        if model.provider() == OFFLINE_PROVIDER {
            let demo = ModelRef::offline();
            return if *model == demo {
                Ok(())
            } else {
                refuse(format!("expected `{demo}`, the only built-in model"))
            };
        }
        let Some(provider) = self.providers.get(model.provider()) else {
            let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            let known = [&[OFFLINE_PROVIDER], known.as_slice()].concat().join(", ");
            let name = model.provider();
            return refuse(format!(
                "no provider is called `{name}`, expected one of: {known}"
            ));
        };
        if provider.models.is_empty() || provider.models.iter().any(|m| m == model.model()) {
            return Ok(());
        }
        refuse(format!(
            "the provider `{}` does not list `{}`, expected one of: {}",
            model.provider(),
            model.model(),
            provider.models.join(", ")
        ))
    }
}
