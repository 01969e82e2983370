//! The three rungs, the order of rows and trees, and what is missing (`subagent.md` 5.1 to 5.7).

use super::*;

#[tokio::test]
async fn the_outcome_of_the_ladder_is_that_of_the_table_live_and_cold() {
    // `inherited` events of an ancestor, then the child's own.
    let table = [
        (
            log(&[WHOLE]),
            0,
            Some("continuable look"),
            "continuable look",
        ),
        (
            log(&[OTHER, WHOLE]),
            2,
            Some("continuable look"),
            "continuable look",
        ),
        (
            log(&[WHOLE, OTHER]),
            0,
            Some("one-shot kept"),
            "one-shot kept",
        ),
        (log(&[]), 0, None, "Corrupt"),
        (log(&[WHOLE]), 2, None, "Corrupt"),
        (log(&[NEWER]), 2, None, "Corrupt"),
        (log(&[NEWER]), 0, Some("Corrupt"), "Corrupt"),
        (log(&[WHOLE, "7"]), 0, Some("Corrupt"), "Corrupt"),
        (log(&[WHOLE, "7"]), 2, Some("Corrupt"), "Corrupt"),
        (
            log(&["7", WHOLE]),
            0,
            Some("continuable look"),
            "continuable look",
        ),
    ];
    for (events, inherited, live, cold) in table {
        let header = match inherited {
            0 => child("one", "parent", 1),
            _ => seeded(child("one", "parent", 1)),
        };
        let expected = |activity: &str, what: &str| match what {
            "Corrupt" => "one Corrupt".to_owned(),
            what => format!("one {activity} {what}"),
        };
        let house = House::new();
        house.live(header.clone(), inherited, Some(&events));
        let rows = house.list().await;
        let what = live.map(|what| expected("Running", what));
        assert_eq!(rows, what.into_iter().collect::<Vec<_>>(), "{events:?}");
        assert_eq!(
            house.lister.cost().observations,
            0,
            "a live child reads no log"
        );

        let house = House::new();
        house.cold(header, inherited, events.clone()).await;
        assert_eq!(
            house.list().await,
            [expected("Inactive", cold)],
            "{events:?}"
        );
        assert_eq!(house.lister.cost().observations, 1);
    }
    let house = House::new();
    house.live(child("one", "parent", 1), 0, None);
    assert_eq!(house.list().await, ["one Corrupt"], "a poisoned unit");
}

#[tokio::test]
async fn a_checkpoint_answers_for_a_cold_child_that_inherited_nothing_and_for_no_other() {
    let house = House::new();
    let kept = r#"{"identity":{"mode":"one-shot","label":"kept","seq":1}}"#;
    let plain = child("a-plain", "parent", 1);
    let forked = seeded(child("b-forked", "parent", 2));
    let foreign = child("c-foreign", "parent", 3);
    let young = child("d-young", "parent", 4);
    house.cold(plain.clone(), 0, log(&[WHOLE])).await;
    house.cold(forked.clone(), 2, log(&[OTHER, WHOLE])).await;
    house.cold(foreign.clone(), 0, log(&[WHOLE])).await;
    house.cold(young.clone(), 0, log(&[WHOLE])).await;
    house.keep(&plain, 0, kept);
    house.keep(&forked, 2, kept);
    let mut moved = foreign.clone();
    moved.cwd = Some("/elsewhere".to_owned());
    house.keep(&moved, 0, kept);
    house.keep(&young, 0, "{}");
    let rows = house.list().await;
    let expected = [
        "a-plain Inactive one-shot kept",
        "b-forked Inactive continuable look",
        "c-foreign Inactive continuable look",
        "d-young Inactive continuable look",
    ];
    assert_eq!(rows, expected);
    let first = house.lister.cost();
    assert_eq!((first.from_checkpoints, first.observations), (1, 3));
    house.list().await;
    let second = house.lister.cost();
    assert_eq!(
        (second.from_checkpoints, second.observations),
        (2, 6),
        "nothing is remembered and nothing written back"
    );
}

#[tokio::test]
async fn a_child_that_cannot_be_read_hides_no_sibling_and_is_tried_again() {
    let house = House::new();
    house
        .cold(child("first", "parent", 1), 0, log(&[WHOLE]))
        .await;
    house
        .cold(child("second", "parent", 2), 0, log(&[WHOLE]))
        .await;
    let entry = house.store.find(&id("first")).await.unwrap();
    let whole = std::fs::read(&entry.path).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() - 12;
    damaged[middle..middle + 6].fill(0xff);
    let more = std::fs::read(house.store.find(&id("second")).await.unwrap().path).unwrap();
    damaged.extend(more);
    std::fs::write(&entry.path, &damaged).unwrap();
    let rows = house.list().await;
    assert_eq!(
        rows,
        ["first Unavailable", "second Inactive continuable look"]
    );
    std::fs::write(&entry.path, &whole).unwrap();
    let rows = house.list().await;
    assert_eq!(rows[0], "first Inactive continuable look");
}

#[tokio::test]
async fn rows_are_ordered_by_age_and_forks_are_none() {
    let house = House::new();
    house.cold(child("b", "parent", 2), 0, log(&[WHOLE])).await;
    house.cold(child("a", "parent", 2), 0, log(&[WHOLE])).await;
    house.live(child("z", "parent", 1), 0, Some(&log(&[WHOLE])));
    let mut fork = child("fork", "parent", 3);
    fork.origin = None;
    fork.delegation_depth = 0;
    house.cold(fork, 0, log(&[WHOLE])).await;
    house.live(child("below", "a", 9), 0, Some(&log(&[])));
    let rows = house.list().await;
    let expected = [
        "z Running continuable look",
        "a Inactive continuable look +",
        "b Inactive continuable look",
    ];
    assert_eq!(rows, expected);
    let nobody = house.children_of("nobody").await;
    assert!(nobody.rows.is_empty() && !nobody.parent_known);
}

#[tokio::test]
async fn a_tree_is_walked_through_what_is_no_row_and_around_in_no_circle() {
    let house = House::new();
    let whole = log(&[WHOLE]);
    house.live(child("b", "parent", 2), 0, Some(&whole));
    house.live(child("young", "parent", 1), 0, Some(&[]));
    house.live(child("under", "young", 1), 0, Some(&whole));
    let mut fork = child("fork", "b", 1);
    fork.origin = None;
    house.live(fork, 0, Some(&[]));
    house.live(child("deep", "fork", 1), 0, Some(&whole));
    house.live(child("parent", "deep", 1), 0, Some(&whole));
    let expected = [
        "2 under Running continuable look < young",
        "1 b Running continuable look < parent",
        "3 deep Running continuable look + < fork",
    ];
    assert_eq!(house.tree().await, expected);
}

#[tokio::test]
async fn a_chain_of_ten_thousand_is_listed_in_order() {
    let house = House::new();
    let whole = log(&[WHOLE]);
    let mut parent = "parent".to_owned();
    for number in 0..10_000 {
        let name = format!("c{number}");
        house.live(child(&name, &parent, 1), 0, Some(&whole));
        parent = name;
    }
    let rows = house.tree().await;
    assert_eq!(rows.len(), 10_000);
    let last = "10000 c9999 Running continuable look < c9998";
    assert_eq!(rows.last().unwrap(), last);
}

#[tokio::test]
async fn what_is_missing_is_told_in_its_order() {
    let house = House::new();
    house
        .cold(child("one", "parent", 1), 0, log(&[WHOLE]))
        .await;
    let whole = house.lister.services.clone();
    let open = CancellationToken::new();
    let taken_back = CancellationToken::new();
    taken_back.cancel();
    let fails = async |services: &Services, signal: &CancellationToken| {
        let lister = Lister::new(services.clone());
        let children = lister.children(&id("parent"), signal).await;
        let tree = lister.descendants(&id("parent"), signal).await;
        let codes = (children.unwrap_err().code(), tree.unwrap_err().code());
        assert_eq!(codes.0, codes.1);
        assert_eq!(lister.cost().observations, 0);
        codes.0
    };
    let mut services = whole.clone();
    services.corpus = None;
    let code = fails(&services, &open).await;
    assert_eq!(code, "SUBAGENT_CONTROL_QUERY_UNAVAILABLE");
    assert_eq!(fails(&services, &taken_back).await, "CANCELLED");
    assert_eq!(fails(&whole, &taken_back).await, "CANCELLED");
    services.sessions = None;
    let code = fails(&services, &taken_back).await;
    assert_eq!(code, "SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE");
    services.projections = None;
    let code = fails(&services, &taken_back).await;
    assert_eq!(code, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE");
    let mut services = whole;
    services.checkpoints = None;
    let lister = Lister::new(services);
    let listed = lister.children(&id("parent"), &open).await.unwrap();
    assert_eq!(
        listed.rows.len(),
        1,
        "without checkpoints it only takes longer"
    );
}

#[tokio::test]
async fn who_is_live_is_what_the_sessions_of_the_list_say() {
    let house = House::new();
    house
        .cold(child("stored", "parent", 1), 0, log(&[WHOLE]))
        .await;
    house.live(child("awake", "parent", 2), 0, Some(&log(&[WHOLE])));
    assert_eq!(house.list().await.len(), 2);
    let mut services = house.lister.services.clone();
    services.sessions = Some(Arc::new(NobodyLive));
    let lister = Lister::new(services);
    let (parent, signal) = (id("parent"), CancellationToken::new());
    let listed = lister.children(&parent, &signal).await.unwrap();
    let rows: Vec<String> = listed.rows.iter().map(say).collect();
    assert_eq!(rows, ["stored Inactive continuable look"]);
}
