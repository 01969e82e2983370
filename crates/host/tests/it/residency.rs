//! How long children stay, what they hold, and what becomes of their work when the Host ends
//! (`subagent.md` 6.8 to 6.10), with a scripted model behind every agent.

use orrery_testkit::folders::copy_folder;
use orrery_testkit::model_server::{Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::TestHost;
use crate::client::Socket;
use crate::delegation::{address, children, children_once, house, id_of};
use crate::models::config;

fn task(label: &str, prompt: &str, background: bool) -> String {
    json!({"description": label, "prompt": prompt, "run_in_background": background}).to_string()
}

fn text_of(items: &[Value]) -> String {
    json!(items).to_string()
}

async fn records(socket: &mut Socket, stream: &str, address: Value) -> Vec<Value> {
    socket
        .open(stream, "session/follow", json!({"address": address}))
        .await;
    let opening = socket.item(stream).await;
    opening["records"].as_array().unwrap().clone()
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let events = records.iter().map(|record| &record["event"]);
    events.filter(|event| event["type"] == kind).collect()
}

#[tokio::test]
async fn a_fork_counts_its_turns_on_and_answers_with_its_own_words_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    server.push_for("FIRST", Reply::say("the parent's words"));
    host.client.prompt(&parent, "r1", "FIRST").await;
    socket.turn("f").await;
    let call = Reply::new().tool_call("c1", "subagent_fork", &task("branch", "FORKED", false));
    server.push_for("SECOND", call);
    server.push_for("SECOND", Reply::say("merged"));
    // The fork's own last message is empty: what was said before it was made does not count.
    server.push_for("FORKED", Reply::new());
    host.client.prompt(&parent, "r2", "SECOND").await;
    let items = socket.turn("f").await;
    let result = items.iter().find(|i| i["event"]["type"] == "tool/result");
    let result = result.unwrap().to_string();
    assert!(result.contains("left no closing message"), "{result}");
    let child = id_of(&children(&host, &parent).await[0]);
    let address = address(&parent, &child, "one-shot");
    let records = records(&mut socket, "k", address).await;
    let turns: Vec<&Value> = of_type(&records, "turn/start")
        .into_iter()
        .map(|event| &event["data"]["turn"])
        .collect();
    assert_eq!(turns, [&json!(1), &json!(2)]);
    host.stop().await;
}

#[tokio::test]
async fn messages_to_a_child_that_works_are_turns_of_the_same_stay_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let call = Reply::new().tool_call("c1", "subagent", &task("stays", "THE-CHILD", true));
    server.push_for("THE-PARENT", call);
    server.push_for("THE-PARENT", Reply::say("it works"));
    let gate = Gate::new();
    server.push_for("THE-CHILD", Reply::new().gate(&gate).text("one"));
    server.push_for("THE-CHILD", Reply::say("two"));
    server.push_for("THE-CHILD", Reply::say("three"));
    server.push_for("THE-PARENT", Reply::say("heard"));
    host.client.prompt(&parent, "r1", "THE-PARENT").await;
    socket.turn("f").await;
    let child = id_of(&children(&host, &parent).await[0]);
    for (request, said) in [("p1", "then this"), ("p2", "and that")] {
        let prompt = json!({"requestId": request, "parentSessionId": parent,
            "childSessionId": child, "mode": "continuable",
            "content": [{"type": "text", "text": said}]});
        host.client.ok("subagent/prompt", prompt).await;
    }
    gate.open();
    let told = text_of(&socket.turn("f").await);
    assert!(
        told.contains("three") && !told.contains("Its closing message:\\n\\none"),
        "{told}"
    );
    children_once(&host, &parent, |rows| rows[0]["activity"] == "inactive").await;
    let records = records(&mut socket, "k", address(&parent, &child, "continuable")).await;
    let said: Vec<String> = of_type(&records, "user/message")
        .into_iter()
        .filter(|event| event["data"]["source"]["kind"] == "user")
        .map(|event| {
            event["data"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(said, ["THE-CHILD", "then this", "and that"]);
    let parent_records = crate::residency::records(
        &mut socket,
        "p",
        json!({"kind": "session", "sessionId": parent}),
    );
    let parent_records = parent_records.await;
    let notices = of_type(&parent_records, "user/message")
        .into_iter()
        .filter(|event| event["data"]["source"]["kind"] == "subagent-settled");
    assert_eq!(notices.count(), 1, "one stay, one notice");
    host.stop().await;
}

#[tokio::test]
async fn a_child_stays_until_its_own_children_are_done_and_is_told_before_its_parent_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let call = |prompt: &str| Reply::new().tool_call("c1", "subagent", &task("t", prompt, true));
    server.push_for("THE-PARENT", call("THE-MIDDLE"));
    server.push_for("THE-PARENT", Reply::say("it works"));
    server.push_for("THE-MIDDLE", call("THE-LEAF"));
    server.push_for("THE-MIDDLE", Reply::say("my own child works"));
    let gate = Gate::new();
    server.push_for(
        "THE-LEAF",
        Reply::new().gate(&gate).text("the leaf's words"),
    );
    server.push_for("THE-MIDDLE", Reply::say("the leaf is done, so am I"));
    server.push_for("THE-PARENT", Reply::say("all done"));
    host.client.prompt(&parent, "r1", "THE-PARENT").await;
    socket.turn("f").await;
    let middle = id_of(&children(&host, &parent).await[0]);
    children_once(&host, &middle, |rows| rows.len() == 1).await;
    // The middle one has nothing to do and is there all the same.
    let rests = |items: &[Value]| {
        let row = items.iter().find(|row| row["sessionId"] == json!(middle));
        row.is_some_and(|row| row["live"] == true && row["running"] == false)
    };
    loop {
        let listed = host.client.ok("session/list", json!({})).await;
        if rests(listed["items"].as_array().unwrap()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(children(&host, &parent).await[0]["activity"], "running");
    gate.open();
    let told = text_of(&socket.turn("f").await);
    assert!(told.contains("the leaf is done, so am I"), "{told}");
    children_once(&host, &parent, |rows| rows[0]["activity"] == "inactive").await;
    let records = records(&mut socket, "k", address(&parent, &middle, "continuable")).await;
    assert!(text_of(&records).contains("the leaf's words"));
    host.stop().await;
}

#[tokio::test]
async fn a_host_that_ends_stops_its_children_and_wakes_nobody_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let calls = Reply::new()
        .tool_call("c1", "subagent", &task("stays", "THE-CHILD", true))
        .tool_call("c2", "subagent", &task("stays too", "THE-CHILD", true));
    server.push_for("THE-PARENT", calls);
    server.push_for("THE-PARENT", Reply::say("they work"));
    for _ in 0..2 {
        server.push_for("THE-CHILD", Reply::new().text("half").gate(&Gate::new()));
    }
    host.client.prompt(&parent, "r1", "THE-PARENT").await;
    socket.turn("f").await;
    let all = json!(children(&host, &parent).await);
    server.wait_for_requests(4).await;
    drop(socket);
    host.stop().await;
    let asked = server.received().len();

    let host = TestHost::start(folder.path(), &config(&server)).await;
    let rows = children(&host, &parent).await;
    let ids = |rows: &Value| -> Vec<Value> {
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].clone())
            .collect()
    };
    assert_eq!(ids(&json!(rows)), ids(&all));
    let mut socket = host.client.socket().await;
    let main = json!({"kind": "session", "sessionId": parent});
    let said = text_of(&records(&mut socket, "p", main).await);
    assert!(!said.contains("subagent-settled"), "{said}");
    for (at, row) in rows.iter().enumerate() {
        let address = address(&parent, &id_of(row), "continuable");
        let records = records(&mut socket, &format!("k{at}"), address).await;
        let ends = of_type(&records, "turn/end");
        assert_eq!(ends.last().unwrap()["data"]["reason"]["kind"], "aborted");
    }
    assert_eq!(server.received().len(), asked, "nobody was asked anything");
    host.stop().await;
}

/// A parent with a job that a gate holds; the job's id.
async fn with_a_job(
    host: &TestHost,
    server: &ModelServer,
    parent: &str,
    socket: &mut Socket,
) -> String {
    let call = Reply::new().tool_call("c1", "subagent_fork", &task("job", "THE-JOB", true));
    server.push_for("THE-PARENT", call);
    server.push_for("THE-PARENT", Reply::say("it runs"));
    server.push_for("THE-JOB", Reply::new().text("half").gate(&Gate::new()));
    host.client.prompt(parent, "r1", "THE-PARENT").await;
    socket.turn("f").await;
    let mut control = host.client.socket().await;
    control.open("c", "session/control", json!({})).await;
    let baseline = control.item("c").await;
    let jobs = &baseline["value"]["jobs"][parent];
    jobs[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_job_that_is_stopped_takes_its_subagent_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let job = with_a_job(&host, &server, &parent, &mut socket).await;
    let named = json!({"sessionId": parent, "jobId": job});
    host.client.ok("job/kill", named.clone()).await;
    // A person's stop wakes nobody: it is told by the job's own state.
    let mut control = host.client.socket().await;
    control.open("c", "session/control", json!({})).await;
    let killed = |item: &Value| item.to_string().contains(r#""status":"killed""#);
    control.until("c", killed).await;
    let rows = children_once(&host, &parent, |rows| {
        rows.iter().all(|row| row["activity"] == "inactive")
    });
    assert_eq!(rows.await[0]["kind"], "child");
    host.stop().await;
}

#[tokio::test]
async fn a_job_that_a_crash_cut_off_is_told_as_lost() {
    let (folder, dead) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ModelServer::start().await.unwrap();
    let more = "[session]\ndurability = \"event\"\n";
    let (host, parent, mut socket) = house(folder.path(), &server, more).await;
    let job = with_a_job(&host, &server, &parent, &mut socket).await;
    // What a killed process leaves.
    let sessions = |home: &std::path::Path| home.join("data/sessions");
    copy_folder(&sessions(folder.path()), &sessions(dead.path())).unwrap();
    let again = TestHost::start(dead.path(), &config(&server)).await;
    let mut control = again.client.socket().await;
    control.open("c", "session/control", json!({})).await;
    let baseline = control.item("c").await;
    let told = &baseline["value"]["jobs"][&parent][0];
    assert_eq!(
        (&told["id"], &told["status"]),
        (&json!(job), &json!("lost"))
    );
    let named = json!({"sessionId": parent, "jobId": job});
    let refused = again.client.code("job/output", named).await;
    assert_eq!(refused, (404, "job/not-found".to_owned()));
    again.stop().await;
    host.stop().await;
}

#[tokio::test]
async fn each_stay_is_told_once_when_it_begins_and_once_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let more = "[subagents]\nmax_depth = 1\n";
    let (host, parent, mut socket) = house(folder.path(), &server, more).await;
    let mut news = host.client.socket().await;
    let calls = Reply::new()
        .tool_call("c1", "subagent", &task("once", "ONCE-CHILD", false))
        .tool_call("c2", "subagent", &task("stays", "STAYING-CHILD", true));
    server.push_for("THE-PARENT", calls);
    server.push_for("THE-PARENT", Reply::say("one is done"));
    // Too deep: a start that is refused is no news.
    let deeper = Reply::new().tool_call("k1", "subagent", &task("deep", "DEEP", false));
    server.push_for("ONCE-CHILD", deeper);
    server.push_for("ONCE-CHILD", Reply::say("done alone"));
    server.push_for("STAYING-CHILD", Reply::say("first words"));
    server.push_for("THE-PARENT", Reply::say("heard"));
    host.client.prompt(&parent, "r1", "THE-PARENT").await;
    socket.turn("f").await;
    let rows = children_once(&host, &parent, |rows| {
        rows.len() == 2 && rows.iter().all(|row| row["activity"] == "inactive")
    });
    let rows = rows.await;
    let staying = rows.iter().find(|row| row["mode"] == "continuable");
    let staying = id_of(staying.unwrap());
    server.push_for("STAYING-CHILD", Reply::say("second words"));
    server.push_for("THE-PARENT", Reply::say("heard again"));
    let prompt = json!({"requestId": "p1", "parentSessionId": parent, "childSessionId": staying,
        "mode": "continuable", "content": [{"type": "text", "text": "again"}]});
    host.client.ok("subagent/prompt", prompt).await;

    let told = news
        .until("hello", |item| item.to_string().contains("second words"))
        .await;
    let told: Vec<&Value> = told.iter().filter(|item| item["type"] == "emit").collect();
    assert_eq!(told.len(), 6, "{told:?}");
    let mut open = std::collections::BTreeMap::new();
    for item in told {
        let args = &item["args"];
        assert_eq!(
            (&args["parentSessionId"], &args["local"]),
            (&json!(parent), &json!(true))
        );
        let run = args["runId"].to_string();
        let who = (args["sessionId"].clone(), args["provider"].clone());
        if item["event"] == "subagent/start" {
            assert_eq!(open.insert(run, who), None, "no run begins twice");
        } else {
            assert_eq!(item["event"], "subagent/end");
            assert_eq!(open.get(&run), Some(&who));
            assert_eq!(args["stopReason"], "completed");
            let said = args["lastAssistantMessage"].as_str().unwrap();
            assert!(["done alone", "first words", "second words"].contains(&said));
        }
    }
    assert_eq!(open.len(), 3, "three stays, each with an id of its own");
    host.stop().await;
}
