//! What the ports promise, for whatever keeps them. Each function begins with an empty one.

use std::collections::BTreeSet;

use orrery_projection::checkpoint::CheckpointStore;
use orrery_query::search::words::{MAX_PHRASE_WORDS, MAX_PHRASES};
use orrery_query::search::{IndexQuery, Phrase, SearchIndex, SessionUpdate, Standing};
use orrery_session::{EventType, Timestamp};

use crate::make::{ask, document, hits, id, record, seq, shadowing, title, update};

pub(crate) fn checkpoints(store: &dyn CheckpointStore) {
    let (a, b, c) = (id("a"), id("b"), id("c"));
    assert_eq!(store.load(&a).unwrap(), None);
    assert!(store.load_all().unwrap().is_empty());

    let (one, two) = (
        record(0, r#"{"odd":1.50,"text":"\ud800"}"#),
        record(5, "null"),
    );
    store
        .put(&[(a.clone(), one.clone()), (b.clone(), two.clone())])
        .unwrap();
    assert_eq!(store.load(&a).unwrap().as_ref(), Some(&one));
    assert_eq!(store.load(&b).unwrap().as_ref(), Some(&two));
    assert_eq!(store.load(&c).unwrap(), None);
    let these = store.load_these(&[c.clone(), b.clone(), b.clone()]);
    let these: Vec<_> = these.unwrap().into_iter().collect();
    assert_eq!(these, [(b.clone(), two.clone())]);
    assert!(store.load_these(&[]).unwrap().is_empty());

    // A write replaces the record whole.
    let mut less = record(9, "[1]");
    less.rows.remove("todos");
    store.put(&[(a.clone(), less.clone())]).unwrap();
    assert_eq!(store.load(&a).unwrap().as_ref(), Some(&less));
    let all = store.load_all().unwrap();
    assert_eq!(
        all.into_iter().collect::<Vec<_>>(),
        [(a.clone(), less), (b.clone(), two)]
    );

    store.remove(&[a.clone(), c]).unwrap();
    assert_eq!(store.load(&a).unwrap(), None);
    assert_eq!(
        store.load_all().unwrap().into_keys().collect::<Vec<_>>(),
        [b]
    );
    store.put(&[]).unwrap();
    store.remove(&[]).unwrap();
}

/// All checks of an index.
pub(crate) const INDEX: &[fn(&dyn SearchIndex)] = &[
    an_empty_index_has_no_hits,
    an_update_says_how_far_a_session_is_indexed,
    hits_are_ranked,
    every_condition_holds,
    the_best_of_each_session_counts_once,
    pages_follow_each_other,
    a_shadowed_event_is_found_as_such,
    a_title_takes_the_place_of_the_one_before,
    a_session_can_be_indexed_again_and_forgotten,
    an_event_is_indexed_once,
    the_generation_moves_with_what_is_found,
    joined_forms_count_where_words_do_not,
    the_longest_query_is_answered,
    words_that_nobody_makes_are_answered,
];

fn an_empty_index_has_no_hits(index: &dyn SearchIndex) {
    assert!(index.sessions().unwrap().is_empty());
    assert!(hits(index, &ask("word")).is_empty());
    assert!(
        hits(
            index,
            &IndexQuery {
                limit: 10,
                ..IndexQuery::default()
            }
        )
        .is_empty()
    );
    index.update(&[]).unwrap();
    index.remove(&[id("nobody")]).unwrap();
}

fn an_update_says_how_far_a_session_is_indexed(index: &dyn SearchIndex) {
    let mut first = update("a", vec![document(3, "word")]);
    index.update(std::slice::from_ref(&first)).unwrap();
    assert_eq!(index.sessions().unwrap(), [first.session.clone()]);
    first.documents.clear();
    first.session.revision = Some("file state".to_owned());
    first.session.anchor = 0;
    index.update(std::slice::from_ref(&first)).unwrap();
    assert_eq!(index.sessions().unwrap(), [first.session]);
    assert_eq!(hits(index, &ask("word")), ["a/3 x1"]);
}

fn hits_are_ranked(index: &dyn SearchIndex) {
    let mut late = document(0, "word plus a");
    late.time = Timestamp::saturating(9_000_000);
    index
        .update(&[
            update(
                "b",
                vec![
                    document(0, "word plus a"),
                    document(1, "word word and more text"),
                ],
            ),
            update(
                "a",
                vec![document(0, "word plus a"), document(2, "word +++ a")],
            ),
            update("c", vec![late, document(1, "word")]),
        ])
        .unwrap();
    // More, then shorter, then later, then the smaller id, then the higher seq.
    assert_eq!(
        hits(index, &ask("word")),
        ["b/1 x2", "c/1 x1", "a/2 x1", "c/0 x1", "a/0 x1", "b/0 x1"]
    );
    // All words must be there; the last may go on (`and`).
    assert_eq!(hits(index, &ask("word a")).len(), 5);
}

fn every_condition_holds(index: &dyn SearchIndex) {
    let mut call = document(2, "word");
    call.event_type = EventType::ToolCall;
    call.standing = Standing::LogOnly;
    let mut odd = document(3, "word");
    odd.event_type = EventType::from_name("somebody/else");
    index
        .update(&[
            update("a", vec![document(1, "word one"), call, odd]),
            update("b", vec![document(4, "word two")]),
        ])
        .unwrap();
    let found = |change: &dyn Fn(&mut IndexQuery)| {
        let mut query = ask("word");
        change(&mut query);
        hits(index, &query)
            .into_iter()
            .map(|hit| hit.replace(" x1", ""))
            .collect::<Vec<_>>()
    };
    let types = |types: &[EventType]| found(&|query| query.types = Some(types.to_vec()));
    assert_eq!(types(&[EventType::ToolCall]), ["a/2"]);
    assert_eq!(types(&[EventType::from_name("somebody/else")]), ["a/3"]);
    assert_eq!(types(&[]).len(), 0);
    let standings = |all: &[Standing]| found(&|query| query.standings = Some(all.to_vec()));
    assert_eq!(standings(&[Standing::LogOnly]), ["a/2"]);
    assert_eq!(standings(&Standing::ALL).len(), 4);
    assert_eq!(standings(&[]).len(), 0);
    let sessions = |names: &[&str]| {
        found(&|query| query.sessions = Some(names.iter().map(|name| id(name)).collect()))
    };
    assert_eq!(sessions(&["b", "nobody"]), ["b/4"]);
    assert_eq!(sessions(&["nobody"]).len(), 0);
    assert_eq!(sessions(&[]).len(), 0);
    let many: BTreeSet<_> = (0..20_000)
        .map(|n| id(&format!("s{n}")))
        .chain([id("a")])
        .collect();
    assert_eq!(found(&|query| query.sessions = Some(many.clone())).len(), 3);
    assert_eq!(
        found(&|query| query.seqs = Some(seq(2)..=seq(3))),
        ["a/3", "a/2"]
    );
    let at = Timestamp::saturating;
    assert_eq!(
        found(&|query| query.times = Some(at(1003)..=at(1004))),
        ["a/3", "b/4"]
    );
    assert_eq!(found(&|query| query.limit = 0).len(), 0);
    let nothing = found(&|query| {
        query.types = Some(vec![EventType::ToolCall]);
        query.standings = Some(vec![Standing::Current]);
    });
    assert_eq!(nothing.len(), 0);
}

fn the_best_of_each_session_counts_once(index: &dyn SearchIndex) {
    index
        .update(&[
            update("a", vec![document(0, "word"), document(1, "word word")]),
            update("b", vec![document(0, "word"), document(1, "word")]),
        ])
        .unwrap();
    let query = IndexQuery {
        one_per_session: true,
        ..ask("word")
    };
    assert_eq!(hits(index, &query), ["a/1 x2", "b/1 x1"]);
    assert_eq!(
        hits(
            index,
            &IndexQuery {
                offset: 1,
                ..query.clone()
            }
        ),
        ["b/1 x1"]
    );
    assert_eq!(hits(index, &IndexQuery { limit: 1, ..query }), ["a/1 x2"]);
}

fn pages_follow_each_other(index: &dyn SearchIndex) {
    let documents = (0..25).map(|n| document(n, "word")).collect();
    index.update(&[update("a", documents)]).unwrap();
    let whole = hits(index, &ask("word"));
    let mut pages = Vec::new();
    for offset in (0..30).step_by(10) {
        pages.extend(hits(
            index,
            &IndexQuery {
                offset,
                limit: 10,
                ..ask("word")
            },
        ));
    }
    assert_eq!(pages, whole);
    assert!(
        hits(
            index,
            &IndexQuery {
                offset: 1_000_000,
                ..ask("word")
            }
        )
        .is_empty()
    );
}

fn a_shadowed_event_is_found_as_such(index: &dyn SearchIndex) {
    let mut call = document(2, "word");
    call.standing = Standing::LogOnly;
    let documents = vec![
        document(1, "word"),
        call,
        document(3, "word"),
        document(7, "word"),
    ];
    index.update(&[update("a", documents)]).unwrap();
    let mut second = shadowing("a", &[0..=3, 5..=9]);
    second.documents = vec![document(8, "word")];
    index.update(&[second]).unwrap();
    let hits = index.search(&ask("word")).unwrap();
    let standings: Vec<_> = hits
        .iter()
        .map(|hit| (hit.seq.get(), hit.standing))
        .collect();
    assert_eq!(
        standings,
        [
            (8, Standing::Current),
            (7, Standing::Shadowed),
            (3, Standing::Shadowed),
            (2, Standing::LogOnly),
            (1, Standing::Shadowed)
        ]
    );
}

fn a_title_takes_the_place_of_the_one_before(index: &dyn SearchIndex) {
    index
        .update(&[
            update("a", vec![title(1, "first name"), document(2, "name")]),
            update("b", vec![title(1, "other name")]),
        ])
        .unwrap();
    index
        .update(&[update("a", vec![title(5, "second name")])])
        .unwrap();
    assert!(hits(index, &ask("first")).is_empty());
    assert_eq!(hits(index, &ask("second")), ["a/5 x1"]);
    assert_eq!(hits(index, &ask("name")).len(), 3);
    // Taken back, or written by a build whose titles this one cannot read.
    index.update(&[update("a", vec![title(6, "")])]).unwrap();
    assert!(hits(index, &ask("second")).is_empty());
    assert_eq!(hits(index, &ask("name")), ["a/2 x1", "b/1 x1"]);
}

fn a_session_can_be_indexed_again_and_forgotten(index: &dyn SearchIndex) {
    index
        .update(&[
            update("a", vec![document(1, "old word"), title(2, "old title")]),
            update("b", vec![document(1, "old word")]),
        ])
        .unwrap();
    let again = SessionUpdate {
        from_scratch: true,
        ..update("a", vec![document(1, "new word")])
    };
    index.update(&[again]).unwrap();
    assert_eq!(hits(index, &ask("old")), ["b/1 x1"]);
    assert_eq!(hits(index, &ask("new")), ["a/1 x1"]);
    assert_eq!(index.sessions().unwrap().len(), 2);
    index.remove(&[id("a"), id("nobody")]).unwrap();
    assert!(hits(index, &ask("new")).is_empty());
    assert_eq!(hits(index, &ask("old")), ["b/1 x1"]);
    assert_eq!(index.sessions().unwrap().len(), 1);
}

fn an_event_is_indexed_once(index: &dyn SearchIndex) {
    let first = update("a", vec![document(1, "word"), document(2, "word")]);
    index.update(std::slice::from_ref(&first)).unwrap();
    index.update(&[first]).unwrap();
    assert_eq!(hits(index, &ask("word")), ["a/2 x1", "a/1 x1"]);
}

fn the_generation_moves_with_what_is_found(index: &dyn SearchIndex) {
    let generation = || index.generation().unwrap();
    let mut before = generation();
    let mut moves = |expected: bool, what: &str| {
        let after = generation();
        assert_eq!(after != before, expected, "{what}");
        before = after;
    };
    index
        .update(&[update("a", vec![document(1, "word")])])
        .unwrap();
    moves(true, "a document");
    index.search(&ask("word")).unwrap();
    moves(false, "a search");
    index.update(&[update("a", Vec::new())]).unwrap();
    moves(false, "an update without documents");
    index.update(&[shadowing("a", &[1..=1])]).unwrap();
    moves(true, "a replacement");
    index.update(&[shadowing("a", &[1..=1])]).unwrap();
    moves(false, "the same again");
    index.remove(&[id("b")]).unwrap();
    moves(false, "a session that is not there");
    index.remove(&[id("a")]).unwrap();
    moves(true, "a session");
}

fn joined_forms_count_where_words_do_not(index: &dyn SearchIndex) {
    index
        .update(&[update(
            "a",
            vec![
                document(1, "getUserName getuser"),
                document(2, "get_user"),
                document(3, "get the user"),
                document(4, "get_user get_user_name"),
            ],
        )])
        .unwrap();
    // Of one word its own places and those of joined forms may be the same: the larger number.
    assert_eq!(hits(index, &ask("getuser")), ["a/4 x2", "a/2 x1", "a/1 x1"]);
    assert_eq!(hits(index, &ask("getUser")), ["a/1 x2", "a/4 x2", "a/2 x1"]);
    assert_eq!(hits(index, &ask("get user")).len(), 4);
    assert_eq!(hits(index, &ask("getusername")), ["a/1 x1", "a/4 x1"]);
}

fn the_longest_query_is_answered(index: &dyn SearchIndex) {
    let pieces: Vec<String> = (0..MAX_PHRASES)
        .map(|n| format!("some_part{n}_of_{}", "ab_".repeat(2 * MAX_PHRASE_WORDS)))
        .collect();
    let text = pieces.join(" ");
    index
        .update(&[update("a", vec![document(0, &text)])])
        .unwrap();
    let sessions: BTreeSet<_> = (0..15)
        .map(|n| id(&format!("s{n}")))
        .chain([id("a")])
        .collect();
    let others = sessions.iter().map(|id| update(id.as_str(), Vec::new()));
    index.update(&others.collect::<Vec<_>>()).unwrap();
    let query = IndexQuery {
        sessions: Some(sessions),
        ..ask(&text)
    };
    assert_eq!(query.phrases.len(), MAX_PHRASES);
    assert_eq!(index.search(&query).unwrap().len(), 1);
    let long = format!("{}身", "会话列表".repeat(100));
    index
        .update(&[update("a", vec![document(1, &long)])])
        .unwrap();
    assert_eq!(index.search(&ask(&long)).unwrap().len(), 1);
}

fn words_that_nobody_makes_are_answered(index: &dyn SearchIndex) {
    index
        .update(&[update("a", vec![document(0, "a b word")])])
        .unwrap();
    for words in [
        &["a\"b"][..],
        &["\0"],
        &["*"],
        &["", "a"],
        &[],
        &["\u{e000}1"],
        &["a AND b"],
    ] {
        for joined in [None, Some("\" OR word"), Some("")] {
            let phrase = Phrase {
                words: words.iter().map(|word| (*word).to_owned()).collect(),
                prefix: joined.is_none(),
                joined: joined.map(str::to_owned),
            };
            let query = IndexQuery {
                phrases: vec![phrase],
                ..ask("word")
            };
            index.search(&query).unwrap();
        }
    }
    assert_eq!(hits(index, &ask("word")), ["a/0 x1"]);
}
