//! Delegation to other programs through a whole Host: the parent's model chooses one, and its child
//! is a session like any other.

use std::path::Path;
use std::time::{Duration, Instant};

use orrery_testkit::folders::copy_folder;
use orrery_testkit::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::answers::PATIENCE;
use crate::client::Socket;
use crate::models::config;
use crate::processes::{ACP, args, processes, runs, stand_in};
use crate::{TestHost, session, types};

/// The configuration of one program called `helper`.
fn helper(steps: &[&str], more: &str) -> String {
    format!(
        "[subagents.process.helper]\nkind = \"acp\"\ncommand = {}\nargs = {}\n{more}\n",
        json!(stand_in()),
        json!(args(ACP, steps)),
    )
}

fn delegate(agent: &str, background: Option<bool>) -> Reply {
    let mut call = json!({"description": "look at it", "prompt": "THE-CHILD looks",
        "agent": agent});
    if let Some(background) = background {
        call["run_in_background"] = background.into();
    }
    Reply::new().tool_call("c1", "subagent", &call.to_string())
}

async fn house(folder: &Path, server: &ModelServer, more: &str) -> (TestHost, String, Socket) {
    server.set_strict(true);
    let host = TestHost::start(folder, &format!("{}{more}", config(server))).await;
    let id = session(&host, &folder.join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    (host, id, socket)
}

async fn children(host: &TestHost, parent: &str) -> Vec<Value> {
    let listed = host
        .client
        .ok("subagent/list", json!({"parentSessionId": parent}));
    listed.await["entries"].as_array().unwrap().clone()
}

/// The events of the only child, as a follower gets them.
async fn history(host: &TestHost, parent: &str) -> Vec<Value> {
    let child = children(host, parent).await[0]["id"].clone();
    let address = json!({"kind": "subagent", "parentSessionId": parent, "childSessionId": child,
        "mode": "one-shot"});
    let mut socket = host.client.socket().await;
    socket
        .open("k", "session/follow", json!({"address": address}))
        .await;
    let opening = socket.item("k").await;
    opening["records"].as_array().unwrap().clone()
}

/// Waits until the only child has logged a piece of what its program said; a message comes in two.
async fn said(host: &TestHost, parent: &str, text: &str) {
    let begin = Instant::now();
    loop {
        if !children(host, parent).await.is_empty()
            && json!(history(host, parent).await)
                .to_string()
                .contains(text)
        {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{text} was not logged");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn result_of(items: &[Value]) -> String {
    let mut results = items.iter().filter(|i| i["event"]["type"] == "tool/result");
    results.next_back().unwrap()["event"]["data"].to_string()
}

fn data<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = records.iter().filter(|r| r["event"]["type"] == kind);
    of_kind.map(|r| &r["event"]["data"]).collect()
}

#[tokio::test]
async fn a_program_answers_its_parent_and_leaves_a_session_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push_for("THE-PARENT", delegate("helper", None));
    server.push_for("THE-PARENT", Reply::say("merged"));
    let pids = folder.path().join("pids");
    let step = format!("pids:{}", pids.display());
    let steps = [
        step.as_str(),
        "say:I look first.",
        "tool:Reading main.rs",
        "prompt",
    ];
    let (host, parent, mut socket) = house(folder.path(), &server, &helper(&steps, "")).await;
    std::fs::write(folder.path().join("p/AGENTS.md"), "for models").unwrap();
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let items = socket.turn("f").await;
    let result = result_of(&items);
    assert!(result.contains("THE-CHILD looks"), "{result}");
    assert!(
        !result.contains("I look first"),
        "the last message is the answer: {result}"
    );
    assert!(processes(&pids).await.iter().all(|id| !runs(id)));

    // Its parent's model was offered it by name, and was the only model that was asked.
    let requests = server.received();
    assert_eq!(requests.len(), 2);
    let tools = requests[0].body["tools"].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|t| t["function"]["name"] == "subagent")
        .unwrap();
    let properties = &tool["function"]["parameters"]["properties"];
    assert_eq!(properties["agent"]["enum"], json!(["spawn", "helper"]));

    let rows = children(&host, &parent).await;
    let expected = json!([{"kind": "child", "id": rows[0]["id"], "activity": "inactive",
        "hasChildren": false, "mode": "one-shot", "label": "look at it"}]);
    assert_eq!(json!(rows), expected);
    let records = history(&host, &parent).await;
    let descriptor = data(&records, "subagent/descriptor");
    assert_eq!(
        descriptor,
        [&json!({"version": 2, "mode": "one-shot", "provider": "helper", "label": "look at it"})]
    );
    // It is told its prompt and nothing of ours.
    let prompts = data(&records, "user/message");
    assert_eq!(prompts.len(), 1, "{prompts:?}");
    let answer = data(&records, "assistant/message")[0];
    let said = answer["message"]["content"].as_array().unwrap();
    let texts: Vec<&Value> = said.iter().map(|block| &block["text"]).collect();
    assert_eq!(
        texts,
        ["I look first.", "[Reading main.rs]", "THE-CHILD looks"]
    );
    assert_eq!(said[1]["type"], "reasoning");
    assert_eq!(
        (
            &answer["message"]["source"]["provider"],
            &answer["message"]["source"]["model"]
        ),
        (&json!("helper"), &json!("acp"))
    );
    assert_eq!(data(&records, "turn/end")[0]["reason"]["kind"], "completed");
    host.stop().await;
}

#[tokio::test]
async fn how_a_program_fails_is_told_apart_from_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    for (steps, words) in [
        (
            vec!["say:half of it", "crash"],
            "failed\\nDiagnostic: PROCESS_ENDED",
        ),
        (vec!["say:half of it", "stop:refusal"], "declined the task"),
        (vec!["say:half of it", "stop:max_tokens"], "ran out of room"),
    ] {
        let home = folder.path().join(steps[1].replace(':', "-"));
        server.push_for("THE-PARENT", delegate("helper", Some(false)));
        server.push_for("THE-PARENT", Reply::say("so it is"));
        let (host, parent, mut socket) = house(&home, &server, &helper(&steps, "")).await;
        host.client
            .prompt(&parent, "r1", "THE-PARENT delegates")
            .await;
        let result = result_of(&socket.turn("f").await);
        assert!(result.contains(words), "{result}");
        let partial = "Partial output before the run ended:\\nhalf of it";
        assert!(result.contains(partial), "{result}");
        host.stop().await;
    }
}

#[tokio::test]
async fn in_the_background_a_program_is_a_job_and_a_stop_takes_its_whole_tree() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.fallback(Reply::say("noted"));
    server.push_for("THE-PARENT", delegate("helper", Some(true)));
    let pids = folder.path().join("pids");
    let step = format!("pids:{}", pids.display());
    let steps = [
        step.as_str(),
        "ignore-eof",
        "ignore-term",
        "child",
        "say:begun",
        "silent",
    ];
    let soon = "eof_grace_ms = 50\nterminate_grace_ms = 50";
    let (host, parent, mut socket) = house(folder.path(), &server, &helper(&steps, soon)).await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let result = result_of(&socket.turn("f").await);
    assert!(
        result.contains("started background subagent job"),
        "{result}"
    );
    let ids = processes(&pids).await;
    assert!(ids.len() == 2 && ids.iter().all(|id| runs(id)), "{ids:?}");
    let job = result.split("job ").nth(1).unwrap();
    let job: String = job
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '-')
        .collect();
    let kill = json!({"sessionId": parent, "jobId": job});
    host.client.ok("job/kill", kill).await;
    let begin = Instant::now();
    while ids.iter().any(|id| runs(id)) {
        assert!(begin.elapsed() < PATIENCE, "{ids:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    host.stop().await;
}

#[tokio::test]
async fn stopping_the_parent_or_the_host_takes_the_program_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.fallback(Reply::say("noted"));
    let pids = folder.path().join("pids");
    let step = format!("pids:{}", pids.display());
    let steps = [step.as_str(), "ignore-eof", "child", "say:begun", "silent"];
    let soon = "eof_grace_ms = 50\nterminate_grace_ms = 50";
    let (host, parent, mut socket) = house(folder.path(), &server, &helper(&steps, soon)).await;
    for (at, whole_host) in [false, true].into_iter().enumerate() {
        server.push_for("THE-PARENT", delegate("helper", Some(false)));
        host.client
            .prompt(&parent, &format!("r{at}"), "THE-PARENT delegates")
            .await;
        let ids = processes(&pids).await;
        said(&host, &parent, "gun").await;
        if whole_host {
            host.stop().await;
            assert!(ids.iter().all(|id| !runs(id)), "{ids:?}");
            break;
        }
        host.client
            .ok("session/cancel", json!({"sessionId": parent}))
            .await;
        socket.turn("f").await;
        let begin = Instant::now();
        while ids.iter().any(|id| runs(id)) {
            assert!(begin.elapsed() < PATIENCE, "{ids:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let records = history(&host, &parent).await;
        assert_eq!(data(&records, "turn/end")[0]["reason"]["kind"], "aborted");
        let partial = data(&records, "assistant/message")[0];
        assert_eq!(partial["interrupted"], true, "{partial}");
        std::fs::remove_file(&pids).unwrap();
    }
}

#[tokio::test]
async fn after_a_crash_the_child_of_a_program_is_there_with_an_interrupted_turn() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.fallback(Reply::say("noted"));
    server.push_for("THE-PARENT", delegate("helper", Some(false)));
    let pids = folder.path().join("pids");
    let step = format!("pids:{}", pids.display());
    let more = helper(&[step.as_str(), "say:begun", "silent"], "");
    let (host, parent, _socket) = house(folder.path(), &server, &more).await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    processes(&pids).await;
    said(&host, &parent, "gun").await;
    let dead = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), dead.path()).unwrap();
    host.client
        .ok("session/cancel", json!({"sessionId": parent}))
        .await;
    host.stop().await;

    let host = TestHost::start(dead.path(), &format!("{}{more}", config(&server))).await;
    let rows = children(&host, &parent).await;
    assert_eq!(
        (&rows[0]["activity"], &rows[0]["label"]),
        (&json!("inactive"), &json!("look at it")),
        "{rows:?}"
    );
    let records = history(&host, &parent).await;
    let kinds = types(&records);
    assert_eq!(
        data(&records, "turn/end")[0]["reason"]["kind"],
        "interrupted",
        "{kinds:?}"
    );
    assert!(json!(records).to_string().contains("THE-CHILD looks"));
    host.stop().await;
}

#[tokio::test]
async fn a_program_is_a_command_to_the_permissions_and_unknown_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let more = helper(&["say:never"], "");
    let careful = config(&server).replace("danger-full-access", "read-only");
    let careful = careful + "approval = \"never\"\n" + &more;
    server.set_strict(true);
    let host = TestHost::start(folder.path(), &careful).await;
    let parent = session(&host, &folder.path().join("p")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &parent).await;
    for (agent, word) in [
        ("helper", "it runs a command"),
        ("ghost", "no agent is called"),
    ] {
        server.push_for("THE-PARENT", delegate(agent, None));
        server.push_for("THE-PARENT", Reply::say("as you say"));
        host.client
            .prompt(&parent, agent, "THE-PARENT delegates")
            .await;
        let result = result_of(&socket.turn("f").await);
        assert!(result.contains(word), "{result}");
    }
    assert_eq!(children(&host, &parent).await, Vec::<Value>::new());
    host.stop().await;
}

#[tokio::test]
async fn without_programs_the_tool_has_no_choice_of_agents() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    server.push_for("THE-PARENT", delegate("helper", None));
    server.push_for("THE-PARENT", Reply::say("as you say"));
    let off = helper(&[], "enabled = false");
    let (host, parent, mut socket) = house(folder.path(), &server, &off).await;
    host.client
        .prompt(&parent, "r1", "THE-PARENT delegates")
        .await;
    let result = result_of(&socket.turn("f").await);
    assert!(
        result.contains("no other agents are configured"),
        "{result}"
    );
    let tools = server.received()[0].body["tools"].to_string();
    assert!(!tools.contains("helper"), "{tools}");
    host.stop().await;
}
