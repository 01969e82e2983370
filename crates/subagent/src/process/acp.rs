//! The Agent Client Protocol, version 1, over standard input and output (agentclientprotocol.com).
//!
//! `initialize`, `session/new`, one `session/prompt`. We offer neither files nor terminals; what the
//! agent asks leave for is answered by policy.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::AcpPermission;
use super::failure::{Ending, Failure};
use super::frames::Lines;
use super::report::Report;
use super::rpc::{Dialect, Incoming, Peer, read};

const DIALECT: Dialect = Dialect {
    name: "the Agent Client Protocol",
    marked: true,
};
const VERSION: u16 = 1;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewSession {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompted {
    stop_reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfSession<'a> {
    session_id: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionUpdate<'a> {
    session_id: String,
    #[serde(borrow)]
    update: &'a RawValue,
}

/// The updates that are shown; every other kind is passed over.
#[derive(Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
enum Update {
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    ToolCall {
        title: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    message_id: Option<String>,
    content: Content,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    Text {
        text: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct PermissionRequest {
    options: Vec<PermissionOption>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: String,
    kind: String,
}

struct Agent<'a> {
    permission: AcpPermission,
    session: Option<String>,
    report: &'a mut Report,
}

/// Has the agent do one thing.
pub(super) async fn talk(
    lines: &mut Lines,
    report: &mut Report,
    permission: AcpPermission,
    cwd: &Path,
    prompt: &str,
) -> Result<Ending, Failure> {
    let mut peer = Peer::new(lines, DIALECT);
    let mut agent = Agent {
        permission,
        session: None,
        report,
    };
    let hello = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
        },
        "clientInfo": {"name": "orrery", "title": "Orrery", "version": env!("CARGO_PKG_VERSION")},
    });
    let initialized: Initialized = peer.call("initialize", &hello, &mut agent).await?;
    if initialized.protocol_version != VERSION {
        return Err(Failure::Protocol {
            protocol: DIALECT.name,
            why: format!(
                "it speaks version {}, and we version {VERSION}",
                initialized.protocol_version
            ),
        });
    }
    let session = json!({"cwd": cwd, "mcpServers": []});
    let session: NewSession = peer.call("session/new", &session, &mut agent).await?;
    let id = session.session_id;
    agent.session = Some(id.clone());
    peer.say_on_stop("session/cancel", &OfSession { session_id: &id }, false);
    let prompt = json!({"sessionId": id, "prompt": [{"type": "text", "text": prompt}]});
    let prompted: Prompted = peer.call("session/prompt", &prompt, &mut agent).await?;
    match prompted.stop_reason.as_str() {
        "end_turn" => Ok(Ending::Completed),
        "max_tokens" => Ok(Ending::MaxTokens),
        "refusal" => Ok(Ending::Refusal),
        "cancelled" => Ok(Ending::Aborted),
        other => Err(Failure::Reported {
            why: format!("it stopped for the reason {other:?}"),
        }),
    }
}

impl Agent<'_> {
    fn permission(&self, request: &PermissionRequest) -> Value {
        let wanted: [&str; 2] = match self.permission {
            AcpPermission::Allow => ["allow_once", "allow_always"],
            AcpPermission::Reject => ["reject_once", "reject_always"],
        };
        let of_kind = |kind| request.options.iter().find(|option| option.kind == kind);
        match wanted.into_iter().find_map(of_kind) {
            Some(option) => {
                json!({"outcome": {"outcome": "selected", "optionId": option.option_id}})
            }
            // Nothing that may be chosen: not answering yes is what is left.
            None => json!({"outcome": {"outcome": "cancelled"}}),
        }
    }
}

impl Incoming for Agent<'_> {
    async fn told(&mut self, method: &str, params: &RawValue) -> Result<(), Failure> {
        if method != "session/update" {
            return Ok(());
        }
        let update: SessionUpdate<'_> = read(DIALECT, method, params)?;
        if self
            .session
            .as_ref()
            .is_some_and(|own| *own != update.session_id)
        {
            return Ok(());
        }
        match read(DIALECT, method, update.update)? {
            Update::AgentMessageChunk(Chunk {
                message_id,
                content: Content::Text { text },
            }) => self.report.text(message_id.as_deref(), &text).await,
            Update::AgentThoughtChunk(Chunk {
                content: Content::Text { text },
                ..
            }) => self.report.thought(&text).await,
            Update::ToolCall { title } => self.report.note(&title).await,
            _ => Ok(()),
        }
    }

    async fn asked(&mut self, method: &str, params: &RawValue) -> Result<Option<Value>, Failure> {
        if method != "session/request_permission" {
            return Ok(None);
        }
        let request: PermissionRequest = read(DIALECT, method, params)?;
        let answer = self.permission(&request);
        let verdict = match self.permission {
            AcpPermission::Allow => "allowed what it asked for",
            AcpPermission::Reject => "refused what it asked for",
        };
        self.report.note(verdict).await?;
        Ok(Some(answer))
    }
}
