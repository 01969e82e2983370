//! Foreign logs, where the environment names a folder of them: listed, paged and continued as
//! copies.

use std::path::Path;

use orrery_testkit::folders::{copy_folder, log_roots};
use serde_json::json;

use crate::TestHost;

#[tokio::test]
async fn foreign_sessions_are_listed_paged_and_continued() {
    let Some(samples) = std::env::var_os("ORRERY_SAMPLES") else {
        eprintln!("skipped: ORRERY_SAMPLES names no folder of foreign logs");
        return;
    };
    let found = log_roots(Path::new(&samples)).unwrap();
    assert!(!found.is_empty());
    for root in found {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("copied");
        copy_folder(&root, &sessions).unwrap();
        let config = format!("[session]\nroot = {sessions:?}\n");
        let host = TestHost::start(folder.path(), &config).await;
        let rows = host.client.ok("session/list", json!({})).await;
        assert_eq!(rows["diagnostics"], json!([]), "{}", root.display());
        for row in rows["items"].as_array().unwrap() {
            let id = row["sessionId"].as_str().unwrap();
            if row["origin"] == "subagent" {
                let prompt = json!({"requestId": "r", "sessionId": id, "mode": "queue",
                    "content": [{"type": "text", "text": "hi"}]});
                let fenced = host.client.code("session/prompt", prompt).await;
                assert_eq!(fenced, (409, "session/agent-busy".to_owned()));
                continue;
            }
            assert_eq!(row["blank"], false, "{row}");
            assert!(row["projections"]["values"]["title"].is_string(), "{row}");
            let mut socket = host.client.socket().await;
            let opening = socket.follow("f", id).await;
            let cursor = opening["cursor"].as_u64().unwrap();
            let address = json!({"kind": "session", "sessionId": id});
            let page = json!({"address": address, "throughSeq": cursor, "maxMessages": 2});
            let page = host.client.ok("session/page", page).await;
            assert!(!page["records"].as_array().unwrap().is_empty());
            // The recorded model is not configured here: choosing another lets it go on.
            let choice = json!({"sessionId": id, "provider": "offline", "model": "demo"});
            let (status, body) = host.client.call("session/selectModel", choice).await;
            if body["error"]["code"] == "agent-preset/not-found" {
                continue;
            }
            assert_eq!(status, 200, "{body}");
            host.client.prompt(id, "r1", "hello").await;
            let items = socket.turn("f").await;
            assert_eq!(items[0]["event"]["seq"], cursor + 1);
            assert_eq!(
                items.last().unwrap()["event"]["data"]["reason"]["kind"],
                "completed"
            );
        }
        host.stop().await;
    }
}
