//! Foreign logs, where the environment names a folder of them: listed, paged and continued as
//! copies.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::TestHost;

fn roots(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if name.starts_with("--") && name.ends_with("--") {
            found.push(folder.to_path_buf());
            return;
        }
        if path.is_dir() {
            roots(&path, found);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            // Read and written: the originals may be read-only, and a copy must not be.
            std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn foreign_sessions_are_listed_paged_and_continued() {
    let Some(samples) = std::env::var_os("ORRERY_SAMPLES") else {
        eprintln!("skipped: ORRERY_SAMPLES names no folder of foreign logs");
        return;
    };
    let mut found = Vec::new();
    roots(Path::new(&samples), &mut found);
    assert!(!found.is_empty());
    for root in found {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("copied");
        copy(&root, &sessions);
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
