//! Delegated work, with a scripted model behind every agent.

use std::path::Path;
use std::time::{Duration, Instant};

use orrery_testkit::folders::copy_folder;
use orrery_testkit::model_server::{Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::answers::PATIENCE;
use crate::client::Socket;
use crate::models::config;
use crate::{TestHost, session, types};

/// A call of the tool that delegates.
fn delegate(id: &str, label: &str, prompt: &str, background: bool) -> Reply {
    Reply::new().tool_call(id, "subagent", &task(label, prompt, background))
}

fn task(label: &str, prompt: &str, background: bool) -> String {
    json!({"description": label, "prompt": prompt, "run_in_background": background}).to_string()
}

/// A Host, a session of it, and a socket that follows it as `f`.
pub(crate) async fn house(
    folder: &Path,
    server: &ModelServer,
    more: &str,
) -> (TestHost, String, Socket) {
    server.set_strict(true);
    let host = TestHost::start(folder, &format!("{}{more}", config(server))).await;
    let id = session(&host, &folder.join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    (host, id, socket)
}

pub(crate) async fn children(host: &TestHost, parent: &str) -> Vec<Value> {
    let listed = host
        .client
        .ok("subagent/list", json!({"parentSessionId": parent}));
    listed.await["entries"].as_array().unwrap().clone()
}

/// Waits until the children of a session are as wanted.
pub(crate) async fn children_once(
    host: &TestHost,
    parent: &str,
    wanted: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let rows = children(host, parent).await;
        if wanted(&rows) {
            return rows;
        }
        assert!(begin.elapsed() < PATIENCE, "{rows:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn id_of(row: &Value) -> String {
    row["id"].as_str().unwrap().to_owned()
}

pub(crate) fn address(parent: &str, child: &str, mode: &str) -> Value {
    json!({"kind": "subagent", "parentSessionId": parent, "childSessionId": child, "mode": mode})
}

/// The last tool result of a list of followed items.
pub(crate) fn result_of(items: &[Value]) -> String {
    let mut results = items.iter().filter(|i| i["event"]["type"] == "tool/result");
    results.next_back().unwrap()["event"]["data"].to_string()
}

#[tokio::test]
async fn a_foreground_subagent_works_in_its_own_session_and_its_last_words_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push_for(
        "THE-PARENT",
        delegate("c1", "look  at it", "THE-CHILD looks", false),
    );
    server.push_for("THE-PARENT", Reply::say("merged"));
    server.push_for(
        "THE-CHILD",
        Reply::new().text("first").tool_call("k1", "list", "{}"),
    );
    server.push_for("THE-CHILD", Reply::say("two files, no tests"));
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let items = socket.turn("f").await;
    let result = result_of(&items);
    assert!(result.contains("two files, no tests"), "{result}");
    assert!(!result.contains("first"), "{result}");

    let rows = children(&host, &parent).await;
    let child = id_of(&rows[0]);
    let expected = json!([{"kind": "child", "id": child, "activity": "inactive",
        "hasChildren": false, "mode": "one-shot", "label": "look at it"}]);
    assert_eq!(json!(rows), expected);
    socket
        .open(
            "k",
            "session/follow",
            json!({"address": address(&parent, &child, "one-shot")}),
        )
        .await;
    let opening = socket.item("k").await;
    let header = &opening["header"];
    assert_eq!(
        (
            &header["origin"],
            &header["parentSession"],
            &header["delegationDepth"]
        ),
        (&json!("subagent"), &json!(parent), &json!(1))
    );
    let records = opening["records"].as_array().unwrap();
    // Policies first, the descriptor of a one-shot child in its first step behind its prompt.
    let kinds = types(records);
    let at = |kind: &str| kinds.iter().position(|k| k == kind).unwrap();
    assert!(at("sandbox/mode") < at("turn/start"), "{kinds:?}");
    assert!(at("user/message") < at("subagent/descriptor"), "{kinds:?}");
    assert!(
        at("subagent/descriptor") < at("request/header"),
        "{kinds:?}"
    );
    let policy = &records[at("approval/policy")]["event"]["data"];
    assert_eq!(*policy, json!({"policy": "never", "source": "delegation"}));
    let requests = server.received();
    let system = requests[1].body["messages"][0]["content"].to_string();
    assert!(system.contains("You are a subagent"), "{system}");
    // A child is spoken to through its parent only.
    let refused = host.client.code(
        "session/prompt",
        json!({"sessionId": child, "requestId": "x",
        "mode": "queue", "content": [{"type": "text", "text": "hi"}]}),
    );
    assert_eq!(refused.await, (409, "session/agent-busy".to_owned()));
    host.stop().await;
}

#[tokio::test]
async fn a_continuable_subagent_reports_when_it_rests_and_is_woken_by_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let gate = Gate::new();
    server.push_for(
        "THE-PARENT",
        delegate("c1", "long look", "THE-CHILD looks", true),
    );
    server.push_for("THE-PARENT", Reply::say("it works in the background"));
    server.push_for("THE-CHILD", Reply::new().gate(&gate).text("found seven"));
    server.push_for("THE-PARENT", Reply::say("seven, then"));
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let items = socket.turn("f").await;
    assert!(result_of(&items).contains("started subagent"));
    let rows = children(&host, &parent).await;
    let child = id_of(&rows[0]);
    assert_eq!(
        (&rows[0]["activity"], &rows[0]["mode"], &rows[0]["label"]),
        (
            &json!("running"),
            &json!("continuable"),
            &json!("long look")
        )
    );
    gate.open();
    // The parent, idle by now, is told in a turn of its own.
    let told = socket.turn("f").await;
    let notice = told
        .iter()
        .find(|i| i["event"]["type"] == "user/message")
        .unwrap();
    let notice = &notice["event"]["data"];
    assert_eq!(notice["source"]["kind"], "subagent-settled");
    assert_eq!(notice["source"]["senderSessionId"], child);
    assert!(notice.to_string().contains("found seven"), "{notice}");
    children_once(&host, &parent, |rows| rows[0]["activity"] == "inactive").await;

    // A person speaks to it: it wakes, answers, and its parent is told again.
    server.push_for("THE-CHILD", Reply::say("eight with the new one"));
    server.push_for("THE-PARENT", Reply::say("eight, then"));
    let prompt = json!({"requestId": "p1", "parentSessionId": parent, "childSessionId": child,
        "mode": "continuable", "content": [{"type": "text", "text": "look again"}]});
    let accepted = host.client.ok("subagent/prompt", prompt.clone()).await;
    assert!(accepted["messageId"].is_string());
    let told = socket.turn("f").await;
    assert!(json!(told).to_string().contains("eight with the new one"));
    children_once(&host, &parent, |rows| rows[0]["activity"] == "inactive").await;
    let page = json!({"address": address(&parent, &child, "continuable"), "throughSeq": 1_000});
    let (status, _) = host.client.call("session/page", page).await;
    assert_eq!(status, 400, "beyond the end");
    host.stop().await;

    // After a restart the child, its parent and its past are there; a message wakes all of them.
    let host = TestHost::start(folder.path(), &config(&server)).await;
    server.push_for("THE-CHILD", Reply::say("still eight"));
    server.push_for("THE-PARENT", Reply::say("good"));
    let mut again = prompt;
    again["requestId"] = json!("p2");
    host.client.ok("subagent/prompt", again).await;
    let mut socket = host.client.socket().await;
    let opening = socket.follow("f", &parent).await;
    if !opening.to_string().contains("still eight") {
        socket
            .until("f", |i| i.to_string().contains("still eight"))
            .await;
    }
    host.stop().await;
}

#[tokio::test]
async fn agents_speak_both_ways_and_stop_each_other_only_from_above() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (working, heard) = (Gate::new(), Gate::new());
    // The parent is told of the stop in this turn or in one of its own.
    server.fallback(Reply::say("noted"));
    server.push_for("THE-PARENT", delegate("c1", "dig", "THE-CHILD digs", true));
    server.push_for(
        "THE-CHILD",
        Reply::new()
            .gate(&working)
            .text("digging")
            .gate(&heard)
            .text("!"),
    );
    server.push_for("THE-PARENT", Reply::say("started"));
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    socket.turn("f").await;
    let child = id_of(&children(&host, &parent).await[0]);
    working.open();
    // The parent looks, speaks, and stops it.
    let message = json!({"agent_id": child, "message": "dig deeper"}).to_string();
    let stop = json!({"agent_id": child}).to_string();
    server.push_for(
        "THE-PARENT",
        Reply::new()
            .tool_call("l1", "list_agents", "{}")
            .tool_call("s1", "send_message", &message)
            .tool_call("i1", "interrupt_agent", &stop),
    );
    server.push_for("THE-PARENT", Reply::say("stopped it"));
    host.client.prompt(&parent, "r2", "and now").await;
    let items = socket.turn("f").await;
    let results: Vec<String> = items
        .iter()
        .filter(|i| i["event"]["type"] == "tool/result")
        .map(|i| i["event"]["data"].to_string())
        .collect();
    assert!(
        results[0].contains(&format!("{child} [running] — dig")),
        "{results:?}"
    );
    assert!(results[1].contains("message delivered"), "{results:?}");
    assert!(results[2].contains("interrupted agent"), "{results:?}");
    let unknown = json!({"parentSessionId": child, "childSessionId": child, "mode": "continuable"});
    let refused = host.client.code("subagent/interrupt", unknown).await;
    assert_eq!(refused, (403, "subagent/unauthorized".to_owned()));
    // The message was for the stopped turn's next step: it waits, parked, and wakes with the next.
    let control = async |host: &TestHost| {
        let mut socket = host.client.socket().await;
        socket.open("c", "session/control", json!({})).await;
        socket.item("c").await
    };
    children_once(&host, &parent, |rows| rows[0]["activity"] == "inactive").await;
    let told = control(&host).await;
    assert!(
        told["value"]["queues"][&child]
            .to_string()
            .contains("dig deeper"),
        "{told}"
    );
    host.stop().await;
}

#[tokio::test]
async fn a_stop_of_the_parent_ends_what_it_waits_for_and_names_what_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let never = Gate::new();
    server.push_for(
        "THE-PARENT",
        Reply::new()
            .tool_call("c1", "subagent", &task("beside", "BESIDE works", true))
            .tool_call("c2", "subagent", &task("waited for", "WAITED works", false)),
    );
    for name in ["BESIDE", "WAITED"] {
        server.push_for(name, Reply::new().text("begun").gate(&never));
    }
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let both = |rows: &[Value]| rows.len() == 2;
    let rows = children_once(&host, &parent, both).await;
    server.wait_for_requests(3).await;
    let of = |label: &str| id_of(rows.iter().find(|row| row["label"] == label).unwrap());
    let stopped = host
        .client
        .ok("session/cancel", json!({"sessionId": parent}))
        .await;
    let stopped = &stopped["stopped"];
    assert_eq!(stopped["children"], json!([of("waited for")]), "{stopped}");
    assert_eq!(stopped["leftRunning"][0]["id"], of("beside"), "{stopped}");
    socket.turn("f").await;
    // What ends afterwards does not start the stopped parent again: it waits.
    let interrupt = json!({"parentSessionId": parent, "childSessionId": of("beside"),
        "mode": "continuable"});
    host.client.ok("subagent/interrupt", interrupt).await;
    let quiet = |rows: &[Value]| rows.iter().all(|row| row["activity"] == "inactive");
    children_once(&host, &parent, quiet).await;
    let mut control = host.client.socket().await;
    control.open("c", "session/control", json!({})).await;
    let told = control.item("c").await;
    let queue = &told["value"]["queues"][&parent];
    assert_eq!(queue["parked"], true, "{told}");
    assert!(queue.to_string().contains("was stopped before"), "{queue}");
    host.stop().await;
}

#[tokio::test]
async fn children_that_are_stopped_before_they_began_are_listed_as_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, _, mut socket) = house(folder.path(), &server, "").await;
    for round in 0..40 {
        let parent = session(&host, &folder.path().join("p")).await;
        let name = format!("f{round}");
        socket.follow(&name, &parent).await;
        let gate = Gate::new();
        let mut calls = Reply::new().text("so").gate(&gate);
        for call in 0..6 {
            let arguments = task("early", "THE-CHILD waits", false);
            calls = calls.tool_call(&format!("c{call}"), "subagent", &arguments);
            server.push_for("THE-CHILD", Reply::new().gate(&Gate::new()));
        }
        server.push_for("THE-PARENT", calls);
        host.client
            .prompt(&parent, &format!("r{round}"), "THE-PARENT delegates")
            .await;
        socket
            .until(&name, |item| item["event"]["type"] == "assistant/chunk")
            .await;
        gate.open();
        for _ in 0..round * 4 {
            tokio::task::yield_now().await;
        }
        host.client
            .ok("session/cancel", json!({"sessionId": parent}))
            .await;
        for row in children(&host, &parent).await {
            assert_eq!(
                (&row["kind"], &row["label"]),
                (&json!("child"), &json!("early"))
            );
        }
    }
    host.stop().await;
}

#[tokio::test]
async fn depth_and_number_of_subagents_have_limits_with_their_own_codes() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let never = Gate::new();
    server.push_for(
        "THE-PARENT",
        Reply::new()
            .tool_call("c1", "subagent", &task("one", "FIRST-CHILD", true))
            .tool_call("c2", "subagent", &task("two", "SECOND-CHILD", true)),
    );
    server.push_for("THE-PARENT", Reply::say("one was too many"));
    for name in ["FIRST-CHILD", "SECOND-CHILD"] {
        server.push_for(name, delegate("d1", "deeper", "NEVER-BORN", false));
        server.push_for(name, Reply::new().gate(&never));
    }
    let limits = "[subagents]\nmax_active = 1\nmax_depth = 1\n";
    let (host, parent, mut socket) = house(folder.path(), &server, limits).await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let items = socket.turn("f").await;
    let results: Vec<String> = items
        .iter()
        .filter(|i| i["event"]["type"] == "tool/result")
        .map(|i| i["event"]["data"].to_string())
        .collect();
    let refused = results
        .iter()
        .filter(|r| r.contains("ACTIVATION_LIMIT_REACHED"));
    assert_eq!(refused.count(), 1, "{results:?}");
    let rows = children(&host, &parent).await;
    assert_eq!(rows.len(), 1, "the refused one left nothing: {rows:?}");
    let child = id_of(&rows[0]);
    let follow = json!({"address": address(&parent, &child, "continuable")});
    socket.open("k", "session/follow", follow).await;
    let seen = socket
        .until("k", |i| i.to_string().contains("SUBAGENT_DEPTH"))
        .await;
    assert!(json!(seen).to_string().contains("exceeds maxDepth 1"));
    host.stop().await;
}

#[tokio::test]
async fn a_fork_begins_with_what_was_said_and_runs_as_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push_for("THE-PARENT", Reply::say("a secret word: heliotrope"));
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    host.client.prompt(&parent, "r1", "THE-PARENT begins").await;
    socket.turn("f").await;
    let gate = Gate::new();
    server.push_for(
        "FORKED-TASK",
        Reply::new().gate(&gate).text("it was heliotrope"),
    );
    server.push_for(
        "NOW-FORK",
        Reply::new().tool_call("c1", "subagent_fork", &task("recall", "FORKED-TASK", true)),
    );
    server.push_for("NOW-FORK", Reply::say("it runs as a job"));
    let mut control = host.client.socket().await;
    control.open("c", "session/control", json!({})).await;
    control.item("c").await;
    host.client.prompt(&parent, "r2", "NOW-FORK").await;
    let items = socket.turn("f").await;
    assert!(result_of(&items).contains("started background subagent job"));
    let told = control
        .until("c", |i| {
            i["type"] == "jobs" && i["jobs"][0]["status"] == "running"
        })
        .await;
    let job = told.last().unwrap()["jobs"][0].clone();
    assert_eq!(
        (&job["kind"], &job["label"]),
        (&json!("subagent"), &json!("recall"))
    );
    server.push_for("NOW-FORK", Reply::say("heliotrope it is"));
    gate.open();
    let told = socket.turn("f").await;
    assert!(
        json!(told).to_string().contains("Background job"),
        "{told:?}"
    );
    let output = json!({"sessionId": parent, "jobId": job["id"]});
    let output = host.client.ok("job/output", output).await;
    assert_eq!(
        (&output["text"], &output["done"]),
        (&json!("it was heliotrope"), &json!(true))
    );
    let asked = server.received();
    let forked = asked
        .iter()
        .find(|r| r.text.contains("FORKED-TASK") && !r.text.contains("NOW-FORK"));
    assert!(
        forked.unwrap().text.contains("a secret word"),
        "it knows what was said"
    );
    let rows = children(&host, &parent).await;
    assert_eq!(rows[0]["mode"], "one-shot");
    let unknown = json!({"sessionId": parent, "jobId": "no-such-job"});
    let refused = host.client.code("job/output", unknown).await;
    assert_eq!(refused, (404, "job/not-found".to_owned()));
    host.stop().await;
}

#[tokio::test]
async fn after_a_crash_at_any_moment_every_child_is_there_and_takes_the_next_message() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push_for(
        "THE-PARENT",
        Reply::new()
            .tool_call("c1", "subagent", &task("stays", "STAYING-CHILD", true))
            .tool_call("c2", "subagent", &task("once", "ONCE-CHILD", false)),
    );
    let call = || Reply::new().text("begun").tool_call("k1", "list", "{}");
    for name in ["STAYING-CHILD", "ONCE-CHILD"] {
        server.push_for(name, call());
    }
    server.fallback(Reply::say("so be it"));
    let config = format!("{}[session]\ndurability = \"event\"\n", config(&server));
    let host = TestHost::start(folder.path(), &config).await;
    let parent = session(&host, &folder.path().join("p")).await;
    let (over, running) = (
        std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)),
        folder.path().join("data"),
    );
    let stop = std::sync::Arc::clone(&over);
    let copies = tokio::task::spawn_blocking(move || {
        let mut dead = Vec::new();
        while !stop.load(std::sync::atomic::Ordering::Acquire) && dead.len() < 200 {
            let copy = tempfile::tempdir().unwrap();
            // A file may go or grow under the copying; what is copied is what a disk may hold.
            if copy_folder(
                &running.join("sessions"),
                &copy.path().join("data/sessions"),
            )
            .is_ok()
            {
                dead.push(copy);
            }
        }
        dead
    });
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    children_once(&host, &parent, |rows| {
        rows.len() == 2 && rows.iter().all(|row| row["activity"] == "inactive")
    })
    .await;
    over.store(true, std::sync::atomic::Ordering::Release);
    let copies = copies.await.unwrap();
    host.stop().await;

    let mut seen = std::collections::BTreeSet::new();
    // However quick the copying was, the end is among them.
    let last = tempfile::tempdir().unwrap();
    let sessions = |home: &Path| home.join("data/sessions");
    copy_folder(&sessions(folder.path()), &sessions(last.path())).unwrap();
    let some = copies.iter().step_by(1 + copies.len() / 20);
    for dead in some.chain([&last]) {
        let host = TestHost::start(dead.path(), &config).await;
        let rows = children(&host, &parent).await;
        seen.insert(rows.len());
        for row in rows {
            let child = id_of(&row);
            if row["kind"] == "diagnostic" {
                // Made, and gone before it could say who it is.
                assert_eq!(row["reason"], "corrupt", "{row}");
                continue;
            }
            let mode = row["mode"].as_str().unwrap();
            let mut socket = host.client.socket().await;
            let follow = json!({"address": address(&parent, &child, mode)});
            socket.open("k", "session/follow", follow).await;
            let opening = socket.item("k").await;
            let kinds = types(opening["records"].as_array().unwrap());
            let ended = kinds.iter().filter(|k| *k == "turn/end").count();
            let begun = kinds.iter().filter(|k| *k == "turn/start").count();
            assert_eq!(begun, ended, "an open turn shows as interrupted: {kinds:?}");
            if mode == "one-shot" {
                continue;
            }
            let prompt = json!({"requestId": "again", "parentSessionId": parent,
                "childSessionId": child, "mode": mode,
                "content": [{"type": "text", "text": "go on"}]});
            host.client.ok("subagent/prompt", prompt).await;
            let said = socket
                .until("k", |i| i["event"]["type"] == "turn/end")
                .await;
            assert!(!said.is_empty());
        }
        host.stop().await;
    }
    assert!(seen.contains(&2), "{seen:?}");
}
