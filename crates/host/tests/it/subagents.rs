//! Subagents over the wire, from logs that another program wrote.

use std::path::Path;

use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::LogWriter;
use serde_json::{Value, json};

use crate::{TestHost, logs};

const LOOK: &str = r#"{"version":2,"mode":"continuable","provider":"spawn","label":"look"}"#;
const ONCE: &str = r#"{"version":2,"mode":"one-shot","provider":"spawn"}"#;

/// Puts a log there: a message of an ancestor where it is inherited, a descriptor, a message.
fn put(home: &Path, name: &str, more: &str, descriptor: Option<&str>) {
    let mut writer = LogWriter::new(name, Container::Zstd, more);
    if more.contains("seedLength") {
        writer.prompt("inherited");
        writer.event("subagent/descriptor", LOOK);
        writer.end_frame();
    }
    if let Some(data) = descriptor {
        writer.event("subagent/descriptor", data);
    }
    writer.event("turn/start", r#"{"turn":1}"#);
    writer.prompt("do something");
    writer.event("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    logs::put(home, &writer.finish());
}

fn home_with_a_family(home: &Path) {
    let child = |parent: &str, more: &str| {
        format!(
            r#","parentSession":"session-{parent}","origin":"subagent","delegationDepth":1{more}"#
        )
    };
    put(home, "parent", r#","delegationDepth":0"#, None);
    put(home, "a-look", &child("parent", ""), Some(LOOK));
    put(home, "b-once", &child("parent", ""), Some(ONCE));
    put(home, "c-mute", &child("parent", ""), None);
    put(home, "d-heir", &child("parent", r#","seedLength":2"#), None);
    put(
        home,
        "e-fork",
        &child("parent", r#","seedLength":2"#),
        Some(ONCE),
    );
    put(home, "f-deep", &child("a-look", ""), Some(LOOK));
}

async fn list(host: &TestHost, parent: &str, scope: &str) -> Value {
    let request = json!({"parentSessionId": parent, "scope": scope});
    host.client.ok("subagent/list", request).await
}

#[tokio::test]
async fn the_children_of_a_cold_session_are_listed_and_nothing_wakes() {
    let home = tempfile::tempdir().unwrap();
    home_with_a_family(home.path());
    let host = TestHost::start(home.path(), "").await;
    let child = |id: &str, mode: &str, children: bool| {
        json!({"kind": "child", "id": id, "activity": "inactive", "hasChildren": children,
            "mode": mode})
    };
    let mut look = child("session-a-look", "continuable", true);
    look["label"] = json!("look");
    let corrupt = |id: &str| json!({"kind": "diagnostic", "id": id, "reason": "corrupt"});
    let expected = json!([
        look,
        child("session-b-once", "one-shot", false),
        corrupt("session-c-mute"),
        corrupt("session-d-heir"),
        child("session-e-fork", "one-shot", false),
    ]);
    for _ in 0..2 {
        let listed = list(&host, "session-parent", "children").await;
        assert_eq!(
            listed,
            json!({"entries": expected, "parentAvailable": true})
        );
        // Rows of the list keep checkpoints: the answer is the same with them.
        host.client.ok("session/list", json!({})).await;
    }
    let tree = list(&host, "session-parent", "descendants").await;
    let deep = &tree["entries"][1];
    assert_eq!(
        (&deep["id"], &deep["parentId"], &deep["depth"]),
        (
            &json!("session-f-deep"),
            &json!("session-a-look"),
            &json!(2)
        )
    );
    assert_eq!(tree["entries"].as_array().unwrap().len(), 6);
    let nobody = list(&host, "nobody", "children").await;
    assert_eq!(nobody, json!({"entries": [], "parentAvailable": false}));
    let stats = host.client.ok("host/stats", json!({})).await;
    assert_eq!(stats["liveSessions"], 0, "{stats}");
    host.stop().await;
}

#[tokio::test]
async fn a_child_is_read_and_followed_by_its_own_address_and_by_no_other() {
    let home = tempfile::tempdir().unwrap();
    home_with_a_family(home.path());
    let host = TestHost::start(home.path(), "").await;
    let address = |parent: &str, child: &str, mode: &str| {
        json!({"kind": "subagent", "parentSessionId": format!("session-{parent}"),
            "childSessionId": format!("session-{child}"), "mode": mode})
    };
    let page = |address: Value| json!({"address": address, "throughSeq": 3});
    let good = address("parent", "a-look", "continuable");
    let read = host.client.ok("session/page", page(good.clone())).await;
    assert_eq!(read["records"].as_array().unwrap().len(), 4, "{read}");
    let mut socket = host.client.socket().await;
    socket
        .open("f", "session/follow", json!({"address": good}))
        .await;
    let opening = socket.item("f").await;
    assert_eq!(opening["cursor"], 3);
    assert_eq!(
        opening["projections"]["values"]["subagent"]["label"],
        "look"
    );

    let forked = page(address("parent", "e-fork", "one-shot"));
    host.client.ok("session/page", forked).await;
    for (address, status, code, reason) in [
        (
            address("parent", "a-look", "one-shot"),
            403,
            "subagent/unauthorized",
            Value::Null,
        ),
        (
            address("b-once", "a-look", "continuable"),
            403,
            "subagent/unauthorized",
            Value::Null,
        ),
        (
            address("parent", "f-deep", "continuable"),
            403,
            "subagent/unauthorized",
            Value::Null,
        ),
        (
            address("parent", "parent", "continuable"),
            403,
            "subagent/unauthorized",
            Value::Null,
        ),
        (
            address("parent", "gone", "continuable"),
            404,
            "subagent/not-found",
            Value::Null,
        ),
        (
            address("parent", "c-mute", "one-shot"),
            422,
            "subagent/catalog-diagnostic",
            json!("corrupt"),
        ),
        (
            address("parent", "d-heir", "continuable"),
            422,
            "subagent/catalog-diagnostic",
            json!("unsupported"),
        ),
    ] {
        let (got, body) = host
            .client
            .call("session/page", page(address.clone()))
            .await;
        let error = &body["error"];
        assert_eq!(
            (got, &error["code"]),
            (status, &json!(code)),
            "{address}: {body}"
        );
        assert_eq!(error["details"]["reason"], reason, "{address}: {body}");
    }
    host.stop().await;
}

#[tokio::test]
async fn checkpoints_that_the_host_keeps_answer_for_children_without_a_read() {
    let home = tempfile::tempdir().unwrap();
    home_with_a_family(home.path());
    let host = TestHost::start(home.path(), "").await;
    let counters = async || host.client.ok("host/stats", json!({})).await["listing"].clone();
    let since = |before: &Value, after: &Value, key: &str| {
        after[key].as_u64().unwrap() - before[key].as_u64().unwrap()
    };
    let cold = counters().await;
    let first = list(&host, "session-parent", "children").await;
    let read = counters().await;
    assert_eq!(since(&cold, &read, "lists"), 1);
    assert_eq!(since(&cold, &read, "observations"), 5);
    assert_eq!(since(&cold, &read, "fromCheckpoints"), 0);
    // A list of sessions keeps what it learned of each, behind its answer.
    host.client.ok("session/list", json!({})).await;
    let kept = async {
        loop {
            let before = counters().await;
            let again = list(&host, "session-parent", "children").await;
            assert_eq!(again, first);
            let after = counters().await;
            let kept = since(&before, &after, "fromCheckpoints");
            let observed = since(&before, &after, "observations");
            assert_eq!(kept + observed, 5, "{before} {after}");
            // Those two that inherited nothing and say who they are.
            if kept == 2 {
                break;
            }
        }
    };
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, kept).await.unwrap();
    host.stop().await;
}
