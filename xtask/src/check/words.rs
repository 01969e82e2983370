//! Words that must not be committed: paths of somebody's machine, leftovers of a merge, keys.

use std::fs;

use regex::Regex;

use super::Complaints;
use crate::house::{root, tracked};

/// Home folders of nobody in particular, for tests and examples.
const NOBODY: &[&str] = &["dev", "user", "me", "you", "x", "xy"];
/// The one file that may look beside the checkout.
const CI: &str = ".ci/run";

pub(super) fn check() -> anyhow::Result<Complaints> {
    let root = root()?;
    let here = root.display().to_string();
    let home = Regex::new(r"/(?:home|Users)/([A-Za-z0-9._-]+)")?;
    // Spelt in pieces, so that this file does not complain about itself.
    let merge = Regex::new(&format!("^(?:{}|{})", "<".repeat(7), ">".repeat(7)))?;
    let beside = ["..", "shared"].join("/");
    let key = Regex::new(r"\b(?:sk-[A-Za-z0-9]{20,}|ghp_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16})\b")?;
    let mut complaints = Complaints::new();
    for file in tracked()? {
        let Ok(text) = fs::read_to_string(root.join(&file)) else {
            // Not text: a picture has no words.
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            let mut complain = |what: &str| complaints.push(format!("{file}:{number}: {what}"));
            if line.contains(&here) {
                complain("names this checkout's folder");
            }
            if home.captures_iter(line).any(|c| !NOBODY.contains(&&c[1])) {
                complain("names somebody's home folder");
            }
            if line.contains(&beside) && file != CI {
                complain("looks beside the checkout");
            }
            if merge.is_match(line) {
                complain("is a leftover of a merge");
            }
            if key.is_match(line) {
                complain("looks like a key");
            }
            if line.ends_with([' ', '\t']) && !file.ends_with(".md") {
                complain("ends in a blank");
            }
        }
    }
    Ok(complaints)
}
