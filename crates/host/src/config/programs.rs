//! `[subagents.process.NAME]`: programs that can be delegated to.
//!
//! What stands in the file becomes a [`ProcessAgent`] here, or says which key is wrong: a permission
//! belongs to one kind, and a folder must be there before anything is started in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orrery_llm::Secret;
use orrery_subagent::process::{
    AcpPermission, ClaudePermission, CodexPermission, Patience, ProcessAgent, Protocol, usable,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values;

/// Names that agents of the Host itself have.
const TAKEN: [&str; 2] = ["spawn", "fork"];
/// Characters of a name.
const NAME_MAX: usize = 64;

/// A program that agents may delegate to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessSettings {
    /// What it speaks.
    pub kind: ProcessKind,
    /// The program: a name that is looked for in `PATH`, or a path; a relative one lies beside this
    /// file. Not set: `codex` or `claude`;
    /// required for `acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments. Not set: `app-server --stdio` for `codex`, none otherwise. What makes
    /// `claude-code` stream is added by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Variables that it gets, by name. Of the Host's own it gets those whose names look like no key,
    /// token or password.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of the Host that it gets although they look like secrets.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Where it works; a relative folder lies beside this file. Not set: where its parent works.
    #[serde(
        default,
        deserialize_with = "values::folder",
        skip_serializing_if = "Option::is_none"
    )]
    pub cwd: Option<PathBuf>,
    /// What it may do; nobody is asked. For `acp`, how its questions are answered: `reject` (the
    /// default) or `allow`. For `codex`: `never` (the default; its own sandbox decides),
    /// `approve-for-me` or `dangerously-bypass`. For `claude-code`: `dontAsk` (the default),
    /// `acceptEdits`, `auto`, `plan` or `bypassPermissions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// How long it may take to end once its input is closed, in milliseconds.
    #[serde(
        default = "eof_grace_ms",
        deserialize_with = "values::whole::<0, 60_000, _, _>"
    )]
    #[schemars(range(min = 0, max = 60_000))]
    pub eof_grace_ms: u64,
    /// How long it may take to end after a request to terminate, before it is killed, in
    /// milliseconds.
    #[serde(
        default = "terminate_grace_ms",
        deserialize_with = "values::whole::<0, 60_000, _, _>"
    )]
    #[schemars(range(min = 0, max = 60_000))]
    pub terminate_grace_ms: u64,
    /// Whether it is offered.
    #[serde(default = "enabled")]
    pub enabled: bool,
}

const fn eof_grace_ms() -> u64 {
    6_000
}

const fn terminate_grace_ms() -> u64 {
    3_000
}

const fn enabled() -> bool {
    true
}

/// The values of `env` may be secrets.
impl std::fmt::Debug for ProcessSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessSettings")
            .field("kind", &self.kind)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("permission", &self.permission)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// What a program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// The Agent Client Protocol over standard input and output.
    Acp,
    /// Codex's app server.
    Codex,
    /// Claude Code without a terminal.
    ClaudeCode,
}

/// Which key is wrong, and what was expected.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) key: &'static str,
    pub(super) expected: String,
}

impl ProcessSettings {
    /// The program as it is started; `folder` is that of the file.
    pub(super) fn agent(&self, name: &str, folder: Option<&Path>) -> Result<ProcessAgent, Wrong> {
        let wrong = |key, expected: &str| Wrong {
            key,
            expected: expected.to_owned(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
            let expected = "expected a name of letters, digits, `-` and `_`, at most 64";
            return Err(wrong("", expected));
        }
        if TAKEN.contains(&name) {
            let expected = "this name belongs to the agents of the Host; choose another one";
            return Err(wrong("", expected));
        }
        let (command, args): (_, &[&str]) = match self.kind {
            ProcessKind::Acp => (None, &[]),
            ProcessKind::Codex => (Some("codex"), &["app-server", "--stdio"]),
            ProcessKind::ClaudeCode => (Some("claude"), &[]),
        };
        let command = match self.command.as_deref().or(command) {
            None => return Err(wrong("command", "expected the program to start")),
            Some(command) if command.trim().is_empty() || command.contains('\0') => {
                return Err(wrong(
                    "command",
                    "expected the program to start, this is blank",
                ));
            }
            // Not below the folder it works in: what lies there is not ours to start.
            Some(path) if path.contains('/') => {
                let beside = folder.map_or_else(|| path.into(), |folder| folder.join(path));
                let whole = std::path::absolute(&beside).unwrap_or(beside);
                whole.to_string_lossy().into_owned()
            }
            Some(name) => name.to_owned(),
        };
        let given = self.args.clone();
        let args = given.unwrap_or_else(|| args.iter().map(|&arg| arg.to_owned()).collect());
        Ok(ProcessAgent {
            name: name.to_owned(),
            protocol: self.protocol()?,
            command,
            args,
            env: self.variables()?,
            cwd: self.folder(folder)?,
            patience: Patience {
                eof: Duration::from_millis(self.eof_grace_ms),
                terminate: Duration::from_millis(self.terminate_grace_ms),
            },
        })
    }

    fn protocol(&self) -> Result<Protocol, Wrong> {
        let wanted = self.permission.as_deref();
        let one_of = |names: &str| Wrong {
            key: "permission",
            expected: format!(
                "`{}` is no permission of this kind, expected one of: {names}",
                wanted.unwrap_or_default()
            ),
        };
        Ok(match self.kind {
            ProcessKind::Acp => Protocol::Acp(match wanted {
                None | Some("reject") => AcpPermission::Reject,
                Some("allow") => AcpPermission::Allow,
                _ => return Err(one_of("reject, allow")),
            }),
            ProcessKind::Codex => Protocol::Codex(match wanted {
                None | Some("never") => CodexPermission::Never,
                Some("approve-for-me") => CodexPermission::ApproveForMe,
                Some("dangerously-bypass") => CodexPermission::DangerouslyBypass,
                _ => return Err(one_of("never, approve-for-me, dangerously-bypass")),
            }),
            ProcessKind::ClaudeCode => {
                let modes = [
                    ClaudePermission::DontAsk,
                    ClaudePermission::AcceptEdits,
                    ClaudePermission::Auto,
                    ClaudePermission::Plan,
                    ClaudePermission::BypassPermissions,
                ];
                let wanted = wanted.unwrap_or(ClaudePermission::DontAsk.as_str());
                let found = modes.into_iter().find(|mode| mode.as_str() == wanted);
                let names = modes.map(ClaudePermission::as_str).join(", ");
                Protocol::ClaudeCode(found.ok_or_else(|| one_of(&names))?)
            }
        })
    }

    fn variables(&self) -> Result<BTreeMap<String, Secret>, Wrong> {
        let named = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let mut all = BTreeMap::new();
        for name in &self.pass_env {
            if !named(name) {
                let expected = "expected names of environment variables".to_owned();
                return Err(Wrong {
                    key: "pass_env",
                    expected,
                });
            }
            // One that is not set is not there for the program either.
            if let Ok(value) = std::env::var(name) {
                all.insert(name.clone(), Secret::new(value));
            }
        }
        for (name, value) in &self.env {
            if !named(name) || value.contains('\0') {
                let expected = "expected names of environment variables, with texts".to_owned();
                return Err(Wrong {
                    key: "env",
                    expected,
                });
            }
            all.insert(name.clone(), Secret::new(value.clone()));
        }
        Ok(all)
    }

    fn folder(&self, beside: Option<&Path>) -> Result<Option<PathBuf>, Wrong> {
        let Some(own) = &self.cwd else {
            return Ok(None);
        };
        let folder = beside.map_or_else(|| own.clone(), |beside| beside.join(own));
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        usable(&folder).map_err(|why| Wrong {
            key: "cwd",
            expected: format!("expected a folder that is there: {why}"),
        })?;
        Ok(Some(folder))
    }
}
