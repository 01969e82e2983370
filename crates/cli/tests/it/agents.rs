//! `agents`, over logs that another program wrote.

use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::LogWriter;
use serde_json::Value;

use crate::fixture::Place;

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
