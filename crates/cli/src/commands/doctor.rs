//! `orrery doctor`: is everything as it should be, and if not, where.
//!
//! Looks only, unless it is told to mend (`mend`): makes no folder, takes no lock. Every log is read
//! whole and checked by the rules by which it would be opened.

mod kept;
mod mend;
mod stats;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use orrery_host::config::Config;
use orrery_host::home::Home;
use orrery_session::{SessionLog, Vocabulary};
use orrery_storage::catalogue::CatalogueEntry;
use orrery_storage::disk::RealDisk;
use orrery_storage::{Catalogue, lock, read};
use serde::Serialize;

use crate::args;
use crate::output;
use crate::report::Failure;
use crate::running::Running;

/// How a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// To be put right.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    area: &'static str,
    level: Level,
    message: String,
}

#[derive(Debug, Default, Serialize)]
struct Findings {
    findings: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, area: &'static str, level: Level, message: impl Into<String>) {
        let message = message.into();
        self.findings.push(Finding {
            area,
            level,
            message,
        });
    }

    fn ok(&mut self, area: &'static str, message: impl Into<String>) {
        self.add(area, Level::Ok, message);
    }

    fn note(&mut self, area: &'static str, message: impl Into<String>) {
        self.add(area, Level::Note, message);
    }

    fn problem(&mut self, area: &'static str, message: impl Into<String>) {
        self.add(area, Level::Problem, message);
    }
}

pub(super) async fn doctor(folder: Option<&Path>, args: &args::Doctor) -> Result<(), Failure> {
    let json = args.json;
    let home = crate::context::home(folder)?;
    if args.stats {
        return stats::stats(&home, json).await;
    }
    let mut findings = Findings::default();
    folders(&home, &mut findings);
    let config = configuration(&home, &mut findings);
    models(&config, &mut findings);
    match Running::find(&home).await {
        Some(running) => {
            let Running { pid, url } = running;
            findings.ok("host", format!("process {pid} listens at {url}"));
        }
        None if home.running_file().exists() => findings.note(
            "host",
            "no Host runs here; the record of an earlier one is left over from a crash",
        ),
        None => findings.note("host", "no Host runs here"),
    }
    let root = config.sessions_root(&home);
    if args.repair {
        mend::repair(&root, &mut findings);
    }
    if args.rebuild {
        mend::rebuild(&root, &home.catalogue(), &mut findings);
        mend::rebuild_index(&home, &config, &mut findings).await;
    }
    let kept = kept::Kept::of(&home, &mut findings);
    logs(&root, kept.as_ref(), &mut findings);

    if json {
        output::json(&findings)?;
    } else {
        for Finding {
            area,
            level,
            message,
        } in &findings.findings
        {
            let mark = match level {
                Level::Ok => "ok  ",
                Level::Note => "note",
                Level::Problem => "BAD ",
            };
            output::foreign(&format!("{mark}  {area:<8}  {message}\n"))?;
        }
    }
    let bad = |finding: &&Finding| finding.level == Level::Problem;
    match findings.findings.iter().filter(bad).count() {
        0 => Ok(()),
        1 => Err(Failure::Unhealthy("one problem was found".to_owned())),
        many => Err(Failure::Unhealthy(format!("{many} problems were found"))),
    }
}

fn folders(home: &Home, findings: &mut Findings) {
    for folder in [home.data(), home.state()] {
        let shown = folder.display();
        match fs::metadata(folder) {
            Ok(found) if !found.is_dir() => {
                findings.problem("folders", format!("{shown} is not a folder"));
            }
            Ok(found) if found.permissions().mode() & 0o077 != 0 => {
                let message = format!("{shown} can be read by others; `chmod 700` it");
                findings.note("folders", message);
            }
            Ok(_) => findings.ok("folders", shown.to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                findings.note("folders", format!("{shown} is made with the first start"));
            }
            Err(error) => findings.problem("folders", format!("{shown}: {error}")),
        }
    }
    for file in [home.token_file(), home.secrets_file()] {
        let readable = fs::metadata(&file).map(|found| found.permissions().mode() & 0o077 != 0);
        if matches!(readable, Ok(true)) {
            let message = format!("{} can be read by others; `chmod 600` it", file.display());
            findings.problem("secrets", message);
        }
    }
    if home.token_file().exists()
        && let Err(error) = home.token()
    {
        findings.problem("secrets", error.to_string());
    }
}

fn configuration(home: &Home, findings: &mut Findings) -> Config {
    let file = home.config_file();
    match Config::load(&file) {
        Ok(config) if file.exists() => {
            findings.ok("config", file.display().to_string());
            config
        }
        Ok(config) => {
            let message = format!("there is no {}; the defaults are used", file.display());
            findings.note("config", message);
            config
        }
        Err(error) => {
            findings.problem("config", error.to_string());
            Config::default()
        }
    }
}

fn models(config: &Config, findings: &mut Findings) {
    let model = config.default_model();
    findings.ok("models", format!("new sessions use {model}"));
    for (name, provider) in &config.providers {
        let at = format!("{name} at {}", provider.base_url);
        match &provider.api_key_env {
            None => findings.ok("models", format!("{at}: wants no key")),
            Some(variable) => {
                let set = std::env::var(variable).is_ok_and(|key| !key.trim().is_empty());
                if set {
                    findings.ok("models", format!("{at}: {variable} is set"));
                } else {
                    findings.problem("models", format!("{at}: {variable} is not set"));
                }
            }
        }
    }
}

fn logs(root: &Path, kept: Option<&kept::Kept>, findings: &mut Findings) {
    let disk = RealDisk;
    if !root.exists() {
        let message = format!("{} is made with the first session", root.display());
        findings.note("logs", message);
        return;
    }
    let catalogue = match Catalogue::refresh(&disk, root, &Catalogue::default()) {
        Ok(catalogue) => catalogue,
        Err(error) => {
            findings.problem("logs", error.to_string());
            return;
        }
    };
    for diagnostic in catalogue.diagnostics() {
        findings.problem(
            "logs",
            format!(
                "{}: {} ({})",
                diagnostic.path,
                diagnostic.message,
                diagnostic.reason.as_str()
            ),
        );
    }
    let (mut sessions, mut events) = (0_usize, 0_usize);
    for entry in catalogue.entries() {
        sessions += 1;
        if let Some(folder) = entry.path.parent()
            && let Some(holder) = lock::holder(&disk, folder)
        {
            findings.note("locks", format!("{} is held by {holder}", entry.header.id));
        }
        match verify(&disk, entry, kept, findings) {
            Ok((count, note)) => {
                events += count;
                if let Some(note) = note {
                    findings.note("logs", format!("{}: {note}", entry.path.display()));
                }
            }
            Err(problem) => findings.problem("logs", problem),
        }
    }
    findings.ok(
        "logs",
        format!(
            "{sessions} sessions with {events} events in {}",
            root.display()
        ),
    );
}

/// Reads a log as it would be opened; gives the number of its events, and what is worth knowing.
fn verify(
    disk: &RealDisk,
    entry: &CatalogueEntry,
    kept: Option<&kept::Kept>,
    findings: &mut Findings,
) -> Result<(usize, Option<String>), String> {
    let stored = read::read_log(disk, &entry.path, entry.compression).map_err(|e| e.to_string())?;
    let count = stored.events.len();
    if let Some(kept) = kept {
        kept.verify(&stored, findings);
    }
    let note = stored.torn.map(|torn| {
        format!(
            "the last write was cut off at byte {}; opening repairs it and keeps {} events of it",
            torn.truncate_to, torn.recovered
        )
    });
    SessionLog::read(
        stored.header,
        stored.events,
        stored.inherited,
        Vocabulary::default(),
    )
    .map_err(|error| format!("{}: {error}", entry.path.display()))?;
    Ok((count, note))
}
