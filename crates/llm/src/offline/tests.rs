use std::sync::Arc;

use futures_util::StreamExt;
use orrery_session::payload::ToolDefinition;
use orrery_session::{Json, Message, MessageId, SessionId, Source};

use super::*;
use crate::assembler::{Assembled, Assembler};

fn tools(names: &[&str]) -> Arc<[ToolDefinition]> {
    let tools = names.iter().map(|name| ToolDefinition {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: Json::from_text("{}").unwrap(),
    });
    tools.collect()
}

fn id() -> MessageId {
    MessageId::new("m").unwrap()
}

fn prompt(text: &str) -> Message {
    let source = Source::User {
        rpc_id: None,
        client_time_zone: None,
    };
    Message::user(id(), vec![ContentBlock::text(text)], source)
}

fn request(messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        config: RequestConfig {
            provider: PROVIDER.into(),
            model: MODEL.into(),
            reasoning_effort: None,
            temperature: None,
            max_tokens: None,
            stop: None,
        },
        system: None,
        tools: tools(&[
            "list", "read", "write", "edit", "glob", "grep", "bash", "subagent",
        ]),
        messages,
        session_id: SessionId::new("s").unwrap(),
    }
}

async fn ask(messages: Vec<Message>) -> Assembled {
    let mut stream =
        Offline::new(Duration::ZERO).stream(request(messages), CancellationToken::new());
    let mut assembler = Assembler::new();
    while let Some(chunk) = stream.next().await {
        assembler.push(&chunk);
    }
    assembler.finish()
}

fn text(answer: &Assembled) -> String {
    let texts = answer.content.iter().filter_map(ContentBlock::as_text);
    texts.collect()
}

/// The conversation after the calls of `answer` were answered, each by `output`.
fn answered(
    mut so_far: Vec<Message>,
    answer: Assembled,
    output: impl Fn(&str) -> String,
) -> Vec<Message> {
    let calls: Vec<_> = answer
        .tool_calls()
        .map(|(id, name, _)| (id.clone(), output(name)))
        .collect();
    so_far.push(Message {
        role: orrery_session::Role::Assistant,
        content: answer.content,
        source: Source::Model {
            provider: PROVIDER.into(),
            model: MODEL.into(),
            replay_state: None,
        },
        id: id(),
    });
    for (call, output) in calls {
        so_far.push(Message::tool_result(
            id(),
            call,
            vec![ContentBlock::text(output)],
            false,
        ));
    }
    so_far
}

#[tokio::test]
async fn the_first_answer_says_that_it_is_no_language_model_and_the_second_does_not() {
    let first = ask(vec![prompt("hello")]).await;
    assert!(text(&first).contains("not a language model"));
    assert_eq!(first.reason, FinishReason::Stop);
    let mut messages = answered(vec![prompt("hello")], first, |_| String::new());
    messages.push(prompt("你好"));
    let second = ask(messages).await;
    assert!(!text(&second).contains("language model"));
    assert!(text(&second).contains("我在这里真正能做的是"));
}

#[tokio::test]
async fn a_summary_lists_reads_and_then_writes_what_it_saw() {
    let mut messages = vec![prompt("Please summarise this project")];
    let output = |name: &str| match name {
        "list" => "src/\nCargo.toml (90 bytes)\nREADME.md (40 bytes)\n",
        "read" => "     1\t# Star Chart\n     2\t\n     3\tDraws the sky.\n",
        "glob" => "src/main.rs\nsrc/sky.rs\nCargo.toml\n(3 files)\n",
        _ => "(0 matches)\n",
    };
    for _ in 0..2 {
        let step = ask(messages.clone()).await;
        assert_eq!(step.reason, FinishReason::ToolCalls);
        messages = answered(messages, step, |name| output(name).to_owned());
    }
    let last = ask(messages).await;
    assert_eq!(last.reason, FinishReason::Stop);
    let text = text(&last);
    for part in [
        "Star Chart",
        "Draws the sky.",
        "- `src/`",
        "| `.rs` | 2 |",
        "3 files",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[tokio::test]
async fn a_command_becomes_a_bash_call_and_its_output_is_reported() {
    let start = vec![prompt("run `echo hi`")];
    let step = ask(start.clone()).await;
    let calls: Vec<_> = step
        .tool_calls()
        .map(|(_, name, args)| (name, args))
        .collect();
    assert_eq!(calls, [("bash", r#"{"command":"echo hi"}"#)]);
    let done = ask(answered(start, step, |_| "hi\n".to_owned())).await;
    assert!(text(&done).contains("hi"));
    assert_eq!(done.reason, FinishReason::Stop);
}

#[tokio::test]
async fn a_refused_call_is_reported_and_not_repeated() {
    let start = vec![prompt("run `rm x`")];
    let step = ask(start.clone()).await;
    let mut messages = answered(start, step, |_| String::new());
    let call = CallId::new("offline-1-0").unwrap();
    messages.pop();
    let refusal = vec![ContentBlock::text("Error: refused by the user")];
    messages.push(Message::tool_result(id(), call, refusal, true));
    let done = ask(messages).await;
    assert_eq!(done.reason, FinishReason::Stop);
    assert!(text(&done).contains("refused by the user"));
}

#[tokio::test]
async fn a_tool_that_is_not_offered_is_not_called() {
    let mut request = request(vec![prompt("run `date`")]);
    request.tools = tools(&["read"]);
    let answer = plan::answer(&request);
    assert!(answer.calls.is_empty());
    assert!(answer.text.contains("`bash`"));
}

#[tokio::test]
async fn cancelling_ends_the_count_at_once() {
    let cancel = CancellationToken::new();
    let messages = vec![prompt("count slowly to 9000")];
    let mut stream =
        Offline::new(Duration::from_millis(1)).stream(request(messages), cancel.clone());
    let mut after_cancel = 0;
    let mut last = None;
    while let Some(chunk) = stream.next().await {
        if cancel.is_cancelled() {
            after_cancel += 1;
        }
        if matches!(&chunk, StreamChunk::TextDelta { text, .. } if text.trim() == "3") {
            cancel.cancel();
        }
        last = Some(chunk);
    }
    assert!(
        after_cancel <= 2,
        "{after_cancel} chunks after the cancellation"
    );
    let reason = FinishReason::Aborted {
        failure: LlmFailure::new("ABORTED", "the request was cancelled"),
    };
    let finish = StreamChunk::Finish {
        reason,
        replay_state: None,
    };
    assert_eq!(last, Some(finish));
}

#[tokio::test]
async fn the_deltas_add_up_to_the_blocks() {
    let mut stream = Offline::new(Duration::ZERO).stream(
        request(vec![prompt("总结这个项目")]),
        CancellationToken::new(),
    );
    let (mut whole, mut deltas) = (Assembler::new(), Assembler::new());
    while let Some(chunk) = stream.next().await {
        whole.push(&chunk);
        if !matches!(chunk, StreamChunk::BlockEnd { .. }) {
            deltas.push(&chunk);
        }
    }
    assert_eq!(whole.finish(), deltas.finish());
}

#[tokio::test]
async fn a_summary_with_subagents_starts_one_for_each_folder_and_merges_their_words() {
    let mut messages = vec![prompt("summarise this repository with subagents")];
    let folders: String = (0..10).map(|n| format!("f{n}/\n")).collect();
    let mut started = Vec::new();
    for _ in 0..3 {
        let answer = ask(messages.clone()).await;
        for (_, name, arguments) in answer.tool_calls() {
            if name == "subagent" {
                let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
                assert_eq!(arguments["run_in_background"], false);
                started.push(arguments["prompt"].as_str().unwrap().to_owned());
            }
        }
        messages = answered(messages, answer, |name| match name {
            "list" => format!(".git/\n{folders}README.md (9 bytes)\n"),
            _ => "three files".to_owned(),
        });
    }
    assert_eq!(started.len(), 10);
    let child = ask(vec![prompt(&started[9])]).await;
    let asked: Vec<&str> = child.tool_calls().map(|(_, name, _)| name).collect();
    assert_eq!(asked, ["list", "glob", "grep"]);
    let merged = text(&ask(messages).await);
    assert!(
        merged.contains("### `f9/`") && merged.contains("three files"),
        "{merged}"
    );
    assert!(!merged.contains(".git"), "{merged}");
}
