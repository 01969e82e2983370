//! Links between documents: each relative one must lead to a file, and to a heading in it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use regex::Regex;

use super::Complaints;
use crate::house::{root, tracked};

pub(super) fn check() -> anyhow::Result<Complaints> {
    let root = root()?;
    let link = Regex::new(r"\]\(<?([^)\s>]+)>?[^)]*\)")?;
    let mut complaints = Complaints::new();
    for file in tracked()?.iter().filter(|file| file.ends_with(".md")) {
        let text = read(&root.join(file))?;
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        for (number, line) in outside_of_code(&text) {
            for found in link.captures_iter(&line) {
                let target = &found[1];
                if let Some(why) = dead(&root, file, folder, target)? {
                    complaints.push(format!("{file}:{number}: {target}: {why}"));
                }
            }
        }
    }
    Ok(complaints)
}

/// Why a link leads nowhere, if it does not.
fn dead(root: &Path, file: &str, folder: &Path, target: &str) -> anyhow::Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, heading) = match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    };
    let place = if path.is_empty() {
        root.join(file)
    } else {
        root.join(folder).join(path)
    };
    if !place.exists() {
        return Ok(Some("no such file".to_owned()));
    }
    let Some(heading) = heading else {
        return Ok(None);
    };
    if place.extension().is_none_or(|end| end != "md") {
        return Ok(None);
    }
    let text = read(&place)?;
    let found = outside_of_code(&text)
        .filter(|(_, line)| line.starts_with('#'))
        .any(|(_, line)| anchor(&line) == heading);
    Ok((!found).then(|| "no such heading".to_owned()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The lines with their numbers, without code blocks and code spans.
fn outside_of_code(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut inside = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            return None;
        }
        let heading = line.starts_with('#');
        // A heading keeps its spans: they are part of its anchor.
        let parts = line.split('`').enumerate();
        let kept: String = parts
            .filter(|(at, _)| heading || at % 2 == 0)
            .map(|(_, part)| part)
            .collect();
        (!inside).then_some((number, kept))
    })
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    title
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_becomes_its_anchor() {
        assert_eq!(anchor("## Exit codes, and `why`"), "exit-codes-and-why");
    }

    #[test]
    fn code_is_not_looked_at() {
        let text = "a `[x](y)` b\n```\n[x](y)\n```\n[z](w)";
        let lines: Vec<_> = outside_of_code(text).collect();
        assert_eq!(lines, [(1, "a  b".to_owned()), (5, "[z](w)".to_owned())]);
    }
}
