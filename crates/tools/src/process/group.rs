//! Everything that one call started, so that it can be ended as a whole.
//!
//! Owns the process group and the mark in the environment by which processes that left the group
//! are found where the system shows it (Linux): best effort. Shared with programs that are
//! subagents, which end by the same ladder.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How often a group that is ending is looked at: the system tells nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long the system may take to end what was killed.
const KILLED: Duration = Duration::from_secs(5);
/// The variable that marks every process of a call.
const MARK: &str = "ORRERY_CALL";

/// What every process of a call has in its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// A mark that no other call of this process has.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let call = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}-{call}", std::process::id()))
    }

    /// Marks what a command starts.
    pub fn put_on(&self, command: &mut Command) {
        command.env(MARK, &self.0);
    }
}

/// A command that leads a session of its own, so that it has no terminal where nobody can answer,
/// and a process group of its own; where the system has no `setsid`, the group alone.
pub fn leader(program: &str) -> Command {
    if let Some(setsid) = setsid() {
        // The program takes the place of `setsid`, so its id is that of the group.
        let mut command = Command::new(setsid);
        command.arg(program);
        command
    } else {
        let mut command = Command::new(program);
        command.process_group(0);
        command
    }
}

/// The program that starts a session, where the system has it.
fn setsid() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    let places = ["/usr/bin/setsid", "/bin/setsid"];
    *FOUND.get_or_init(|| places.into_iter().find(|place| Path::new(place).is_file()))
}

/// A process group that is killed when its owner is dropped half-way.
#[derive(Debug)]
pub struct ProcessGroup {
    /// Whether it was seen to its end.
    over: bool,
    id: Option<Pid>,
    /// `NAME=value`, as it stands in the environment of every process of the call.
    mark: String,
}

impl ProcessGroup {
    /// The group of a child that was started as a [`leader`] with a mark.
    pub fn of(child: &Child, mark: &Mark) -> Self {
        Self {
            over: false,
            id: child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
            mark: format!("{MARK}={}", mark.0),
        }
    }

    /// The group's number.
    pub fn id(&self) -> Option<i32> {
        self.id.map(Pid::as_raw_nonzero).map(Into::into)
    }

    /// Says that it was seen to its end: nothing is left to kill.
    pub fn release(&mut self) {
        self.over = true;
    }

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
    pub fn alive(&self) -> bool {
        let in_group = self
            .id
            .is_some_and(|id| test_kill_process_group(id).is_ok() && self.has_running_members(id));
        in_group || !self.escaped().is_empty()
    }

    /// Ends what is left of a call: asks, waits for `grace`, then kills and collects. Says whether
    /// it had to kill.
    pub async fn stop(&self, child: &mut Child, grace: Duration) -> bool {
        self.signal(Signal::TERM);
        let until = Instant::now() + grace;
        let mut child_lives = true;
        while Instant::now() < until {
            child_lives = child_lives && !matches!(child.try_wait(), Ok(Some(_)) | Err(_));
            if !child_lives && !self.alive() {
                return false;
            }
            sleep(LOOK_AGAIN).await;
        }
        self.signal(Signal::KILL);
        if let Err(error) = child.wait().await {
            tracing::warn!(%error, "a process could not be waited for");
        }
        // Killed is not gone: it may have started another one in the same moment.
        let until = Instant::now() + KILLED;
        while self.alive() && Instant::now() < until {
            self.signal(Signal::KILL);
            sleep(LOOK_AGAIN).await;
        }
        true
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

impl Drop for ProcessGroup {
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
