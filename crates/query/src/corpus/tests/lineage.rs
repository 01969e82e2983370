//! Who descends from whom.

use super::*;
use crate::corpus::lineage::trace;

#[tokio::test]
async fn relatives_are_told_outwards_and_in_order_and_a_missing_parent_is_named() {
    let house = House::new();
    for (name, parent, made) in [
        ("top", "gone", 1),
        ("mid", "top", 2),
        ("y", "mid", 5),
        ("x", "mid", 5),
        ("elder", "mid", 4),
        ("grandchild", "elder", 9),
    ] {
        let header = below(parent, header(name, made));
        house.live(header, Vec::new(), "");
    }
    let trace = house
        .corpus
        .trace_session(&id("mid"), &house.open)
        .await
        .unwrap();
    let names: Vec<String> = trace
        .ancestors
        .iter()
        .map(|r| r.header.id.to_string())
        .collect();
    assert_eq!(
        (names, trace.unresolved_parent),
        (vec!["top".to_owned()], Some(id("gone")))
    );
    let below: Vec<String> = trace
        .descendants
        .iter()
        .map(|d| format!("{} {}", d.depth, d.record.header.id))
        .collect();
    assert_eq!(below, ["1 elder", "2 grandchild", "1 x", "1 y"]);
    let nobody = house.corpus.trace_session(&id("nobody"), &house.open).await;
    assert_eq!(
        nobody.unwrap_err().code(),
        "SESSION_QUERY_SESSION_NOT_FOUND"
    );
}

#[tokio::test]
async fn a_circle_of_parents_is_refused() {
    let house = House::new();
    house.live(below("b", header("a", 1)), Vec::new(), "");
    house.live(below("a", header("b", 1)), Vec::new(), "");
    house.live(below("a", header("outside", 1)), Vec::new(), "");
    house.live(below("self", header("self", 1)), Vec::new(), "");
    house.live(header("elsewhere", 1), Vec::new(), "");
    let elsewhere = id("elsewhere");
    let elsewhere = house.corpus.trace_session(&elsewhere, &house.open).await;
    assert!(elsewhere.unwrap().descendants.is_empty());
    for name in ["a", "outside", "self"] {
        let error = house.corpus.trace_session(&id(name), &house.open).await;
        assert_eq!(error.unwrap_err().code(), "SESSION_QUERY_INVALID_LINEAGE");
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_is_walked_from_either_end() {
    let mut records = BTreeMap::new();
    for number in 0..100_000_u32 {
        let mut header = header(&format!("s{number}"), 1);
        header.parent_session = number.checked_sub(1).map(|above| id(&format!("s{above}")));
        let record = SessionRecord {
            header,
            inherited: SessionLogOffset::ZERO,
            live: false,
            persisted: true,
        };
        records.insert(record.header.id.clone(), record);
    }
    let top = trace(&records, &id("s0")).unwrap();
    assert_eq!(top.descendants.last().unwrap().depth, 99_999);
    let bottom = trace(&records, &id("s99999")).unwrap();
    assert_eq!(bottom.ancestors.len(), 99_999);
}

#[tokio::test]
async fn live_and_stored_relatives_are_one_family_and_a_live_parent_counts() {
    let house = House::new();
    house.cold(header("root", 1), titled("t")).await;
    house.cold(header("other", 1), titled("t")).await;
    house
        .cold(below("root", header("cold", 3)), titled("t"))
        .await;
    house.live(below("root", header("warm", 2)), Vec::new(), "");
    // Its log names another parent than the session that lives.
    house
        .cold(below("root", header("moved", 4)), titled("t"))
        .await;
    house.live(below("other", header("moved", 4)), Vec::new(), "");
    let names = async |of: &str| {
        let trace = house.corpus.trace_session(&id(of), &house.open).await;
        let below = trace.unwrap().descendants.into_iter();
        below
            .map(|d| d.record.header.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("root").await, ["warm", "cold"]);
    assert_eq!(names("other").await, ["moved"]);
    let family = house
        .corpus
        .family(house.awake.as_ref(), &house.open)
        .await
        .unwrap();
    let children = |of: &str| {
        let members = family.children(&id(of)).into_iter();
        members.map(|m| m.header.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (children("root"), children("other")),
        (names("root").await, names("other").await)
    );
}
