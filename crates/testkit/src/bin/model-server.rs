//! Serves a script of model replies, for browser tests and for trying things from a command line.
//!
//! ```text
//! model-server SCRIPT.json [--port N]
//! ```
//!
//! The first line on standard output is the base URL (`http://127.0.0.1:PORT/v1`), printed once
//! requests are accepted. The server runs until it is interrupted or terminated.
//!
//! The script is an object:
//!
//! ```json
//! {
//!   "models": ["test"],
//!   "strict": true,
//!   "replies": [
//!     {"reasoning": "hm", "text": "Hello there", "usage": {"prompt": 10, "completion": 2}},
//!     {"toolCalls": [{"id": "c1", "name": "read", "arguments": {"path": "README.md"}}]},
//!     {"status": 429, "headers": {"retry-after": "1"}, "body": {"error": {"message": "slow down"}}},
//!     {"text": "half a", "cut": true},
//!     {"text": "and then nothing", "stall": true}
//!   ],
//!   "fallback": {"text": "That is all I have."},
//!   "delayMs": 5
//! }
//! ```
//!
//! Every field is optional. Each request takes the next reply, then the fallback; one with `"for"` is
//! kept for the conversation in which a user message holds those words. Texts are streamed
//! word by word with `delayMs` between the words; a reply may have its own `delayMs`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use orrery_testkit::{ModelServer, Reply};
use serde::Deserialize;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Script {
    #[serde(default)]
    models: Option<Vec<String>>,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    replies: Vec<Scripted>,
    #[serde(default)]
    fallback: Option<Scripted>,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scripted {
    #[serde(default, rename = "for")]
    meant_for: Option<String>,
    #[serde(default)]
    reasoning: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    tool_calls: Vec<Call>,
    #[serde(default)]
    usage: Option<Cost>,
    #[serde(default)]
    finish: Option<String>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    cut: bool,
    #[serde(default)]
    stall: bool,
    #[serde(default)]
    delay_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: String,
    name: String,
    /// Text is sent as it is; anything else as JSON.
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cost {
    prompt: u64,
    completion: u64,
}

impl Scripted {
    fn into_reply(self, delay_ms: u64) -> Reply {
        let mut reply = match self.status {
            Some(status) => Reply::error(status, &self.body),
            None => self.stream(delay_ms),
        };
        for (name, value) in &self.headers {
            reply = reply.header(name, value);
        }
        reply
    }

    fn stream(&self, delay_ms: u64) -> Reply {
        let delay = Duration::from_millis(self.delay_ms.unwrap_or(delay_ms));
        let mut reply = Reply::new();
        for word in self.reasoning.split_inclusive(' ') {
            reply = reply.pause(delay).reasoning(word);
        }
        for word in self.text.split_inclusive(' ') {
            reply = reply.pause(delay).text(word);
        }
        for call in &self.tool_calls {
            let arguments = match &call.arguments {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            reply = reply.tool_call(&call.id, &call.name, &arguments);
        }
        if let Some(reason) = &self.finish {
            reply = reply.finish(reason, None);
        }
        if let Some(usage) = &self.usage {
            reply = reply.usage(usage.prompt, usage.completion);
        }
        if self.cut {
            reply = reply.cut();
        } else if self.stall {
            reply = reply.stall();
        }
        reply
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut port = 0;
    let mut script = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--port" {
            let value = arguments.next().context("--port needs a number")?;
            port = value.parse().context("--port needs a number")?;
        } else if script.replace(argument).is_some() {
            bail!("usage: model-server SCRIPT.json [--port N]");
        }
    }
    let path = script.context("usage: model-server SCRIPT.json [--port N]")?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let script: Script = serde_json::from_str(&text).with_context(|| format!("in {path}"))?;

    let server = ModelServer::start_on(port).await?;
    server.set_strict(script.strict);
    if let Some(models) = &script.models {
        let models: Vec<&str> = models.iter().map(String::as_str).collect();
        server.set_models(&models);
    }
    for reply in script.replies {
        match reply.meant_for.clone() {
            Some(words) => server.push_for(&words, reply.into_reply(script.delay_ms)),
            None => server.push(reply.into_reply(script.delay_ms)),
        }
    }
    if let Some(reply) = script.fallback {
        server.fallback(reply.into_reply(script.delay_ms));
    }
    writeln!(std::io::stdout(), "{}", server.base_url())?;

    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt?,
        _signal = terminate.recv() => {}
    }
    Ok(())
}
