//! File lengths: a file that nobody can read in one go wants to be two.

use std::fs;

use anyhow::Context;

use super::Complaints;
use crate::house::{root, say, tracked};

/// Lines above which a file is worth a second look.
const WARN: usize = 500;
/// Lines above which it is refused.
const FAIL: usize = 800;
/// What is written by programs is as long as it is.
const GENERATED: &str = "web/client/src/generated/";

pub(super) fn check() -> anyhow::Result<Complaints> {
    let root = root()?;
    let mut complaints = Complaints::new();
    for file in tracked()? {
        let code = [".rs", ".ts", ".tsx", ".mjs"]
            .iter()
            .any(|end| file.ends_with(end));
        if !code || file.starts_with(GENERATED) {
            continue;
        }
        let text = fs::read_to_string(root.join(&file)).with_context(|| file.clone())?;
        match text.lines().count() {
            lines if lines > FAIL => {
                complaints.push(format!("{file} has {lines} lines, {FAIL} are allowed"));
            }
            lines if lines > WARN => {
                say(&format!("  (long: {file} has {lines} lines)"));
            }
            _ => {}
        }
    }
    Ok(complaints)
}
