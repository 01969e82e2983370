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
kill -TERM -- "-$group" 2>/dev/null
sleep 1
kill -KILL -- "-$group" 2>/dev/null
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
