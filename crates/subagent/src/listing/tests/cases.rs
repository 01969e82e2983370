//! Single cases of the list (`subagent.md` 5 and 6.1) that stand in none of the tables.

use orrery_projection::Unit;
use orrery_session::EventType;
use orrery_testkit::GatedDisk;

use super::*;

#[tokio::test]
async fn without_projections_there_is_no_list_even_of_nobody() {
    let house = House::new();
    let mut services = house.lister.services.clone();
    services.projections = None;
    let lister = Lister::new(services);
    let listed = lister
        .children(&id("nobody"), &CancellationToken::new())
        .await;
    let code = listed.unwrap_err().code();
    assert_eq!(code, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE");
}

#[tokio::test]
async fn when_the_sessions_cannot_be_enumerated_there_is_no_list_and_the_failure_says_why() {
    let house = House::new();
    house.live(child("awake", "parent", 1), 0, Some(&log(&[WHOLE])));
    let root = house.store.root().to_owned();
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::write(&root, "no folder").unwrap();
    let (parent, open) = (id("parent"), CancellationToken::new());
    let failed = house.lister.children(&parent, &open).await.unwrap_err();
    assert_eq!(failed.code(), "SESSION_QUERY_PERSISTENCE_FAILED");
    let ListError::Enumeration(inner) = &failed else {
        panic!("{failed:?}");
    };
    assert_eq!(failed.to_string(), inner.to_string());
    let tree = house.lister.descendants(&parent, &open).await;
    assert_eq!(tree.unwrap_err().code(), failed.code());
    std::fs::remove_file(&root).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert_eq!(house.list().await.len(), 1, "the next one lists again");
}

#[tokio::test]
async fn whether_a_child_delegated_is_told_by_headers_alone() {
    let house = House::new();
    for name in ["a", "b", "c"] {
        house.cold(child(name, "parent", 1), 0, log(&[WHOLE])).await;
    }
    // Of no use as a row, and a child's child all the same.
    house.cold(child("empty", "a", 2), 0, log(&[])).await;
    let mut fork = child("fork", "b", 2);
    fork.origin = None;
    house.cold(fork, 0, log(&[WHOLE])).await;
    house.live(child("young", "c", 2), 0, Some(&[]));
    let expected = [
        "a Inactive continuable look +",
        "b Inactive continuable look",
        "c Inactive continuable look +",
    ];
    assert_eq!(house.list().await, expected);
    let reads = house.store.reads().logs;
    assert_eq!(reads, 3, "children of children are not read");
}

#[tokio::test]
async fn a_parent_that_sleeps_is_a_parent_and_is_not_read() {
    let house = House::new();
    let parent = SessionHeader::root(id("parent"), Timestamp::saturating(1));
    house.cold(parent, 0, log(&[])).await;
    house.live(child("one", "parent", 2), 0, Some(&log(&[WHOLE])));
    let listed = house.children_of("parent").await;
    assert!(listed.parent_known);
    assert_eq!(listed.rows.len(), 1);
    assert_eq!(house.store.reads().logs, 0);
}

#[tokio::test]
async fn a_label_is_shown_where_there_is_one_and_a_provider_that_is_gone_hides_nobody() {
    let house = House::new();
    let bare = r#"{"version":2,"mode":"one-shot","provider":"long-gone"}"#;
    house.cold(child("a", "parent", 1), 0, log(&[bare])).await;
    house.live(child("b", "parent", 2), 0, Some(&log(&[bare])));
    house.cold(child("c", "parent", 3), 0, log(&[OTHER])).await;
    let expected = [
        "a Inactive one-shot -",
        "b Running one-shot -",
        "c Inactive one-shot kept",
    ];
    assert_eq!(house.list().await, expected);
}

#[tokio::test]
async fn a_log_that_was_compacted_is_listed_as_its_plain_twin() {
    let said = |text: &str, id: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"id":"{id}"}}"#
        )
    };
    let line = |seq: usize, kind: &str, data: &str, rest: &str| {
        let text = format!(r#"{{"type":"{kind}","seq":{seq},"time":1,"data":{data}{rest}}}"#);
        SharedEvent::new(Event::from_json(&text).unwrap())
    };
    let append = r#","surfaceOp":"append""#;
    let plain = vec![
        line(0, "user/message", &said("first", "a"), append),
        line(1, "subagent/descriptor", WHOLE, ""),
        line(2, "user/message", &said("second", "b"), append),
    ];
    let mut compacted = plain.clone();
    let replace = r#","sourceEventSeqs":[0,2],"surfaceOp":{"op":"replace","start":0,"end":2}"#;
    compacted.push(line(3, "user/message", &said("both", "c"), replace));
    for inherited in [0, 1] {
        let house = House::new();
        for (name, events) in [("plain", &plain), ("twin", &compacted)] {
            for state in ["cold", "live"] {
                let mut header = child(&format!("{state}-{name}"), "parent", 1);
                header.is_seeded = inherited > 0;
                if state == "cold" {
                    house.cold(header, inherited, events.clone()).await;
                } else {
                    house.live(header, inherited, Some(events));
                }
            }
        }
        let expected = [
            "cold-plain Inactive continuable look",
            "cold-twin Inactive continuable look",
            "live-plain Running continuable look",
            "live-twin Running continuable look",
        ];
        assert_eq!(house.list().await, expected);
    }
}

/// A unit that breaks on titles, of which every log here has some.
#[derive(Debug)]
struct Broken;

impl Unit for Broken {
    type State = u64;
    type View = u64;

    fn key(&self) -> &'static str {
        "broken"
    }
    fn state_version(&self) -> u64 {
        1
    }
    fn event_types(&self) -> &'static [EventType] {
        &[EventType::SessionTitle]
    }
    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> u64 {
        0
    }
    fn apply(&self, _: &u64, _: &Event) -> Option<u64> {
        panic!("a fault of this unit")
    }
    fn view(&self, _: &u64) -> Option<u64> {
        panic!("a fault of this unit")
    }
}

#[tokio::test]
async fn a_unit_that_breaks_hides_no_child() {
    let house = House::new();
    let _broken = house.registry.register(Broken).unwrap();
    let (awake, kept) = (child("awake", "parent", 1), child("kept", "parent", 3));
    house.live(awake, 0, Some(&log(&[WHOLE])));
    house
        .cold(child("cold", "parent", 2), 0, log(&[WHOLE]))
        .await;
    house.cold(kept.clone(), 0, log(&[WHOLE])).await;
    house.keep(
        &kept,
        0,
        r#"{"identity":{"mode":"one-shot","label":"kept","seq":1}}"#,
    );
    // A row of the broken unit lies beside.
    let mut record = house.kept.load(&kept.id).unwrap().unwrap();
    let row = record.rows["subagent"].clone();
    record.rows.insert("broken".to_owned(), row);
    house.kept.put(&[(kept.id, record)]).unwrap();
    let expected = [
        "awake Running continuable look",
        "cold Inactive continuable look",
        "kept Inactive one-shot kept",
    ];
    assert_eq!(house.list().await, expected);
}

/// Something wrong with a record.
type Spoil = fn(&mut CheckpointRecord);

#[tokio::test]
async fn a_record_that_does_not_tell_who_a_child_is_leaves_it_to_its_log() {
    let whole = r#"{"identity":{"mode":"one-shot","label":"kept","seq":1}}"#;
    let spoilt: [(&str, Spoil); 5] = [
        ("no row", |record| record.rows.clear()),
        ("another version", |record| {
            record.rows.get_mut("subagent").unwrap().ver = 1;
        }),
        ("null", |record| {
            record.rows.get_mut("subagent").unwrap().val = Json::from_text("null").unwrap();
        }),
        ("no identity, an invalid descriptor", |record| {
            let val = Json::from_text(r#"{"invalidSeq":1}"#).unwrap();
            record.rows.get_mut("subagent").unwrap().val = val;
        }),
        ("of another log", |record| {
            record.identity.created_at = Timestamp::saturating(99);
        }),
    ];
    for (what, spoil) in spoilt {
        let house = House::new();
        let header = child("one", "parent", 1);
        house.cold(header.clone(), 0, log(&[WHOLE])).await;
        house.keep(&header, 0, whole);
        assert_eq!(house.list().await, ["one Inactive one-shot kept"]);
        let mut record = house.kept.load(&header.id).unwrap().unwrap();
        spoil(&mut record);
        house.kept.put(&[(header.id, record)]).unwrap();
        let rows = house.list().await;
        assert_eq!(rows, ["one Inactive continuable look"], "{what}");
        assert_eq!(house.store.reads().logs, 1, "{what}");
    }
}

#[tokio::test]
async fn a_record_of_a_child_that_inherited_something_is_not_asked_whatever_it_says() {
    // Its cut is written in the log's first line only, so nobody can tell whose record it is.
    let house = House::new();
    let header = seeded(child("one", "parent", 1));
    house.cold(header.clone(), 2, log(&[OTHER, WHOLE])).await;
    for cut in [0, 2] {
        let kept = r#"{"identity":{"mode":"one-shot","label":"kept","seq":3}}"#;
        house.keep(&header, cut, kept);
        let rows = house.list().await;
        assert_eq!(rows, ["one Inactive continuable look"], "cut {cut}");
    }
    assert_eq!(house.lister.cost().from_checkpoints, 0);
}

/// A store of records that is broken in one way or the other.
#[derive(Debug)]
struct Failing {
    panics: bool,
}

impl CheckpointStore for Failing {
    fn load(&self, _: &SessionId) -> Result<Option<CheckpointRecord>, CheckpointError> {
        panic!("a list asks for all records at once")
    }
    fn load_these(
        &self,
        _: &[SessionId],
    ) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        assert!(!self.panics, "the store breaks");
        Err(CheckpointError("it is locked".to_owned()))
    }
    fn load_all(&self) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        panic!("a list asks for the records of its candidates only")
    }
    fn put(&self, _: &[(SessionId, CheckpointRecord)]) -> Result<(), CheckpointError> {
        panic!("a list writes nothing")
    }
    fn remove(&self, _: &[SessionId]) -> Result<(), CheckpointError> {
        panic!("a list writes nothing")
    }
}

#[tokio::test]
async fn a_store_of_checkpoints_that_fails_costs_time_only() {
    for panics in [false, true] {
        let house = House::new();
        house
            .cold(child("one", "parent", 1), 0, log(&[WHOLE]))
            .await;
        let mut services = house.lister.services.clone();
        services.checkpoints = Some(Arc::new(Failing { panics }));
        let lister = Lister::new(services);
        let open = CancellationToken::new();
        let listed = lister.children(&id("parent"), &open).await.unwrap();
        let rows: Vec<String> = listed.rows.iter().map(say).collect();
        assert_eq!(rows, ["one Inactive continuable look"]);
        assert_eq!(lister.cost().observations, 1);
    }
}

#[tokio::test]
async fn a_registry_without_the_unit_tells_of_nobody() {
    // The list reads no descriptor itself: the unit is the only one that knows what they mean.
    let mut house = House::new();
    house
        .cold(child("one", "parent", 1), 0, log(&[WHOLE]))
        .await;
    house._units.clear();
    assert_eq!(house.list().await, ["one Corrupt"]);
}

#[tokio::test]
async fn a_settled_child_without_a_descriptor_has_its_place_in_the_tree() {
    let house = House::new();
    house.cold(child("empty", "parent", 1), 0, log(&[])).await;
    house
        .cold(child("below", "empty", 2), 0, log(&[OTHER]))
        .await;
    house
        .cold(child("deeper", "below", 3), 0, log(&[WHOLE]))
        .await;
    let expected = [
        "1 empty Corrupt < parent",
        "2 below Inactive one-shot kept + < empty",
        "3 deeper Inactive continuable look < below",
    ];
    assert_eq!(house.tree().await, expected);
}

#[tokio::test]
async fn a_child_that_comes_to_life_while_it_is_observed_is_judged_as_a_live_one() {
    let table: [(&[&str], usize, Option<&str>); 5] = [
        (&[WHOLE], 0, Some("one Inactive continuable look")),
        (&[], 0, None),
        (&["7"], 0, Some("one Corrupt")),
        // What it shows has an ancestor's identity in it.
        (&[OTHER], 2, None),
        (&[OTHER, WHOLE], 2, Some("one Inactive continuable look")),
    ];
    for (descriptors, inherited, expected) in table {
        let disk = Arc::new(GatedDisk::default());
        let house = House::on(Arc::clone(&disk) as _);
        let mut header = child("one", "parent", 1);
        header.is_seeded = inherited > 0;
        let asleep = if inherited > 0 {
            log(&[OTHER])
        } else {
            log(&[])
        };
        house.cold(header.clone(), inherited, asleep).await;
        assert_eq!(house.list().await, ["one Corrupt"]);
        disk.shut();
        let lister = house.lister.clone();
        let listing = tokio::spawn(async move {
            let open = CancellationToken::new();
            lister.children(&id("parent"), &open).await
        });
        disk.until_within(1).await;
        house.wake(header, inherited, Some(&log(descriptors)), true);
        disk.open();
        let rows = listing.await.unwrap().unwrap().rows;
        let rows: Vec<String> = rows.iter().map(say).collect();
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(rows, expected);
    }
}

#[tokio::test]
async fn a_child_that_is_being_made_has_no_row_before_it_says_who_it_is() {
    let house = House::new();
    let header = child("one", "parent", 1);
    house.cold(header, 0, log(&[])).await;
    house.awake.1.lock().unwrap().push(id("one"));
    assert_eq!(house.list().await, [""; 0]);
    house.awake.1.lock().unwrap().clear();
    assert_eq!(house.list().await, ["one Corrupt"]);
}

#[tokio::test]
async fn a_child_that_is_deleted_after_it_was_enumerated_is_unavailable() {
    let house = House::new();
    house
        .cold(child("one", "parent", 1), 0, log(&[WHOLE]))
        .await;
    house
        .cold(child("two", "parent", 2), 0, log(&[WHOLE]))
        .await;
    assert_eq!(house.list().await.len(), 2);
    let path = house.store.find(&id("one")).await.unwrap().path;
    std::fs::remove_file(path).unwrap();
    let expected = ["one Unavailable", "two Inactive continuable look"];
    assert_eq!(house.list().await, expected);
}

#[tokio::test]
async fn a_child_that_this_process_puts_to_sleep_is_listed_at_once() {
    let house = House::new();
    assert!(house.list().await.is_empty());
    house
        .cold(child("one", "parent", 1), 0, log(&[WHOLE]))
        .await;
    let rows = house.list().await;
    assert_eq!(rows, ["one Inactive continuable look"]);
    assert_eq!(house.store.reads().enumerations, 1, "the look is believed");
}

#[tokio::test]
async fn a_live_child_that_goes_while_the_root_is_looked_at_is_shown_as_it_was() {
    // Who is live is asked first: what goes to sleep behind it is missed by neither look.
    let disk = Arc::new(GatedDisk::default());
    let house = House::on(Arc::clone(&disk) as _);
    house.live(child("one", "parent", 1), 0, Some(&log(&[WHOLE])));
    disk.shut_folders();
    let lister = house.lister.clone();
    let listing = tokio::spawn(async move {
        let open = CancellationToken::new();
        lister.children(&id("parent"), &open).await
    });
    disk.until_listing().await;
    house.awake.0.lock().unwrap().clear();
    disk.open();
    let rows = listing.await.unwrap().unwrap().rows;
    let rows: Vec<String> = rows.iter().map(say).collect();
    assert_eq!(rows, ["one Running continuable look"]);
}
