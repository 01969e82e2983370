//! Claude Code without a terminal: streams of JSON lines (`claude -p --output-format stream-json`).
//!
//! One user message goes in; `system`, `assistant` and `user` messages come out, and one `result`
//! at the end. Only a result that says success, and says something, is one.

use serde::Deserialize;
use serde_json::{Value, json};

use orrery_session::Usage;

use super::ClaudePermission;
use super::failure::{Ending, Failure};
use super::frames::Lines;
use super::report::Report;

const NAME: &str = "Claude Code's stream of JSON";

/// What the program is started with, before the configured arguments.
pub(super) fn arguments(permission: ClaudePermission) -> Vec<String> {
    let fixed = [
        "-p",
        "--output-format",
        "stream-json",
        "--input-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        permission.as_str(),
    ];
    fixed.map(str::to_owned).to_vec()
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    System {
        subtype: String,
    },
    Assistant {
        message: Message,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    Result(Outcome),
    ControlRequest {
        request_id: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<String>,
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Outcome {
    subtype: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

/// Has Claude Code do one thing.
pub(super) async fn talk(
    lines: &mut Lines,
    report: &mut Report,
    prompt: &str,
) -> Result<Ending, Failure> {
    let interrupt = json!({"type": "control_request", "request_id": "orrery-stop",
        "request": {"subtype": "interrupt"}});
    lines.say_on_stop(&interrupt);
    let message = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
    let message = json!({"type": "user", "message": message, "parent_tool_use_id": null,
        "session_id": ""});
    lines.send(&message).await?;
    let mut began = false;
    let mut last_stop = None;
    loop {
        let Some(line) = lines.next().await? else {
            return Err(Failure::Ended { how: String::new() });
        };
        let line: Line = serde_json::from_slice(line)
            .map_err(|error| broken(format!("a line of its output is no message ({error})")))?;
        match line {
            Line::System { subtype } => began |= subtype == "init",
            // What its own subagents say is theirs.
            Line::Assistant {
                message,
                parent_tool_use_id: None,
            } => {
                last_stop.clone_from(&message.stop_reason);
                say(report, message).await?;
            }
            Line::ControlRequest { request_id } => {
                // Nobody is asked: what would need an answer is refused.
                let error = "nobody can be asked here";
                let response =
                    json!({"subtype": "error", "request_id": request_id, "error": error});
                let answer = json!({"type": "control_response", "response": response});
                lines.send(&answer).await?;
            }
            Line::Result(_) if !began => {
                return Err(broken("it ended before it had begun".to_owned()));
            }
            Line::Result(outcome) => return ending(report, outcome, last_stop).await,
            Line::Assistant { .. } | Line::Other => {}
        }
    }
}

fn broken(why: String) -> Failure {
    Failure::Protocol {
        protocol: NAME,
        why,
    }
}

async fn say(report: &mut Report, message: Message) -> Result<(), Failure> {
    for block in message.content {
        match block {
            Block::Text { text } => report.text(message.id.as_deref(), &text).await?,
            Block::Thinking { thinking } => report.thought(&thinking).await?,
            Block::ToolUse { name, input } => report.note(&format!("{name} {input}")).await?,
            Block::Other => {}
        }
    }
    Ok(())
}

async fn ending(
    report: &mut Report,
    outcome: Outcome,
    last_stop: Option<String>,
) -> Result<Ending, Failure> {
    report.close().await;
    if let Some(tokens) = &outcome.usage {
        let usage = Usage {
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            cache_read_tokens: tokens.cache_read_input_tokens,
            cache_write_tokens: tokens.cache_creation_input_tokens,
            reasoning_tokens: None,
        };
        report.usage(usage).await;
    }
    match outcome.stop_reason.or(last_stop).as_deref() {
        Some("refusal") => return Ok(Ending::Refusal),
        Some("max_tokens" | "model_context_window_exceeded") => return Ok(Ending::MaxTokens),
        _ => {}
    }
    if outcome.subtype != "success" || outcome.is_error {
        let said = outcome.result.filter(|text| !text.trim().is_empty());
        let why = said.unwrap_or_else(|| outcome.errors.join("; "));
        let why = match why.trim() {
            "" => outcome.subtype,
            why => format!("{}: {why}", outcome.subtype),
        };
        return Err(Failure::Reported { why });
    }
    let Some(answer) = outcome.result.filter(|text| !text.trim().is_empty()) else {
        let why = "it says that it succeeded, and left no answer".to_owned();
        return Err(Failure::Reported { why });
    };
    if report.answer().trim() != answer.trim() {
        report.text(Some("result"), &answer).await?;
        report.close().await;
    }
    Ok(Ending::Completed)
}
