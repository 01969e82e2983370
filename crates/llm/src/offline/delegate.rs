//! Sharing a summary out to subagents: one for each top folder, then one text of all answers.
//!
//! Owns the steps of the agent that shares out and those of each subagent. Every word about a
//! folder is what its subagent really answered.

use super::plan::{Answer, Call, Exchange, call, say};
use super::summary::{entries, kinds, note, path_of};
use super::talk::{self, Language};

/// The most subagents that are started in one step; a Host lets this many work at once.
const AT_ONCE: usize = 8;
/// Lines of a subagent's answer that are repeated.
const SHOWN_LINES: usize = 24;

/// The next step of sharing out.
pub(super) fn step(language: Language, done: &[Exchange]) -> Answer {
    let Some(list) = done.iter().find(|one| one.name == "list") else {
        return Answer {
            reasoning: language
                .say(
                    "First the top folder; then a subagent for each folder in it.",
                    "先看顶层目录，再给每个目录派一个子代理。",
                )
                .to_owned(),
            text: language
                .say("I look at the top first.\n", "我先看顶层目录。\n")
                .to_owned(),
            calls: vec![call("list", &[("path", ".".into())])],
            slow: false,
        };
    };
    let folders: Vec<&str> = match list.is_error {
        true => Vec::new(),
        false => {
            let (folders, _) = entries(&list.output);
            let visible = folders.into_iter().filter(|name| !name.starts_with('.'));
            visible.collect()
        }
    };
    if folders.is_empty() {
        let text = language.say(
            "There is no folder to share out.\n",
            "没有可以分派的目录。\n",
        );
        return say("", text);
    }
    let started = done.iter().filter(|one| one.name == "subagent").count();
    let next: Vec<Call> = folders
        .iter()
        .skip(started)
        .take(AT_ONCE)
        .map(|folder| delegate(language, folder))
        .collect();
    if next.is_empty() {
        return say(
            language.say("All answers are in.", "所有子代理都回答了。"),
            &merged(language, &folders, done),
        );
    }
    let text = match language {
        Language::English => format!("I start {} subagents and wait for them.\n", next.len()),
        Language::Chinese => format!("我启动 {} 个子代理并等待它们。\n", next.len()),
    };
    Answer {
        text,
        calls: next,
        ..Answer::default()
    }
}

fn delegate(language: Language, folder: &str) -> Call {
    let (label, prompt) = match language {
        Language::English => (
            format!("Summarise {folder}"),
            format!("Summarise the folder `{folder}`."),
        ),
        Language::Chinese => (format!("总结 {folder}"), format!("总结文件夹 `{folder}`。")),
    };
    call(
        "subagent",
        &[
            ("description", label.into()),
            ("prompt", prompt.into()),
            ("run_in_background", false.into()),
        ],
    )
}

fn merged(language: Language, folders: &[&str], done: &[Exchange]) -> String {
    let answers = done.iter().filter(|one| one.name == "subagent");
    let mut out = match language {
        Language::English => format!("## {} folders, by as many subagents\n", folders.len()),
        Language::Chinese => format!("## {} 个目录，各由一个子代理总结\n", folders.len()),
    };
    for (folder, answer) in folders.iter().zip(answers) {
        out.push_str(&format!("\n### `{folder}/`\n\n"));
        let said = answer.output.trim();
        if answer.is_error {
            let failed = language.say("The subagent did not get there:", "子代理没有完成：");
            out.push_str(&format!("{failed}\n\n{}", talk::fenced(said, 6, language)));
            continue;
        }
        for line in said.lines().take(SHOWN_LINES) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The next step of a subagent that looks into one folder.
pub(super) fn look_into(language: Language, path: &str, done: &[Exchange]) -> Answer {
    if done.is_empty() {
        let pattern = format!("{}/**/*", path.trim_end_matches('/'));
        let calls = vec![
            call("list", &[("path", path.into())]),
            call("glob", &[("pattern", pattern.into())]),
            call(
                "grep",
                &[("pattern", "TODO|FIXME".into()), ("path", path.into())],
            ),
        ];
        let reasoning = match language {
            Language::English => format!("I look into `{path}` and count what is below it."),
            Language::Chinese => format!("查看 `{path}` 并统计其中的文件。"),
        };
        return Answer {
            reasoning,
            calls,
            ..Answer::default()
        };
    }
    let of = |name: &str| done.iter().find(|one| one.name == name && !one.is_error);
    let Some(list) = of("list") else {
        let said = done.first().map_or("", |one| one.output.as_str());
        let headline = language.say("I could not look into the folder:", "无法查看目录：");
        return say(
            "",
            &format!("{headline}\n\n{}", talk::fenced(said, 6, language)),
        );
    };
    let (folders, files) = entries(&list.output);
    let names: Vec<String> = folders
        .iter()
        .map(|name| format!("`{name}/`"))
        .chain(files.iter().map(|name| format!("`{name}`")))
        .collect();
    let shown = path_of(&list.arguments);
    let mut out = match language {
        Language::English => format!(
            "`{shown}` holds {} folders and {} files: {}.\n",
            folders.len(),
            files.len(),
            names.join(", ")
        ),
        Language::Chinese => format!(
            "`{shown}` 有 {} 个目录和 {} 个文件：{}。\n",
            folders.len(),
            files.len(),
            names.join("、")
        ),
    };
    if let Some(glob) = of("glob") {
        let kinds: Vec<String> = kinds(&glob.output)
            .into_iter()
            .take(5)
            .map(|(kind, count)| format!("`{kind}` {count}"))
            .collect();
        let label = language.say("Below it", "其下共");
        out.push_str(&format!(
            "{label}: {} ({})\n",
            note(&glob.output),
            kinds.join(", ")
        ));
    }
    if let Some(grep) = of("grep") {
        let label = language.say("Open notes (TODO, FIXME)", "待办标记（TODO、FIXME）");
        out.push_str(&format!("{label}: {}\n", note(&grep.output)));
    }
    say(language.say("That is enough.", "足够了。"), &out)
}
