//! What the offline demo says, in the language of the prompt.

/// The language of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

impl Language {
    /// Chinese as soon as the prompt holds a Chinese character outside of quotations of code.
    pub(super) fn of(prompt: &str) -> Self {
        let han = |c: char| matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}');
        if prompt.chars().any(han) {
            Self::Chinese
        } else {
            Self::English
        }
    }

    /// The text in this language.
    pub(super) fn say<'a>(self, english: &'a str, chinese: &'a str) -> &'a str {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

/// Said once, at the start of the first answer of a session.
pub(super) fn introduction(language: Language) -> &'static str {
    language.say(
        "_I am the offline demo: simple rules and the real tools, not a language model._\n\n",
        "_我是离线演示：只有简单的规则和真实的工具，不是语言模型。_\n\n",
    )
}

/// Said in front of [`abilities`] to a prompt that fits no rule.
pub(super) fn lost(language: Language) -> &'static str {
    language.say("I do not understand that. ", "我没有听懂。")
}

/// What it can do.
pub(super) fn abilities(language: Language) -> &'static str {
    language.say(
        "These are the things I can really do here:\n\n\
         - `look around and summarise this project`\n\
         - `summarise this repository with subagents` (one for each folder)\n\
         - `list src` · `read README.md` · `search \"TODO\" in src`\n\
         - `how many rust files are there` · `count the lines of README.md`\n\
         - `create notes.md with content \"hello\"`\n\
         - `edit notes.md: replace \"hello\" with \"goodbye\"`\n\
         - ``run `git status` ``\n\
         - `count slowly to 50` (to try stopping me)\n\n\
         For anything else, configure a provider with a real model and select it.\n",
        "我在这里真正能做的是：\n\n\
         - `看看这个项目，总结一下`\n\
         - `用子代理总结这个项目`（每个目录一个）\n\
         - `列出 src` · `读取 README.md` · `在 src 里搜索 \"TODO\"`\n\
         - `有多少 rust 文件` · `统计 README.md 的行数`\n\
         - `创建 notes.md，内容为 \"你好\"`\n\
         - `把 notes.md 中的 \"你好\" 替换为 \"再见\"`\n\
         - ``运行 `git status` ``\n\
         - `慢慢数到 50`（可以用来试试“停止”）\n\n\
         其他事情请配置一个真正的模型并选择它。\n",
    )
}

/// A fenced block whose fence no line of the text can close; at most `most` lines of it.
pub(super) fn fenced(text: &str, most: usize, language: Language) -> String {
    let longest = text
        .lines()
        .map(|line| line.trim_start().chars().take_while(|c| *c == '`').count())
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let all = text.lines().count();
    let mut shown: Vec<&str> = text.lines().take(most).collect();
    while shown.last().is_some_and(|line| line.trim().is_empty()) {
        shown.pop();
    }
    let mut out = format!("{fence}text\n{}\n{fence}\n", shown.join("\n"));
    if all > most {
        let more = all - most;
        out.push_str(&match language {
            Language::English => format!("\n… and {more} more lines.\n"),
            Language::Chinese => format!("\n……还有 {more} 行。\n"),
        });
    }
    out
}
