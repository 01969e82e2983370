//! The Agent Client Protocol, version 1.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Played, Script, Voice, Wire, check, check_folder};

const SESSION: &str = "sess_1";

pub(super) fn play(wire: &mut Wire, script: &Script<'_>) -> anyhow::Result<Played> {
    let (id, params) = wire.request("initialize", true)?;
    ensure!(params["protocolVersion"] == 1, "{params}");
    let offered = &params["clientCapabilities"];
    ensure!(offered["fs"]["readTextFile"] != true, "files are offered");
    ensure!(offered["fs"]["writeTextFile"] != true, "files are offered");
    ensure!(offered["terminal"] != true, "a terminal is offered");
    answer(
        wire,
        &id,
        json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}),
    )?;
    let (id, params) = wire.request("session/new", true)?;
    check_folder(&params["cwd"])?;
    ensure!(params["mcpServers"].is_array(), "{params}");
    answer(wire, &id, json!({"sessionId": SESSION}))?;
    let (id, params) = wire.request("session/prompt", true)?;
    ensure!(params["sessionId"] == SESSION, "{params}");
    ensure!(params["prompt"][0]["type"] == "text", "{params}");
    let prompt = params["prompt"][0]["text"]
        .as_str()
        .context("no prompt")?
        .to_owned();
    script.play(wire, &prompt, &mut Agent { prompt: id })
}

fn answer(wire: &Wire, id: &Value, result: Value) -> anyhow::Result<()> {
    wire.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

struct Agent {
    /// The id of the request that is the turn.
    prompt: Value,
}

fn update(wire: &Wire, update: Value) -> anyhow::Result<()> {
    let params = json!({"sessionId": SESSION, "update": update});
    wire.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

impl Voice for Agent {
    fn say(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        // In two pieces, cut between characters.
        let middle = (0..=text.len() / 2)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        let (first, second) = text.split_at(middle.unwrap_or(0));
        update(wire, chunk("agent_message_chunk", first))?;
        update(wire, chunk("agent_message_chunk", second))
    }

    fn think(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        update(wire, chunk("agent_thought_chunk", text))
    }

    fn tool(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        update(
            wire,
            json!({"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": text,
            "kind": "read", "status": "pending"}),
        )?;
        update(
            wire,
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1",
            "status": "completed"}),
        )
    }

    fn ask(&mut self, wire: &mut Wire) -> anyhow::Result<bool> {
        let options = json!([
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let params = json!({"sessionId": SESSION, "toolCall": {"toolCallId": "call_1"},
            "options": options});
        wire.send(&json!({"jsonrpc": "2.0", "id": "ask-1",
            "method": "session/request_permission", "params": params}))?;
        let heard = wire.expect()?;
        check(&heard, true)?;
        ensure!(heard["id"] == "ask-1", "not the answer: {heard}");
        let outcome = &heard["result"]["outcome"];
        ensure!(outcome["outcome"] == "selected", "{heard}");
        match outcome["optionId"].as_str() {
            Some("yes") => Ok(true),
            Some("no") => Ok(false),
            _ => anyhow::bail!("an option that was not meant: {heard}"),
        }
    }

    fn wait(&mut self, wire: &mut Wire) -> anyhow::Result<()> {
        while let Some(heard) = wire.hear() {
            check(&heard, true)?;
            if heard["method"] == "session/cancel" {
                ensure!(
                    heard["id"].is_null() && heard["params"]["sessionId"] == SESSION,
                    "{heard}"
                );
                return self.stop(wire, Some("cancelled"));
            }
        }
        Ok(())
    }

    fn stop(&mut self, wire: &mut Wire, reason: Option<&str>) -> anyhow::Result<()> {
        let reason = reason.unwrap_or("end_turn");
        answer(wire, &self.prompt, json!({"stopReason": reason}))
    }
}
