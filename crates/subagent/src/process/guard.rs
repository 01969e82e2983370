//! What ends a program when the Host dies without a word (`kill -9`, a crash).
//!
//! A small shell that waits at a pipe whose other end the Host holds: however the Host ends, the
//! system closes the pipe, and the shell ends the program's group. It needs no unsafe code and works
//! on every Unix; a program that reads its input sees the same end of file at the same moment.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

const SCRIPT: &str = r#"
read -r group || exit 0
cat >/dev/null
kill -s TERM -- "-$group" 2>/dev/null
sleep 1
kill -s KILL -- "-$group" 2>/dev/null
"#;

/// Watches over one group as long as it is held.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// A guard that watches nothing yet. It is made before what it watches, so that there is no
    /// moment without one.
    pub(super) fn new() -> std::io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", SCRIPT])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to the Host's group does not reach it.
            .process_group(0)
            .kill_on_drop(true);
        let mut shell = shell.spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// Watches a group from now on.
    pub(super) async fn watch(&mut self, group: i32) -> std::io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(format!("{group}\n").as_bytes()).await,
            None => Ok(()),
        }
    }

    /// The group is gone: nobody is to be killed in its name.
    pub(super) async fn dismiss(mut self) {
        if let Err(error) = self.shell.kill().await {
            tracing::debug!(%error, "a guard had ended before");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use orrery_tools::process::group::{Mark, ProcessGroup, leader};

    use super::*;

    async fn until(wanted: impl Fn() -> bool, line: &str) {
        let begin = Instant::now();
        while !wanted() {
            assert!(begin.elapsed() < Duration::from_secs(10), "{line}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_group_ends_when_the_host_does_even_one_that_ignores_the_polite_signal() {
        for line in ["sleep 600", "trap '' TERM; while :; do sleep 600; done"] {
            let mut guard = Guard::new().unwrap();
            let mark = Mark::fresh();
            let mut command = leader("sh");
            command.args(["-c", line]).stdin(Stdio::null());
            mark.put_on(&mut command);
            let mut child = command.spawn().unwrap();
            let mut group = ProcessGroup::of(&child, &mark);
            guard.watch(group.id().unwrap()).await.unwrap();
            // Its mark is seen once it runs what it was started for.
            until(|| group.alive(), line).await;
            // What the system does with the pipes of a Host that is gone.
            guard.pipe = None;
            let status = child.wait().await.unwrap();
            assert!(!status.success(), "{line}: {status}");
            guard.shell.wait().await.unwrap();
            // What was killed is there until somebody has taken note of it.
            until(|| !group.alive(), line).await;
            group.release();
        }
    }

    #[tokio::test]
    async fn a_guard_that_is_dismissed_ends_nobody() {
        let mut guard = Guard::new().unwrap();
        let mark = Mark::fresh();
        let mut command = leader("sleep");
        command.arg("600").kill_on_drop(true);
        mark.put_on(&mut command);
        let mut child = command.spawn().unwrap();
        let group = ProcessGroup::of(&child, &mark);
        guard.watch(group.id().unwrap()).await.unwrap();
        guard.dismiss().await;
        until(|| group.alive(), "sleep").await;
        drop(group);
        assert!(!child.wait().await.unwrap().success());
    }
}
