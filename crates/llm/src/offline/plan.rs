//! The next step of the offline demo: a pure function of the request.
//!
//! Owns what each intention does with the tools, step by step, and what it says about their
//! answers. No intention but sharing out takes more than three steps. Pace and framing are the parent's.

use orrery_session::{ContentBlock, Message, Role, Source};

use super::intent::{self, Intent};
use super::talk::{self, Language};
use super::{delegate, summary};
use crate::seam::LlmRequest;

/// Lines of a tool's answer that are repeated in ours.
const SHOWN_LINES: usize = 40;

/// One step's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// What it thinks.
    pub(super) reasoning: String,
    /// What it says.
    pub(super) text: String,
    /// Which tools it asks for; none ends the turn.
    pub(super) calls: Vec<Call>,
    /// Whether the text is to be said slowly.
    pub(super) slow: bool,
}

/// One tool that it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The tool's name.
    pub(super) name: &'static str,
    /// Its arguments as JSON text.
    pub(super) arguments: String,
}

/// A call of this turn with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The tool's name.
    pub(super) name: String,
    /// The arguments that were asked for.
    pub(super) arguments: String,
    /// What the tool answered.
    pub(super) output: String,
    /// Whether it failed or was refused.
    pub(super) is_error: bool,
}

/// Decides the next step.
pub(super) fn answer(request: &LlmRequest) -> Answer {
    let (prompt, so_far) = last_prompt(&request.messages);
    let language = Language::of(&prompt);
    let exchanges = exchanges(so_far);
    let steps_done = so_far.iter().filter(|m| m.role == Role::Assistant).count();
    let first_of_session = !request.messages.iter().any(|m| m.role == Role::Assistant);

    if let Some(notice) = notice(so_far) {
        return say("", &heard(language, &notice));
    }
    let mut answer = match intent::read(&prompt) {
        Intent::Unknown => say(
            language.say(
                "No rule of mine fits this prompt.",
                "没有规则适合这个请求。",
            ),
            &format!("{}{}", talk::lost(language), talk::abilities(language)),
        ),
        Intent::Help => say("", talk::abilities(language)),
        Intent::CountTo(most) => Answer {
            slow: true,
            text: (1..=most).map(|n| format!("{n} ")).collect(),
            ..Answer::default()
        },
        Intent::Summarise => summary::step(language, steps_done, &exchanges),
        Intent::Delegate => delegate::step(language, &exchanges),
        Intent::LookInto { path } => delegate::look_into(language, &path, &exchanges),
        single => match exchanges.as_slice() {
            [] if steps_done == 0 => ask(language, &single),
            [] => say("", language.say("No tool answered.\n", "没有工具回答。\n")),
            [.., last] => report(language, &single, last),
        },
    };
    let missing = answer.calls.iter().find(|call| {
        let mut offered = request.tools.iter();
        !offered.any(|tool| tool.name == call.name)
    });
    if let Some(call) = missing {
        let name = call.name;
        answer = say(
            "",
            &match language {
                Language::English => {
                    format!("That takes the tool `{name}`, which this session does not offer.\n")
                }
                Language::Chinese => format!("这需要工具 `{name}`，但本会话没有提供它。\n"),
            },
        );
    }
    if first_of_session {
        answer.text.insert_str(0, talk::introduction(language));
    }
    answer
}

/// An answer of words only.
pub(super) fn say(reasoning: &str, text: &str) -> Answer {
    Answer {
        reasoning: reasoning.to_owned(),
        text: text.to_owned(),
        ..Answer::default()
    }
}

/// A call; keys in the order given, so that the text is always the same.
pub(super) fn call(name: &'static str, arguments: &[(&str, serde_json::Value)]) -> Call {
    let fields = arguments
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"));
    let arguments = fields.collect::<Vec<_>>().join(",");
    Call {
        name,
        arguments: format!("{{{arguments}}}"),
    }
}

/// What was asked last by somebody else than a tool or the house, and what followed.
fn last_prompt(messages: &[Message]) -> (String, &[Message]) {
    let asks = |message: &&Message| {
        message.role == Role::User
            && from_somebody(&message.source)
            && !message.visible_text().trim().is_empty()
    };
    let at = messages.iter().rposition(|message| asks(&message));
    let (before, after) = messages.split_at(at.map_or(0, |at| at + 1));
    (
        before.last().map(Message::visible_text).unwrap_or_default(),
        after,
    )
}

/// Whether a message asks for something: a person's, or another agent's.
fn from_somebody(source: &Source) -> bool {
    match source {
        Source::Tool { .. } | Source::Plugin { .. } => false,
        Source::Other(_) => source.kind() == "agent-message",
        _ => true,
    }
}

/// What the house tells of something that ended, when nothing was said since.
fn notice(messages: &[Message]) -> Option<String> {
    let last = messages.last()?;
    let told = match &last.source {
        Source::Plugin { form, .. } => form.as_deref() == Some("notice"),
        Source::Other(_) => last.source.kind() == "subagent-settled",
        _ => false,
    };
    told.then(|| last.visible_text())
}

fn heard(language: Language, notice: &str) -> String {
    let headline = language.say("I was told:", "我收到通知：");
    format!(
        "{headline}\n\n{}",
        talk::fenced(notice, SHOWN_LINES, language)
    )
}

fn exchanges(messages: &[Message]) -> Vec<Exchange> {
    let blocks = || messages.iter().flat_map(|message| &message.content);
    let answers = blocks().filter_map(|block| match block {
        ContentBlock::ToolResult {
            tool_call_id,
            content,
            is_error,
        } => {
            let (name, arguments) = blocks().find_map(|block| match block {
                ContentBlock::ToolCall {
                    id,
                    name,
                    arguments,
                } if id == tool_call_id => Some((name.clone(), arguments.clone())),
                _ => None,
            })?;
            let texts: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
            Some(Exchange {
                name,
                arguments,
                output: texts.join("\n"),
                is_error: is_error.unwrap_or(false),
            })
        }
        _ => None,
    });
    answers.collect()
}

/// The first step of an intention that takes one tool.
fn ask(language: Language, intent: &Intent) -> Answer {
    let call = match intent {
        Intent::List { path } => call("list", &[("path", path.as_str().into())]),
        Intent::Read { path } | Intent::CountLines { path } => {
            call("read", &[("path", path.as_str().into())])
        }
        Intent::Search { pattern, path } => {
            let mut arguments = vec![
                ("pattern", pattern.as_str().into()),
                ("literal", true.into()),
            ];
            arguments.extend(path.as_deref().map(|path| ("path", path.into())));
            call("grep", &arguments)
        }
        Intent::CountFiles { glob } => call("glob", &[("pattern", glob.as_str().into())]),
        Intent::Edit { path, old, new } => call(
            "edit",
            &[
                ("path", path.as_str().into()),
                ("oldText", old.as_str().into()),
                ("newText", new.as_str().into()),
            ],
        ),
        Intent::Write { path, content } => call(
            "write",
            &[
                ("path", path.as_str().into()),
                ("content", content.as_str().into()),
            ],
        ),
        Intent::Run { command } => call("bash", &[("command", command.as_str().into())]),
        Intent::Summarise
        | Intent::Delegate
        | Intent::LookInto { .. }
        | Intent::CountTo(_)
        | Intent::Help
        | Intent::Unknown => {
            return Answer::default();
        }
    };
    let reasoning = match language {
        Language::English => format!(
            "The prompt asks for one thing, and the tool `{}` does it.",
            call.name
        ),
        Language::Chinese => format!("这个请求只需要一个工具：`{}`。", call.name),
    };
    Answer {
        reasoning,
        calls: vec![call],
        ..Answer::default()
    }
}

/// The second step of an intention that takes one tool: what came of it.
fn report(language: Language, intent: &Intent, last: &Exchange) -> Answer {
    let output = last.output.trim_end();
    let shown = || talk::fenced(output, SHOWN_LINES, language);
    if last.is_error {
        let headline = match (language, intent) {
            (Language::English, Intent::Run { .. }) => "The command did not succeed:".to_owned(),
            (Language::Chinese, Intent::Run { .. }) => "命令没有成功：".to_owned(),
            (Language::English, _) => format!("The tool `{}` could not do it:", last.name),
            (Language::Chinese, _) => format!("工具 `{}` 没有完成：", last.name),
        };
        return say("", &format!("{headline}\n\n{}", shown()));
    }
    let note = summary::note(output);
    let english = language == Language::English;
    let text = match intent {
        Intent::List { path } if english => format!("`{path}` holds:\n\n{}", shown()),
        Intent::List { path } => format!("`{path}` 中有：\n\n{}", shown()),
        Intent::Read { path } if english => format!("This is `{path}`:\n\n{}", shown()),
        Intent::Read { path } => format!("`{path}` 的内容：\n\n{}", shown()),
        Intent::Search { pattern, .. } if english => {
            format!("Searched for `{pattern}`:\n\n{}", shown())
        }
        Intent::Search { pattern, .. } => format!("搜索 `{pattern}` 的结果：\n\n{}", shown()),
        Intent::CountFiles { glob } if english => format!("For `{glob}`: {note}.\n"),
        Intent::CountFiles { glob } => format!("`{glob}`：{note}\n"),
        Intent::CountLines { path } => {
            let lines = summary::line_count(output);
            if english {
                format!("`{path}` has {lines} lines.\n")
            } else {
                format!("`{path}` 共有 {lines} 行。\n")
            }
        }
        Intent::Edit { path, .. } if english => format!("Changed `{path}`. {note}\n"),
        Intent::Edit { path, .. } => format!("已修改 `{path}`。{note}\n"),
        Intent::Write { path, .. } if english => format!("Wrote `{path}`. {note}\n"),
        Intent::Write { path, .. } => format!("已写入 `{path}`。{note}\n"),
        Intent::Run { .. } if output.is_empty() && english => {
            "It ran and printed nothing.\n".to_owned()
        }
        Intent::Run { .. } if output.is_empty() => "命令已运行，没有输出。\n".to_owned(),
        Intent::Run { .. } if english => format!("It ran. The output:\n\n{}", shown()),
        Intent::Run { .. } => format!("命令已运行，输出：\n\n{}", shown()),
        Intent::Summarise
        | Intent::Delegate
        | Intent::LookInto { .. }
        | Intent::CountTo(_)
        | Intent::Help
        | Intent::Unknown => String::new(),
    };
    say("", &text)
}
