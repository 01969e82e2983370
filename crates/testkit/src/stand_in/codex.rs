//! Codex's app server, version 2 of its protocol.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Played, Script, Voice, Wire, check, check_folder};

const THREAD: &str = "thr_1";
const TURN: &str = "turn_1";

pub(super) fn play(wire: &mut Wire, script: &Script<'_>) -> anyhow::Result<Played> {
    let (id, params) = wire.request("initialize", false)?;
    for field in ["name", "version"] {
        ensure!(params["clientInfo"][field].is_string(), "{params}");
    }
    wire.send(&json!({"id": id, "result": {"userAgent": "stand-in"}}))?;
    let told = wire.expect()?;
    check(&told, false)?;
    ensure!(
        told["method"] == "initialized" && told["id"].is_null(),
        "{told}"
    );
    let (id, params) = wire.request("thread/start", false)?;
    check_folder(&params["cwd"])?;
    ensure!(
        params["ephemeral"] == true,
        "the thread would be kept: {params}"
    );
    let policy = params["approvalPolicy"]
        .as_str()
        .context("no approval policy")?;
    ensure!(["never", "on-request"].contains(&policy), "{params}");
    let mut agent = Server {
        items: 0,
        settings: params.clone(),
    };
    wire.send(&json!({"id": id, "result": {"thread": {"id": THREAD}, "model": "m"}}))?;
    wire.send(&json!({"method": "thread/started", "params": {"thread": {"id": THREAD}}}))?;
    let (id, params) = wire.request("turn/start", false)?;
    ensure!(params["threadId"] == THREAD, "{params}");
    let input = &params["input"][0];
    ensure!(input["type"] == "text", "{params}");
    let prompt = input["text"].as_str().context("no prompt")?.to_owned();
    let turn = json!({"id": TURN, "status": "inProgress", "items": [], "error": null});
    wire.send(&json!({"id": id, "result": {"turn": turn}}))?;
    tell(wire, "turn/started", json!({"turn": turn}))?;
    script.play(wire, &prompt, &mut agent)
}

fn tell(wire: &Wire, method: &str, mut params: Value) -> anyhow::Result<()> {
    params["threadId"] = THREAD.into();
    if method.starts_with("item/") {
        params["turnId"] = TURN.into();
    }
    wire.send(&json!({"method": method, "params": params}))
}

struct Server {
    items: u32,
    settings: Value,
}

impl Server {
    fn item(&mut self) -> String {
        self.items += 1;
        format!("item_{}", self.items)
    }
}

impl Voice for Server {
    fn say(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        let id = self.item();
        let middle = (0..=text.len() / 2)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        let (first, second) = text.split_at(middle.unwrap_or(0));
        let started = json!({"type": "agentMessage", "id": id, "text": ""});
        tell(wire, "item/started", json!({"item": started}))?;
        for delta in [first, second] {
            tell(
                wire,
                "item/agentMessage/delta",
                json!({"itemId": id, "delta": delta}),
            )?;
        }
        let done = json!({"type": "agentMessage", "id": id, "text": text});
        tell(wire, "item/completed", json!({"item": done}))
    }

    fn think(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        let id = self.item();
        let item = json!({"type": "reasoning", "id": id, "summary": [text], "content": []});
        tell(wire, "item/completed", json!({"item": item}))
    }

    fn tool(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        let id = self.item();
        let mut item = json!({"type": "commandExecution", "id": id, "command": text, "cwd": "/",
            "status": "inProgress", "commandActions": []});
        tell(wire, "item/started", json!({"item": item}))?;
        item["status"] = "completed".into();
        tell(wire, "item/completed", json!({"item": item}))
    }

    fn ask(&mut self, wire: &mut Wire) -> anyhow::Result<bool> {
        let params = json!({"threadId": THREAD, "turnId": TURN, "itemId": "item_0"});
        wire.send(
            &json!({"id": 0, "method": "item/commandExecution/requestApproval",
            "params": params}),
        )?;
        let heard = wire.expect()?;
        check(&heard, false)?;
        ensure!(heard["id"] == 0, "not the answer: {heard}");
        let bypassed = self.settings["sandbox"] == "danger-full-access";
        match heard["result"]["decision"].as_str() {
            Some("accept") => {
                ensure!(bypassed, "leave was given that was not ordered");
                Ok(true)
            }
            Some("decline") => Ok(false),
            _ => anyhow::bail!("no decision: {heard}"),
        }
    }

    fn wait(&mut self, wire: &mut Wire) -> anyhow::Result<()> {
        while let Some(heard) = wire.hear() {
            check(&heard, false)?;
            if heard["method"] == "turn/interrupt" {
                ensure!(
                    heard["params"] == json!({"threadId": THREAD, "turnId": TURN}),
                    "{heard}"
                );
                wire.send(&json!({"id": heard["id"], "result": {}}))?;
                return self.stop(wire, Some("interrupted"));
            }
        }
        Ok(())
    }

    fn stop(&mut self, wire: &mut Wire, reason: Option<&str>) -> anyhow::Result<()> {
        let (status, error) = match reason.unwrap_or("completed") {
            "completed" => ("completed", Value::Null),
            "interrupted" => ("interrupted", Value::Null),
            other => {
                let message = format!("failed with {other}");
                (
                    "failed",
                    json!({"message": message, "codexErrorInfo": other}),
                )
            }
        };
        let turn = json!({"id": TURN, "status": status, "items": [], "error": error});
        tell(wire, "turn/completed", json!({"turn": turn}))
    }
}
