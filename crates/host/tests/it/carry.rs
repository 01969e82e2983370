//! Sessions that are carried from one Host to another as a file.

use std::io::{Cursor, Read as _, Write as _};

use orrery_testkit::model_server::{ModelServer, Reply};
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::delegation::{children, house};
use crate::{TestHost, session};

async fn export(host: &TestHost, id: &str, more: &str) -> (u16, Vec<u8>) {
    let url = format!(
        "{}/api/session/export?sessionId={id}{more}",
        host.client.base
    );
    let request = host.client.http.get(url).bearer_auth(&host.client.token);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.bytes().await.unwrap().to_vec())
}

async fn import(host: &TestHost, archive: Vec<u8>) -> (u16, Value) {
    let url = format!("{}/api/session/import", host.client.base);
    let request = host.client.http.post(url).bearer_auth(&host.client.token);
    let request = request
        .header(CONTENT_TYPE, "application/zip")
        .body(archive);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

/// The records of a whole session, without what a Host adds when it looks.
async fn records(host: &TestHost, address: Value) -> Value {
    let mut socket = host.client.socket().await;
    socket
        .open(
            "r",
            "session/follow",
            json!({"address": address, "maxMessages": 500}),
        )
        .await;
    socket.item("r").await["records"].clone()
}

fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn unpacked(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut files = Vec::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        files.push((file.name().unwrap().into_owned(), bytes));
    }
    files
}

#[tokio::test]
async fn a_live_session_is_carried_to_another_host_with_its_subagents_and_goes_on_there() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(here.path(), &server, "").await;
    let arguments =
        json!({"description": "look", "prompt": "THE-CHILD", "run_in_background": false});
    let call = Reply::new().tool_call("c1", "subagent", &arguments.to_string());
    server.push_for("THE-PARENT", call);
    server.push_for("THE-PARENT", Reply::say("done"));
    server.push_for("THE-CHILD", Reply::say("seen"));
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    socket.turn("f").await;
    let child = children(&host, &parent).await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let address = |parent: &str| json!({"kind": "session", "sessionId": parent});
    let of_child = |parent: &str, child: &str| {
        json!({"kind": "subagent", "parentSessionId": parent, "childSessionId": child,
            "mode": "one-shot"})
    };
    let said = records(&host, address(&parent)).await;
    let said_by_child = records(&host, of_child(&parent, &child)).await;

    let (status, alone) = export(&host, &parent, "").await;
    assert_eq!(status, 200);
    let names = |archive: &[u8]| -> Vec<String> {
        unpacked(archive)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(names(&alone), ["session.jsonl"]);
    let (_, whole) = export(&host, &parent, "&includeDescendants=true").await;
    let in_archive = format!("subagents/{child}/session.jsonl");
    assert_eq!(names(&whole), ["session.jsonl".to_owned(), in_archive]);

    let config = crate::models::config(&server);
    let other = TestHost::start(there.path(), &config).await;
    let (status, came) = import(&other, whole.clone()).await;
    assert_eq!(status, 200, "{came}");
    assert_eq!(came, json!({"sessionIds": [parent, child], "renamed": []}));
    assert_eq!(records(&other, address(&parent)).await, said);
    assert_eq!(
        records(&other, of_child(&parent, &child)).await,
        said_by_child
    );
    // The same once more comes in beside it, as a family of its own.
    let (_, again) = import(&other, whole.clone()).await;
    let new: Vec<&str> = again["sessionIds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert_eq!(again["renamed"][0], json!({"from": parent, "to": new[0]}));
    assert_eq!(records(&other, address(new[0])).await, said);
    assert_eq!(
        records(&other, of_child(new[0], new[1])).await,
        said_by_child
    );
    assert_eq!(children(&other, new[0]).await[0]["id"], new[1]);
    server.push_for("THE-PARENT", Reply::say("and on"));
    let mut socket = other.client.socket().await;
    socket.follow("f", new[0]).await;
    other.client.prompt(new[0], "r2", "THE-PARENT again").await;
    assert!(json!(socket.turn("f").await).to_string().contains("and on"));
    // Out and in again, nothing of the text changes but the header.
    let (_, back) = export(&other, &parent, "").await;
    assert_eq!(unpacked(&back)[0].1, unpacked(&alone)[0].1);
    host.stop().await;
    other.stop().await;
    let left = std::fs::read_dir(there.path().join("data/sessions")).unwrap();
    let hidden = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with('.')
    });
    assert_eq!(hidden.count(), 0, "nothing stays behind");
}

#[tokio::test]
async fn what_is_no_archive_of_sound_sessions_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let host = TestHost::start(home.path(), "").await;
    let id = session(&host, &home.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "hello").await;
    socket.turn("f").await;
    let (_, sound) = export(&host, &id, "").await;
    let log = unpacked(&sound).remove(0).1;
    let text = String::from_utf8(log.clone()).unwrap();
    let cut = &log[..log.len() - 5];
    let gap: String = text
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != 3)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    let future = text.replacen("\"version\":0", "\"version\":7", 1);
    let mut flipped = sound.clone();
    let middle = flipped.len() / 3;
    flipped[middle] ^= 0xff;
    for (archive, said) in [
        (b"no archive".to_vec(), "ZIP"),
        (packed(&[("readme.txt", b"x")]), "no session.jsonl"),
        (packed(&[("session.jsonl", b"")]), "session.jsonl"),
        (packed(&[("session.jsonl", b"{}\n")]), "session.jsonl"),
        (packed(&[("session.jsonl", cut)]), "session.jsonl"),
        (
            packed(&[("session.jsonl", gap.as_bytes())]),
            "session.jsonl",
        ),
        (packed(&[("session.jsonl", future.as_bytes())]), "version"),
        (
            packed(&[("session.jsonl", &log), ("subagents/a/session.jsonl", &log)]),
            "twice",
        ),
        (
            packed(&[("session.jsonl", &log), ("subagents/a/session.jsonl", b"x")]),
            "subagents/a",
        ),
        (flipped, ""),
    ] {
        let (status, answer) = import(&host, archive).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (400, &json!("gateway/bad-request")),
            "{said}: {answer}"
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{message}");
        // No path of this machine is told.
        assert!(
            !message.contains(home.path().to_str().unwrap()),
            "{message}"
        );
    }
    // Names that point elsewhere are not followed.
    let archive = packed(&[("session.jsonl", &log), ("../../evil/session.jsonl", &log)]);
    assert_eq!(import(&host, archive).await.0, 200);
    let listed = host.client.ok("session/list", json!({})).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["diagnostics"], json!([]));

    let missing = export(&host, "none", "").await;
    assert_eq!(missing.0, 404);
    assert_eq!(export(&host, &id, "&includeDescendants=maybe").await.0, 400);
    let url = format!("{}/api/session/import", host.client.base);
    let plain = host
        .client
        .http
        .post(url)
        .bearer_auth(&host.client.token)
        .body("x");
    assert_eq!(plain.send().await.unwrap().status(), 415);
    host.stop().await;
}
