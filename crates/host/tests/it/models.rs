//! The loop against a scripted model server, over real streaming HTTP.

use orrery_testkit::model_server::{Gate, ModelServer, Reply};
use serde_json::json;

use crate::{TestHost, session, types};

fn config(server: &ModelServer) -> String {
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
