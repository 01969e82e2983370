//! Looking around a project: list, then read what describes it, then a written summary.
//!
//! Owns the three steps of that one intention. Everything it says is read off the tools' answers;
//! where a tool failed or was refused, the summary says so and goes without.

use std::collections::BTreeMap;

use super::plan::{Answer, Exchange, call, say};
use super::talk::{self, Language};

/// Files that tell what a project is, most telling first.
const TELLING: [&str; 12] = [
    "README.md",
    "README",
    "README.rst",
    "README.txt",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "pom.xml",
    "CMakeLists.txt",
    "Makefile",
    "ARCHITECTURE.md",
];
/// The most of them that are read.
const READ_MAX: usize = 4;
/// Lines asked for of each.
const READ_LINES: u64 = 60;
/// The most folders that are looked into.
const FOLDERS_MAX: usize = 5;
/// The most names that are told of each.
const NAMES_MAX: usize = 10;

/// The next step of looking around.
pub(super) fn step(language: Language, steps_done: usize, done: &[Exchange]) -> Answer {
    match steps_done {
        0 => Answer {
            reasoning: language
                .say(
                    "First the top folder; then the files that describe the project.",
                    "先看顶层目录，再读描述项目的文件。",
                )
                .to_owned(),
            text: language
                .say("I look around first.\n", "我先看一看。\n")
                .to_owned(),
            calls: vec![call("list", &[("path", ".".into())])],
            slow: false,
        },
        1 => look_closer(language, done),
        _ => say(
            language.say("That is enough for a summary.", "足够写总结了。"),
            &write_up(language, done),
        ),
    }
}

fn look_closer(language: Language, done: &[Exchange]) -> Answer {
    let Some(list) = done.iter().find(|one| one.name == "list" && !one.is_error) else {
        let said = done.last().map_or("", |one| one.output.as_str());
        let headline = language.say("I could not look into the folder:", "无法查看目录：");
        let text = format!("{headline}\n\n{}", talk::fenced(said, 10, language));
        return say("", &text);
    };
    let (folders, files) = entries(&list.output);
    if folders.is_empty() && files.is_empty() {
        return say(
            "",
            language.say("The folder is empty.\n", "这个目录是空的。\n"),
        );
    }
    let known = |name: &&&str| files.iter().any(|file| file.eq_ignore_ascii_case(name));
    let mut calls: Vec<_> = TELLING
        .iter()
        .filter(known)
        .take(READ_MAX)
        .map(|name| {
            let spelled = files.iter().find(|file| file.eq_ignore_ascii_case(name));
            let path = spelled.copied().unwrap_or(name);
            call(
                "read",
                &[("path", path.into()), ("limit", READ_LINES.into())],
            )
        })
        .collect();
    let visible = folders.iter().filter(|name| !name.starts_with('.'));
    calls.extend(
        visible
            .take(FOLDERS_MAX)
            .map(|name| call("list", &[("path", (*name).into())])),
    );
    calls.push(call("glob", &[("pattern", "**/*".into())]));
    calls.push(call("grep", &[("pattern", "TODO|FIXME".into())]));
    Answer {
        reasoning: match language {
            Language::English => format!(
                "{} folders and {} files. I read what describes them and count the rest.",
                folders.len(),
                files.len()
            ),
            Language::Chinese => format!(
                "共有 {} 个目录和 {} 个文件。接着读描述文件，再统计其余的。",
                folders.len(),
                files.len()
            ),
        },
        calls,
        ..Answer::default()
    }
}

fn write_up(language: Language, done: &[Exchange]) -> String {
    let english = language == Language::English;
    let mut out: Vec<String> = Vec::new();
    let good = |name: &'static str| done.iter().filter(move |e| e.name == name && !e.is_error);

    let reads: Vec<(String, String)> = good("read")
        .map(|one| (path_of(&one.arguments), unnumbered(&one.output)))
        .collect();
    let documents = reads.iter().filter(|(path, _)| path.ends_with(".md"));
    let title = documents.into_iter().find_map(|(_, text)| title(text));
    let heading = language.say("Project summary", "项目总结");
    out.push(match title {
        Some(title) => format!("## {heading}: {title}\n"),
        None => format!("## {heading}\n"),
    });
    if let Some(about) = reads.iter().find_map(|(path, text)| about(path, text)) {
        out.push(format!("{about}\n"));
    }

    if let Some(list) = good("list").next() {
        let (folders, files) = entries(&list.output);
        out.push(format!("### {}\n", language.say("Layout", "结构")));
        for folder in &folders {
            let inside = good("list").find(|one| path_of(&one.arguments) == *folder);
            out.push(format!("- `{folder}/`{}", names_in(inside)));
        }
        if !files.is_empty() {
            let names: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
            let label = language.say("files", "文件");
            out.push(format!("- {label}: {}", names.join(", ")));
        }
        out.push(String::new());
    }

    for (path, text) in &reads {
        if let Some(facts) = facts(path, text) {
            out.push(format!("**`{path}`**: {facts}\n"));
        }
    }

    if let Some(glob) = good("glob").next() {
        let kinds = kinds(&glob.output);
        out.push(format!(
            "### {}\n",
            language.say("Files by kind", "文件类型")
        ));
        out.push(
            language
                .say(
                    "| kind | files |\n|---|---:|",
                    "| 类型 | 数量 |\n|---|---:|",
                )
                .to_owned(),
        );
        for (kind, count) in kinds.iter().take(8) {
            out.push(format!("| `{kind}` | {count} |"));
        }
        let note = note(&glob.output);
        out.push(format!("\n{note}\n"));
    }
    if let Some(grep) = good("grep").next() {
        let note = note(&grep.output);
        let label = if english {
            "Open notes (TODO, FIXME)"
        } else {
            "待办标记（TODO、FIXME）"
        };
        out.push(format!("{label}: {note}\n"));
    }
    for failed in done.iter().filter(|one| one.is_error) {
        let why = failed.output.lines().next().unwrap_or_default();
        let label = language.say("Not looked at", "未能查看");
        out.push(format!("- {label} (`{}`): {why}", failed.name));
    }
    out.join("\n") + "\n"
}

/// Folders and files of a `list` answer: folders end in a slash, files have their size behind.
pub(super) fn entries(output: &str) -> (Vec<&str>, Vec<&str>) {
    let mut folders = Vec::new();
    let mut files = Vec::new();
    for line in output.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('(') {
            continue;
        }
        match line.strip_suffix('/') {
            Some(folder) => folders.push(folder),
            None => files.push(line.rsplit_once(" (").map_or(line, |(name, _)| name)),
        }
    }
    (folders, files)
}

/// What is in a folder that was looked into, in a few words.
fn names_in(list: Option<&Exchange>) -> String {
    let Some(list) = list else {
        return String::new();
    };
    let (folders, files) = entries(&list.output);
    let folders = folders.iter().map(|name| format!("`{name}/`"));
    let names: Vec<String> = folders
        .chain(files.iter().map(|name| format!("`{name}`")))
        .collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    let shown: Vec<String> = names.into_iter().take(NAMES_MAX).collect();
    format!(": {}{more}", shown.join(", "))
}

/// The closing note of an answer, without its parentheses.
pub(super) fn note(output: &str) -> &str {
    let last = output.trim_end().lines().last().unwrap_or_default();
    last.trim_start_matches('(').trim_end_matches(')')
}

pub(super) fn path_of(arguments: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(arguments).ok();
    let path = value.as_ref().and_then(|value| value.get("path")?.as_str());
    path.unwrap_or("?").to_owned()
}

/// The text of a `read` answer without its line numbers and its closing note.
fn unnumbered(output: &str) -> String {
    let numbered = output.lines().filter_map(|line| {
        let (number, text) = line.split_once('\t')?;
        number.trim().parse::<u64>().ok().map(|_| text)
    });
    numbered.collect::<Vec<_>>().join("\n")
}

/// How many lines a `read` answer tells of: its note says the total, else its last number does.
pub(super) fn line_count(output: &str) -> u64 {
    let mut lines = output.lines().rev();
    let total = lines.find_map(|line| {
        if let Some(note) = line.strip_prefix('(') {
            let (_, after) = note.split_once(" of ")?;
            let digits: String = after
                .chars()
                .filter(|c| *c != ',')
                .take_while(char::is_ascii_digit)
                .collect();
            return digits.parse().ok();
        }
        line.split_once('\t')?.0.trim().parse().ok()
    });
    total.unwrap_or(0)
}

fn title(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("# "))
        .map(str::trim)
}

/// The first paragraph of a README that is prose.
fn about(path: &str, text: &str) -> Option<String> {
    if !path.to_ascii_lowercase().contains("readme") {
        return None;
    }
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let prose = paragraphs.find(|paragraph| {
        let skip = ['#', '[', '!', '<', '|', '`', '=', '-'];
        !paragraph.is_empty() && !paragraph.starts_with(skip)
    })?;
    let line = prose.lines().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(400).collect();
    Some(if short.len() < line.len() {
        short + "…"
    } else {
        short
    })
}

/// A few facts out of a manifest, found line by line.
fn facts(path: &str, text: &str) -> Option<String> {
    let wanted: &[&str] = match path.rsplit('/').next()? {
        "Cargo.toml" | "pyproject.toml" => {
            &["name", "version", "edition", "description", "members"]
        }
        "package.json" => &["\"name\"", "\"version\"", "\"description\"", "\"main\""],
        "go.mod" => &["module", "go"],
        _ => return None,
    };
    let mut found = Vec::new();
    for key in wanted {
        let line = text.lines().map(str::trim).find(|line| {
            let rest = line.strip_prefix(key).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(['=', ':']) || path.ends_with("go.mod"))
        });
        found.extend(line.map(|line| format!("`{}`", line.trim_end_matches(','))));
    }
    (!found.is_empty()).then(|| found.join(" · "))
}

/// How many paths end in what, most frequent first.
pub(super) fn kinds(output: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in output
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('('))
    {
        let name = line.rsplit('/').next().unwrap_or(line);
        let kind = match name.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() => format!(".{ending}"),
            _ => name.to_owned(),
        };
        *counts.entry(kind).or_default() += 1;
    }
    let mut kinds: Vec<_> = counts.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    kinds
}
