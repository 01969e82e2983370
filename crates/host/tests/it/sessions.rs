use serde_json::{Value, json};

use crate::{TestHost, session, types};

#[tokio::test]
async fn a_prompt_is_answered_by_the_offline_model_through_real_tools() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let cwd = folder.path().join("project");
    let id = session(&host, &cwd).await;
    std::fs::write(cwd.join("README.md"), "# Lighthouse\n\nA lamp.\n").unwrap();
    let mut socket = host.client.socket().await;
    let opening = socket.follow("f", &id).await;
    assert_eq!(opening["cursor"], 2);
    let accepted = host.client.prompt(&id, "r1", "read README.md").await;
    assert_eq!(accepted["accepted"], true);
    let items = socket.turn("f").await;
    let seqs: Vec<u64> = items
        .iter()
        .map(|i| i["event"]["seq"].as_u64().unwrap())
        .collect();
    let dense: Vec<u64> = (3..3 + seqs.len() as u64).collect();
    assert_eq!(seqs, dense, "no event lost, doubled or reordered");
    let result = items
        .iter()
        .find(|i| i["event"]["type"] == "tool/result")
        .unwrap();
    assert!(result.to_string().contains("Lighthouse"), "{result}");
    assert_eq!(
        items.last().unwrap()["event"]["data"]["reason"]["kind"],
        "completed"
    );
    let rows = host.client.ok("session/list", json!({})).await;
    let row = &rows["items"][0];
    assert_eq!((&row["live"], &row["blank"]), (&json!(true), &json!(false)));
    assert_eq!(row["projections"]["values"]["title"], "read README.md");
    host.stop().await;
}

#[tokio::test]
async fn the_same_request_id_is_accepted_once_and_other_content_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let first = host.client.prompt(&id, "r1", "hello").await;
    assert_eq!(host.client.prompt(&id, "r1", "hello").await, first);
    let other = json!({"requestId": "r1", "sessionId": id, "mode": "queue",
        "content": [{"type": "text", "text": "other"}]});
    let conflict = host.client.code("session/prompt", other.clone()).await;
    assert_eq!(conflict, (409, "session/conflict".to_owned()));
    host.stop().await;
    let host = TestHost::start(folder.path(), "").await;
    assert_eq!(
        host.client.prompt(&id, "r1", "hello").await,
        first,
        "also after a restart"
    );
    host.stop().await;
}

#[tokio::test]
async fn a_command_asks_and_the_answer_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    socket.open("c", "session/control", json!({})).await;
    assert_eq!(socket.item("c").await["type"], "baseline");
    host.client
        .prompt(&id, "r1", "run `echo allowed > made.txt`")
        .await;
    let asked = socket
        .until("c", |i| {
            i["type"] == "interaction" && i["interactions"] != json!([])
        })
        .await;
    let interaction = asked.last().unwrap()["interactions"][0].clone();
    assert_eq!(interaction["state"], "pending");
    assert_eq!(interaction["request"]["toolName"], "bash");
    assert!(!folder.path().join("p/made.txt").exists());
    let answer = json!({"sessionId": id, "interactionId": interaction["interactionId"],
        "outcome": {"kind": "approval", "value": "allowed-once"}});
    assert_eq!(
        host.client.ok("interaction/answer", answer.clone()).await["accepted"],
        true
    );
    socket.turn("f").await;
    assert!(folder.path().join("p/made.txt").exists());
    let late = host.client.ok("interaction/answer", answer).await;
    assert_eq!(
        late,
        json!({"accepted": false, "settledAs": "allowed-once"})
    );
    let unknown = json!({"sessionId": id, "interactionId": "nobody",
        "outcome": {"kind": "approval", "value": "rejected"}});
    let code = host.client.code("interaction/answer", unknown).await;
    assert_eq!(code, (404, "interaction/not-found".to_owned()));
    host.stop().await;
}

#[tokio::test]
async fn a_stop_ends_the_command_keeps_the_queue_and_says_what_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(
        folder.path(),
        "[permissions]\npreset = \"danger-full-access\"\n",
    )
    .await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client
        .prompt(&id, "r1", "run `touch started; exec sleep 600`")
        .await;
    socket
        .until("f", |i| i["event"]["type"] == "tool/call")
        .await;
    host.client.prompt(&id, "r2", "hello").await;
    let stopped = host
        .client
        .ok("session/cancel", json!({"sessionId": id}))
        .await;
    assert_eq!(stopped["stopped"]["turn"], 1);
    assert_eq!(stopped["stopped"]["tools"].as_array().unwrap().len(), 1);
    let ended = socket.turn("f").await;
    let reason = &ended.last().unwrap()["event"]["data"]["reason"];
    assert_eq!(
        reason,
        &json!({"kind": "aborted", "reason": {"kind": "user"}})
    );
    socket.open("c", "session/control", json!({})).await;
    let baseline = socket.item("c").await;
    assert_eq!(baseline["value"]["queues"][&id]["parked"], true);
    assert_eq!(baseline["value"]["queues"][&id]["items"][0]["rpcId"], "r2");
    host.client
        .ok("session/resumeQueue", json!({"sessionId": id}))
        .await;
    let next = socket.turn("f").await;
    assert!(types(&next).contains(&"assistant/message".to_owned()));
    host.stop().await;
}

#[tokio::test]
async fn pages_put_together_are_the_whole_log() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    for n in 0..4 {
        host.client
            .prompt(&id, &format!("r{n}"), "count slowly to 5")
            .await;
        socket.turn("f").await;
    }
    let address = json!({"kind": "session", "sessionId": id});
    let whole = socket.follow("g", &id).await;
    let cursor = whole["cursor"].as_u64().unwrap();
    assert_eq!(whole["hasMore"], false);
    let mut before = cursor + 1;
    let mut pages: Vec<Value> = Vec::new();
    loop {
        let request = json!({"address": address, "throughSeq": cursor, "beforeSeq": before,
            "maxMessages": 2});
        let page = host.client.ok("session/page", request).await;
        let records = page["records"].as_array().unwrap().clone();
        before = records[0]["event"]["seq"].as_u64().unwrap();
        pages.splice(0..0, records);
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(before, 0);
    assert_eq!(&pages, whole["records"].as_array().unwrap());
    assert!(pages.iter().any(|r| r["type"] == "chunks"));
    let beyond = json!({"address": address, "throughSeq": cursor + 1});
    assert_eq!(host.client.code("session/page", beyond).await.0, 400);
    host.stop().await;
}

#[tokio::test]
async fn a_follower_that_comes_back_gets_exactly_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let mut first = host.client.socket().await;
    first.follow("f", &id).await;
    host.client.prompt(&id, "r1", "count slowly to 30").await;
    let seen = first
        .until("f", |i| i["event"]["type"] == "assistant/chunk")
        .await;
    let last = seen.last().unwrap()["event"]["seq"].as_u64().unwrap();
    drop(first);
    let mut second = host.client.socket().await;
    let address = json!({"kind": "session", "sessionId": id});
    let request = json!({"address": address, "afterSeq": last});
    second.open("f", "session/follow", request).await;
    let rest = second.turn("f").await;
    let seqs: Vec<u64> = rest
        .iter()
        .map(|i| i["event"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(
        seqs,
        (last + 1..=last + seqs.len() as u64).collect::<Vec<_>>()
    );
    let beyond = json!({"address": address, "afterSeq": 100_000});
    second.open("b", "session/follow", beyond).await;
    assert_eq!(
        second.frame("b").await["error"]["code"],
        "gateway/bad-request"
    );
    host.stop().await;
}

#[tokio::test]
async fn a_fork_shares_the_past_and_goes_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let empty = host
        .client
        .code("session/fork", json!({"sessionId": id}))
        .await;
    assert_eq!(empty, (409, "session/fork-unavailable".to_owned()));
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "hello").await;
    let turn = socket.turn("f").await;
    let end = turn.last().unwrap()["event"]["seq"].as_u64().unwrap();
    let fork = host
        .client
        .ok("session/fork", json!({"sessionId": id}))
        .await;
    let fork = fork["sessionId"].as_str().unwrap().to_owned();
    let opening = socket.follow("g", &fork).await;
    assert_eq!(opening["inheritedEventCount"], end + 1);
    assert_eq!(opening["header"]["parentSession"], json!(id));
    assert_eq!(opening["projections"]["values"]["title"], "hello (1)");
    host.client.prompt(&fork, "r1", "hello").await;
    let own = socket.turn("g").await;
    assert!(own.iter().any(|i| i["event"]["data"]["turn"] == 2));
    host.stop().await;
}

#[tokio::test]
async fn a_title_of_a_person_is_pinned_and_must_be_visible() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let renamed = json!({"sessionId": id, "title": "  My\u{200b}  title "});
    let renamed = host.client.ok("session/rename", renamed).await;
    assert_eq!(renamed["title"], "My title");
    let blank = json!({"sessionId": id, "title": " \u{200b}"});
    let refused = host.client.code("session/rename", blank).await;
    assert_eq!(refused, (400, "session/title-invalid".to_owned()));
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "hello").await;
    socket.turn("f").await;
    let rows = host.client.ok("session/list", json!({})).await;
    assert_eq!(
        rows["items"][0]["projections"]["values"]["title"],
        "My title"
    );
    host.stop().await;
}

#[tokio::test]
async fn creating_with_an_id_is_safe_to_repeat_and_another_folder_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let at = |name: &str| json!({"sessionId": "session-mine", "cwd": folder.path().join(name)});
    let calls = (0..8).map(|_| host.client.call("session/create", at("p")));
    for (status, made) in futures_util::future::join_all(calls).await {
        assert_eq!((status, &made["sessionId"]), (200, &json!("session-mine")));
    }
    let conflict = host.client.code("session/create", at("q")).await;
    assert_eq!(conflict, (409, "session/conflict".to_owned()));
    host.stop().await;
    let host = TestHost::start(folder.path(), "").await;
    assert_eq!(
        host.client.call("session/create", at("p")).await.0,
        200,
        "also when it is cold"
    );
    let rows = host.client.ok("session/list", json!({})).await;
    assert_eq!(rows["items"].as_array().unwrap().len(), 1);
    host.stop().await;
}

#[tokio::test]
async fn looking_at_a_session_never_starts_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    host.stop().await;
    let host = TestHost::start(folder.path(), "").await;
    let mut socket = host.client.socket().await;
    socket.open("k", "session/catalog", json!({})).await;
    let baseline = socket.item("k").await;
    assert_eq!(baseline["value"]["items"][0]["live"], false);
    let opening = socket.follow("f", &id).await;
    let cursor = opening["cursor"].as_u64().unwrap();
    let address = json!({"kind": "session", "sessionId": id});
    host.client
        .ok(
            "session/page",
            json!({"address": address, "throughSeq": cursor}),
        )
        .await;
    let stats = host.client.ok("host/stats", json!({})).await;
    assert_eq!(stats["liveSessions"], 0);
    let cold = host
        .client
        .code("session/cancel", json!({"sessionId": id}))
        .await;
    assert_eq!(cold, (404, "session/not-found".to_owned()));
    host.client.prompt(&id, "r1", "hello").await;
    let items = socket.turn("f").await;
    assert_eq!(
        items[0]["event"]["seq"],
        cursor + 1,
        "the follower goes on without a gap"
    );
    assert_eq!(items[0]["event"]["type"], "session/end-seed");
    socket
        .until("k", |i| i["type"] == "upsert" && i["item"]["live"] == true)
        .await;
    host.stop().await;
}
