//! What a prompt asks for, by simple rules on English and Chinese words.
//!
//! Owns the reading of the prompt, nothing else: no tools, no files. The rules are tried from the
//! most to the least specific, and what fits none is [`Intent::Unknown`].

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// Look around and describe the project.
    Summarise,
    /// Share a summary out to subagents, one for each top folder.
    Delegate,
    /// Describe one folder.
    LookInto { path: String },
    /// Show a folder.
    List { path: String },
    /// Show a file.
    Read { path: String },
    /// Find a text or a regular expression.
    Search {
        pattern: String,
        path: Option<String>,
    },
    /// Count the files that fit a glob.
    CountFiles { glob: String },
    /// Count the lines of a file.
    CountLines { path: String },
    /// Replace one text by another.
    Edit {
        path: String,
        old: String,
        new: String,
    },
    /// Write a whole file.
    Write { path: String, content: String },
    /// Run a command line.
    Run { command: String },
    /// Say the numbers up to here, slowly.
    CountTo(u32),
    /// Be greeted, or told what can be done.
    Help,
    /// Nothing that the rules know.
    Unknown,
}

/// The most numbers that `count slowly` says.
const COUNT_MAX: u32 = 10_000;

/// Reads a prompt.
pub(super) fn read(prompt: &str) -> Intent {
    let text = Prompt::new(prompt.trim());
    None.or_else(|| text.count_to())
        .or_else(|| text.delegate())
        .or_else(|| text.look_into())
        .or_else(|| text.run())
        .or_else(|| text.edit())
        .or_else(|| text.write())
        .or_else(|| text.search())
        .or_else(|| text.count())
        .or_else(|| text.read_file())
        .or_else(|| text.list())
        .or_else(|| text.summarise())
        .or_else(|| text.help())
        .unwrap_or(Intent::Unknown)
}

struct Prompt<'a> {
    whole: &'a str,
    lower: String,
    /// What stands between quotation marks, in order.
    quoted: Vec<&'a str>,
    /// The rest, with a space for each quotation.
    rest: String,
    /// The lower-case ASCII words of the rest.
    words: Vec<String>,
}

impl<'a> Prompt<'a> {
    fn new(whole: &'a str) -> Self {
        let (quoted, rest) = quotations(whole);
        let words = rest
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        Self {
            whole,
            lower: whole.to_lowercase(),
            quoted,
            rest,
            words,
        }
    }

    /// Whether one of the English words or Chinese phrases occurs.
    fn says(&self, words: &[&str], phrases: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
            || phrases.iter().any(|phrase| self.lower.contains(phrase))
    }

    fn starts(&self, words: &[&str], phrases: &[&str]) -> bool {
        let mut said = self.words.iter().map(String::as_str);
        let first = said.find(|word| !matches!(*word, "please" | "can" | "could" | "you" | "now"));
        first.is_some_and(|word| words.contains(&word))
            || phrases.iter().any(|phrase| {
                let said = self.lower.trim_start_matches('请');
                said.starts_with(phrase)
            })
    }

    fn count_to(&self) -> Option<Intent> {
        let counts = self.starts(&["count"], &["慢慢数", "数到", "从1数", "从 1 数"]);
        let (_, after) = self
            .lower
            .rsplit_once(" to ")
            .or_else(|| self.lower.rsplit_once('到'))?;
        let digits: String = after
            .trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let number: u32 = digits.parse().ok()?;
        (counts && number > 0).then_some(Intent::CountTo(number.min(COUNT_MAX)))
    }

    fn run(&self) -> Option<Intent> {
        let command = |text: &str| {
            let command = text.trim();
            (!command.is_empty()).then(|| Intent::Run {
                command: command.to_owned(),
            })
        };
        if let Some(line) = self.whole.strip_prefix("$ ") {
            return command(line);
        }
        if !self.starts(&["run", "execute"], &["运行", "执行"]) {
            return None;
        }
        if let Some(quoted) = self.quoted.first() {
            return command(quoted);
        }
        let verbs = ["run", "execute", "运行", "执行"];
        let start = verbs
            .iter()
            .find_map(|verb| self.lower.find(verb).map(|at| at + verb.len()))?;
        let after = self.whole.get(start..)?.trim_start();
        if let Some(line) = after.strip_prefix([':', '：']) {
            return command(line);
        }
        // "run the tests" is a wish, not a command line.
        let first = after.split_whitespace().next()?;
        let wish = ["the", "a", "an", "all", "my", "some", "it", "this", "that"];
        (first.is_ascii() && !wish.contains(&first))
            .then(|| command(after))
            .flatten()
    }

    fn edit(&self) -> Option<Intent> {
        let wants = self.says(
            &["replace", "change", "rename", "substitute"],
            &["替换", "改成", "改为", "换成"],
        );
        let [old, new, ..] = self.texts()[..] else {
            return None;
        };
        wants.then_some(())?;
        Some(Intent::Edit {
            path: self.path()?,
            old: old.to_owned(),
            new: new.to_owned(),
        })
    }

    fn write(&self) -> Option<Intent> {
        let wants = self.starts(
            &["write", "create", "make", "add"],
            &["写", "创建", "新建", "把", "在"],
        );
        if !wants {
            return None;
        }
        let path = self.path()?;
        let fenced = self.whole.split_once("```").and_then(|(_, after)| {
            let (_language, body) = after.split_once('\n')?;
            body.split_once("```").map(|(body, _)| body.to_owned())
        });
        let marks = [
            "with the content",
            "with content",
            "with the text",
            "containing",
            "that says",
            "saying",
            "content",
            "内容为",
            "内容是",
            "内容",
            "写入",
        ];
        let after_mark = || {
            let end = marks
                .iter()
                .find_map(|mark| self.lower.find(mark).map(|at| at + mark.len()))?;
            // Lower-casing may move borders in rare scripts: then the quotation decides alone.
            let rest = self.whole.get(end..)?;
            let rest = rest.trim_start_matches([':', '：', ' ', '为', '是']);
            let rest = rest.strip_prefix('\n').unwrap_or(rest);
            (!rest.is_empty()).then(|| rest.to_owned())
        };
        let content = fenced
            .or_else(|| self.texts().first().map(|text| (*text).to_owned()))
            .or_else(after_mark)?;
        let content = if content.ends_with('\n') {
            content
        } else {
            content + "\n"
        };
        Some(Intent::Write { path, content })
    }

    fn search(&self) -> Option<Intent> {
        let verbs = ["search", "grep", "find"];
        let phrases = ["搜索", "查找", "搜一下", "搜", "look for", "where is"];
        if !self.says(&verbs, &phrases) {
            return None;
        }
        let in_path = || {
            let (_, after) = self.rest.rsplit_once(" in ")?;
            let word = after.split_whitespace().next()?;
            path_in(word).or_else(|| folder_name(word))
        };
        if let Some(text) = self.quoted.first() {
            return Some(Intent::Search {
                pattern: (*text).to_owned(),
                path: in_path(),
            });
        }
        // Without quotation marks only the plain form counts: the verb, then one word.
        let mut words = self.whole.split_whitespace();
        let verb = words.next()?.to_lowercase();
        let known = verbs.contains(&verb.as_str()) || phrases.contains(&verb.as_str());
        let word = words.find(|word| *word != "for")?;
        known.then(|| Intent::Search {
            pattern: word.to_owned(),
            path: in_path(),
        })
    }

    fn count(&self) -> Option<Intent> {
        if !self.says(&["count", "many"], &["多少", "统计", "几个", "几行"]) {
            return None;
        }
        if self.says(&["line", "lines"], &["行"]) {
            return self.path().map(|path| Intent::CountLines { path });
        }
        if !self.says(&["file", "files"], &["文件"]) {
            return None;
        }
        let glob = self.quoted.iter().find(|text| text.contains('*'));
        let glob = glob.map(|glob| (*glob).to_owned()).or_else(|| {
            let mut words = self.rest.split_whitespace();
            words.find(|word| word.contains('*')).map(str::to_owned)
        });
        let by_kind = || {
            let kinds = [
                ("rust", "rs"),
                ("python", "py"),
                ("typescript", "ts"),
                ("javascript", "js"),
                ("markdown", "md"),
                ("java", "java"),
                ("go", "go"),
                ("json", "json"),
                ("toml", "toml"),
                ("yaml", "yaml"),
                ("html", "html"),
                ("css", "css"),
            ];
            let by_name = kinds.iter().find(|(name, _)| self.says(&[name], &[]));
            let by_ending = self.rest.split_whitespace().find_map(|word| {
                let ending = word.strip_prefix('.')?;
                let plain = ending.chars().all(|c| c.is_ascii_alphanumeric());
                (plain && !ending.is_empty()).then_some(ending)
            });
            let ending = by_ending.or(by_name.map(|(_, ending)| *ending))?;
            Some(format!("**/*.{ending}"))
        };
        let glob = glob.or_else(by_kind).unwrap_or_else(|| "**/*".to_owned());
        Some(Intent::CountFiles { glob })
    }

    fn read_file(&self) -> Option<Intent> {
        let wants = self.says(
            &[
                "read",
                "show",
                "open",
                "cat",
                "print",
                "display",
                "view",
                "summarise",
                "summarize",
            ],
            &["读", "查看", "打开", "看看", "看一下", "显示"],
        );
        let path = self.path().filter(|path| !path.ends_with('/'))?;
        let only_a_path = self.rest.split_whitespace().count() == 1;
        (wants || only_a_path).then_some(Intent::Read { path })
    }

    fn list(&self) -> Option<Intent> {
        if !self.says(
            &["list", "ls", "dir"],
            &["列出", "目录", "有哪些文件", "what files"],
        ) {
            return None;
        }
        let named = || {
            let filler = [
                "list",
                "ls",
                "dir",
                "the",
                "files",
                "file",
                "folder",
                "directory",
                "in",
                "of",
                "all",
                "me",
                "please",
                "contents",
                "content",
                "here",
                "this",
                "what",
                "are",
            ];
            let mut words = self.rest.split_whitespace();
            let word = words
                .find(|word| word.is_ascii() && !filler.contains(&word.to_lowercase().as_str()))?;
            folder_name(word)
        };
        let path = self.path().or_else(named).unwrap_or_else(|| ".".to_owned());
        Some(Intent::List { path })
    }

    fn delegate(&self) -> Option<Intent> {
        let wants = self.says(
            &["subagent", "subagents", "delegate"],
            &["子代理", "分派", "委派"],
        );
        (wants && self.summarise().is_some()).then_some(Intent::Delegate)
    }

    fn look_into(&self) -> Option<Intent> {
        let begins = [
            "summarise the folder `",
            "summarize the folder `",
            "总结文件夹 `",
        ];
        let wants = begins.iter().any(|begin| self.lower.starts_with(begin));
        let path = self.quoted.first().filter(|_| wants)?;
        Some(Intent::LookInto {
            path: (*path).to_owned(),
        })
    }

    fn summarise(&self) -> Option<Intent> {
        let wants = self.says(
            &[
                "summarise",
                "summarize",
                "summary",
                "overview",
                "describe",
                "structure",
                "explore",
                "analyse",
                "analyze",
                "architecture",
                "codebase",
                "around",
            ],
            &[
                "what is this",
                "tell me about",
                "explain this",
                "explain the",
                "this project",
                "this repo",
                "look around",
                "概述",
                "总结",
                "介绍",
                "项目",
                "了解",
                "分析",
                "结构",
                "看看",
            ],
        );
        wants.then_some(Intent::Summarise)
    }

    fn help(&self) -> Option<Intent> {
        let wants = self.says(
            &["hello", "hi", "hey", "help"],
            &[
                "what can you",
                "who are you",
                "你好",
                "您好",
                "帮助",
                "能做什么",
                "你是谁",
            ],
        );
        wants.then_some(Intent::Help)
    }

    /// The quotations that are no path of the sentence itself.
    fn texts(&self) -> Vec<&'a str> {
        let in_rest = self
            .rest
            .split_whitespace()
            .any(|word| path_in(word).is_some());
        let mut texts = self.quoted.clone();
        if !in_rest && texts.first().is_some_and(|first| path_in(first).is_some()) {
            texts.remove(0);
        }
        texts
    }

    /// The first thing that looks like a path, outside of quotations before inside.
    fn path(&self) -> Option<String> {
        let mut outside = self.rest.split_whitespace();
        outside
            .find_map(path_in)
            .or_else(|| self.quoted.iter().find_map(|text| path_in(text)))
    }
}

/// Takes quotations out of a text. A mark only opens where a word starts, so that "don't" has none.
fn quotations(text: &str) -> (Vec<&str>, String) {
    let partner = |mark| match mark {
        '"' | '`' | '\'' => Some(mark),
        '“' => Some('”'),
        '‘' => Some('’'),
        '「' => Some('」'),
        '『' => Some('』'),
        _ => None,
    };
    let mut quoted = Vec::new();
    let mut rest = String::new();
    let mut tail = text;
    while let Some(mark) = tail.chars().next() {
        let after = tail.get(mark.len_utf8()..).unwrap_or_default();
        let may_open = mark != '\'' || rest.chars().next_back().is_none_or(char::is_whitespace);
        let inner = partner(mark).filter(|_| may_open).and_then(|end| {
            let (inner, behind) = after.split_once(end)?;
            (!inner.is_empty()).then_some((inner, behind))
        });
        match inner {
            Some((inner, behind)) => {
                quoted.push(inner);
                rest.push(' ');
                tail = behind;
            }
            None => {
                rest.push(mark);
                tail = after;
            }
        }
    }
    (quoted, rest)
}

/// The path inside a word, if it looks like one: with a slash, an ending, or a well-known name.
fn path_in(word: &str) -> Option<String> {
    let verbs = [
        "请", "读取", "读", "查看", "打开", "看看", "显示", "列出", "把", "在", "创建", "新建",
        "写",
    ];
    let mut word = word;
    while let Some(rest) = verbs.iter().find_map(|verb| word.strip_prefix(verb)) {
        word = rest;
    }
    let ascii = |c: char| c.is_ascii_alphanumeric() || "._-/~+@".contains(c);
    let run = word.split(|c| !ascii(c)).find(|run| looks_like_path(run));
    // A name in Chinese has its ending only in the ASCII run: then the whole word is meant.
    let word = match run {
        Some(run) if !run.starts_with('.') || word.starts_with('.') => run,
        _ => word,
    };
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '，', '。', '：', '？']);
    let word = word.trim_start_matches(['(', ',']);
    looks_like_path(word).then(|| word.to_owned())
}

fn looks_like_path(word: &str) -> bool {
    const NAMES: [&str; 5] = ["README", "LICENSE", "Makefile", "Dockerfile", "CHANGELOG"];
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let ending = word.rsplit_once('.').map(|(_, ending)| ending);
    let has_ending = ending.is_some_and(|ending| {
        (1..=10).contains(&ending.len()) && ending.chars().all(|c| c.is_ascii_alphanumeric())
    });
    let clean = !word.contains(['*', '(', '{', '<', '"']) && !word.contains("://");
    clean
        && (NAMES.contains(&word)
            || (word.contains('/') && word.chars().any(|c| c != '/'))
            || (has_ending && word.len() > 2)
            || word == ".."
            || word == "/")
}

/// A plain word taken as the name of a folder.
fn folder_name(word: &str) -> Option<String> {
    let word = word.trim_end_matches([',', ';', ':', '!', '?']);
    let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    (!word.is_empty() && word.chars().all(plain)).then(|| word.to_owned())
}

#[cfg(test)]
mod tests;
