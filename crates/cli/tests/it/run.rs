//! `run` and `sessions`.

use std::io::{BufRead as _, BufReader, Read as _};

use orrery_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::fixture::{Done, Place, signal};

fn provider(server: &ModelServer, rest: &str) -> String {
    let url = server.base_url();
    format!(
        "[providers.local]\nkind = \"openai-chat\"\nbase_url = \"{url}\"\nmodels = [\"test\"]\n{rest}"
    )
}

#[test]
fn a_task_is_done_and_the_session_goes_on_later() {
    let place = Place::new();
    std::fs::write(place.project().join("a.txt"), "the heron\n").unwrap();
    let done = place.run(&["run", "read a.txt"]).exits(0);
    assert!(done.out.contains("the heron"), "{done:?}");
    assert!(done.err.contains("· read a.txt"), "{done:?}");

    let list = place.run(&["sessions", "list"]).exits(0).out;
    assert_eq!(list.lines().count(), 1, "{list}");
    assert!(list.contains("read a.txt"), "{list}");
    let id = list.split_whitespace().next().unwrap().to_owned();

    place
        .run(&["run", "--session", id.get(..20).unwrap(), "list ."])
        .exits(0);
    let shown = place.run(&["sessions", "show", &id]).exits(0).out;
    assert!(shown.starts_with("> read a.txt\n"), "{shown}");
    assert!(shown.contains("\n> list .\n"), "{shown}");
    let page = place.run(&["sessions", "show", &id, "--json"]).exits(0).out;
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(page["hasMore"], json!(false));
    assert_eq!(page["records"][0]["event"]["seq"], json!(0));
    let list = place.run(&["sessions", "list", "--json"]).exits(0).out;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["items"][0]["sessionId"], json!(id));
}

#[test]
fn json_is_one_history_record_a_line_and_the_result_last() {
    let place = Place::new();
    let done = place.run(&["run", "--json", "hello"]).exits(0);
    let lines: Vec<Value> = done
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, records) = lines.split_last().unwrap();
    assert!(records.iter().all(|record| record["type"] == "event"));
    let seqs: Vec<u64> = records
        .iter()
        .map(|record| record["event"]["seq"].as_u64().unwrap())
        .collect();
    assert!(
        seqs.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{seqs:?}"
    );
    assert_eq!(last["type"], "result");
    assert_eq!(last["outcome"], "completed");
    assert!(last["text"].as_str().unwrap().contains("offline demo"));
    assert!(last["sessionId"].as_str().unwrap().starts_with("session-"));
}

#[test]
fn a_command_needs_approval_which_nobody_gives_without_a_terminal() {
    let place = Place::new();
    let task = "run `touch made.txt`";
    let done = place.run(&["run", task]).exits(4);
    assert!(done.err.contains("hint: pass `--yes`"), "{done:?}");
    assert!(!place.project().join("made.txt").exists());
    place.run(&["run", "--yes", task]).exits(0);
    assert!(place.project().join("made.txt").exists());
}

#[test]
fn a_read_only_session_writes_nothing() {
    let place = Place::new();
    let task = "create notes.md with content \"hello\"";
    let arguments = ["run", "--yes", "--permission", "read-only", task];
    place.run(&arguments).exits(0);
    assert!(!place.project().join("notes.md").exists());
    place.run(&["run", task]).exits(0);
    assert!(place.project().join("notes.md").exists());
}

#[test]
fn what_cannot_be_started_says_why_and_has_its_exit_code() {
    let place = Place::new();
    let done = place.run(&["run", ""]).exits(2);
    assert!(done.err.contains("the prompt is empty"), "{done:?}");
    place.run(&["run", "hi", "--bogus"]).exits(2);
    place.run(&["run", "hi", "--cwd", "nowhere"]).exits(1);
    let done = place.run(&["run", "hi", "--session", "none"]).exits(1);
    assert!(
        done.err.contains("hint: `orrery sessions list`"),
        "{done:?}"
    );
    let done = place.run(&["run", "hi", "--model", "nobody/x"]).exits(5);
    assert!(
        done.err.contains("no provider is called `nobody`"),
        "{done:?}"
    );

    place.configure("[session]\ncold_read_concurrency = 65\n");
    let done = place.run(&["run", "hi"]).exits(2);
    let wanted = "config.toml:2: session.cold_read_concurrency: ";
    assert!(done.err.contains(wanted), "{done:?}");
    assert_eq!(done.out, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_provider_streams_and_a_missing_key_has_its_own_exit_code() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("forty-two").usage(10, 2));
    let place = Place::new();
    place.configure(&provider(&server, "api_key_env = \"LOCAL_KEY\""));
    let keyed = |value: &'static str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("LOCAL_KEY", value);
        tokio::task::spawn_blocking(move || Done::of(command.output().unwrap()))
    };
    let done = keyed("", &["run", "think"]).await.unwrap().exits(5);
    assert!(done.err.contains("LOCAL_KEY"), "{done:?}");
    let done = keyed("k-1", &["run", "--json", "think"]).await.unwrap();
    let done = done.exits(0);
    let result: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert_eq!(result["text"], "forty-two");
    assert_eq!(
        result["usage"],
        json!({"inputTokens": 10, "outputTokens": 2})
    );
    let asked = server.received();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].headers["authorization"], "Bearer k-1");
    let logs = place.logs();
    assert_eq!(logs.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn choosing_a_model_for_one_task_changes_nothing_for_the_next() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("from the server"));
    let place = Place::new();
    place.configure(&format!(
        "default_model = \"offline/demo\"\n{}",
        provider(&server, "")
    ));
    let place = std::sync::Arc::new(place);
    let run = |arguments: &'static [&'static str]| {
        let place = std::sync::Arc::clone(&place);
        tokio::task::spawn_blocking(move || place.run(arguments).exits(0).out)
    };
    let out = run(&["run", "--model", "local/test", "hi"]).await.unwrap();
    assert_eq!(out, "from the server\n");
    let out = run(&["run", "hello"]).await.unwrap();
    assert!(out.contains("offline demo"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_of_a_task_is_used_even_when_another_was_chosen_over_the_configured_one() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("from the server"));
    server.push(Reply::say("and again"));
    let place = Place::new();
    place.configure(&provider(&server, ""));
    let place = std::sync::Arc::new(place);
    let run = |arguments: &'static [&'static str]| {
        let place = std::sync::Arc::clone(&place);
        tokio::task::spawn_blocking(move || place.run(arguments).exits(0).out)
    };
    let out = run(&["run", "hi"]).await.unwrap();
    assert_eq!(out, "from the server\n");
    // Choosing for a session that is there is a choice for later ones too, as in the page.
    let out = run(&[
        "run",
        "--session",
        "session-",
        "--model",
        "offline/demo",
        "hello",
    ]);
    let out = out.await.unwrap();
    assert!(out.contains("configure a provider"), "{out}");
    let out = run(&["run", "--model", "local/test", "hi"]).await.unwrap();
    assert_eq!(out, "and again\n");
}

#[test]
fn an_interrupt_stops_the_turn_and_keeps_what_was_said() {
    let place = Place::new();
    let mut child = place.start(&["run", "count slowly to 500"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    signal(&child, "INT");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let shown = place.run(&["sessions", "show", "session-"]).exits(0).out;
    assert!(shown.contains("> count slowly to 500"), "{shown}");
}

#[test]
fn a_session_that_was_killed_in_the_middle_of_a_turn_goes_on() {
    let place = Place::new();
    let mut child = place.start(&["run", "count slowly to 500"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    signal(&child, "KILL");
    child.wait().unwrap();
    let done = place
        .run(&["run", "--session", "session-", "hello"])
        .exits(0);
    assert!(done.out.contains("offline demo"), "{done:?}");
    let shown = place.run(&["sessions", "show", "session-"]).exits(0).out;
    let prompts: Vec<&str> = shown.lines().filter(|l| l.starts_with("> ")).collect();
    assert_eq!(prompts, ["> count slowly to 500", "> hello"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    let mut child = place.start(&["completions", "bash"]);
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
