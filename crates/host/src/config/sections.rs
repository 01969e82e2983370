//! The tables of the configuration file, one type each.
//!
//! The doc comments are the reference page: first what a key means, with its unit.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use orrery_session::payload::{ApprovalPolicy, SandboxMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::programs::ProcessSettings;
use super::values::{self, Authority};

/// One model server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The protocol it speaks.
    pub kind: ProviderKind,
    /// Its address with the version, such as `https://api.example.com/v1`; `http` or `https`.
    #[serde(deserialize_with = "values::base_url")]
    pub base_url: String,
    /// The environment variable that holds its key; never the key itself. Not set: it wants none.
    #[serde(
        default,
        deserialize_with = "values::variable_name",
        skip_serializing_if = "Option::is_none"
    )]
    pub api_key_env: Option<String>,
    /// Its models. Empty: the server is asked what it has.
    #[serde(default, deserialize_with = "values::model_names")]
    pub models: Vec<String>,
    /// Whether a model's reasoning is sent back with earlier answers. Not set: decided by the
    /// address, since few servers want it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo_reasoning: Option<bool>,
    /// How long the server may send nothing at all before it counts as dead, in seconds.
    #[serde(
        default = "values::idle_timeout_seconds",
        deserialize_with = "values::whole::<1, 3600, _, _>"
    )]
    #[schemars(range(min = 1, max = 3600))]
    pub idle_timeout_seconds: u64,
}

impl Provider {
    /// How long the server may send nothing.
    pub const fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_timeout_seconds)
    }
}

/// The protocol that a model server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProviderKind {
    /// Chat completions over HTTP with server-sent events.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
}

/// Sessions and their logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// The folder of all session logs; a relative one lies beside this file. Not set:
    /// `sessions` in the data folder.
    #[serde(
        deserialize_with = "values::folder",
        skip_serializing_if = "Option::is_none"
    )]
    pub root: Option<PathBuf>,
    /// The container of new logs; logs that are there keep theirs.
    pub compression: Compression,
    /// When an appended event is on disk. A prompt is accepted only once it is, with every setting.
    pub durability: Durability,
    /// How long a session may have nothing to do before it leaves memory, in seconds.
    #[serde(deserialize_with = "values::whole::<1, 31_536_000, _, _>")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub idle_detach_seconds: u64,
    /// Logs up to this size may be read whole to see whether nobody ever spoke in them, in bytes; 0
    /// for never. This build needs no such reading: a log's index says it.
    #[serde(deserialize_with = "values::whole::<0, 1_073_741_824, _, _>")]
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub cold_blank_probe_max_bytes: u64,
    /// How many logs are read at once for a listing.
    #[serde(deserialize_with = "values::whole::<1, 64, _, _>")]
    #[schemars(range(min = 1, max = 64))]
    pub cold_read_concurrency: usize,
    /// After how many events the projections of a session that is at work are kept, so that a list
    /// after a crash need not read them again. They are kept at the end of every turn anyway.
    #[serde(deserialize_with = "values::whole::<1, 1_000_000, _, _>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub checkpoint_every_events: usize,
    /// How long after something happened in a session its projections are kept, in milliseconds.
    #[serde(deserialize_with = "values::whole::<1, 3_600_000, _, _>")]
    #[schemars(range(min = 1, max = 3_600_000))]
    pub checkpoint_interval_ms: u64,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            root: None,
            compression: Compression::Zstd,
            durability: Durability::Step,
            idle_detach_seconds: 300,
            cold_blank_probe_max_bytes: 1024,
            cold_read_concurrency: 4,
            checkpoint_every_events: 200,
            checkpoint_interval_ms: 5_000,
        }
    }
}

impl SessionSettings {
    /// How long after something happened its projections are kept.
    pub const fn checkpoint_interval(&self) -> Duration {
        Duration::from_millis(self.checkpoint_interval_ms)
    }

    /// How long a session may have nothing to do before it leaves memory.
    pub const fn idle_detach(&self) -> Duration {
        Duration::from_secs(self.idle_detach_seconds)
    }
}

/// The container of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// A row of zstd frames.
    Zstd,
    /// Plain lines.
    None,
}

impl From<Compression> for orrery_storage::Compression {
    fn from(value: Compression) -> Self {
        match value {
            Compression::Zstd => Self::Zstd,
            Compression::None => Self::None,
        }
    }
}

/// When an appended event is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Before anybody sees it.
    Event,
    /// At the end of every step, and otherwise within 200 milliseconds.
    Step,
    /// At the end of every turn; in between the operating system may hold it.
    Turn,
}

impl From<Durability> for orrery_storage::Durability {
    fn from(value: Durability) -> Self {
        match value {
            Durability::Event => Self::Event,
            Durability::Step => Self::Step,
            Durability::Turn => Self::Turn,
        }
    }
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// The address to listen on. Anything but a loopback address opens the Host to the network.
    #[serde(deserialize_with = "values::address")]
    pub host: IpAddr,
    /// The port to listen on; 0 takes any free one.
    #[serde(deserialize_with = "values::whole::<0, 65_535, _, _>")]
    #[schemars(range(min = 0, max = 65_535))]
    pub port: u16,
    /// Names, besides loopback, under which browsers may reach the Host: `name` for any port,
    /// `name:port` for one.
    pub trusted_hosts: Vec<Authority>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 7317,
            trusted_hosts: Vec::new(),
        }
    }
}

/// What agents may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PermissionSettings {
    /// What the tools of a new session may touch.
    #[schemars(with = "PresetName")]
    pub preset: SandboxMode,
    /// Whether a person is asked about the rest.
    pub approval: Approval,
}

impl Default for PermissionSettings {
    fn default() -> Self {
        Self {
            preset: SandboxMode::WorkspaceWrite,
            approval: Approval::Ask,
        }
    }
}

/// The presets, for the schema: the type itself belongs to the log.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
enum PresetName {
    /// Nothing is written; commands ask.
    ReadOnly,
    /// Writes inside the workspace are allowed; commands ask.
    WorkspaceWrite,
    /// Never asks.
    DangerFullAccess,
}

/// Whether a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// A person is asked.
    Ask,
    /// What would need a question is refused.
    Never,
}

impl From<Approval> for ApprovalPolicy {
    fn from(value: Approval) -> Self {
        match value {
            Approval::Ask => Self::Ask,
            Approval::Never => Self::Never,
        }
    }
}

/// Subagents: sessions that an agent delegates work to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubagentSettings {
    /// How many delegations may lie one below the other; 0 takes the tools to delegate away.
    #[serde(deserialize_with = "values::whole::<0, 64, _, _>")]
    #[schemars(range(min = 0, max = 64))]
    pub max_depth: u64,
    /// How many subagents below one session may be at work at once; one more is refused.
    #[serde(deserialize_with = "values::whole::<1, 1024, _, _>")]
    #[schemars(range(min = 1, max = 1024))]
    pub max_active: usize,
    /// Whether a subagent that begins with its parent's conversation can be spoken to again. Its
    /// log then keeps the copy.
    pub continuable_forks: bool,
    /// Programs that agents may delegate to, each under a name of your choice:
    /// `[subagents.process.NAME]`. They work by their own rules, outside of this Host's permissions.
    pub process: BTreeMap<String, ProcessSettings>,
}

impl Default for SubagentSettings {
    fn default() -> Self {
        Self {
            max_depth: 3,
            max_active: 8,
            continuable_forks: false,
            process: BTreeMap::new(),
        }
    }
}

/// Finding words in sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchSettings {
    /// Whether the words of sessions are indexed and can be looked for. Turning it off indexes no
    /// more; what was indexed before goes with `data/index.sqlite`, which may be deleted.
    pub enabled: bool,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Diagnostics of the Host itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// What is written to standard error: a level, or `target=level` pairs with commas between
    /// them. Levels: `error`, `warn`, `info`, `debug`, `trace`, `off`.
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            filter: "warn".to_owned(),
        }
    }
}
