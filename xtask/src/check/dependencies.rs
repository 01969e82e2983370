//! What foreign packages bring along: their licences, and themselves more than once.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use spdx::{Expression, ParseMode};

use super::Complaints;
use super::graph::Graph;
use crate::house::root;

/// The licences that may be linked into a program under MIT or Apache-2.0.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Packages that are allowed to be there in several versions, with the reason.
const DUPLICATES: &str = "xtask/duplicates.txt";

/// Complains about packages that leave us no allowed licence.
pub(super) fn licences(graph: &Graph) -> anyhow::Result<Complaints> {
    let mut complaints = Complaints::new();
    for package in graph.foreign() {
        let name = format!("{} {}", package.name, package.version);
        match &package.license {
            None => complaints.push(format!("{name} names no licence")),
            Some(text) if !allowed(text)? => {
                complaints.push(format!("{name} is under {text}, which is not on the list"));
            }
            Some(_) => {}
        }
    }
    Ok(complaints)
}

fn allowed(text: &str) -> anyhow::Result<bool> {
    let expression = Expression::parse_mode(text, ParseMode::LAX)
        .with_context(|| format!("the licence `{text}`"))?;
    Ok(expression.evaluate(|wanted| {
        let id = wanted.license.id();
        // An exception only ever grants more.
        id.is_some_and(|id| LICENCES.contains(&id.name))
    }))
}

/// Complains about packages in several versions that are not on the list, and about a stale list.
pub(super) fn duplicates(graph: &Graph) -> anyhow::Result<Complaints> {
    let list = fs::read_to_string(root()?.join(DUPLICATES))
        .with_context(|| format!("reading {DUPLICATES}"))?;
    let mut listed: BTreeMap<&str, &str> = BTreeMap::new();
    for line in list.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, reason) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("{DUPLICATES}: `{line}` gives no reason"))?;
        listed.insert(name, reason);
    }
    let mut complaints = Complaints::new();
    for (name, versions) in graph.versions() {
        let versions: Vec<&str> = versions.into_iter().collect();
        let listed = listed.remove(name).is_some();
        if versions.len() > 1 && !listed {
            let versions = versions.join(", ");
            complaints.push(format!(
                "{name} is there in the versions {versions}; settle on one, or say why in {DUPLICATES}"
            ));
        }
        if versions.len() == 1 && listed {
            complaints.push(format!("{name} is there once; take it off {DUPLICATES}"));
        }
    }
    for name in listed.keys() {
        complaints.push(format!("{name} is not there; take it off {DUPLICATES}"));
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_with_one_allowed_licence_is_enough_and_a_sum_needs_all() {
        assert!(allowed("MIT OR GPL-3.0-only").unwrap());
        assert!(allowed("MIT/Apache-2.0").unwrap());
        assert!(allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only").unwrap());
        assert!(!allowed("MIT AND GPL-3.0-only").unwrap());
        assert!(!allowed("AGPL-3.0-only").unwrap());
    }
}
