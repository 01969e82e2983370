//! The loop against a scripted model server, over real streaming HTTP.

use orrery_testkit::model_server::{Gate, ModelServer, Reply};
use serde_json::json;

use crate::{TestHost, session, types};

pub(crate) fn config(server: &ModelServer) -> String {
    format!(
        "default_model = \"local/small\"\n[providers.local]\nkind = \"openai-chat\"\n\
         base_url = \"{}\"\nmodels = [\"small\"]\n\
         [permissions]\npreset = \"danger-full-access\"\n",
        server.base_url()
    )
}

#[tokio::test]
async fn a_real_stream_runs_a_tool_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.set_strict(true);
    server.push(Reply::new().text("Looking.").tool_call("c1", "list", "{}"));
    server.push(Reply::say("Done: one file."));
    let host = TestHost::start(folder.path(), &config(&server)).await;
    let id = session(&host, &folder.path().join("p")).await;
    std::fs::write(folder.path().join("p/only.txt"), "x").unwrap();
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "what is here?").await;
    let items = socket.turn("f").await;
    assert_eq!(
        items.last().unwrap()["event"]["data"]["reason"]["kind"],
        "completed"
    );
    let requests = server.received();
    assert_eq!(requests.len(), 2);
    let second = requests[1].body.to_string();
    assert!(second.contains("only.txt"), "{second}");
    host.stop().await;
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_a_stop_hangs_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server
        .push(Reply::error(429, &json!({"error": {"message": "busy"}})).header("retry-after", "0"));
    let gate = Gate::new();
    server.push(Reply::new().text("half of it").gate(&gate).text("never"));
    let host = TestHost::start(folder.path(), &config(&server)).await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "go").await;
    let items = socket
        .until("f", |i| i.to_string().contains("half of it"))
        .await;
    assert!(types(&items).contains(&"llm/retry".to_owned()));
    host.client
        .ok("session/cancel", json!({"sessionId": id}))
        .await;
    server.wait_for_hang_ups(1).await;
    let rest = socket.turn("f").await;
    let kept = rest
        .iter()
        .find(|i| i["event"]["type"] == "assistant/message")
        .unwrap();
    assert_eq!(kept["event"]["data"]["interrupted"], true);
    assert!(kept.to_string().contains("half of it"));
    host.stop().await;
}

#[tokio::test]
async fn a_refused_key_ends_the_turn_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::error(401, &json!({"error": {"message": "bad key"}})));
    let host = TestHost::start(folder.path(), &config(&server)).await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "go").await;
    let items = socket.turn("f").await;
    let reason = &items.last().unwrap()["event"]["data"]["reason"];
    assert_eq!(
        (reason["kind"].as_str(), reason["error"]["code"].as_str()),
        (Some("error"), Some("INVALID_CREDENTIAL"))
    );
    host.stop().await;
}

#[tokio::test]
async fn the_catalogue_lists_all_providers_and_a_choice_counts_from_the_next_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("from the server"));
    let host = TestHost::start(folder.path(), &config(&server)).await;
    let catalogue = host.client.ok("session/modelCatalog", json!({})).await;
    assert_eq!(catalogue["routableProviders"], json!(["local", "offline"]));
    assert_eq!(
        catalogue["default"],
        json!({"provider": "local", "model": "small"})
    );
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "go").await;
    socket.turn("f").await;
    let choice = json!({"sessionId": id, "provider": "offline", "model": "demo"});
    host.client.ok("session/selectModel", choice).await;
    host.client.prompt(&id, "r2", "hello").await;
    let items = socket.turn("f").await;
    let header = items
        .iter()
        .find(|i| i["event"]["type"] == "request/header")
        .unwrap();
    assert_eq!(
        header["event"]["data"]["header"]["config"]["provider"],
        "offline"
    );
    let nobody = json!({"sessionId": id, "provider": "nobody", "model": "x"});
    let refused = host.client.code("session/selectModel", nobody).await;
    assert_eq!(refused, (422, "session/model-unavailable".to_owned()));
    host.stop().await;
}

#[tokio::test]
async fn a_long_live_session_is_read_from_disk_where_memory_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    for turn in 0..4 {
        let mut reply = Reply::new();
        for piece in 0..5 {
            let text = format!("turn {turn} piece {piece} {}", "x".repeat(700_000));
            reply = reply.text(&text);
        }
        server.push(reply);
    }
    let host = TestHost::start(folder.path(), &config(&server)).await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    let address = json!({"kind": "session", "sessionId": id});
    socket.follow("f", &id).await;
    for turn in 0..4 {
        host.client.prompt(&id, &format!("r{turn}"), "go on").await;
        let ended = socket.turn("f").await;
        assert_eq!(
            ended.last().unwrap()["event"]["data"]["reason"]["kind"],
            "completed"
        );
    }
    // From the very beginning, although the session is live and holds only its newest events.
    socket
        .open(
            "g",
            "session/follow",
            json!({"address": address, "afterSeq": 0}),
        )
        .await;
    let again = socket
        .until("g", |i| {
            i["event"]["data"]["turn"] == 4 && i["event"]["type"] == "turn/end"
        })
        .await;
    let seqs: Vec<u64> = again
        .iter()
        .map(|i| i["event"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let cursor = seqs.last().unwrap();
    let mut before = cursor + 1;
    let mut seen = Vec::new();
    loop {
        let request = json!({"address": address, "throughSeq": cursor, "beforeSeq": before,
            "maxMessages": 3});
        let page = host.client.ok("session/page", request).await;
        let records = page["records"].as_array().unwrap().clone();
        before = records[0]["event"]["seq"].as_u64().unwrap();
        seen.splice(0..0, records);
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(before, 0);
    let answers = seen
        .iter()
        .filter(|r| r["event"]["type"] == "assistant/message")
        .count();
    assert_eq!(answers, 4);
    let fork = host
        .client
        .ok("session/fork", json!({"sessionId": id}))
        .await;
    let address = json!({"kind": "session", "sessionId": fork["sessionId"]});
    let request = json!({"address": address, "maxMessages": 1});
    socket.open("h", "session/follow", request).await;
    let opening = socket.item("h").await;
    assert_eq!(opening["inheritedEventCount"].as_u64(), Some(cursor + 1));
    host.stop().await;
}
