//! Running a command line so that nothing of it stays behind.
//!
//! Owns the process group, the limits of time and output, and the ladder by which a group ends
//! (TERM, then KILL). Output and errors share one pipe, so that they come in the order they were
//! written; it is read all the time, and only its head and tail are kept. Processes that left the
//! group are found by a mark in their environment where the system shows it (Linux): best effort.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::environment;
use head_tail::HeadTail;

mod head_tail;

/// How long a group may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read after the shell has ended, when something keeps the pipe open.
const DRAIN: Duration = Duration::from_millis(200);
/// How often a group that is ending is looked at: the system tells nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The variable that marks every process of a call.
const MARK: &str = "ORRERY_CALL";

/// How a command line ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Output and errors, in the order they were written; head and tail when there was too much.
    pub(crate) output: String,
    /// Whether the middle of the output is missing.
    pub(crate) truncated: bool,
    /// Why it is over.
    pub(crate) end: End,
    /// Whether processes that it had left in the background were stopped.
    pub(crate) stopped_leftovers: bool,
    /// From start to end.
    pub(crate) duration: Duration,
}

/// Why a command line is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The shell ended.
    Exited(ExitStatus),
    /// It took too long and was killed.
    TimedOut,
    /// It was cancelled and killed.
    Cancelled,
}

/// Runs `bash -c line` in `cwd`; keeps at most `characters` of its output.
///
/// # Errors
///
/// The shell cannot be started, or its pipe not be made or read.
pub(crate) async fn run(
    line: &str,
    cwd: &Path,
    timeout: Duration,
    characters: usize,
    cancel: &CancellationToken,
) -> io::Result<Finished> {
    let started = Instant::now();
    let mark = fresh_mark();
    let (mut child, mut pipe) = spawn(line, cwd, &mark)?;
    let mut group = Group {
        over: false,
        id: child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
        mark: format!("{MARK}={mark}"),
    };
    let mut kept = HeadTail::new(characters);
    let mut open = true;
    let mut buffer = vec![0; 64 * 1024];

    let end = loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break End::Cancelled,
            () = sleep_until(started + timeout) => break End::TimedOut,
            status = child.wait() => break End::Exited(status?),
            read = pipe.read(&mut buffer), if open => {
                open = keep(&mut kept, &buffer, read?);
            }
        }
    };
    if matches!(end, End::Exited(_)) && open {
        // What the shell itself wrote is in the pipe by now; what others still write is not waited
        // for.
        let until = Instant::now() + DRAIN;
        while open {
            tokio::select! {
                biased;
                () = sleep_until(until) => break,
                read = pipe.read(&mut buffer) => open = keep(&mut kept, &buffer, read?),
            }
        }
    }
    let stopped_leftovers = {
        // The pipe is read on, or a process that cannot write would not get to end.
        let stop = stop(&group, &mut child, matches!(end, End::Exited(_)));
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                stopped = &mut stop => break stopped,
                read = pipe.read(&mut buffer), if open => {
                    open = match read {
                        Ok(count) => keep(&mut kept, &buffer, count),
                        Err(_no_more_to_read) => false,
                    };
                }
            }
        }
    };
    group.over = true;
    let (output, truncated) = kept.into_text();
    Ok(Finished {
        output,
        truncated,
        end,
        stopped_leftovers,
        duration: started.elapsed(),
    })
}

/// Keeps what was read; says whether there may be more.
fn keep(kept: &mut HeadTail, buffer: &[u8], count: usize) -> bool {
    kept.push(buffer.get(..count).unwrap_or_default());
    count > 0
}

fn spawn(line: &str, cwd: &Path, mark: &str) -> io::Result<(Child, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    let mut command = match setsid() {
        // A session of its own has no terminal: nobody can ask for a password there and hang. The
        // program becomes the shell, so that the shell's id is that of the group.
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg("bash");
            command
        }
        None => {
            let mut command = Command::new("bash");
            command.process_group(0);
            command
        }
    };
    let child = command
        .arg("-c")
        .arg(line)
        .current_dir(cwd)
        .env_clear()
        .envs(environment::for_commands())
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .kill_on_drop(true)
        .spawn()?;
    drop(command);
    // The command, and our copies of the pipe's writing end with it, are gone here: the pipe ends
    // when the processes do.
    Ok((child, pipe::Receiver::from_owned_fd(reader.into())?))
}

/// The program that starts a session, where the system has it.
fn setsid() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    let places = ["/usr/bin/setsid", "/bin/setsid"];
    *FOUND.get_or_init(|| places.into_iter().find(|place| Path::new(place).is_file()))
}

fn fresh_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let call = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{call}", std::process::id())
}

/// A process group that is killed when its owner is dropped half-way.
struct Group {
    /// Whether it was seen to its end.
    over: bool,
    id: Option<Pid>,
    /// `NAME=value`, as it stands in the environment of every process of the call.
    mark: String,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // That a process is gone already is what we want.
        if let Some(id) = self.id
            && let Err(error) = kill_process_group(id, signal)
        {
            tracing::trace!(%error, "no process group to signal");
        }
        for id in self.escaped() {
            if let Err(error) = kill_process(id, signal) {
                tracing::trace!(%error, "no process to signal");
            }
        }
    }

    /// Whether anything of the call still runs.
    fn alive(&self) -> bool {
        let in_group = self
            .id
            .is_some_and(|id| test_kill_process_group(id).is_ok() && self.has_running_members(id));
        in_group || !self.escaped().is_empty()
    }

    /// Dead processes that nobody has collected still count as members for the system.
    fn has_running_members(&self, group: Pid) -> bool {
        let Some(processes) = processes() else {
            return true;
        };
        let group = group.as_raw_nonzero().to_string();
        processes.into_iter().any(|id| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The name in parentheses may hold anything; state, parent and group stand behind it.
            let mut fields = stat
                .rsplit_once(')')
                .map_or("", |(_, after)| after)
                .split_whitespace();
            let state = fields.next();
            fields.nth(1) == Some(&group) && !matches!(state, Some("Z" | "X"))
        })
    }

    /// Processes with our mark outside of the group: those that started a session of their own.
    fn escaped(&self) -> Vec<Pid> {
        let processes = processes().unwrap_or_default();
        let marked = processes.into_iter().filter(|id| {
            // The environment of a dead or foreign process reads as nothing.
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == self.mark.as_bytes())
        });
        marked.filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            self.signal(Signal::KILL);
        }
    }
}

/// The ids of all processes that the system shows; `None` where it shows none.
fn processes() -> Option<Vec<i32>> {
    let folder = std::fs::read_dir("/proc").ok()?;
    let ids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let ids: Vec<i32> = ids.collect();
    (!ids.is_empty()).then_some(ids)
}

/// Ends what is left of a call. Says whether there was anything although the shell had ended.
async fn stop(group: &Group, child: &mut Child, shell_ended: bool) -> bool {
    if shell_ended && !group.alive() {
        return false;
    }
    group.signal(Signal::TERM);
    let until = Instant::now() + GRACE;
    let mut waits_for_shell = !shell_ended;
    while Instant::now() < until {
        if waits_for_shell && matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            waits_for_shell = false;
        }
        if !waits_for_shell && !group.alive() {
            return true;
        }
        sleep(LOOK_AGAIN).await;
    }
    group.signal(Signal::KILL);
    if waits_for_shell && let Err(error) = child.wait().await {
        tracing::warn!(%error, "the shell could not be waited for");
    }
    true
}

#[cfg(test)]
mod tests;
