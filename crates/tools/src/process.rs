//! Running a command line so that nothing of it stays behind.
//!
//! Owns the limits of time and output. Output and errors share one pipe, so that they come in the
//! order they were written; it is read all the time, and only its head and tail are kept. Leaves to
//! `group` how everything that was started is found and ended (TERM, then KILL).

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::environment;
use group::{Mark, ProcessGroup};
use head_tail::HeadTail;

pub mod group;
mod head_tail;

/// How long a group may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read after the shell has ended, when something keeps the pipe open.
const DRAIN: Duration = Duration::from_millis(200);

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
    let mark = Mark::fresh();
    let (mut child, mut pipe) = spawn(line, cwd, &mark)?;
    let mut group = ProcessGroup::of(&child, &mark);
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
    group.release();
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

fn spawn(line: &str, cwd: &Path, mark: &Mark) -> io::Result<(Child, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    let mut command = group::leader("bash");
    command
        .arg("-c")
        .arg(line)
        .current_dir(cwd)
        .env_clear()
        .envs(environment::for_commands())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .kill_on_drop(true);
    mark.put_on(&mut command);
    let child = command.spawn()?;
    drop(command);
    // The command, and our copies of the pipe's writing end with it, are gone here: the pipe ends
    // when the processes do.
    Ok((child, pipe::Receiver::from_owned_fd(reader.into())?))
}

/// Ends what is left of a call. Says whether there was anything although the shell had ended.
async fn stop(group: &ProcessGroup, child: &mut Child, shell_ended: bool) -> bool {
    if shell_ended && !group.alive() {
        return false;
    }
    group.stop(child, GRACE).await;
    true
}

#[cfg(test)]
mod tests;
