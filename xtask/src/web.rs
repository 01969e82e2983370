//! The web side: its packages and its build, done only when they are out of date.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::house::{self, execute, find_program, program, root};

/// The oldest Node that the web side is built with.
const NODE_MAJOR_MIN: u32 = 20;
/// Says for which lock file the packages were installed.
const STAMP: &str = "web/node_modules/.installed-lock.json";

/// Where the built page lies.
const DIST: &str = "web/app/dist";

/// npm in the web folder.
pub(crate) fn npm(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = program("npm", arguments)?;
    command.current_dir(root()?.join("web"));
    Ok(command)
}

/// Installs the packages, if those of the lock file are not there.
pub(crate) fn install() -> anyhow::Result<()> {
    check_node()?;
    let root = root()?;
    let (lock, stamp) = (root.join("web/package-lock.json"), root.join(STAMP));
    let wanted = fs::read(&lock).with_context(|| format!("reading {}", lock.display()))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        house::say("the packages are there");
        return Ok(());
    }
    execute(&mut npm(&["ci", "--no-audit", "--no-fund"])?)?;
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))
}

/// Builds the page, if a source is newer than the last build.
pub(crate) fn build() -> anyhow::Result<()> {
    let root = root()?;
    let built = modified(&root.join("web/app/dist/index.html"));
    let mut newest = None;
    for file in house::tracked()?.iter().filter(|f| f.starts_with("web/")) {
        newest = newest.max(modified(&root.join(file)));
    }
    if built.is_some() && built > newest {
        house::say("the page is built");
        return Ok(());
    }
    rebuild()
}

/// Builds the page.
pub(crate) fn rebuild() -> anyhow::Result<()> {
    let before = built_files()?;
    execute(&mut npm(&["run", "build"])?)?;
    if built_files()? != before {
        embed_anew()?;
    }
    Ok(())
}

/// The names of the built files, in order.
fn built_files() -> anyhow::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    let mut folders = vec![root()?.join(DIST)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            // Not built yet.
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(path);
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Has cargo compile again what embeds the page. Cargo notices when an embedded file changes, but
/// not when one comes or goes, nor that a folder is there which was missing.
fn embed_anew() -> anyhow::Result<()> {
    let root = root()?;
    let mut found = false;
    for file in house::tracked()? {
        if !(file.starts_with("crates/") && file.ends_with(".rs")) {
            continue;
        }
        let path = root.join(&file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        if text.contains(DIST) {
            found = true;
            fs::File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()))
                .with_context(|| format!("touching {file}"))?;
        }
    }
    anyhow::ensure!(found, "no crate embeds {DIST}");
    Ok(())
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn check_node() -> anyhow::Result<()> {
    const NEED: &str = "Node 20 or newer, with npm, is needed to build the page: install it, then try \
                        again";
    if find_program(&["node"]).is_none() || find_program(&["npm"]).is_none() {
        bail!("{NEED}");
    }
    let version = house::output("node", &["--version"])?;
    let major = version.trim().trim_start_matches('v').split('.').next();
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= NODE_MAJOR_MIN => Ok(()),
        _ => bail!("{NEED} (found {})", version.trim()),
    }
}
