//! Random trees of sessions, damaged in random ways, against a model that reads every event of
//! every log and walks the tree as the rules say it (`subagent.md` 5).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What a descriptor may say, and who it names.
const SAYS: [(&str, Option<&str>); 6] = [
    (WHOLE, Some("continuable look")),
    (OTHER, Some("one-shot kept")),
    (
        r#"{"version":2,"mode":"one-shot","provider":"gone"}"#,
        Some("one-shot -"),
    ),
    (NEWER, None),
    ("7", None),
    (
        r#"{"version":2,"mode":"continuable","provider":"spawn"}"#,
        None,
    ),
];

const KEPT: &str = r#"{"identity":{"mode":"one-shot","label":"from a record","seq":1}}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    None,
    Whole,
    Foreign,
    Empty,
}

#[derive(Debug, Clone)]
struct Spec {
    /// Which session is its parent; may be itself, or one below it.
    parent: usize,
    subagent: bool,
    made: i64,
    live: bool,
    poisoned: bool,
    seeded: bool,
    inherited: Vec<usize>,
    own: Vec<usize>,
    record: Record,
    damaged: bool,
}

fn spec() -> impl Strategy<Value = Spec> {
    let says = || prop::collection::vec(0..SAYS.len(), 0..3);
    let record = prop_oneof![
        2 => Just(Record::None),
        2 => Just(Record::Whole),
        1 => Just(Record::Foreign),
        1 => Just(Record::Empty),
    ];
    (
        (0..10_usize, prop::bool::weighted(0.8), 0..3_i64),
        (any::<bool>(), prop::bool::weighted(0.1), any::<bool>()),
        (says(), says()),
        (record, prop::bool::weighted(0.2)),
    )
        .prop_map(
            |((parent, subagent, made), (live, poisoned, seeded), (inherited, own), rest)| Spec {
                parent,
                subagent,
                made,
                live,
                poisoned,
                seeded,
                inherited,
                own,
                record: rest.0,
                damaged: rest.1,
            },
        )
}

/// A session of the model.
struct Node {
    header: SessionHeader,
    cut: usize,
    events: Vec<SharedEvent>,
    spec: Spec,
}

/// The root is the first one; it is nobody's child unless its own header says so.
fn name(number: usize, of: usize) -> String {
    match number % of {
        0 => "parent".to_owned(),
        // Not in the order of their making.
        other => format!("s{}", (other * 7) % 10),
    }
}

fn node(number: usize, of: usize, spec: &Spec) -> Node {
    let parent = name(spec.parent, of);
    let mut header = child(&name(number, of), &parent, spec.made);
    if !spec.subagent {
        header.origin = None;
    }
    header.is_seeded = spec.seeded;
    let inherited: &[usize] = if spec.seeded { &spec.inherited } else { &[] };
    let said: Vec<&str> = inherited
        .iter()
        .chain(&spec.own)
        .map(|which| SAYS[*which].0)
        .collect();
    // Something is inherited, if only a title.
    let cut = if spec.seeded {
        (2 * inherited.len()).max(1)
    } else {
        0
    };
    Node {
        header,
        cut,
        events: log(&said),
        spec: spec.clone(),
    }
}

/// Who the last own descriptor names: nobody where it is damaged, nothing where there is none.
fn own(events: &[SharedEvent], cut: usize) -> Option<Option<&'static str>> {
    let mut last = None;
    for event in events {
        if event.event_type().as_str() == "subagent/descriptor" && event.seq().get() >= cut as u64 {
            let says = SAYS.iter().find(|(data, _)| *data == event.data());
            last = Some(says.unwrap().1);
        }
    }
    last
}

/// The row of a session, without what is below it.
async fn row(house: &House, node: &Node) -> Option<String> {
    let name = &node.header.id;
    if node.spec.live {
        return match own(&node.events, node.cut) {
            _ if node.spec.poisoned => Some(format!("{name} Corrupt")),
            None => None,
            Some(None) => Some(format!("{name} Corrupt")),
            Some(Some(who)) => Some(format!("{name} Running {who}")),
        };
    }
    if node.spec.record == Record::Whole && !node.spec.seeded {
        return Some(format!("{name} Inactive one-shot from a record"));
    }
    let Ok(stored) = house.store.read(name).await else {
        return Some(format!("{name} Unavailable"));
    };
    assert_eq!(stored.events, node.events);
    Some(match own(&stored.events, stored.inherited.index()) {
        Some(Some(who)) => format!("{name} Inactive {who}"),
        _ => format!("{name} Corrupt"),
    })
}

/// The sessions below one, in their order.
fn below<'a>(nodes: &'a [Node], parent: &SessionId) -> Vec<&'a Node> {
    let mut found: Vec<&Node> = nodes
        .iter()
        .filter(|node| node.header.parent_session.as_ref() == Some(parent))
        .collect();
    found.sort_by_key(|node| {
        (
            node.header.created_at.epoch_millis(),
            node.header.id.to_string(),
        )
    });
    found
}

fn is_subagent(node: &Node) -> bool {
    node.header.origin == Some(Origin::Subagent)
}

async fn whole_row(house: &House, nodes: &[Node], node: &Node) -> Option<String> {
    let mut row = row(house, node).await?;
    let diagnostic = ["Corrupt", "Unavailable"].iter().any(|d| row.ends_with(d));
    if !diagnostic && below(nodes, &node.header.id).into_iter().any(is_subagent) {
        row.push_str(" +");
    }
    Some(row)
}

/// All places below a session, by recursion.
fn walk<'a>(
    nodes: &'a [Node],
    parent: &SessionId,
    depth: u32,
    seen: &mut BTreeSet<SessionId>,
    into: &mut Vec<(u32, SessionId, &'a Node)>,
) {
    for node in below(nodes, parent) {
        if seen.insert(node.header.id.clone()) {
            into.push((depth, parent.clone(), node));
            walk(nodes, &node.header.id, depth + 1, seen, into);
        }
    }
}

async fn build(house: &House, nodes: &[Node]) {
    for node in nodes {
        let spec = &node.spec;
        // What is live may lie on disk as well, and says there whatever it says.
        if !spec.live || spec.damaged {
            let events = node.events.clone();
            house.cold(node.header.clone(), node.cut, events).await;
        }
        if spec.live {
            let events = (!spec.poisoned).then_some(node.events.as_slice());
            house.live(node.header.clone(), node.cut, events);
        }
        if spec.damaged && !spec.live {
            let path = house.store.find(&node.header.id).await.unwrap().path;
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.extend_from_slice(b"not a frame");
            std::fs::write(&path, bytes).unwrap();
        }
        match spec.record {
            Record::None => {}
            Record::Whole => house.keep(&node.header, node.cut, KEPT),
            Record::Foreign => {
                let mut other = node.header.clone();
                other.created_at = Timestamp::saturating(99);
                house.keep(&other, node.cut, KEPT);
            }
            Record::Empty => house.keep(&node.header, node.cut, "{}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_list_is_what_reading_everything_gives(specs in prop::collection::vec(spec(), 1..10)) {
        let count = specs.len();
        let nodes: Vec<Node> = specs
            .iter()
            .enumerate()
            .map(|(number, spec)| node(number, count, spec))
            .collect();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let house = House::new();
            build(&house, &nodes).await;
            for parent in &nodes {
                let mut expected = Vec::new();
                for child in below(&nodes, &parent.header.id) {
                    if is_subagent(child) {
                        expected.extend(whole_row(&house, &nodes, child).await);
                    }
                }
                let (reads, cost) = (house.store.reads(), house.lister.cost());
                let listed = house.children_of(parent.header.id.as_str()).await;
                let rows: Vec<String> = listed.rows.iter().map(say).collect();
                prop_assert_eq!(rows, expected);
                prop_assert!(listed.parent_known);
                // One read for each that neither its state nor a record answers for, and no other.
                let cold = below(&nodes, &parent.header.id).into_iter().filter(|node| {
                    let kept = node.spec.record == Record::Whole && !node.spec.seeded;
                    is_subagent(node) && !node.spec.live && !kept
                });
                let cold = cold.count() as u64;
                prop_assert_eq!(house.lister.cost().observations - cost.observations, cold);
                prop_assert_eq!(house.store.reads().logs - reads.logs, cold);
            }
            let root = id("parent");
            let mut places = Vec::new();
            let mut seen = BTreeSet::from([root.clone()]);
            walk(&nodes, &root, 1, &mut seen, &mut places);
            let mut expected = Vec::new();
            for (depth, parent, node) in places {
                if is_subagent(node)
                    && let Some(row) = whole_row(&house, &nodes, node).await
                {
                    expected.push(format!("{depth} {row} < {parent}"));
                }
            }
            prop_assert_eq!(house.tree().await, expected);
            Ok(())
        })?;
    }
}
