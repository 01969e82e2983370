//! Searching over the wire: what is found, what is not, and that the index keeps up with the logs
//! whoever changes them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::{Fixture, LogWriter};
use serde_json::{Value, json};

use crate::logs::{self, DATABASE};
use crate::{TestHost, session};

/// How long something may take that happens in the background.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log of another program: prompts with an answer each.
fn log(name: &str, said: &[(&str, &str)]) -> Fixture {
    let mut writer = LogWriter::new(name, Container::Zstd, r#","delegationDepth":0"#);
    for (turn, (prompt, answer)) in (1..).zip(said) {
        let answer = answer.replace('"', "\\\"");
        writer.event("turn/start", &format!(r#"{{"turn":{turn}}}"#));
        writer.prompt(prompt);
        writer.answer(turn, &answer, &[], false);
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        writer.event("turn/end", &end);
        writer.end_frame();
    }
    writer.finish()
}

async fn search(host: &TestHost, query: &str) -> Value {
    host.client
        .ok("session/search", json!({"query": query}))
        .await
}

fn sessions(found: &Value) -> Vec<String> {
    let items = found["items"].as_array().unwrap().iter();
    let mut ids: Vec<String> = items
        .map(|hit| hit["sessionId"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

/// Searches until exactly these sessions are found.
async fn finds(host: &TestHost, query: &str, expected: &[&str]) -> Value {
    let begin = Instant::now();
    loop {
        let found = search(host, query).await;
        if sessions(&found) == expected && found["indexing"] == false {
            return found;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "{query} finds {found}, not {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What is marked of the snippet of the first hit, cut out in UTF-16 units.
fn marked(found: &Value) -> Vec<String> {
    let hit = &found["items"][0];
    let units: Vec<u16> = hit["snippet"].as_str().unwrap().encode_utf16().collect();
    let ranges = hit["highlights"].as_array().unwrap().iter();
    let end = |range: &Value, at: usize| usize::try_from(range[at].as_u64().unwrap()).unwrap();
    ranges
        .map(|range| String::from_utf16(&units[end(range, 0)..end(range, 1)]).unwrap())
        .collect()
}

#[tokio::test]
async fn words_parts_of_identifiers_beginnings_and_characters_are_found_and_marked() {
    let home = tempfile::tempdir().unwrap();
    let text = "😀 the parseHttpHeader of frame_index.rs 会话控制器 works; a \"quoted\" word";
    logs::put(home.path(), &log("one", &[("look at it", text)]));
    logs::put(home.path(), &log("two", &[("nothing", "of that kind")]));
    let host = TestHost::start(home.path(), "").await;
    let one: &[&str] = &["session-one"];
    for (query, mark) in [
        ("header", "Header"),
        ("parsehttpheader", "parseHttpHeader"),
        ("frame_index", "frame_index"),
        ("parseH", "parseH"),
        ("控", "控"),
        ("控制", "控制"),
        ("会话控制器", "会话控制器"),
        ("\"quoted\"", "quoted"),
        ("works", "works"),
    ] {
        let found = finds(&host, query, one).await;
        let marks = marked(&found).concat().to_lowercase();
        assert!(
            marks.contains(&mark.to_lowercase()),
            "{query} marks {marks:?} in {found}"
        );
        assert_eq!(found["items"][0]["match"]["type"], "assistant/message");
    }
    finds(&host, "header works", one).await;
    for nothing in [
        "header nowhere",
        "制控",
        "works OR kind",
        "NOT kind",
        "he*der",
        "rking",
    ] {
        finds(&host, nothing, &[]).await;
    }
    finds(&host, "of", &["session-one", "session-two"]).await;
    host.stop().await;
}

#[tokio::test]
async fn a_query_that_is_none_is_refused_by_its_field() {
    let home = tempfile::tempdir().unwrap();
    let host = TestHost::start(home.path(), "").await;
    let long = "a".repeat(501);
    for query in ["", "  \t", "a\0b", &long] {
        let (status, body) = host
            .client
            .call("session/search", json!({"query": query}))
            .await;
        assert_eq!(status, 400, "{body}");
        assert_eq!(body["error"]["code"], "gateway/bad-request");
        assert_eq!(body["error"]["details"]["field"], "query");
    }
    for data in [
        "\"",
        "\"a",
        "(",
        "a AND",
        "^",
        "-",
        "*",
        "NEAR(a b)",
        "a:b",
        "';--",
    ] {
        search(&host, data).await;
    }
    host.stop().await;
}

#[tokio::test]
async fn at_most_twenty_sessions_are_shown_and_that_there_are_more() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..30 {
        let name = format!("n{number:02}");
        logs::put(home.path(), &log(&name, &[("common", "and common again")]));
    }
    let host = TestHost::start(home.path(), "").await;
    let begin = Instant::now();
    loop {
        let found = search(&host, "common").await;
        if found["indexing"] == false {
            assert_eq!(sessions(&found).len(), 20);
            assert_eq!(found["hasMore"], true);
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    host.stop().await;
}

#[tokio::test]
async fn a_search_does_not_wait_for_the_index_to_be_filled() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..400 {
        logs::put(
            home.path(),
            &log(&format!("n{number}"), &[("common", "word")]),
        );
    }
    let host = TestHost::start(home.path(), "").await;
    let found = search(&host, "common").await;
    assert_eq!(found["indexing"], true, "{found}");
    let begin = Instant::now();
    while search(&host, "common").await["indexing"] == true {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sessions(&search(&host, "common").await).len(), 20);
    host.stop().await;
}

#[tokio::test]
async fn what_is_said_and_named_now_is_found_now() {
    let home = tempfile::tempdir().unwrap();
    let host = TestHost::start(home.path(), "").await;
    let id = session(&host, &home.path().join("work")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    let long = "hello ".repeat(30) + "zanzibar";
    host.client.prompt(&id, "r1", &long).await;
    socket.turn("f").await;
    finds(&host, "zanzibar", &[&id]).await;
    for title in ["Quokkas", "Numbats"] {
        let request = json!({"sessionId": id, "title": title});
        host.client.ok("session/rename", request).await;
        let found = finds(&host, title, &[&id]).await;
        assert_eq!(found["items"][0]["match"]["type"], "session/title");
    }
    finds(&host, "quokkas", &[]).await;
    host.client.prompt(&id, "r2", "hello wombat").await;
    socket.turn("f").await;
    finds(&host, "wombat", &[&id]).await;
    host.stop().await;
    // Cold, and by another process.
    let host = TestHost::start(home.path(), "").await;
    finds(&host, "zanzibar", &[&id]).await;
    finds(&host, "quokkas", &[]).await;
    host.stop().await;
}

async fn restarted(home: &Path, host: TestHost) -> TestHost {
    host.stop().await;
    TestHost::start(home, "").await
}

#[tokio::test]
async fn logs_that_others_write_on_replace_cut_or_delete_are_found_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let first = [("first", "apples")];
    let both = [("first", "apples"), ("second", "bananas")];
    logs::put(home.path(), &log("grows", &first));
    logs::put(home.path(), &log("shrinks", &both));
    logs::put(home.path(), &log("turns", &first));
    logs::put(home.path(), &log("goes", &first));
    let host = TestHost::start(home.path(), "").await;
    let all = [
        "session-goes",
        "session-grows",
        "session-shrinks",
        "session-turns",
    ];
    finds(&host, "apples", &all).await;
    finds(&host, "bananas", &["session-shrinks"]).await;

    let grown = log("grows", &both);
    let path = logs::find(home.path(), "session-grows");
    assert!(grown.bytes.starts_with(&fs::read(&path).unwrap()));
    fs::write(&path, &grown.bytes).unwrap();
    let cut = log("shrinks", &first);
    fs::write(logs::find(home.path(), "session-shrinks"), &cut.bytes).unwrap();
    logs::put(
        home.path(),
        &log("turns", &[("other", "cherries"), ("more", "dates")]),
    );
    let gone = logs::find(home.path(), "session-goes");
    fs::remove_dir_all(gone.parent().unwrap()).unwrap();
    let host = restarted(home.path(), host).await;
    finds(&host, "apples", &["session-grows", "session-shrinks"]).await;
    finds(&host, "bananas", &["session-grows"]).await;
    finds(&host, "cherries", &["session-turns"]).await;

    // Cut, and written on in another way to more than it was.
    let other = log(
        "shrinks",
        &[
            ("first", "apples"),
            ("second", "elderberries"),
            ("a", "figs"),
        ],
    );
    fs::write(logs::find(home.path(), "session-shrinks"), &other.bytes).unwrap();
    let host = restarted(home.path(), host).await;
    finds(&host, "elderberries", &["session-shrinks"]).await;
    finds(&host, "bananas", &["session-grows"]).await;
    host.stop().await;
}

#[tokio::test]
async fn the_index_may_go_while_it_is_used() {
    let home = tempfile::tempdir().unwrap();
    logs::put(home.path(), &log("one", &[("first", "apples")]));
    let host = TestHost::start(home.path(), "").await;
    finds(&host, "apples", &["session-one"]).await;
    logs::remove(&home.path().join("data"), DATABASE);
    finds(&host, "apples", &["session-one"]).await;
    logs::put(home.path(), &log("two", &[("first", "apples")]));
    let host = restarted(home.path(), host).await;
    finds(&host, "apples", &["session-one", "session-two"]).await;
    host.stop().await;
}

#[tokio::test]
async fn a_message_that_was_replaced_is_no_hit() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::new("one", Container::Zstd, r#","delegationDepth":0"#);
    writer.event("turn/start", r#"{"turn":1}"#);
    writer.prompt("apples and pears");
    let taken = writer.next() - 1;
    let seq = writer.next();
    let line = format!(
        r#"{{"type":"user/message","seq":{seq},"time":9000,"data":{{"role":"user","content":[{{"type":"text","text":"a summary of pears"}}],"source":{{"kind":"user"}},"id":"sum"}},"sourceEventSeqs":[{taken}],"surfaceOp":{{"op":"replace","start":{taken},"end":{taken}}}}}"#
    );
    writer.line(&line, std::slice::from_ref(&line));
    writer.event("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    logs::put(home.path(), &writer.finish());
    let host = TestHost::start(home.path(), "").await;
    let found = finds(&host, "pears", &["session-one"]).await;
    assert_eq!(found["items"][0]["match"]["seq"], seq);
    finds(&host, "apples", &[]).await;
    host.stop().await;
}
