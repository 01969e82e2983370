//! Which crate may use which: the arrows of `ARCHITECTURE.md`, as a table.

use super::Complaints;
use super::graph::Graph;

/// For each crate, what it may use. A new arrow is a reviewed change of this table and of
/// `ARCHITECTURE.md`.
const ARROWS: &[(&str, &[&str])] = &[
    ("session", &[]),
    ("projection", &["session"]),
    ("storage", &["session", "projection"]),
    ("query", &["session", "projection", "storage"]),
    ("catalog", &["session", "projection", "storage", "query"]),
    ("llm", &["session"]),
    ("agent", &["session", "projection", "llm"]),
    ("tools", &["session", "projection", "llm", "agent"]),
    (
        "subagent",
        &[
            "session",
            "projection",
            "storage",
            "query",
            "llm",
            "agent",
            "tools",
        ],
    ),
    ("api", &["session"]),
    ("client", &["session", "api"]),
    (
        "host",
        &[
            "session",
            "projection",
            "storage",
            "query",
            "catalog",
            "llm",
            "agent",
            "tools",
            "subagent",
            "api",
            "client",
        ],
    ),
    (
        "cli",
        &[
            "session",
            "projection",
            "storage",
            "query",
            "catalog",
            "llm",
            "agent",
            "tools",
            "subagent",
            "api",
            "client",
            "host",
        ],
    ),
    // Its disks implement the port of storage; its fuzz entries and the process that is killed use
    // both. Its log writer uses neither.
    ("testkit", &["session", "storage"]),
    ("xtask", &["api"]),
];
/// The one crate that is for tests only.
const FOR_TESTS: &str = "testkit";

pub(super) fn check(graph: &Graph) -> Complaints {
    let mut complaints = Complaints::new();
    for package in graph.ours() {
        let from = short(&package.name);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == from) else {
            complaints.push(format!("the crate `{from}` has no place in the arrows"));
            continue;
        };
        let ours = |name: &str| graph.ours().any(|p| p.name == name);
        for dependency in package.dependencies.iter().filter(|d| ours(&d.name)) {
            let to = short(&dependency.name);
            let for_tests = to == FOR_TESTS && dependency.kind.as_deref() == Some("dev");
            if !for_tests && !allowed.contains(&to) {
                complaints.push(format!("`{from}` must not use `{to}`"));
            }
        }
    }
    complaints
}

/// A crate's name without the house's: the binary's package is called like the house.
fn short(name: &str) -> &str {
    match name {
        "orrery" => "cli",
        name => name.strip_prefix("orrery-").unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::graph::{Dependency, Package};
    use super::*;

    fn graph(from: &str, to: &str, kind: Option<&str>) -> Graph {
        let package = |name: &str, uses: &[&str]| Package {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: None,
            dependencies: uses
                .iter()
                .map(|name| Dependency {
                    name: (*name).to_owned(),
                    kind: kind.map(str::to_owned),
                })
                .collect(),
        };
        Graph {
            packages: vec![package(from, &[to]), package(to, &[])],
            workspace_members: BTreeSet::from([from.to_owned(), to.to_owned()]),
        }
    }

    #[test]
    fn an_arrow_against_the_table_is_a_complaint() {
        assert!(check(&graph("orrery-agent", "orrery-llm", None)).is_empty());
        let wrong = check(&graph("orrery-llm", "orrery-agent", None));
        assert_eq!(wrong, ["`llm` must not use `agent`"]);
        assert!(check(&graph("orrery", "orrery-host", None)).is_empty());
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        assert!(check(&graph("orrery-llm", "orrery-testkit", Some("dev"))).is_empty());
        let wrong = check(&graph("orrery-llm", "orrery-testkit", None));
        assert_eq!(wrong, ["`llm` must not use `testkit`"]);
    }

    #[test]
    fn every_arrow_goes_to_a_crate_of_the_table() {
        for (from, uses) in ARROWS {
            for to in *uses {
                assert!(ARROWS.iter().any(|(name, _)| name == to), "{from} {to}");
                let back = ARROWS.iter().find(|(name, _)| name == to);
                assert!(!back.unwrap().1.contains(from), "{from} and {to}: a circle");
            }
        }
    }
}
