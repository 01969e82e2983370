//! Sessions in the archive and in the trash, over the wire.

use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::LogWriter;
use orrery_testkit::model_server::{Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::delegation::{children, house};
use crate::{TestHost, logs, session};

async fn listed(host: &TestHost) -> Vec<(String, bool)> {
    let listed = host.client.ok("session/list", json!({})).await;
    assert_eq!(listed["diagnostics"], json!([]));
    let row = |row: &Value| {
        let id = row["sessionId"].as_str().unwrap().to_owned();
        (id, row["archived"].as_bool().unwrap())
    };
    listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(row)
        .collect()
}

async fn trash(host: &TestHost) -> Value {
    host.client.ok("session/trash", json!({})).await["items"].clone()
}

#[tokio::test]
async fn a_deleted_session_is_in_the_trash_with_its_subagents_and_comes_back_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let arguments =
        json!({"description": "look", "prompt": "THE-CHILD", "run_in_background": false});
    let call = Reply::new().tool_call("c1", "subagent", &arguments.to_string());
    server.push_for("THE-PARENT", call);
    server.push_for("THE-PARENT", Reply::say("done"));
    server.push_for("THE-CHILD", Reply::say("seen"));
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    socket.turn("f").await;
    let child = children(&host, &parent).await[0]["id"].clone();
    let other = session(&host, &folder.path().join("q")).await;

    let mut catalog = host.client.socket().await;
    catalog.open("c", "session/catalog", json!({})).await;
    catalog.item("c").await;
    let named = json!({"sessionId": parent});
    host.client.ok("session/delete", named.clone()).await;
    let removed = catalog.until("c", |item| item["type"] == "remove").await;
    assert!(json!(removed).to_string().contains(&parent));
    assert_eq!(listed(&host).await, [(other.clone(), false)]);
    for gone in [json!(parent), child.clone()] {
        let address = json!({"kind": "session", "sessionId": gone});
        let page = json!({"address": address, "throughSeq": 0});
        let refused = host.client.code("session/page", page).await;
        assert_eq!(refused, (404, "session/not-found".to_owned()));
    }
    let items = trash(&host).await;
    assert_eq!(items.as_array().unwrap().len(), 1);
    assert_eq!(items[0]["sessionId"], json!(parent));
    assert_eq!(items[0]["title"], "THE-PARENT asks");
    assert_eq!(items[0]["cwd"], json!(folder.path().join("p")));
    // It cannot be deleted twice, and what is not there cannot come back.
    let refused = host.client.code("session/delete", named.clone()).await;
    assert_eq!(refused, (404, "session/not-found".to_owned()));
    let missing = json!({"sessionId": other});
    let refused = host.client.code("session/restore", missing).await;
    assert_eq!(refused, (404, "session/not-found".to_owned()));

    host.stop().await;
    let host = TestHost::start(folder.path(), &crate::models::config(&server)).await;
    assert_eq!(trash(&host).await, items);
    host.client.ok("session/restore", named.clone()).await;
    assert_eq!(trash(&host).await, json!([]));
    assert_eq!(children(&host, &parent).await[0]["id"], child);
    server.push_for("THE-PARENT", Reply::say("still here"));
    let mut socket = host.client.socket().await;
    socket.follow("f", &parent).await;
    host.client.prompt(&parent, "r2", "THE-PARENT again").await;
    let items = json!(socket.turn("f").await).to_string();
    assert!(items.contains("still here"), "{items}");
    host.stop().await;
}

#[tokio::test]
async fn what_is_at_work_stays_and_a_child_goes_with_its_parent_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let arguments =
        json!({"description": "look", "prompt": "THE-CHILD", "run_in_background": true});
    let call = Reply::new().tool_call("c1", "subagent", &arguments.to_string());
    server.push_for("THE-PARENT", call);
    server.push_for("THE-PARENT", Reply::say("it works"));
    let gate = Gate::new();
    server.push_for("THE-CHILD", Reply::new().gate(&gate).text("seen"));
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    socket.turn("f").await;
    let child = children(&host, &parent).await[0]["id"].clone();
    let busy = (409, "session/agent-busy".to_owned());
    // The parent rests, its child does not.
    let refused = host
        .client
        .code("session/delete", json!({"sessionId": parent}));
    assert_eq!(refused.await, busy);
    for verb in ["archive", "unarchive", "delete"] {
        let verb = format!("session/{verb}");
        let refused = host.client.code(&verb, json!({"sessionId": child}));
        assert_eq!(refused.await, busy, "{verb}");
    }
    assert_eq!(trash(&host).await, json!([]));
    server.push_for("THE-PARENT", Reply::say("heard"));
    gate.open();
    // The child's last words open a turn of the parent.
    socket.turn("f").await;
    host.client
        .ok("session/delete", json!({"sessionId": parent}))
        .await;
    assert_eq!(listed(&host).await, []);
    host.stop().await;
}

#[tokio::test]
async fn the_archive_hides_and_shows_and_outlives_the_process() {
    let home = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let mut log = LogWriter::new(name, Container::Zstd, r#","delegationDepth":0"#);
        log.event("turn/start", r#"{"turn":1}"#);
        log.prompt("hello");
        log.end_frame();
        logs::put(home.path(), &log.finish());
    }
    let host = TestHost::start(home.path(), "").await;
    let named = json!({"sessionId": "session-a"});
    for _ in 0..2 {
        host.client.ok("session/archive", named.clone()).await;
    }
    host.stop().await;
    let host = TestHost::start(home.path(), "").await;
    let mut rows = listed(&host).await;
    rows.sort();
    let (a, b) = ("session-a".to_owned(), "session-b".to_owned());
    assert_eq!(rows, [(a.clone(), true), (b.clone(), false)]);
    host.client.ok("session/unarchive", named).await;
    let mut rows = listed(&host).await;
    rows.sort();
    assert_eq!(rows, [(a, false), (b, false)]);
    let stats = host.client.ok("host/stats", json!({})).await;
    assert_eq!(stats["liveSessions"], 0, "nothing woke");
    let missing = host
        .client
        .code("session/archive", json!({"sessionId": "none"}));
    assert_eq!(missing.await, (404, "session/not-found".to_owned()));
    host.stop().await;
}

#[tokio::test]
async fn a_session_in_which_nothing_was_said_is_deleted_without_a_trace() {
    let home = tempfile::tempdir().unwrap();
    let host = TestHost::start(home.path(), "").await;
    let id = session(&host, &home.path().join("p")).await;
    host.client
        .ok("session/delete", json!({"sessionId": id}))
        .await;
    assert_eq!(listed(&host).await, []);
    host.stop().await;
}
