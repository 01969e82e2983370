//! `agents`, over logs that another program wrote.

use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::LogWriter;
use serde_json::Value;

use crate::fixture::Place;
use crate::serve::Server;

fn put(place: &Place, name: &str, parent: Option<&str>, descriptor: Option<&str>) {
    let more = parent.map_or_else(
        || r#","delegationDepth":0"#.to_owned(),
        |parent| {
            format!(
                r#","parentSession":"session-{parent}","origin":"subagent","delegationDepth":1"#
            )
        },
    );
    let mut writer = LogWriter::new(name, Container::Plain, &more);
    if let Some(data) = descriptor {
        writer.event("subagent/descriptor", data);
    }
    writer.prompt("do something");
    let log = writer.finish();
    let folder = place
        .home()
        .join("data/sessions")
        .join(log.project)
        .join(&log.id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(log.container.file_name()), log.bytes).unwrap();
}

#[test]
fn the_subagents_of_a_session_are_shown_as_a_table_a_tree_and_json() {
    let place = Place::new();
    let look = r#"{"version":2,"mode":"continuable","provider":"spawn","label":"look around"}"#;
    put(&place, "parent", None, None);
    put(&place, "child", Some("parent"), Some(look));
    put(&place, "grandchild", Some("child"), Some(look));
    put(&place, "mute", Some("parent"), None);
    let table = place.run(&["agents", "parent"]).exits(0).out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].starts_with("session-child"), "{table}");
    for word in [
        "inactive",
        "continuable",
        "look around",
        "subagents of its own",
    ] {
        assert!(lines[0].contains(word), "{word} in {table}");
    }
    assert!(lines[1].contains("corrupt"), "{table}");
    let tree = place
        .run(&["agents", "session-parent", "--tree"])
        .exits(0)
        .out;
    assert!(tree.contains("\n  session-grandchild"), "{tree}");
    let json = place
        .run(&["agents", "session-child", "--json"])
        .exits(0)
        .out;
    let listed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(listed["entries"][0]["id"], "session-grandchild");
    place.run(&["agents", "nobody"]).exits(1);
}

#[test]
fn doctor_counts_what_lists_of_subagents_cost_with_a_host_and_without_one() {
    let place = Place::new();
    place.run(&["doctor", "--stats", "--repair"]).exits(2);
    let fresh = place.run(&["doctor", "--stats", "--json"]).exits(0).out;
    let fresh: Value = serde_json::from_str(&fresh).unwrap();
    assert_eq!(
        (&fresh["lists"], &fresh["logReads"]),
        (&0.into(), &0.into())
    );
    assert!(!place.home().exists(), "a fresh home is left untouched");
    let look = r#"{"version":2,"mode":"continuable","provider":"spawn","label":"look around"}"#;
    put(&place, "parent", None, None);
    put(&place, "child", Some("parent"), Some(look));
    put(&place, "grandchild", Some("child"), Some(look));
    put(&place, "mute", Some("parent"), None);
    let counted = |done: &str| -> Value { serde_json::from_str(done).unwrap() };
    let own = place.run(&["doctor", "--stats", "--json"]).exits(0).out;
    let own = counted(&own);
    let expected = serde_json::json!({"lists": 2, "fromLive": 0, "fromCheckpoints": 0,
        "observations": 3, "enumerations": 1, "logReads": 3, "framesDecoded": 3});
    assert_eq!(own, expected);
    let table = place.run(&["doctor", "--stats"]).exits(0).out;
    assert_eq!(table.lines().count(), 7, "{table}");
    assert!(table.contains("observed"), "{table}");

    let server = Server::start(&place, &["serve", "--port", "0"]);
    let first = place.run(&["doctor", "--stats", "--json"]).exits(0).out;
    assert_eq!(counted(&first)["lists"], 0, "{first}");
    place.run(&["agents", "session-parent"]).exits(0);
    let second = place.run(&["doctor", "--stats", "--json"]).exits(0).out;
    let second = counted(&second);
    assert_eq!(second["pid"], server.pid());
    assert_eq!(second["lists"], 1, "{second}");
    // The command looked at the list of sessions first, which keeps what it learns.
    let answered = ["observations", "fromCheckpoints"].map(|key| second[key].as_u64().unwrap());
    assert_eq!(answered.iter().sum::<u64>(), 2, "{second}");
    server.end();
}

#[test]
fn subagents_are_listed_among_sessions_only_when_asked_for() {
    let place = Place::new();
    std::fs::create_dir(place.project().join("part")).unwrap();
    let task = "summarise this repository with subagents";
    place.run(&["run", task]).exits(0);
    let lines = |arguments: &[&str]| {
        let done = place.run(arguments).exits(0);
        done.out.lines().count()
    };
    assert_eq!(lines(&["sessions", "list"]), 1);
    assert_eq!(lines(&["sessions", "list", "--subagents"]), 2);
}
