//! Codex's app server: JSON-RPC in lines, without the version mark (`codex app-server --stdio`).
//!
//! `initialize`, `initialized`, `thread/start` of a thread that is not kept, one `turn/start`; the
//! turn is over with `turn/completed`. Its shapes are those of the protocol's version 2.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::CodexPermission;
use super::failure::{Ending, Failure};
use super::frames::Lines;
use super::report::Report;
use super::rpc::{Dialect, Incoming, Peer, read};

const DIALECT: Dialect = Dialect {
    name: "Codex's app server protocol",
    marked: false,
};

#[derive(Deserialize)]
struct ThreadStarted {
    thread: Named,
}

#[derive(Deserialize)]
struct TurnStarted {
    turn: Named,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnCompleted {
    thread_id: String,
    turn: Turn,
}

#[derive(Deserialize)]
struct Turn {
    id: String,
    status: String,
    #[serde(default)]
    error: Option<TurnError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnError {
    message: String,
    #[serde(default)]
    codex_error_info: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    thread_id: String,
    item_id: String,
    delta: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfItem<'a> {
    thread_id: String,
    #[serde(borrow)]
    item: &'a RawValue,
}

/// The items that are shown; every other kind is passed over.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Item {
    AgentMessage {
        id: String,
        text: String,
    },
    Reasoning {
        #[serde(default)]
        summary: Vec<String>,
    },
    CommandExecution {
        command: String,
    },
    FileChange {
        #[serde(default)]
        changes: Vec<Change>,
    },
    McpToolCall {
        server: String,
        tool: String,
    },
    WebSearch {
        query: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Change {
    path: String,
}

struct Server<'a> {
    permission: CodexPermission,
    thread: Option<String>,
    turn: Option<String>,
    /// The turn's end; it may come before the answer to its start.
    completed: Option<Turn>,
    report: &'a mut Report,
}

/// Has Codex do one thing.
pub(super) async fn talk(
    lines: &mut Lines,
    report: &mut Report,
    permission: CodexPermission,
    cwd: &Path,
    prompt: &str,
) -> Result<Ending, Failure> {
    let mut peer = Peer::new(lines, DIALECT);
    let mut server = Server {
        permission,
        thread: None,
        turn: None,
        completed: None,
        report,
    };
    let hello = json!({
        "clientInfo": {"name": "orrery", "title": "Orrery", "version": env!("CARGO_PKG_VERSION")},
    });
    let _about: Value = peer.call("initialize", &hello, &mut server).await?;
    peer.tell("initialized", None::<&()>).await?;
    let mut thread = json!({"cwd": cwd, "ephemeral": true, "approvalPolicy": "never"});
    match permission {
        CodexPermission::Never => {}
        CodexPermission::ApproveForMe => {
            thread["approvalPolicy"] = "on-request".into();
            thread["approvalsReviewer"] = "auto_review".into();
        }
        CodexPermission::DangerouslyBypass => thread["sandbox"] = "danger-full-access".into(),
    }
    let started: ThreadStarted = peer.call("thread/start", &thread, &mut server).await?;
    let thread = started.thread.id;
    server.thread = Some(thread.clone());
    let turn = json!({"threadId": thread, "input": [{"type": "text", "text": prompt}]});
    let started: TurnStarted = peer.call("turn/start", &turn, &mut server).await?;
    let stop = json!({"threadId": thread, "turnId": started.turn.id});
    peer.say_on_stop("turn/interrupt", &stop, true);
    server.turn = Some(started.turn.id);
    loop {
        if let Some(turn) = server.ended() {
            return ending(turn);
        }
        if let Some((id, _)) = peer.hear(&mut server).await? {
            return Err(Failure::Protocol {
                protocol: DIALECT.name,
                why: format!("it answered a request {id} that nobody made"),
            });
        }
    }
}

fn ending(turn: Turn) -> Result<Ending, Failure> {
    match turn.status.as_str() {
        "completed" => Ok(Ending::Completed),
        "interrupted" => Ok(Ending::Aborted),
        "failed" => {
            let error = turn.error.unwrap_or_else(|| TurnError {
                message: "it did not say why".to_owned(),
                codex_error_info: None,
            });
            let full = Value::from("contextWindowExceeded");
            if error.codex_error_info.as_ref() == Some(&full) {
                return Ok(Ending::MaxTokens);
            }
            let why = error.message;
            Err(Failure::Reported { why })
        }
        other => Err(Failure::Protocol {
            protocol: DIALECT.name,
            why: format!("a turn ended with the status {other:?}"),
        }),
    }
}

impl Server<'_> {
    /// The end of our own turn, once it is there.
    fn ended(&mut self) -> Option<Turn> {
        self.completed
            .take_if(|turn| self.turn.as_ref().is_none_or(|own| *own == turn.id))
    }

    /// Whether a message is about our thread: Codex has threads of its own below it.
    fn is_ours(&self, thread: &str) -> bool {
        self.thread.as_deref().is_none_or(|own| own == thread)
    }
}

impl Incoming for Server<'_> {
    async fn told(&mut self, method: &str, params: &RawValue) -> Result<(), Failure> {
        match method {
            "item/agentMessage/delta" => {
                let delta: Delta = read(DIALECT, method, params)?;
                if self.is_ours(&delta.thread_id) {
                    self.report.text(Some(&delta.item_id), &delta.delta).await?;
                }
            }
            "item/started" | "item/completed" => {
                let done = method == "item/completed";
                let of: OfItem<'_> = read(DIALECT, method, params)?;
                if !self.is_ours(&of.thread_id) {
                    return Ok(());
                }
                match (read(DIALECT, method, of.item)?, done) {
                    (Item::AgentMessage { id, text }, true) => {
                        self.report.whole(&id, &text).await?;
                    }
                    (Item::Reasoning { summary }, true) => {
                        self.report.thought(&summary.join("\n")).await?;
                    }
                    (Item::CommandExecution { command }, false) => {
                        self.report.note(&format!("runs {command}")).await?;
                    }
                    (Item::FileChange { changes }, true) => {
                        let paths: Vec<&str> = changes.iter().map(|c| c.path.as_str()).collect();
                        self.report
                            .note(&format!("changes {}", paths.join(", ")))
                            .await?;
                    }
                    (Item::McpToolCall { server, tool }, false) => {
                        self.report.note(&format!("calls {server} {tool}")).await?;
                    }
                    (Item::WebSearch { query }, true) => {
                        self.report.note(&format!("searches for {query}")).await?;
                    }
                    _ => {}
                }
            }
            "turn/completed" => {
                let completed: TurnCompleted = read(DIALECT, method, params)?;
                if self.is_ours(&completed.thread_id) {
                    self.completed = Some(completed.turn);
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn asked(&mut self, method: &str, params: &RawValue) -> Result<Option<Value>, Failure> {
        let all = self.permission == CodexPermission::DangerouslyBypass;
        let answer = match method {
            "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
                json!({"decision": if all { "accept" } else { "decline" }})
            }
            "item/permissions/requestApproval" => {
                #[derive(Deserialize)]
                struct Wanted {
                    permissions: Value,
                }
                let wanted: Wanted = read(DIALECT, method, params)?;
                let granted = if all { wanted.permissions } else { json!({}) };
                json!({"permissions": granted, "scope": "turn"})
            }
            "mcpServer/elicitation/request" => json!({"action": "decline", "content": null}),
            // Whatever else it may ask has no answer here.
            _ => return Ok(None),
        };
        let verdict = if all { "allowed" } else { "refused" };
        self.report
            .note(&format!("{verdict} what it asked for"))
            .await?;
        Ok(Some(answer))
    }
}
