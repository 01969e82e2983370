use super::*;

fn search(pattern: &str, path: Option<&str>) -> Intent {
    Intent::Search {
        pattern: pattern.to_owned(),
        path: path.map(str::to_owned),
    }
}

#[test]
fn prompts_in_two_languages_are_understood() {
    let read_path = |path: &str| Intent::Read { path: path.into() };
    let list = |path: &str| Intent::List { path: path.into() };
    let run = |command: &str| Intent::Run {
        command: command.into(),
    };
    let cases = [
        ("Look around and summarise this project", Intent::Summarise),
        ("总结一下这个项目", Intent::Summarise),
        ("list src", list("src")),
        ("List the files", list(".")),
        ("列出 crates/llm", list("crates/llm")),
        ("read src/main.rs", read_path("src/main.rs")),
        ("Please show me `Cargo.toml`.", read_path("Cargo.toml")),
        ("读取README.md", read_path("README.md")),
        ("读取 说明.md", read_path("说明.md")),
        (
            "search \"fn main\" in crates",
            search("fn main", Some("crates")),
        ),
        ("grep TODO", search("TODO", None)),
        ("查找“会话”", search("会话", None)),
        ("run `cargo test`", run("cargo test")),
        ("run: ls -la", run("ls -la")),
        ("$ echo hi", run("echo hi")),
        ("执行 `date`", run("date")),
        ("run the tests", Intent::Unknown),
        ("count slowly to 50", Intent::CountTo(50)),
        ("慢慢数到 20", Intent::CountTo(20)),
        (
            "how many rust files are there?",
            Intent::CountFiles {
                glob: "**/*.rs".into(),
            },
        ),
        (
            "count the lines of src/lib.rs",
            Intent::CountLines {
                path: "src/lib.rs".into(),
            },
        ),
        ("hello", Intent::Help),
        ("你好", Intent::Help),
        ("sing a song", Intent::Unknown),
    ];
    for (prompt, intent) in cases {
        assert_eq!(read(prompt), intent, "{prompt}");
    }
}

#[test]
fn edits_and_writes_carry_their_texts() {
    let edit = Intent::Edit {
        path: "a.txt".into(),
        old: "x y".into(),
        new: "z".into(),
    };
    assert_eq!(read("edit a.txt: replace \"x y\" with \"z\""), edit);
    assert_eq!(read("把 a.txt 中的“x y”替换为“z”"), edit);
    let write = |content: &str| Intent::Write {
        path: "notes/b.md".into(),
        content: content.into(),
    };
    assert_eq!(read("create notes/b.md with content \"hi\""), write("hi\n"));
    assert_eq!(
        read("write notes/b.md with content\nline 1\nline 2"),
        write("line 1\nline 2\n")
    );
    assert_eq!(read("创建 notes/b.md，内容为“你好”"), write("你好\n"));
}
