//! What the chores share: the repository's root, its tracked files, running programs, headings.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// The repository's root.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent();
    Ok(root.context("xtask lies in the repository's root")?.into())
}

/// Where cargo builds.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => Ok(root()?.join(folder)),
        None => Ok(root()?.join("target")),
    }
}

/// The files that are in the repository or about to be, relative to its root, in order.
pub(crate) fn tracked() -> anyhow::Result<Vec<String>> {
    let list = output(
        "git",
        &["ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    let root = root()?;
    let files = list.lines().filter(|name| root.join(name).is_file());
    Ok(files.map(str::to_owned).collect())
}

/// The cargo that runs this chore.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_not_set| "cargo".to_owned())
}

/// A program that starts in the repository's root.
pub(crate) fn program(name: &str, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Runs a program, showing its output, and wants it to succeed.
pub(crate) fn execute(command: &mut Command) -> anyhow::Result<()> {
    say(&format!("$ {}", line_of(command)));
    let status = command
        .status()
        .with_context(|| format!("starting {}", line_of(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line_of(command));
    }
    Ok(())
}

/// Runs a program and gives what it prints.
pub(crate) fn output(name: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = program(name, arguments)?;
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", line_of(&command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", line_of(&command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed no text", line_of(&command)))
}

/// Where a program of one of these names lies.
pub(crate) fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut places = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.find(|place| place.is_file())
}

fn line_of(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for word in command.get_args().map(OsStr::to_string_lossy) {
        line.push(' ');
        line.push_str(&word);
    }
    // A path below the root is shown as one reads it there.
    match root() {
        Ok(root) => line.replace(&format!("{}/", root.display()), ""),
        Err(_) => line,
    }
}

/// Prints a line. A reader that went away is no failure of a chore.
pub(crate) fn say(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}

/// The steps of a chore: a heading for each, times, and what was skipped.
pub(crate) struct Steps {
    started: Instant,
    current: Option<(String, Instant)>,
    done: Vec<(String, f64)>,
    skipped: Vec<String>,
}

impl Steps {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            current: None,
            done: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, name: &str) {
        self.end_step();
        say(&format!("\n==> {name}"));
        self.current = Some((name.to_owned(), Instant::now()));
    }

    /// Says what is not done, and why.
    pub(crate) fn skip(&mut self, what: String) {
        say(&format!("SKIPPED: {what}"));
        self.skipped.push(what);
    }

    fn end_step(&mut self) {
        if let Some((name, since)) = self.current.take() {
            self.done.push((name, since.elapsed().as_secs_f64()));
        }
    }

    /// Says that all is well, what took how long, and what was skipped.
    pub(crate) fn finish(mut self) {
        self.end_step();
        if self.done.is_empty() {
            return;
        }
        let mut text = String::from("\n");
        for (name, seconds) in &self.done {
            text.push_str(&format!("{seconds:8.1} s  {name}\n"));
        }
        for what in &self.skipped {
            text.push_str(&format!(" skipped    {what}\n"));
        }
        let total = self.started.elapsed().as_secs_f64();
        text.push_str(&format!("{total:8.1} s  in total: all well"));
        say(&text);
    }

    /// Says what failed, and where.
    pub(crate) fn fail(&self, error: &anyhow::Error) {
        let step = self.current.as_ref().map(|(name, _)| name.as_str());
        let place = step.map_or_else(String::new, |name| format!(" in \"{name}\""));
        say(&format!("\nFAILED{place}: {error:#}"));
    }
}
