//! The OpenAPI 3.1 emitter: schemas are taken over as they are, since both speak JSON Schema 2020-12.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Contract, DEFINITIONS};
use crate::error::ErrorCode;
use crate::operations::{Activation, Fence, Kind, Operation};

/// Renders the document.
pub(super) fn emit(contract: &Contract) -> String {
    let mut paths = serde_json::Map::new();
    for (operation, request, response) in &contract.operations {
        let path = format!("/api/{}", operation.name);
        let item = match operation.kind {
            Kind::Unary => json!({ "post": unary(operation, request, response) }),
            Kind::Stream => json!({ "get": stream(operation, response) }),
        };
        paths.insert(path, item);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Orrery",
            "version": format!("{}.{}.0", crate::PROTOCOL_MAJOR, crate::PROTOCOL_MINOR),
            "description": "The wire contract of an Orrery Host. Streams also run over one \
                WebSocket at /api/streams with the frames ClientFrame and ServerFrame.",
        },
        "paths": paths,
        "components": {
            "schemas": contract.definitions,
            "responses": { "Error": {
                "description": "The call failed; the status follows the code.",
                "content": { "application/json": { "schema": {
                    "$ref": format!("{DEFINITIONS}ErrorBody"),
                } } },
            } },
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "browser": { "type": "apiKey", "in": "cookie", "name": "orrery-auth" },
            },
        },
        "security": [{ "bearer": [] }, { "browser": [] }],
        "x-error-codes": error_codes(),
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn unary(operation: &Operation, request: &Value, response: &Value) -> Value {
    let mut value = head(operation);
    value["requestBody"] = json!({
        "required": true,
        "content": { "application/json": { "schema": request } },
    });
    value["responses"] = json!({
        "200": {
            "description": "The answer.",
            "content": { "application/json": { "schema": response } },
        },
        "default": { "$ref": "#/components/responses/Error" },
    });
    value["x-deadline-seconds"] = json!(operation.deadline_seconds);
    value
}

fn stream(operation: &Operation, response: &Value) -> Value {
    let mut value = head(operation);
    let names: &[&str] = match operation.name {
        "session/follow" => &[
            "sessionId",
            "parentSessionId",
            "childSessionId",
            "mode",
            "maxMessages",
            "afterSeq",
        ],
        "session/catalog" => &["limit"],
        _ => &[],
    };
    let parameters: Vec<Value> = names
        .iter()
        .map(|name| {
            let number = matches!(*name, "maxMessages" | "afterSeq" | "limit");
            let schema = json!({ "type": if number { "integer" } else { "string" } });
            json!({ "name": name, "in": "query", "required": false, "schema": schema })
        })
        .collect();
    value["parameters"] = Value::Array(parameters);
    value["responses"] = json!({
        "200": {
            "description": "Server-Sent Events; each `data` is one item.",
            "content": { "text/event-stream": { "schema": response } },
        },
        "default": { "$ref": "#/components/responses/Error" },
    });
    value
}

fn head(operation: &Operation) -> Value {
    let activation = match operation.activation {
        Activation::Never => "Activates nothing.",
        Activation::LiveOnly => "Needs a live session and makes none.",
        Activation::MayResume => "May resume the session.",
        Activation::Creates => "Makes a session.",
    };
    let fence = match operation.fence {
        Fence::None => "",
        Fence::Allowed => " Also for sessions that a subagent owns.",
        Fence::Refused => " Refused with session/agent-busy on a session that a subagent owns.",
        Fence::Address => " A subagent is reached through its own address only.",
    };
    let offered = if operation.implemented {
        ""
    } else {
        " Not offered by this build: answers gateway/unknown-method."
    };
    json!({
        "operationId": operation.name.replace('/', "."),
        "tags": [operation.namespace()],
        "summary": operation.summary,
        "description": format!("{activation}{fence}{offered}"),
        "x-implemented": operation.implemented,
    })
}

fn error_codes() -> Value {
    let codes: BTreeMap<&str, Value> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let facts = json!({ "status": code.http_status(), "retryable": code.retryable() });
            (code.as_str(), facts)
        })
        .collect();
    json!(codes)
}
