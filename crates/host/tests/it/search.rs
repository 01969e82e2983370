//! Searching over the wire: what is found, what is not, and that the index keeps up with the logs
//! whoever changes them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use orrery_host::home::Home;
use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::{Fixture, LogWriter};
use serde_json::{Value, json};

use crate::logs::{self, DATABASE};
use crate::{TestHost, session};

/// How long something may take that happens in the background.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log of another program: prompts with an answer each.
fn log(name: &str, said: &[(&str, &str)]) -> Fixture {
    log_in(Container::Zstd, name, said)
}

fn log_in(container: Container, name: &str, said: &[(&str, &str)]) -> Fixture {
    let mut writer = LogWriter::new(name, container, r#","delegationDepth":0"#);
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

/// Writes on in a log as another program would, without a new file.
fn overwrite(home: &Path, log: &Fixture) {
    fs::write(logs::find(home, &log.id), &log.bytes).unwrap();
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

#[tokio::test]
async fn what_others_do_to_logs_is_noticed_while_the_host_runs() {
    let home = tempfile::tempdir().unwrap();
    let first = [("first", "apples")];
    let both = [("first", "apples"), ("second", "bananas")];
    for name in ["grows", "shrinks", "turns", "goes"] {
        let said = if name == "shrinks" { &both[..] } else { &first };
        logs::put(home.path(), &log(name, said));
    }
    let host = TestHost::start(home.path(), "").await;
    finds(&host, "bananas", &["session-shrinks"]).await;

    overwrite(home.path(), &log("grows", &both));
    overwrite(home.path(), &log("shrinks", &first));
    // As long as before, with other words.
    logs::put(home.path(), &log("turns", &[("other", "pears")]));
    let gone = logs::find(home.path(), "session-goes");
    fs::remove_dir_all(gone.parent().unwrap()).unwrap();
    finds(&host, "bananas", &["session-grows"]).await;
    finds(&host, "apples", &["session-grows", "session-shrinks"]).await;
    finds(&host, "pears", &["session-turns"]).await;

    logs::put(home.path(), &log("goes", &[("again", "quinces")]));
    finds(&host, "quinces", &["session-goes"]).await;
    host.stop().await;
}

#[tokio::test]
async fn a_log_that_was_replaced_before_its_session_came_to_life_is_found_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("p");
    let config = "[session]\ncompression = \"none\"\n";
    let host = TestHost::start(home.path(), config).await;
    let id = session(&host, &project).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "hello apples").await;
    socket.turn("f").await;
    finds(&host, "apples", &[&id]).await;
    drop(socket);
    host.stop().await;
    // As many events that were written at another time, in a file of its own: one word is another.
    let path = logs::find(home.path(), &id);
    let text = fs::read_to_string(&path).unwrap();
    let fresh = path.with_file_name("fresh");
    let other = text
        .replace("apples", "cherry")
        .replace("\"time\":17", "\"time\":16")
        // Packed pieces of an answer too: the index may have stopped in the middle of one.
        .replace("\"time0\":17", "\"time0\":16");
    fs::write(&fresh, other).unwrap();
    fs::rename(fresh, path).unwrap();
    let host = TestHost::start(home.path(), config).await;
    let title = json!({"sessionId": id, "title": "Awake"});
    host.client.ok("session/rename", title).await;
    finds(&host, "cherry", &[&id]).await;
    finds(&host, "apples", &[]).await;
    finds(&host, "awake", &[&id]).await;
    host.stop().await;
}

/// Puts sessions away, of a home that no Host runs on.
fn archive(home: &Path, ids: &[String]) {
    let path = Home::at(home).host_file();
    let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    state["archived"] = json!(ids);
    fs::write(&path, state.to_string()).unwrap();
}

#[tokio::test]
async fn what_a_list_does_not_show_is_not_found() {
    let home = tempfile::tempdir().unwrap();
    for name in ["kept", "archived"] {
        logs::put(home.path(), &log(name, &[("common", "word")]));
    }
    let mut homeless = LogWriter::homeless("homeless", Container::Zstd);
    homeless.prompt("common");
    logs::put(home.path(), &homeless.finish());
    let damaged = log("damaged", &[("common", "word")]);
    let path = logs::put(home.path(), &damaged);
    fs::write(path, &damaged.bytes[..damaged.bytes.len() / 8]).unwrap();
    let host = TestHost::start(home.path(), "").await;
    finds(&host, "common", &["session-archived", "session-kept"]).await;
    host.stop().await;
    archive(home.path(), &["session-archived".to_owned()]);
    let host = TestHost::start(home.path(), "").await;
    let found = finds(&host, "common", &["session-kept"]).await;
    assert_eq!(found["hasMore"], false);
    host.stop().await;
}

#[tokio::test]
async fn what_is_hidden_takes_nobodys_place_on_the_page() {
    let home = tempfile::tempdir().unwrap();
    let mut archived = Vec::new();
    for number in 0..60 {
        let name = format!("n{number:02}");
        // What is put away matches best.
        let hidden = number % 3 != 0;
        let answer = if hidden {
            "common common common"
        } else {
            "word"
        };
        logs::put(home.path(), &log(&name, &[("common", answer)]));
        if hidden {
            archived.push(format!("session-{name}"));
        }
    }
    TestHost::start(home.path(), "").await.stop().await;
    archive(home.path(), &archived);
    let host = TestHost::start(home.path(), "").await;
    let expected: Vec<String> = (0..60)
        .step_by(3)
        .map(|n| format!("session-n{n:02}"))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let found = finds(&host, "common", &expected).await;
    assert_eq!(found["hasMore"], false, "exactly twenty");
    host.stop().await;
}

#[tokio::test]
async fn highlights_count_utf_16_units_wherever_the_snippet_is_cut() {
    let home = tempfile::tempdir().unwrap();
    let clef = "\u{1d11e} ".repeat(300);
    for (name, text) in [
        ("start", format!("\u{1f600}needle {clef}")),
        ("middle", format!("{clef}\u{1f600}needle\u{1f600} {clef}")),
        ("end", format!("{clef}\u{1f600}\u{1f600} needle")),
    ] {
        logs::put(home.path(), &log(name, &[(&text, "nothing")]));
    }
    let host = TestHost::start(home.path(), "").await;
    let all = ["session-end", "session-middle", "session-start"];
    let found = finds(&host, "needle", &all).await;
    for hit in found["items"].as_array().unwrap() {
        let snippet = hit["snippet"].as_str().unwrap();
        let length = snippet.chars().count();
        assert!(
            length <= 242,
            "{length} code points, marks of cuts included"
        );
        let one = json!({"items": [hit]});
        assert_eq!(marked(&one), ["needle"], "{hit}");
    }
    host.stop().await;
}

#[tokio::test]
async fn a_message_that_is_replaced_later_is_found_until_then() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::new("one", Container::Zstd, r#","delegationDepth":0"#);
    writer.event("turn/start", r#"{"turn":1}"#);
    let taken = writer.prompt("apples and pears");
    let next = writer.prompt("more pears");
    let before = {
        let mut open = LogWriter::new("one", Container::Zstd, r#","delegationDepth":0"#);
        open.event("turn/start", r#"{"turn":1}"#);
        open.prompt("apples and pears");
        open.prompt("more pears");
        open.finish()
    };
    logs::put(home.path(), &before);
    let host = TestHost::start(home.path(), "").await;
    finds(&host, "apples", &["session-one"]).await;
    writer.end_frame();
    let seq = writer.next();
    let line = format!(
        r#"{{"type":"user/message","seq":{seq},"time":9000,"data":{{"role":"user","content":[{{"type":"text","text":"a summary of pears"}}],"source":{{"kind":"user"}},"id":"sum"}},"sourceEventSeqs":[{taken},{next}],"surfaceOp":{{"op":"replace","start":{taken},"end":{next}}}}}"#
    );
    writer.line(&line, std::slice::from_ref(&line));
    writer.event("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    overwrite(home.path(), &writer.finish());
    finds(&host, "apples", &[]).await;
    let found = finds(&host, "pears", &["session-one"]).await;
    assert_eq!(found["items"][0]["match"]["seq"], seq);
    host.stop().await;
}

#[tokio::test]
async fn with_search_turned_off_a_question_is_refused_unread_and_all_else_works() {
    let home = tempfile::tempdir().unwrap();
    logs::put(home.path(), &log("a", &[("where are the keys", "here")]));
    let host = TestHost::start(home.path(), "[search]\nenabled = false\n").await;
    // Neither question is looked at, not even the one that would be refused anyway.
    for query in ["keys", ""] {
        let asked = json!({"query": query});
        let (status, said) = host.client.call("session/search", asked).await;
        assert_eq!(status, 404, "{said}");
        assert_eq!(said["error"]["code"], "gateway/unknown-method");
        assert_eq!(said["error"]["details"]["endpoint"], "session/search");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains("`search.enabled`"), "{message}");
    }
    let listed = host.client.ok("session/list", json!({})).await;
    assert_eq!(listed["items"][0]["sessionId"], "session-a");
    host.stop().await;
    // What nobody indexed is found as soon as somebody wants to.
    let host = TestHost::start(home.path(), "").await;
    finds(&host, "keys", &["session-a"]).await;
    host.stop().await;
}

#[tokio::test]
async fn of_two_logs_that_claim_one_id_none_is_read_and_others_answer() {
    let home = tempfile::tempdir().unwrap();
    for container in [Container::Zstd, Container::Plain] {
        let said = [("the first copy", "yes")];
        logs::put(home.path(), &log_in(container, "twice", &said));
    }
    logs::put(home.path(), &log("other", &[("the only copy", "yes")]));
    let host = TestHost::start(home.path(), "").await;
    let found = finds(&host, "copy", &["session-other"]).await;
    assert_eq!(found["indexing"], false);
    let listed = host.client.ok("session/list", json!({})).await;
    let diagnostics = listed["diagnostics"].to_string();
    assert!(diagnostics.contains("session-twice"), "{diagnostics}");
    let address = |id: &str| json!({"kind": "session", "sessionId": id});
    let page = |id: &str| json!({"address": address(id), "throughSeq": 0});
    let (status, said) = host
        .client
        .call("session/page", page("session-twice"))
        .await;
    assert_eq!(status, 500, "{said}");
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.contains("more than one log"), "{message}");
    host.client.ok("session/page", page("session-other")).await;
    let folder = logs::find(home.path(), "session-twice");
    fs::remove_file(folder.with_file_name(Container::Plain.file_name())).unwrap();
    host.client.ok("session/page", page("session-twice")).await;
    finds(&host, "copy", &["session-other", "session-twice"]).await;
    host.stop().await;
}
