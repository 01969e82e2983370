//! Subagents that are other programs: the Agent Client Protocol, Codex, Claude Code.
//!
//! Owns how such a program is started, spoken to and ended. Its child session is an ordinary one
//! whose one turn asks no model: what the session's actor streams from is an [`Adapter`]
//! ([`ProcessRun`]) with the program behind it, so the prompt, what the program says and how it ends
//! are logged, followed, listed and recovered like any answer. Leaves to `delegation` who may start
//! one, and to the host's configuration which there are.
//!
//! Start reading at [`ProcessAgent`], then `run`; a protocol is one file (`acp`, `codex`, `claude`).
//!
//! [`Adapter`]: orrery_llm::Adapter

mod acp;
mod claude;
mod codex;
mod failure;
mod frames;
mod guard;
mod program;
mod report;
mod rpc;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orrery_llm::Secret;

pub use failure::{ABORTED, REFUSAL};
pub use run::ProcessRun;

/// A program that can be delegated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessAgent {
    /// Its name, as models choose it and descriptors record it.
    pub name: String,
    /// What it speaks, and what it may do without asking.
    pub protocol: Protocol,
    /// The program: a path, or a name that is looked for in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it gets beside those of the Host that look like no secret.
    pub env: BTreeMap<String, Secret>,
    /// Where it works; otherwise where its parent does.
    pub cwd: Option<PathBuf>,
    /// How long it may take to end.
    pub patience: Patience,
}

/// What a program speaks, with what it may do. Nobody is asked on its behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The Agent Client Protocol, version 1.
    Acp(AcpPermission),
    /// Codex's app server.
    Codex(CodexPermission),
    /// Claude Code's streams of JSON.
    ClaudeCode(ClaudePermission),
}

impl Protocol {
    /// The protocol's name, as configured; it stands in the log where a model's name would.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acp(_) => "acp",
            Self::Codex(_) => "codex",
            Self::ClaudeCode(_) => "claude-code",
        }
    }
}

/// How questions of an agent that speaks the Agent Client Protocol are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AcpPermission {
    /// No.
    #[default]
    Reject,
    /// Yes, once.
    Allow,
}

/// What Codex may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CodexPermission {
    /// What its own sandbox allows; it asks for nothing more.
    #[default]
    Never,
    /// What its own reviewer approves beyond that.
    ApproveForMe,
    /// Everything, without a sandbox.
    DangerouslyBypass,
}

/// What Claude Code may do: its permission mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClaudePermission {
    /// What its own settings allow; the rest is refused.
    #[default]
    DontAsk,
    /// Edits of files too.
    AcceptEdits,
    /// What its own classifier lets pass.
    Auto,
    /// Nothing but reading and planning.
    Plan,
    /// Everything.
    BypassPermissions,
}

impl ClaudePermission {
    /// The mode as the program takes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DontAsk => "dontAsk",
            Self::AcceptEdits => "acceptEdits",
            Self::Auto => "auto",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// How long a program may take to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After its input was closed, before it is asked to end.
    pub eof: Duration,
    /// After it was asked to end, before it is killed.
    pub terminate: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            eof: Duration::from_secs(6),
            terminate: Duration::from_secs(3),
        }
    }
}

impl ProcessAgent {
    /// The command line, for a person who is asked whether it may run.
    pub fn command_line(&self) -> String {
        let args = self.args.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once(self.command.as_str()).chain(args).collect();
        words.join(" ")
    }

    /// Where the program would work: its own folder, otherwise its parent's.
    ///
    /// # Errors
    /// When there is no such folder, or it is not given as a whole path.
    pub fn folder(&self, parent: Option<&str>) -> Result<PathBuf, String> {
        let folder = match (&self.cwd, parent) {
            (Some(own), _) => own.clone(),
            (None, Some(parent)) => PathBuf::from(parent),
            (None, None) => return Err("its parent has no folder to work in".to_owned()),
        };
        usable(&folder).map(|()| folder)
    }
}

/// Whether a program can be started in a folder.
///
/// # Errors
/// Why not.
pub fn usable(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    if !folder.is_absolute() {
        return Err(format!("{shown} is no whole path"));
    }
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{shown} is no folder")),
        Err(error) => Err(format!("{shown} cannot be worked in: {error}")),
    }
}
