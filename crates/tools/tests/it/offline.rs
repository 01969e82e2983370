//! What the offline demo asks for is what the tools take, and what they answer is what it reads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use orrery_agent::tool::{ToolContext, ToolOutput};
use orrery_llm::{Adapter, Assembler, LlmRequest, Offline};
use orrery_session::payload::RequestConfig;
use orrery_session::{
    ContentBlock, FinishReason, Json, Message, MessageId, Role, SessionId, Source,
};
use orrery_tools::standard_tools;
use tokio_util::sync::CancellationToken;

/// More steps than any intention takes.
const STEPS_MAX: usize = 5;

fn id() -> MessageId {
    MessageId::new("m").unwrap()
}

/// Runs one prompt to its end and gives the last answer's text.
async fn talk(workspace: &Path, prompt: &str) -> String {
    let tools = standard_tools();
    let source = Source::User {
        rpc_id: None,
        client_time_zone: None,
    };
    let mut messages = vec![Message::user(
        id(),
        vec![ContentBlock::text(prompt)],
        source,
    )];
    for _ in 0..STEPS_MAX {
        let request = LlmRequest {
            config: RequestConfig {
                provider: "offline".into(),
                model: "demo".into(),
                reasoning_effort: None,
                temperature: None,
                max_tokens: None,
                stop: None,
            },
            system: None,
            tools: tools.iter().map(|tool| tool.definition()).collect(),
            messages: messages.clone(),
            session_id: SessionId::new("s").unwrap(),
        };
        let mut stream = Offline::new(Duration::ZERO).stream(request, CancellationToken::new());
        let mut assembler = Assembler::new();
        while let Some(chunk) = stream.next().await {
            assembler.push(&chunk);
        }
        let answer = assembler.finish();
        messages.push(Message {
            role: Role::Assistant,
            content: answer.content.clone(),
            source: Source::Model {
                provider: "offline".into(),
                model: "demo".into(),
                replay_state: None,
            },
            id: id(),
        });
        if answer.reason == FinishReason::Stop {
            return messages.last().unwrap().visible_text();
        }
        for (call, name, arguments) in answer.tool_calls() {
            let tool = tools
                .iter()
                .find(|tool| tool.definition().name == name)
                .unwrap();
            let cx = ToolContext {
                call_id: call.clone(),
                session: SessionId::new("s").unwrap(),
                cwd: Arc::from(workspace),
                cancel: CancellationToken::new(),
            };
            let arguments = Json::from_text(arguments).unwrap();
            let output = match tool.run(arguments, cx).await {
                Ok(output) => output,
                Err(error) => ToolOutput {
                    is_error: true,
                    ..ToolOutput::text(format!("Error: {error}"))
                },
            };
            let result = Message::tool_result(id(), call.clone(), output.content, output.is_error);
            messages.push(result);
        }
    }
    panic!("{prompt:?} takes too many steps");
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        "README.md",
        "# Star Chart\n\n[badge]\n\nDraws the sky\nof tonight.\n",
    );
    put(
        "Cargo.toml",
        "[package]\nname = \"chart\"\nversion = \"0.1.0\"\n",
    );
    put("src/main.rs", "fn main() {\n    // TODO: draw\n}\n");
    put("src/sky.rs", "pub fn sky() {}\n");
    dir
}

#[tokio::test]
async fn a_summary_tells_what_is_really_there() {
    let dir = project();
    let text = talk(dir.path(), "Look around and summarise this project").await;
    for part in [
        "## Project summary: Star Chart",
        "Draws the sky of tonight.",
        "- `src/`: `main.rs`, `sky.rs`",
        "`name = \"chart\"`",
        "| `.rs` | 2 |",
        "\n4 files\n",
        ": 1 match in 1 file",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let text = talk(dir.path(), "总结这个项目").await;
    assert!(text.contains("## 项目总结: Star Chart"), "{text}");
    let empty = tempfile::tempdir().unwrap();
    assert!(
        talk(empty.path(), "summarise this project")
            .await
            .contains("empty")
    );
}

#[tokio::test]
async fn single_wishes_are_done_and_reported() {
    let dir = project();
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    for (prompt, part) in [
        ("list src", "main.rs (32 bytes)"),
        ("read src/sky.rs", "1\tpub fn sky() {}"),
        ("search \"TODO:\" in src", "src/main.rs:2:"),
        ("how many rust files are there", ": 2 files."),
        ("count the lines of README.md", "6 lines"),
        ("run `echo $((6 * 7))`", "42"),
        ("run `exit 3`", "(exit code 3)"),
        ("read missing.txt", "no such file"),
        (
            "create notes/a.md with content \"hello\"",
            "Created notes/a.md",
        ),
        (
            "edit notes/a.md: replace \"hello\" with \"goodbye\"",
            "Changed 1 place",
        ),
        ("count slowly to 3", "1 2 3"),
    ] {
        let text = talk(dir.path(), prompt).await;
        assert!(
            text.contains(part),
            "{prompt:?}: {part:?} is not in:\n{text}"
        );
    }
    assert_eq!(read("notes/a.md"), "goodbye\n");
}
