//! The page about projection units names every unit as it is.

use orrery_projection::Registry;

#[test]
fn every_registered_unit_stands_in_the_page_with_its_version_and_its_events() {
    let registry = Registry::default();
    let _agent = orrery_agent::units::register(&registry).unwrap();
    let _subagent = orrery_subagent::units::register(&registry).unwrap();
    let page = include_str!("../../../../docs/projections.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let views = registry.view_schemas();
    for (key, version) in registry.state_versions() {
        let start = format!("| `{key}` | {version} |");
        let row = rows.iter().find(|row| row.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("docs/projections.md has no row `{start} …`"));
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let host_only = cells[3].starts_with("none");
        assert_eq!(host_only, !views.contains_key(key), "view of {key}: {row}");
        let types = registry.event_types(&[key]);
        if cells[4] == "all" {
            assert!(types.len() > 20, "{key} folds all");
            continue;
        }
        let mut named: Vec<&str> = cells[4].split('`').skip(1).step_by(2).collect();
        let mut folded: Vec<&str> = types.iter().map(|event_type| event_type.as_str()).collect();
        named.sort_unstable();
        folded.sort_unstable();
        assert_eq!(named, folded, "events of {key}");
    }
    assert_eq!(rows.len(), registry.keys().len(), "a row for no unit");
}
