//! The body of a request, from the conversation.
//!
//! The same conversation always gives the same bytes, and a longer one starts with the bytes of the
//! shorter one as far as the protocol allows: providers cache by prefix. What servers refuse with
//! status 400 is mended here, because by then the log cannot be: a call without its answer, an
//! answer without its call, arguments that are not JSON. The log stays as it is.

use std::collections::BTreeSet;

use orrery_session::{ContentBlock, Json, LlmFailure, Message, Role};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::seam::LlmRequest;

/// In what a server differs from the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Earlier reasoning is passed back.
    pub(super) echo_reasoning: bool,
    /// The limit is called `max_completion_tokens`.
    pub(super) completion_tokens: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Wire>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<&'a [String]>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireDefinition<'a>,
}

#[derive(Serialize)]
struct WireDefinition<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Json,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Wire {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct WireCall {
    id: String,
    r#type: &'static str,
    function: WireFunction,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

/// The body's text.
///
/// # Errors
///
/// `UNKNOWN` when something in it cannot be JSON, such as an infinite temperature.
pub(super) fn body(request: &LlmRequest, style: Style) -> Result<String, LlmFailure> {
    let config = &request.config;
    let system = request.system.as_deref().filter(|text| !text.is_empty());
    let mut messages: Vec<Wire> = Vec::new();
    messages.extend(system.map(|text| Wire::System {
        content: text.to_owned(),
    }));
    for message in &request.messages {
        match message.role {
            Role::User => push_user(message, &mut messages),
            Role::Assistant => messages.extend(assistant(message, style)),
        }
    }
    let tools = request.tools.iter().map(|tool| WireTool {
        r#type: "function",
        function: WireDefinition {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        },
    });
    let plain = config.max_tokens.filter(|_| !style.completion_tokens);
    let body = Body {
        model: &config.model,
        messages: paired(messages),
        tools: tools.collect(),
        reasoning_effort: config.reasoning_effort.as_deref(),
        temperature: config.temperature,
        max_tokens: plain,
        max_completion_tokens: config.max_tokens.filter(|_| style.completion_tokens),
        stop: config.stop.as_deref().filter(|stop| !stop.is_empty()),
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
    };
    serde_json::to_string(&body).map_err(|error| {
        let message = format!("the request cannot be written as JSON: {error}");
        LlmFailure::new("UNKNOWN", message)
    })
}

fn push_user(message: &Message, out: &mut Vec<Wire>) {
    let mut rest = Vec::new();
    for block in &message.content {
        if let ContentBlock::ToolResult {
            tool_call_id,
            content,
            ..
        } = block
        {
            out.push(Wire::Tool {
                tool_call_id: tool_call_id.to_string(),
                content: readable(content),
            });
        } else {
            rest.push(block.clone());
        }
    }
    let content = readable(&rest);
    if !content.is_empty() {
        out.push(Wire::User { content });
    }
}

/// The blocks as text, for models that read text only.
fn readable(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        ContentBlock::Image { .. } => Some("[an image that this model cannot see]"),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn assistant(message: &Message, style: Style) -> Option<Wire> {
    let content = readable(&message.content);
    let mut reasoning = String::new();
    let mut tool_calls: Vec<WireCall> = Vec::new();
    for block in &message.content {
        match block {
            ContentBlock::Reasoning { text } => reasoning.push_str(text),
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => tool_calls.push(WireCall {
                id: id.to_string(),
                r#type: "function",
                function: WireFunction {
                    name: name.clone(),
                    arguments: valid_arguments(arguments),
                },
            }),
            _ => {}
        }
    }
    if content.is_empty() && tool_calls.is_empty() {
        // An empty answer is a fact of the log, but servers refuse it in a conversation.
        return None;
    }
    // Servers that want reasoning back want the field beside every call, also when it is empty.
    let echoed = style.echo_reasoning && (!reasoning.is_empty() || !tool_calls.is_empty());
    Some(Wire::Assistant {
        content: (!content.is_empty()).then_some(content),
        reasoning_content: echoed.then_some(reasoning),
        tool_calls,
    })
}

/// Arguments as a server takes them: JSON. What the model wrote wrongly is shown to it as it was.
fn valid_arguments(arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    if serde_json::from_str::<&RawValue>(arguments).is_ok() {
        return arguments.to_owned();
    }
    let raw = serde_json::Value::from(arguments);
    format!("{{\"invalid_json\":{raw}}}")
}

/// Makes every call have its answers right behind it, and every answer its call in front.
fn paired(messages: Vec<Wire>) -> Vec<Wire> {
    let mut out: Vec<Wire> = Vec::with_capacity(messages.len());
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        match message {
            Wire::Tool {
                tool_call_id,
                content,
            } => {
                if let Some(at) = open.iter().position(|id| *id == tool_call_id) {
                    open.remove(at);
                    out.push(Wire::Tool {
                        tool_call_id,
                        content,
                    });
                } else {
                    close(&mut open, &mut out);
                    let content = format!("Result of an earlier tool call:\n{content}");
                    out.push(Wire::User { content });
                }
            }
            Wire::Assistant {
                content,
                reasoning_content,
                tool_calls,
            } => {
                close(&mut open, &mut out);
                let mut seen = BTreeSet::new();
                let tool_calls: Vec<WireCall> = tool_calls
                    .into_iter()
                    .filter(|call| seen.insert(call.id.clone()))
                    .collect();
                open = tool_calls.iter().map(|call| call.id.clone()).collect();
                out.push(Wire::Assistant {
                    content,
                    reasoning_content,
                    tool_calls,
                });
            }
            other => {
                close(&mut open, &mut out);
                out.push(other);
            }
        }
    }
    close(&mut open, &mut out);
    out
}

/// Answers the calls that nobody answered.
fn close(open: &mut Vec<String>, out: &mut Vec<Wire>) {
    out.extend(open.drain(..).map(|tool_call_id| Wire::Tool {
        tool_call_id,
        content: "Error: no result of this call is known".to_owned(),
    }));
}

#[cfg(test)]
mod tests {
    use orrery_session::payload::{RequestConfig, ToolDefinition};
    use orrery_session::{CallId, MessageId, SessionId, Source};
    use serde_json::{Value, json};

    use super::*;

    const PLAIN: Style = Style {
        echo_reasoning: false,
        completion_tokens: false,
    };
    const ECHO: Style = Style {
        echo_reasoning: true,
        completion_tokens: true,
    };

    fn user(text: &str) -> Message {
        let source = Source::User {
            rpc_id: None,
            client_time_zone: None,
        };
        let id = MessageId::new("m").unwrap();
        Message::user(id, vec![ContentBlock::text(text)], source)
    }

    fn model(content: Vec<ContentBlock>) -> Message {
        Message {
            role: Role::Assistant,
            content,
            source: Source::Model {
                provider: "p".into(),
                model: "m".into(),
                replay_state: None,
            },
            id: MessageId::new("m").unwrap(),
        }
    }

    fn call(id: &str, arguments: &str) -> ContentBlock {
        ContentBlock::ToolCall {
            id: CallId::new(id).unwrap(),
            name: "read".into(),
            arguments: arguments.into(),
        }
    }

    fn result(id: &str, text: &str) -> Message {
        let content = vec![ContentBlock::text(text)];
        let message = MessageId::new("m").unwrap();
        Message::tool_result(message, CallId::new(id).unwrap(), content, false)
    }

    fn request(messages: Vec<Message>) -> LlmRequest {
        let schema = Json::from_text(r#"{"type":"object","properties":{}}"#).unwrap();
        LlmRequest {
            config: RequestConfig {
                provider: "p".into(),
                model: "m".into(),
                reasoning_effort: Some("low".into()),
                temperature: Some(0.5),
                max_tokens: Some(9),
                stop: Some(vec!["end".into()]),
            },
            system: Some("be brief".into()),
            tools: [ToolDefinition {
                name: "read".into(),
                description: "reads".into(),
                parameters: schema,
            }]
            .into(),
            messages,
            session_id: SessionId::new("s").unwrap(),
        }
    }

    fn messages(messages: Vec<Message>, style: Style) -> Value {
        let body = body(&request(messages), style).unwrap();
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["messages"].take()
    }

    #[test]
    fn the_body_is_these_bytes() {
        let thought = ContentBlock::Reasoning { text: "hm".into() };
        let said = model(vec![
            thought,
            ContentBlock::text("ok"),
            call("c", "{\"a\":1}"),
        ]);
        let all = vec![user("hi"), said, result("c", "done")];
        assert_eq!(
            body(&request(all), ECHO).unwrap(),
            concat!(
                r#"{"model":"m","messages":[{"role":"system","content":"be brief"},"#,
                r#"{"role":"user","content":"hi"},"#,
                r#"{"role":"assistant","content":"ok","reasoning_content":"hm","tool_calls":"#,
                r#"[{"id":"c","type":"function","function":{"name":"read","arguments":"{\"a\":1}"}}]},"#,
                r#"{"role":"tool","tool_call_id":"c","content":"done"}],"#,
                r#""tools":[{"type":"function","function":{"name":"read","description":"reads","#,
                r#""parameters":{"type":"object","properties":{}}}}],"#,
                r#""reasoning_effort":"low","temperature":0.5,"max_completion_tokens":9,"#,
                r#""stop":["end"],"stream":true,"stream_options":{"include_usage":true}}"#,
            )
        );
    }

    #[test]
    fn reasoning_goes_back_only_where_it_is_wanted() {
        let thought = ContentBlock::Reasoning { text: "hm".into() };
        let all = vec![model(vec![thought, ContentBlock::text("ok")])];
        assert!(messages(all, PLAIN)[1].get("reasoning_content").is_none());
        let bare = vec![model(vec![call("c", "")]), result("c", "x")];
        assert_eq!(messages(bare, ECHO)[1]["reasoning_content"], "");
    }

    #[test]
    fn calls_and_answers_without_their_other_half_are_mended() {
        let all = vec![
            result("lost", "found"),
            model(vec![call("a", "{}"), call("b", "{}")]),
            result("b", "B"),
            user("next"),
            model(vec![]),
            model(vec![call("c", "{oops")]),
        ];
        let sent = messages(all, PLAIN);
        let roles: Vec<&str> = sent
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["role"].as_str().unwrap())
            .collect();
        assert_eq!(
            roles,
            [
                "system",
                "user",
                "assistant",
                "tool",
                "tool",
                "user",
                "assistant",
                "tool"
            ]
        );
        assert_eq!(
            sent[4],
            json!({"role": "tool", "tool_call_id": "a", "content": "Error: no result of this call is known"})
        );
        assert_eq!(sent[6]["content"], Value::Null);
        let arguments = sent[6]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(arguments).unwrap(),
            json!({"invalid_json": "{oops"})
        );
    }
}
