//! The command line as a type: commands, flags and their help. Completions and the reference page
//! come from here too.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use orrery_host::config::ModelRef;
use orrery_session::payload::SandboxMode;

/// A durable host for coding agents: sessions that survive, in your browser and your terminal.
///
/// Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
/// 2 usage or configuration, 3 interrupted, 4 refused by permission, 5 no model or key.
#[derive(Debug, Parser)]
#[command(name = "orrery", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Keep configuration, data and state below this folder [default: ORRERY_HOME, otherwise the
    /// XDG directories].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the Host and open its page.
    Web(Web),
    /// Start the Host.
    ///
    /// Prints `listening on http://ADDRESS:PORT` to standard output once it accepts requests, and
    /// the link that signs a browser in to standard error. SIGTERM and SIGINT save everything and
    /// end it.
    Serve(Serve),
    /// Let an agent do one task, here in the terminal.
    ///
    /// The answer goes to standard output, what the agent does to standard error. Without a
    /// terminal and without `--yes`, whatever needs approval is refused.
    Run(Run),
    /// Take part in a session, live.
    Attach(Attach),
    /// Look at sessions.
    #[command(subcommand)]
    Sessions(Sessions),
    /// List the subagents of a session.
    Agents(Agents),
    /// Check folders, configuration, models, locks and every session log.
    Doctor(Doctor),
    /// Open the page of the Host that is running.
    Open(Open),
    /// Print a shell's completion script.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Look at the configuration.
    #[command(subcommand)]
    Config(Config),
    /// Print a reference page in Markdown.
    #[command(hide = true)]
    Reference {
        /// The page.
        page: Page,
    },
}

/// Where the server listens.
#[derive(Debug, Args)]
pub(crate) struct Listen {
    /// The address to listen on [default: server.host of the configuration, 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<IpAddr>,
    /// The port to listen on, 0 for any [default: server.port of the configuration, 7317].
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Web {
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Print the link, start no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Print `{"type":"listening","url":…}` in place of the line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to do; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// The folder to work in [default: the current one].
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    pub(crate) cwd: Option<PathBuf>,
    /// Continue this session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The model to use.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<ModelRef>,
    /// Allow whatever needs approval.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one history record a line, then the result.
    #[arg(long)]
    pub(crate) json: bool,
    /// What the tools of the new session may touch.
    #[arg(long, value_name = "PRESET", conflicts_with = "session")]
    pub(crate) permission: Option<Permission>,
}

/// A permission preset on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Permission {
    /// Nothing is written; commands ask.
    ReadOnly,
    /// Writes inside the folder are allowed; commands ask.
    WorkspaceWrite,
    /// Never asks.
    DangerFullAccess,
}

impl From<Permission> for SandboxMode {
    fn from(value: Permission) -> Self {
        match value {
            Permission::ReadOnly => Self::ReadOnly,
            Permission::WorkspaceWrite => Self::WorkspaceWrite,
            Permission::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The session's id, or the beginning of one.
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// Print one event of the log a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    #[command(flatten)]
    Look(Look),
    #[command(flatten)]
    Change(Change),
}

/// What only looks at sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum Look {
    /// List the sessions, newest first.
    List(List),
    /// Search titles and what was said.
    Search(Search),
    /// Show what was said in a session.
    Show(Show),
}

/// What changes sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// Give a session a title that stays.
    Rename(Rename),
    /// Branch off after a finished turn; prints the new session's id.
    Fork(Fork),
    /// Hide a session from the list of the page and from searches.
    Archive(Named),
    /// Show it again.
    Unarchive(Named),
    /// Move a session and its subagents to the trash.
    Rm(Named),
    /// Take a session out of the trash.
    Restore(Named),
    /// List what is in the trash.
    Trash(Json),
    /// Write a session into a ZIP file; prints the file's name.
    Export(Export),
    /// Let the sessions of a ZIP file in that an export wrote; prints their ids.
    Import(Import),
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session's id, or the beginning of one.
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// With all subagents below it.
    #[arg(long)]
    pub(crate) descendants: bool,
    /// The file, which must not exist; `-` for standard output [default: named by the session].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print the response object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The session's id, or the beginning of one.
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// Print the response object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rename {
    #[command(flatten)]
    pub(crate) named: Named,
    /// The title.
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Branch off after the turn that holds this event [default: the last finished turn].
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// At most so many, 1 to 500.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: Option<u32>,
    /// Subagents too.
    #[arg(long)]
    pub(crate) subagents: bool,
    /// Print the response object of `session/list`, subagents included.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// The words to look for; all of them must occur.
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    /// Print the response object of `session/search`.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The session's id, or the beginning of one.
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// Print the response object of `session/page`, for the whole log.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Agents {
    /// The session's id, or the beginning of one; a subagent's whole id.
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// The whole tree, not only direct children.
    #[arg(long)]
    pub(crate) tree: bool,
    /// Print the response object of `subagent/list`.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Json {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Print the link, start no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Print the response object of `host/launchLink`, start no browser.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print the configuration with all defaults, as TOML.
    Show(Json),
    /// Print where the configuration file lies.
    Path,
}

/// A reference page.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Page {
    /// The configuration.
    Config,
    /// The command line.
    Cli,
}

/// `orrery doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Close what a crash interrupted, in every log that can be read whole and is not in use.
    #[arg(long)]
    pub(crate) repair: bool,
    /// Throw derived files away and make them anew: frame indexes, the catalogue of headers,
    /// checkpoints and the search index.
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Say what lists of subagents have cost the Host that runs here; where none runs, list the
    /// subagents of every session and say what that cost.
    #[arg(long, conflicts_with_all = ["repair", "rebuild"])]
    pub(crate) stats: bool,
    /// Print the findings, or the counters, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
