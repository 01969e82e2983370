//! The lifecycle witness (`subagent.md` 5.5): a log that is not the session's that was enumerated
//! makes a `corrupt` row, whichever of the nine fields says so, and lends it nothing.

use orrery_session::header::FORMAT_VERSION;
use orrery_testkit::zstd_frames::Framing;

use super::*;

/// A change of a header.
type Change = fn(&mut SessionHeader);

/// Every field that a header has beside its id and version, changed, and taken away where it may be
/// absent: absent equals absent only.
const CHANGES: [(&str, Change); 12] = [
    ("createdAt", |h| h.created_at = Timestamp::saturating(77)),
    ("cwd", |h| h.cwd = Some("/projecu".to_owned())),
    ("cwd, absent", |h| h.cwd = None),
    ("parentSession", |h| h.parent_session = Some(id("other"))),
    ("parentSession, absent", |h| h.parent_session = None),
    ("isSeeded", |h| h.is_seeded = !h.is_seeded),
    ("delegationDepth", |h| h.delegation_depth = 2),
    ("delegationDepth, absent", |h| h.delegation_depth = 0),
    ("origin, absent", |h| h.origin = None),
    ("agentPreset", |h| h.agent_preset = Some("b".to_owned())),
    ("agentPreset, absent", |h| h.agent_preset = None),
    ("agentPreset, empty", |h| {
        h.agent_preset = Some(String::new());
    }),
];

/// Puts another header in front of a log's events, into the same file.
fn swap_header(path: &std::path::Path, line: &[u8]) {
    let bytes = std::fs::read(path).unwrap();
    let magic = [0x28, 0xB5, 0x2F, 0xFD];
    let body = 1 + bytes[1..]
        .windows(4)
        .position(|four| four == magic)
        .unwrap();
    let mut other = Framing::Unchecked.frame(line).unwrap();
    other.extend_from_slice(&bytes[body..]);
    std::fs::write(path, other).unwrap();
    let index = path.with_file_name(orrery_storage::index::INDEX_FILE);
    if index.exists() {
        std::fs::remove_file(index).unwrap();
    }
}

fn witnessed(seed: bool) -> (SessionHeader, usize) {
    let mut header = child("one", "parent", 1);
    header.agent_preset = Some("a".to_owned());
    header.is_seeded = seed;
    (header, if seed { 2 } else { 0 })
}

#[tokio::test]
async fn each_field_of_the_header_is_a_witness_that_the_log_is_still_the_same_session() {
    for (field, change) in CHANGES {
        for seed in [false, true] {
            let house = House::new();
            let (header, inherited) = witnessed(seed);
            let events = log(&[OTHER, WHOLE]);
            house.cold(header.clone(), inherited, events).await;
            let whole = house.list().await;
            assert_eq!(whole, ["one Inactive continuable look"], "{field}");
            let mut other = header.clone();
            change(&mut other);
            assert_ne!(other, header, "{field}");
            // The look of before is still believed: it enumerated the session that was.
            let path = house.store.find(&header.id).await.unwrap().path;
            let cut = if other.is_seeded { 2 } else { 0 };
            let cut = SessionLogOffset::of_len(cut);
            swap_header(&path, &orrery_session::v0::encode_header(&other, cut));
            let rows = house.list().await;
            assert_eq!(rows, ["one Corrupt"], "{field}");
        }
    }
}

#[tokio::test]
async fn a_log_of_another_id_or_format_shows_nothing_of_itself() {
    // These two cannot be read as this session at all (decision D12).
    for (field, from, to) in [
        ("id", r#""id":"one""#, r#""id":"two""#),
        ("version", r#""version":0"#, r#""version":9"#),
    ] {
        assert_eq!(FORMAT_VERSION, 0);
        let house = House::new();
        let (header, _) = witnessed(false);
        house.cold(header.clone(), 0, log(&[WHOLE])).await;
        assert_eq!(house.list().await.len(), 1);
        let path = house.store.find(&header.id).await.unwrap().path;
        let line = orrery_session::v0::encode_header(&header, SessionLogOffset::ZERO);
        let line = String::from_utf8(line).unwrap();
        assert!(line.contains(from), "{line}");
        swap_header(&path, line.replace(from, to).as_bytes());
        assert_eq!(house.list().await, ["one Unavailable"], "{field}");
    }
}

#[tokio::test]
async fn the_witness_counts_in_a_tree_too_and_the_walk_goes_on_below() {
    let house = House::new();
    let (header, _) = witnessed(false);
    house.cold(header.clone(), 0, log(&[WHOLE])).await;
    house.cold(child("below", "one", 2), 0, log(&[OTHER])).await;
    assert_eq!(house.tree().await.len(), 2);
    let mut other = header.clone();
    other.parent_session = Some(id("other"));
    let path = house.store.find(&header.id).await.unwrap().path;
    let line = orrery_session::v0::encode_header(&other, SessionLogOffset::ZERO);
    swap_header(&path, &line);
    let expected = [
        "1 one Corrupt < parent",
        "2 below Inactive one-shot kept < one",
    ];
    assert_eq!(house.tree().await, expected);
    // It was found out, so the next look is a new one: the session belongs to somebody else.
    assert_eq!(house.tree().await, Vec::<String>::new());
    let other = house.children_of("other").await;
    assert_eq!(other.rows.len(), 1);
}

#[tokio::test]
async fn a_live_copy_whose_header_differs_from_the_stored_one_wins_in_silence() {
    let house = House::new();
    let (header, _) = witnessed(false);
    let mut stored = header.clone();
    stored.parent_session = Some(id("other"));
    house.cold(stored, 0, log(&[OTHER])).await;
    house.live(header, 0, Some(&log(&[WHOLE])));
    assert_eq!(house.list().await, ["one Running continuable look"]);
    let other = house.children_of("other").await;
    assert!(other.rows.is_empty(), "{:?}", other.rows);
}
