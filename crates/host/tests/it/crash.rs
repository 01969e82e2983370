//! What is there after the process is gone: here by copying the home while a turn runs, which is
//! what a disk looks like after SIGKILL.

use std::path::Path;

use orrery_testkit::folders::copy_folder;
use serde_json::json;

use crate::{TestHost, session, types};

#[tokio::test]
async fn an_interrupted_turn_shows_as_such_and_the_next_prompt_works() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "run `echo never`").await;
    socket
        .until("f", |i| i["event"]["type"] == "approval/asked")
        .await;
    host.client.prompt(&id, "r2", "waits").await;
    let dead = tempfile::tempdir().unwrap();
    copy_folder(&folder.path().join("data"), &dead.path().join("data")).unwrap();
    host.client
        .ok("session/cancel", json!({"sessionId": id}))
        .await;
    host.stop().await;

    let host = TestHost::start(dead.path(), "").await;
    let mut socket = host.client.socket().await;
    socket.open("c", "session/control", json!({})).await;
    let baseline = socket.item("c").await;
    let interaction = baseline["value"]["interactions"][&id][0].clone();
    assert_eq!(interaction["state"], "expired");
    assert_eq!(baseline["value"]["queues"][&id]["items"][0]["rpcId"], "r2");
    let answer = json!({"sessionId": id, "interactionId": interaction["interactionId"],
        "outcome": {"kind": "approval", "value": "allowed-once"}});
    let late = host.client.ok("interaction/answer", answer).await;
    assert_eq!(late, json!({"accepted": false, "settledAs": "expired"}));
    let opening = socket.follow("f", &id).await;
    let records = opening["records"].as_array().unwrap();
    let last = records.last().unwrap();
    assert_eq!(last["event"]["data"]["reason"]["kind"], "interrupted");
    assert!(
        types(records).contains(&"tool/result".to_owned()),
        "the open call is answered"
    );
    host.client.prompt(&id, "r3", "hello").await;
    let first = socket.turn("f").await;
    assert_eq!(
        first[0]["event"]["seq"],
        opening["cursor"].as_u64().unwrap() + 1
    );
    assert!(
        first
            .iter()
            .any(|i| i.to_string().contains("\"rpcId\":\"r2\"")),
        "r2 came first"
    );
    let second = socket.turn("f").await;
    assert!(
        second
            .iter()
            .any(|i| i.to_string().contains("\"rpcId\":\"r3\""))
    );
    host.stop().await;
}

#[tokio::test]
async fn a_damaged_log_is_said_and_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "[session]\ncompression = \"none\"\n").await;
    let good = session(&host, &folder.path().join("good")).await;
    let bad = session(&host, &folder.path().join("bad")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &bad).await;
    host.client.prompt(&bad, "r1", "hello").await;
    socket.turn("f").await;
    host.stop().await;
    let sessions = folder.path().join("data/sessions");
    let log = find(&sessions, &bad);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("turn/start", "turn\u{0}start", 1)).unwrap();
    // An index that saw the log whole would lead past the damage. So small a log has none.
    assert!(!log.with_file_name("session.index").exists());
    let host = TestHost::start(folder.path(), "").await;
    let rows = host.client.ok("session/list", json!({})).await;
    let ids: Vec<&str> = rows["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["sessionId"].as_str().unwrap())
        .collect();
    assert!(ids.contains(&good.as_str()) && ids.contains(&bad.as_str()));
    assert_eq!(rows["diagnostics"][0]["reason"], "corrupt");
    assert_eq!(rows["diagnostics"][0]["sessionId"], json!(bad));
    host.stop().await;
}

fn find(folder: &Path, id: &str) -> std::path::PathBuf {
    for project in std::fs::read_dir(folder).unwrap() {
        let path = project.unwrap().path().join(id).join("session.jsonl");
        if path.exists() {
            return path;
        }
    }
    panic!("no log of {id}");
}

#[tokio::test]
async fn a_second_host_on_one_home_may_look_but_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestHost::start(folder.path(), "").await;
    let id = session(&first, &folder.path().join("p")).await;
    let second = TestHost::start(folder.path(), "").await;
    let rows = second.client.ok("session/list", json!({})).await;
    assert_eq!(rows["items"][0]["sessionId"], json!(id));
    let prompt = json!({"requestId": "r", "sessionId": id, "mode": "queue",
        "content": [{"type": "text", "text": "hi"}]});
    let (status, body) = second.client.call("session/prompt", prompt).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (409, &json!("session/writer-held"))
    );
    assert!(
        body["error"]["details"]["holder"]
            .as_str()
            .unwrap()
            .contains("process")
    );
    first.stop().await;
    second.client.prompt(&id, "r", "hi").await;
    second.stop().await;
}
