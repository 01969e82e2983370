//! One running program: started in its folder with a clean environment, ended with everything that
//! it started.
//!
//! The stop has three steps (`subagent.md` 4.5): it is told and its input is closed, its group is
//! asked to end, everything is killed. Each waits as long as configured; the last leaves nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use orrery_tools::environment;
use orrery_tools::process::group::{Mark, ProcessGroup, leader};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr};
use tokio::task::JoinHandle;

use super::ProcessAgent;
use super::failure::Failure;
use super::frames::Lines;
use super::guard::Guard;

/// Bytes that are kept of what a program wrote to its standard error: the newest.
const ERRORS_MAX: usize = 8 * 1024;
/// Bytes from which on a variable's value is kept out of what is shown.
const SECRET_MIN: usize = 6;

pub(super) struct Program {
    pub(super) lines: Lines,
    child: Child,
    group: ProcessGroup,
    guard: Option<Guard>,
    errors: Arc<Mutex<Vec<u8>>>,
    reading_errors: JoinHandle<()>,
}

impl Program {
    /// Starts a program.
    pub(super) async fn start(
        agent: &ProcessAgent,
        args: &[String],
        cwd: &Path,
    ) -> Result<Self, Failure> {
        let failed = |why: String| Failure::Start {
            program: agent.command.clone(),
            why,
        };
        let variables: Vec<(OsString, OsString)> = environment::for_commands()
            .chain(
                agent
                    .env
                    .iter()
                    .map(|(name, value)| (OsString::from(name), OsString::from(value.expose()))),
            )
            .collect();
        let path = variables.iter().rev().find(|(name, _)| name == "PATH");
        let program = find(&agent.command, cwd, path.map(|(_, path)| path))
            .ok_or_else(|| failed("there is no such program".to_owned()))?;
        let mut guard = Guard::new().map_err(|error| failed(error.to_string()))?;
        let mark = Mark::fresh();
        let mut command = leader(&program.to_string_lossy());
        command
            .args(args)
            .current_dir(cwd)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        mark.put_on(&mut command);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let group = ProcessGroup::of(&child, &mark);
        if let Some(id) = group.id()
            && let Err(error) = guard.watch(id).await
        {
            return Err(failed(format!("it cannot be watched over: {error}")));
        }
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(failed("its pipes were not made".to_owned()));
        };
        let kept = Arc::default();
        let reading_errors = tokio::spawn(keep_errors(errors, Arc::clone(&kept)));
        Ok(Self {
            lines: Lines::new(output, input),
            child,
            group,
            guard: Some(guard),
            errors: kept,
            reading_errors,
        })
    }

    /// Ends the program and everything it started. `farewell`: whether it is told that it is
    /// stopped.
    pub(super) async fn stop(mut self, agent: &ProcessAgent, farewell: bool) -> Stopped {
        let patience = agent.patience;
        self.lines.close(farewell);
        let by_itself = {
            let (lines, child) = (&mut self.lines, &mut self.child);
            // Read on, or a program that cannot write would not get to end.
            let quiet = async {
                lines.drain().await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                status = child.wait() => status.ok(),
                () = tokio::time::sleep(patience.eof) => None,
                () = quiet => None,
            }
        };
        let mut killed = false;
        if by_itself.is_none() || self.group.alive() {
            let (lines, child) = (&mut self.lines, &mut self.child);
            let stop = self.group.stop(child, patience.terminate);
            tokio::pin!(stop);
            killed = tokio::select! {
                biased;
                killed = &mut stop => killed,
                () = lines.drain() => stop.await,
            };
        }
        self.group.release();
        if let Some(guard) = self.guard.take() {
            guard.dismiss().await;
        }
        let how = match by_itself {
            Some(status) => status.to_string(),
            None if killed => "killed".to_owned(),
            None => "asked to end".to_owned(),
        };
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = scrubbed(agent, &String::from_utf8_lossy(&errors));
        Stopped { how, errors }
    }
}

/// How a program ended.
pub(super) struct Stopped {
    /// With which status, or by whom.
    pub(super) how: String,
    /// The end of what it wrote to its standard error: for the Host's own diagnostics only.
    pub(super) errors: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.reading_errors.abort();
    }
}

/// A text without the values of the program's own variables.
pub(super) fn scrubbed(agent: &ProcessAgent, text: &str) -> String {
    // A short one is no secret, and would tear words apart.
    let values = agent
        .env
        .values()
        .filter(|value| value.expose().len() >= SECRET_MIN);
    values.fold(text.to_owned(), |text, value| value.scrub(&text))
}

/// Reads all of it, and keeps the end.
async fn keep_errors(mut pipe: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let excess = kept.len().saturating_sub(ERRORS_MAX);
        kept.drain(..excess);
    }
}

/// The file of a program: as given when it is a path, otherwise the first in `PATH`.
fn find(command: &str, cwd: &Path, path: Option<&OsString>) -> Option<PathBuf> {
    if command.contains('/') {
        let file = cwd.join(command);
        return file.is_file().then_some(file);
    }
    let folders = std::env::split_paths(path?).collect::<Vec<_>>();
    let files = folders.iter().map(|folder| cwd.join(folder).join(command));
    files.into_iter().find(|file| file.is_file())
}
