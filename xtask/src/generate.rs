//! Writes what is generated from the wire contract and from the program, or says that it is stale.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use orrery_api::emit;

use crate::house::{cargo, output, root};

/// Writes `docs/openapi.json`, `docs/api-reference.md` and the TypeScript contract of the web client.
///
/// With `check` nothing is written; the chore fails when a file is not what it would write.
pub(crate) fn generate(check: bool) -> anyhow::Result<()> {
    let root = root()?;
    let files = [
        ("docs/openapi.json", emit::openapi()),
        ("docs/api-reference.md", emit::reference()),
        ("web/client/src/generated/contract.ts", emit::typescript()),
        ("docs/config.md", reference("config")?),
        ("docs/cli.md", reference("cli")?),
    ];
    let mut stale = Vec::new();
    for (name, text) in files {
        let path = root.join(name);
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            continue;
        }
        if check {
            stale.push(name);
        } else {
            write(&path, &text)?;
        }
    }
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask generate`", stale.join(", "));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// A page that the program itself prints.
fn reference(page: &str) -> anyhow::Result<String> {
    let program = ["run", "--quiet", "--package", "orrery", "--"];
    output(&cargo(), &[&program[..], &["reference", page]].concat())
}
