//! A home of its own for each test, and the binary started in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A fresh home and a fresh project.
pub(crate) struct Place {
    scratch: TempDir,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("project")).unwrap();
        Self { scratch }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.scratch.path().join("project")
    }

    pub(crate) fn configure(&self, text: &str) {
        std::fs::create_dir_all(self.home()).unwrap();
        std::fs::write(self.home().join("config.toml"), text).unwrap();
    }

    /// The binary with arguments, in the project, with nobody at the terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.scratch.path())
            .env("ORRERY_HOME", self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Every session log under the default root.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let mut logs = Vec::new();
        collect(&self.home().join("data/sessions"), &mut logs);
        logs.sort();
        logs
    }
}

impl Done {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }

    /// Wants this exit code, and shows everything when it is another.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

fn collect(folder: &Path, logs: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, logs);
        } else if path
            .file_name()
            .is_some_and(|n| n.to_str().unwrap().starts_with("session.jsonl"))
        {
            logs.push(path);
        }
    }
}

/// Sends a signal by name to a process of this test.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}
