//! Claude Code's streams of JSON.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Played, Script, Voice, Wire};

const SESSION: &str = "7a1c";

pub(super) fn play(
    wire: &mut Wire,
    args: &[String],
    script: &Script<'_>,
) -> anyhow::Result<Played> {
    let after = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).map(String::as_str)
    };
    ensure!(
        args.iter().any(|arg| arg == "-p"),
        "not without a terminal: {args:?}"
    );
    ensure!(after("--output-format") == Some("stream-json"), "{args:?}");
    ensure!(after("--input-format") == Some("stream-json"), "{args:?}");
    // The real one refuses to stream otherwise.
    ensure!(args.iter().any(|arg| arg == "--verbose"), "{args:?}");
    let mode = after("--permission-mode").context("no permission mode")?;
    let modes = [
        "acceptEdits",
        "auto",
        "bypassPermissions",
        "dontAsk",
        "plan",
    ];
    ensure!(modes.contains(&mode), "no permission mode {mode}");
    let message = wire.expect()?;
    ensure!(
        message["type"] == "user" && message["message"]["role"] == "user",
        "{message}"
    );
    let block = &message["message"]["content"][0];
    ensure!(block["type"] == "text", "{message}");
    let prompt = block["text"].as_str().context("no prompt")?.to_owned();
    wire.send(
        &json!({"type": "system", "subtype": "init", "session_id": SESSION, "model": "m",
        "cwd": std::env::current_dir()?, "tools": ["Read"], "permissionMode": mode}),
    )?;
    let mut agent = Agent {
        messages: 0,
        last: String::new(),
    };
    script.play(wire, &prompt, &mut agent)
}

struct Agent {
    messages: u32,
    last: String,
}

impl Agent {
    fn message(&mut self, wire: &Wire, block: Value) -> anyhow::Result<()> {
        self.messages += 1;
        let message = json!({"id": format!("msg_{}", self.messages), "type": "message",
            "role": "assistant", "model": "m", "content": [block], "stop_reason": null});
        wire.send(
            &json!({"type": "assistant", "message": message, "parent_tool_use_id": null,
            "session_id": SESSION}),
        )
    }
}

impl Voice for Agent {
    fn say(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        text.clone_into(&mut self.last);
        self.message(wire, json!({"type": "text", "text": text}))
    }

    fn think(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        self.message(
            wire,
            json!({"type": "thinking", "thinking": text, "signature": ""}),
        )
    }

    fn tool(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()> {
        let input = json!({"file_path": text});
        self.message(
            wire,
            json!({"type": "tool_use", "id": "t1", "name": "Read", "input": input}),
        )?;
        let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "seen"});
        wire.send(
            &json!({"type": "user", "message": {"role": "user", "content": [result]},
            "parent_tool_use_id": null, "session_id": SESSION}),
        )
    }

    fn ask(&mut self, wire: &mut Wire) -> anyhow::Result<bool> {
        wire.send(&json!({"type": "control_request", "request_id": "r1",
            "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}}))?;
        let heard = wire.expect()?;
        ensure!(heard["type"] == "control_response", "{heard}");
        ensure!(heard["response"]["request_id"] == "r1", "{heard}");
        Ok(heard["response"]["subtype"] == "success")
    }

    fn wait(&mut self, wire: &mut Wire) -> anyhow::Result<()> {
        while let Some(heard) = wire.hear() {
            if heard["request"]["subtype"] == "interrupt" {
                ensure!(heard["type"] == "control_request", "{heard}");
                wire.send(&json!({"type": "control_response", "response":
                    {"subtype": "success", "request_id": heard["request_id"]}}))?;
                return self.stop(wire, Some("error_during_execution"));
            }
        }
        Ok(())
    }

    fn stop(&mut self, wire: &mut Wire, reason: Option<&str>) -> anyhow::Result<()> {
        let mut result = json!({"type": "result", "subtype": "success", "is_error": false,
            "session_id": SESSION, "num_turns": 1, "result": self.last,
            "usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 2}});
        match reason.unwrap_or("success") {
            "success" => {}
            "blank" => result["result"] = " \n".into(),
            "refusal" | "max_tokens" => result["stop_reason"] = reason.into(),
            other => {
                result["subtype"] = other.into();
                result["is_error"] = true.into();
                result["result"] = Value::Null;
                result["errors"] = json!(["it went wrong"]);
            }
        }
        wire.send(&result)
    }
}
