//! `sessions rename|fork|archive|unarchive|rm|restore|trash`, with and without a running Host.

use serde_json::Value;

use crate::fixture::Place;
use crate::serve::Server;

fn ids(place: &Place) -> Vec<String> {
    let done = place.run(&["sessions", "list", "--json"]).exits(0);
    let listed: Value = serde_json::from_str(&done.out).unwrap();
    let rows = listed["items"].as_array().unwrap().iter();
    rows.map(|row| row["sessionId"].as_str().unwrap().to_owned())
        .collect()
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    let done = place.run(arguments).exits(0);
    serde_json::from_str(&done.out).unwrap()
}

fn a_life(place: &Place) {
    let first = ids(place);
    assert_eq!(first.len(), 1);
    let id = &first[0];
    let bare = id.strip_prefix("session-").unwrap();
    let beginning: String = bare.chars().take(13).collect();
    let renamed = json(
        place,
        &["sessions", "rename", &beginning, "A new name", "--json"],
    );
    assert_eq!(renamed["title"], "A new name");
    let fork = place.run(&["sessions", "fork", id]).exits(0).out;
    let fork = fork.trim();
    assert_eq!(ids(place).len(), 2);
    let shown = place.run(&["sessions", "list"]).exits(0).out;
    assert!(shown.contains("A new name (1)"), "{shown}");

    place.run(&["sessions", "archive", fork]).exits(0);
    let row = |id: &str| {
        let listed = json(place, &["sessions", "list", "--json"]);
        let rows = listed["items"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["sessionId"] == id).unwrap()
    };
    assert_eq!(row(fork)["archived"], true);
    place.run(&["sessions", "unarchive", fork]).exits(0);
    assert_eq!(row(fork)["archived"], false);

    place.run(&["sessions", "rm", fork]).exits(0);
    assert_eq!(ids(place), first);
    let trash = place.run(&["sessions", "trash"]).exits(0).out;
    assert!(
        trash.contains(fork) && trash.contains("A new name (1)"),
        "{trash}"
    );
    let done = place.run(&["sessions", "restore", fork]).exits(0);
    assert!(done.out.contains("is back"), "{done:?}");
    assert_eq!(ids(place).len(), 2);
    let empty = json(place, &["sessions", "trash", "--json"]);
    assert_eq!(empty["items"], Value::Array(Vec::new()));
    place.run(&["sessions", "rm", fork]).exits(0);

    let written = place.run(&["sessions", "export", id]).exits(0).out;
    let file = place.project().join(written.trim());
    assert!(file.exists(), "{written}");
    let done = place.run(&["sessions", "export", id]).exits(1);
    assert!(
        done.err.contains("cannot write"),
        "what is there stays: {done:?}"
    );
    let name = written.trim();
    let came = json(place, &["sessions", "import", name, "--json"]);
    assert_eq!(came["renamed"][0]["from"], Value::from(id.as_str()));
    let came = came["sessionIds"][0].as_str().unwrap().to_owned();
    let said = |id: &str| place.run(&["sessions", "show", id]).exits(0).out;
    assert_eq!(said(&came), said(id));
    place.run(&["sessions", "rm", &came]).exits(0);
    let done = place.run(&["sessions", "import", "nothing.zip"]).exits(1);
    assert!(done.err.contains("cannot read"), "{done:?}");
    std::fs::write(place.project().join("no.zip"), "text").unwrap();
    let done = place.run(&["sessions", "import", "no.zip"]).exits(2);
    assert!(done.err.contains("ZIP"), "{done:?}");
    let left = std::fs::read_dir(place.project()).unwrap().count();
    assert_eq!(left, 2, "no half files");

    let done = place.run(&["sessions", "rm", "nothing"]).exits(1);
    assert!(done.err.contains("nothing"), "{done:?}");
    let done = place.run(&["sessions", "rename", id, "  "]).exits(1);
    assert!(done.err.contains("visible characters"), "{done:?}");
}

#[test]
fn a_session_is_changed_where_no_host_runs() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    a_life(&place);
    let record = place.home().join("state/host.json");
    assert!(!record.exists(), "nobody was told of the Host of a command");
}

#[test]
fn a_session_is_changed_through_the_host_that_runs() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    let server = Server::start(&place, &["serve", "--port", "0"]);
    a_life(&place);
    assert_eq!(server.end().0, Some(0));
}
