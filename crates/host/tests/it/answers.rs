//! Everything that a Host tells of cold sessions, to be told alike whatever happened before.

use std::path::Path;
use std::time::{Duration, Instant};

use orrery_testkit::folders::copy_folder;
use serde_json::{Value, json};

use crate::{TestHost, logs, session};

/// How long something may take that happens in the background.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A home whose sessions are all cold: one of two turns with a title of a person, its fork, a blank
/// one, one that died while it asked and had another message waiting, and one that is long enough
/// for an index beside it.
pub(crate) async fn lived_in(dead: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let mut ids = Vec::new();
    for name in ["talked", "blank", "asking"] {
        ids.push(session(&host, &folder.path().join(name)).await);
    }
    let mut socket = host.client.socket().await;
    socket.follow("t", &ids[0]).await;
    for request in ["r1", "r2"] {
        host.client.prompt(&ids[0], request, "hello").await;
        socket.turn("t").await;
    }
    let title = json!({"sessionId": ids[0], "title": "Two greetings"});
    host.client.ok("session/rename", title).await;
    let fork = json!({"sessionId": ids[0]});
    let fork = host.client.ok("session/fork", fork).await;
    ids.push(fork["sessionId"].as_str().unwrap().to_owned());
    socket.follow("a", &ids[2]).await;
    host.client.prompt(&ids[2], "r1", "run `echo never`").await;
    socket
        .until("a", |i| i["event"]["type"] == "approval/asked")
        .await;
    host.client.prompt(&ids[2], "r2", "waits").await;
    copy_folder(&folder.path().join("data"), &dead.join("data")).unwrap();
    let cancel = json!({"sessionId": ids[2]});
    host.client.ok("session/cancel", cancel).await;
    host.stop().await;
    let long = logs::long("long", 80);
    logs::put(dead, &long);
    ids.push(long.id);
    ids
}

/// Everything that is told of cold sessions, whole.
pub(crate) async fn answers(host: &TestHost, ids: &[String]) -> Value {
    let mut socket = host.client.socket().await;
    socket.open("c", "session/control", json!({})).await;
    let mut follows = Vec::new();
    for id in ids {
        follows.push(socket.follow(id, id).await);
    }
    json!({
        "list": host.client.ok("session/list", json!({})).await,
        "control": socket.item("c").await,
        "follows": follows,
    })
}

/// What searches find, once nothing is left to be indexed.
pub(crate) async fn found(host: &TestHost) -> Value {
    let begin = Instant::now();
    let mut found = Vec::new();
    for query in ["hello", "greetings", "waits", "turn79", "blank"] {
        let request = json!({"query": query});
        let mut page = host.client.ok("session/search", request.clone()).await;
        while page["indexing"] == true {
            assert!(begin.elapsed() < PATIENCE, "{page}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            page = host.client.ok("session/search", request.clone()).await;
        }
        found.push(page);
    }
    json!(found)
}
