//! What real servers refuse with status 400.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Checks one request body; `reasoning` is what was sent with each tool call.
pub(super) fn check(body: &Value, reasoning: &BTreeMap<String, String>) -> Result<(), String> {
    if !body["model"].is_string() {
        return Err("model must be a string".to_owned());
    }
    let messages = body["messages"].as_array().filter(|list| !list.is_empty());
    let messages = messages.ok_or("messages must be a non-empty array")?;
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Err(format!(
                    "messages[{at}]: no call {id:?} waits for this tool message"
                ));
            }
            text(at, message)?;
            continue;
        }
        if let Some(id) = open.first() {
            return Err(format!(
                "messages[{at}]: the call {id:?} has no tool message yet"
            ));
        }
        match role {
            "system" | "user" => text(at, message)?,
            "assistant" => {
                open = calls(at, message)?;
                if open.is_empty() {
                    text(at, message)?;
                }
                for id in &open {
                    let sent = reasoning.get(*id).map_or("", String::as_str);
                    let back = message["reasoning_content"].as_str().unwrap_or_default();
                    if sent != back {
                        return Err(format!(
                            "messages[{at}]: reasoning_content must be passed back as it was sent"
                        ));
                    }
                }
            }
            other => return Err(format!("messages[{at}]: unknown role {other:?}")),
        }
    }
    match open.first() {
        Some(id) => Err(format!("the call {id:?} has no tool message")),
        None => Ok(()),
    }
}

fn text(at: usize, message: &Value) -> Result<(), String> {
    let good = message["content"].is_string() || message["content"].is_array();
    good.then_some(())
        .ok_or_else(|| format!("messages[{at}]: content must be text"))
}

fn calls(at: usize, message: &Value) -> Result<BTreeSet<&str>, String> {
    let mut ids = BTreeSet::new();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let id = call["id"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| format!("messages[{at}]: a tool call has no id"))?;
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let parsed: Option<Value> = serde_json::from_str(arguments).ok();
        if name.is_empty() || parsed.is_none() || call["type"] != "function" {
            return Err(format!("messages[{at}]: the call {id:?} is malformed"));
        }
        if !ids.insert(id) {
            return Err(format!("messages[{at}]: the call {id:?} is there twice"));
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(messages: &Value) -> Option<String> {
        let body = json!({"model": "m", "messages": messages});
        check(&body, &BTreeMap::from([("c".to_owned(), "why".to_owned())])).err()
    }

    fn call(id: &str, reasoning: &str) -> Value {
        let function = json!({"name": "n", "arguments": "{}"});
        json!({"role": "assistant", "content": null, "reasoning_content": reasoning,
            "tool_calls": [{"id": id, "type": "function", "function": function}]})
    }

    #[test]
    fn calls_and_answers_must_be_paired_and_roles_known() {
        let user = json!({"role": "user", "content": "hi"});
        let tool = json!({"role": "tool", "tool_call_id": "c", "content": ""});
        assert_eq!(refusal(&json!([user, call("c", "why"), tool, user])), None);
        assert!(refusal(&json!([user, call("c", "why"), user])).is_some());
        assert!(refusal(&json!([user, call("c", "why")])).is_some());
        assert!(refusal(&json!([user, tool])).is_some());
        assert!(refusal(&json!([{"role": "developer!", "content": ""}])).is_some());
        assert!(refusal(&json!([])).is_some());
    }

    #[test]
    fn reasoning_must_come_back_as_it_was_sent() {
        let tool = json!({"role": "tool", "tool_call_id": "c", "content": ""});
        assert!(refusal(&json!([call("c", "wh"), tool])).is_some_and(|r| r.contains("reasoning")));
    }
}
