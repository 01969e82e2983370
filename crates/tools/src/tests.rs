use std::os::unix::fs::{PermissionsExt, symlink};

use orrery_agent::tool::Access;
use orrery_session::Json;
use serde_json::json;

use super::*;
use crate::fixture::{self, Workspace, meta};

#[test]
fn the_standard_tools_have_their_names_and_stable_plain_schemas() {
    let names: Vec<String> = standard_tools()
        .iter()
        .map(|t| t.definition().name)
        .collect();
    assert_eq!(
        names,
        ["list", "read", "write", "edit", "glob", "grep", "bash"]
    );
    for tool in standard_tools() {
        let schema = tool.definition().parameters;
        assert_eq!(schema, tool.definition().parameters);
        let value: serde_json::Value = schema.parse().unwrap();
        assert_eq!(value["type"], "object");
        assert_eq!(value["additionalProperties"], false);
        for field in value["properties"].as_object().unwrap().values() {
            assert!(
                field["description"].is_string() && field["type"].is_string(),
                "{field}"
            );
        }
    }
}

#[test]
fn arguments_with_an_unknown_field_or_no_object_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for tool in standard_tools() {
        for text in [
            r#"{"path":"a","command":"b","surprise":1}"#,
            r#""raw""#,
            "7",
        ] {
            let arguments = Json::from_text(text).unwrap();
            let error = tool.access(&arguments, dir.path()).unwrap_err();
            assert_eq!(error.code(), "INVALID_ARGS");
        }
    }
}

#[test]
fn access_tells_reading_writing_leaving_and_running_apart() {
    let work = Workspace::new();
    let other = tempfile::tempdir().unwrap();
    symlink(other.path(), work.path().join("out")).unwrap();
    let real = |path: &std::path::Path| path.canonicalize().unwrap();
    assert_eq!(work.access(&Read, json!({"path": "a"})), Access::Read);
    assert_eq!(work.access(&List, json!({})), Access::Read);
    assert_eq!(
        work.access(&Grep, json!({"pattern": "x", "path": "out"})),
        Access::Outside {
            paths: vec![real(other.path())],
            write: false
        }
    );
    assert_eq!(
        work.access(&Write, json!({"path": "d/new", "content": ""})),
        Access::Write(vec![real(work.path()).join("d/new")])
    );
    assert_eq!(
        work.access(
            &Edit,
            json!({"path": "out/f", "oldText": "a", "newText": "b"})
        ),
        Access::Outside {
            paths: vec![real(other.path()).join("f")],
            write: true
        }
    );
    let command = Access::Command("rm -r x".to_owned());
    assert_eq!(work.access(&Bash, json!({"command": "rm -r x"})), command);
}

#[tokio::test]
async fn read_numbers_lines_and_tells_how_to_go_on() {
    let work = Workspace::new();
    let lines: String = (1..=2_500).map(|n| format!("line {n}\n")).collect();
    work.put("long.txt", lines);
    work.put("crlf.txt", "a\r\nb");
    let first = work.text(Read, json!({"path": "long.txt"})).await;
    assert!(first.starts_with("     1\tline 1\n"));
    assert!(first.ends_with("(lines 1 to 2000 of 2500; pass offset 2001 for more)"));
    let rest = work
        .run(Read, json!({"path": "long.txt", "offset": 2001}))
        .await
        .unwrap();
    assert_eq!(
        meta(&rest),
        json!({"path": "long.txt", "firstLine": 2001, "lines": 500})
    );
    assert_eq!(
        work.text(Read, json!({"path": "crlf.txt"})).await,
        "     1\ta\n     2\tb\n"
    );
    assert_eq!(
        work.code(Read, json!({"path": "crlf.txt", "offset": 9}))
            .await,
        "INVALID_ARGS"
    );
}

#[tokio::test]
async fn read_bounds_its_answer_also_when_there_is_only_one_line() {
    let work = Workspace::new();
    work.put("one.txt", "x".repeat(3_000_000));
    work.put("wide.txt", format!("{}\n", "y".repeat(1_000)).repeat(1_000));
    let one = work.text(Read, json!({"path": "one.txt"})).await;
    assert!(one.len() < 5_000 && one.contains("(line cut)"));
    let wide = work.text(Read, json!({"path": "wide.txt"})).await;
    assert!(wide.len() < 300_000 && wide.contains("of 1000; pass offset"));
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_politely() {
    let work = Workspace::new();
    work.put("image.png", b"\x89PNG\0\0");
    work.put("empty", "");
    assert_eq!(
        work.code(Read, json!({"path": "image.png"})).await,
        "BINARY_FILE"
    );
    assert_eq!(work.code(Read, json!({"path": "."})).await, "IS_A_FOLDER");
    assert_eq!(
        work.code(Read, json!({"path": "/dev/zero"})).await,
        "NOT_A_FILE"
    );
    assert_eq!(work.code(Read, json!({"path": "none"})).await, "NOT_FOUND");
    assert_eq!(
        work.text(Read, json!({"path": "empty"})).await,
        "(the file is empty)"
    );
}

#[tokio::test]
async fn write_makes_folders_keeps_permissions_and_leaves_no_scraps() {
    let work = Workspace::new();
    let made = work
        .run(Write, json!({"path": "a/b/c.sh", "content": "one\n"}))
        .await
        .unwrap();
    assert_eq!(work.get("a/b/c.sh"), "one\n");
    assert!(meta(&made)["diff"].as_str().unwrap().contains("+one"));
    let file = work.path().join("a/b/c.sh");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o754)).unwrap();
    work.run(Write, json!({"path": "a/b/c.sh", "content": "two\n"}))
        .await
        .unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o754);
    assert_eq!(
        std::fs::read_dir(work.path().join("a/b")).unwrap().count(),
        1
    );
    assert_eq!(
        work.code(Write, json!({"path": "a", "content": ""})).await,
        "IS_A_FOLDER"
    );
}

#[tokio::test]
async fn writing_through_a_link_changes_its_target_and_keeps_the_link() {
    let work = Workspace::new();
    work.put("real.txt", "old");
    symlink("real.txt", work.path().join("link.txt")).unwrap();
    work.run(Write, json!({"path": "link.txt", "content": "new"}))
        .await
        .unwrap();
    assert_eq!(work.get("real.txt"), "new");
    assert!(work.path().join("link.txt").is_symlink());
}

#[tokio::test]
async fn edit_wants_one_match_unless_all_are_meant() {
    let work = Workspace::new();
    work.put("f.txt", "a b a\n");
    let edit = |old: &str, all: bool| json!({"path": "f.txt", "oldText": old, "newText": "z", "replaceAll": all});
    assert_eq!(work.code(Edit, edit("a", false)).await, "AMBIGUOUS_MATCH");
    assert_eq!(work.code(Edit, edit("q", false)).await, "NO_MATCH");
    assert_eq!(work.code(Edit, edit("", false)).await, "INVALID_ARGS");
    let done = work.run(Edit, edit("b", false)).await.unwrap();
    assert_eq!(work.get("f.txt"), "a z a\n");
    let diff = meta(&done)["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("-a b a\n+a z a\n"), "{diff}");
    work.run(Edit, edit("a", true)).await.unwrap();
    assert_eq!(work.get("f.txt"), "z z z\n");
}

#[tokio::test]
async fn edit_keeps_the_line_ends_of_the_file() {
    let work = Workspace::new();
    work.put("w.txt", "one\r\ntwo\r\nthree\r\n");
    let edit = json!({"path": "w.txt", "oldText": "one\ntwo", "newText": "1\n2\n2b"});
    work.run(Edit, edit).await.unwrap();
    assert_eq!(work.get("w.txt"), "1\r\n2\r\n2b\r\nthree\r\n");
    let edit = json!({"path": "w.txt", "oldText": "three", "newText": "3\n4"});
    work.run(Edit, edit).await.unwrap();
    assert_eq!(work.get("w.txt"), "1\r\n2\r\n2b\r\n3\r\n4\r\n");
}

#[tokio::test]
async fn searches_respect_ignore_rules_and_see_hidden_files() {
    let work = Workspace::new();
    work.put(".gitignore", "target/\n");
    work.put("target/out.rs", "needle");
    work.put(".git/config.rs", "needle");
    work.put(".hidden/a.rs", "needle");
    work.put("src/b.rs", "hay\nNeedle (x)\nneedle\n");
    work.put("src/c.bin", b"needle\0");
    let globbed = work.text(Glob, json!({"pattern": "**/*.rs"})).await;
    assert_eq!(globbed, ".hidden/a.rs\nsrc/b.rs\n(2 files)");
    let found = work.text(Grep, json!({"pattern": "^needle"})).await;
    assert_eq!(
        found,
        ".hidden/a.rs:1: needle\nsrc/b.rs:3: needle\n(2 matches in 2 files)"
    );
    let literal =
        json!({"pattern": "needle (x)", "literal": true, "ignoreCase": true, "path": "src/b.rs"});
    assert_eq!(
        work.text(Grep, literal).await,
        "src/b.rs:2: Needle (x)\n(1 match in 1 file)"
    );
    let filtered = json!({"pattern": "needle", "glob": "a.*"});
    assert_eq!(
        work.text(Grep, filtered).await,
        ".hidden/a.rs:1: needle\n(1 match in 1 file)"
    );
    assert_eq!(
        work.text(Grep, json!({"pattern": "x{0}none"})).await,
        "(0 matches)"
    );
    assert_eq!(
        work.code(Grep, json!({"pattern": "("})).await,
        "INVALID_ARGS"
    );
    let listed = work.text(List, json!({})).await;
    assert_eq!(listed, ".hidden/\nsrc/\n.gitignore (8 bytes)");
    let all = work.text(List, json!({"ignored": true})).await;
    assert_eq!(all, ".hidden/\nsrc/\ntarget/\n.gitignore (8 bytes)");
}

#[tokio::test]
async fn a_folder_that_is_ignored_from_above_shows_itself_when_asked_for() {
    let work = Workspace::new();
    work.put(".gitignore", "out/\n*.log\n");
    work.put("out/a.rs", "x");
    work.put("src/b.log", "x");
    work.put("src/c.rs", "x");
    let globbed = json!({"pattern": "**/*", "path": "out"});
    assert_eq!(work.text(Glob, globbed).await, "a.rs\n(1 file)");
    let globbed = json!({"pattern": "**/*", "path": "src"});
    assert_eq!(work.text(Glob, globbed).await, "c.rs\n(1 file)");
}

#[tokio::test]
async fn capped_answers_can_be_paged_to_their_end() {
    let work = Workspace::new();
    for n in 0..520 {
        work.put(&format!("f{n:04}.txt"), "x\nx\n");
    }
    let mut seen = 0;
    for (tool, next) in [("list", 500), ("glob", 500), ("grep", 200)] {
        let tools = standard_tools();
        let tool = tools.iter().find(|t| t.definition().name == tool).unwrap();
        let arguments = match next {
            200 => json!({"pattern": "x"}),
            _ if tool.definition().name == "glob" => json!({"pattern": "*"}),
            _ => json!({}),
        };
        let cx = orrery_agent::tool::ToolContext {
            call_id: orrery_session::CallId::new("c").unwrap(),
            session: orrery_session::SessionId::new("s").unwrap(),
            cwd: Arc::from(work.path()),
            cancel: work.cancel.clone(),
        };
        let output = tool
            .run(Json::from_value(&arguments).unwrap(), cx)
            .await
            .unwrap();
        let text = fixture::text(&output);
        assert!(text.contains(&format!("pass offset {next}")), "{text}");
        assert_eq!(meta(&output)["truncated"], true);
        seen += 1;
    }
    assert_eq!(seen, 3);
    let rest = work
        .text(Grep, json!({"pattern": "x", "offset": 1000}))
        .await;
    assert!(rest.ends_with("(1040 matches in 520 files)"), "{rest}");
}

#[tokio::test]
async fn bash_answers_output_and_errors_in_order_with_the_exit_code() {
    let work = Workspace::new();
    let run = work
        .run(
            Bash,
            json!({"command": "echo a; echo b >&2; echo c; pwd >/dev/null; exit 3"}),
        )
        .await
        .unwrap();
    assert_eq!(fixture::text(&run), "a\nb\nc\n(exit code 3)");
    assert!(run.is_error);
    assert_eq!(meta(&run)["exitCode"], 3);
    let quiet = work
        .run(Bash, json!({"command": "touch made"}))
        .await
        .unwrap();
    assert!(!quiet.is_error && work.path().join("made").exists());
    assert_eq!(fixture::text(&quiet), "(no output)");
}

#[tokio::test]
async fn bash_keeps_head_and_tail_of_a_flood() {
    let work = Workspace::new();
    let flood = json!({"command": "echo start; yes 0123456789 | head -c 20000000; echo end"});
    let run = work.run(Bash, flood).await.unwrap();
    let text = fixture::text(&run);
    assert!(text.starts_with("start\n") && text.ends_with("end"));
    assert!(text.chars().count() < 30_200, "{}", text.len());
    assert_eq!(meta(&run)["truncated"], true);
}

#[tokio::test]
async fn bash_takes_no_more_time_than_asked_for() {
    let work = Workspace::new();
    let run = work
        .run(
            Bash,
            json!({"command": "echo hi; sleep 100", "timeoutMs": 100}),
        )
        .await
        .unwrap();
    assert!(run.is_error);
    assert!(fixture::text(&run).contains("(killed: not done after 100 ms)"));
    assert_eq!(meta(&run)["exitCode"], serde_json::Value::Null);
    assert_eq!(
        work.code(Bash, json!({"command": "x", "timeoutMs": 600_001}))
            .await,
        "INVALID_ARGS"
    );
}
