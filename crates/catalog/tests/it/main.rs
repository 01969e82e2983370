//! The catalogue through its ports: what a second backend would have to do as well
//! (`conformance`, `model`), and what a file on a disk may suffer (`damage`).
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint configuration does not see as such"
)]

mod conformance;
mod damage;
mod make;
mod model;
mod paging;
mod words;

use orrery_catalog::{CANDIDATES, Catalog};
use orrery_query::search::{IndexQuery, SearchIndex as _};

#[test]
fn checkpoints_in_a_file_are_kept_as_the_port_says() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&folder.path().join("catalog.sqlite")).unwrap();
    conformance::checkpoints(&catalog);
}

#[test]
fn checkpoints_in_memory_are_kept_as_the_port_says() {
    conformance::checkpoints(&Catalog::in_memory().unwrap());
}

#[test]
fn an_index_in_a_file_answers_as_the_port_says() {
    for check in conformance::INDEX {
        let folder = tempfile::tempdir().unwrap();
        check(&Catalog::open(&folder.path().join("catalog.sqlite")).unwrap());
    }
}

#[test]
fn an_index_in_memory_answers_as_the_port_says() {
    for check in conformance::INDEX {
        check(&Catalog::in_memory().unwrap());
    }
}

#[test]
fn of_a_word_in_very_many_documents_the_newest_are_ranked() {
    let catalog = Catalog::in_memory().unwrap();
    let count = CANDIDATES as u64;
    let old = vec![make::document(0, "error error error")];
    let many = (0..count).map(|seq| make::document(seq, "error")).collect();
    let longer = vec![make::document(0, "errors errors errors")];
    let updates = [
        make::update("old", old),
        make::update("many", many),
        make::update("longer", longer),
    ];
    catalog.update(&updates).unwrap();
    // The word fills the candidates by itself: neither the oldest nor the longer form is looked at.
    let query = IndexQuery {
        limit: 2 * CANDIDATES,
        ..make::ask("error")
    };
    let hits = catalog.search(&query).unwrap();
    assert_eq!(hits.len(), CANDIDATES);
    assert!(hits.iter().all(|hit| hit.session.as_str() == "many"));
    let behind = IndexQuery {
        one_per_session: true,
        offset: 1,
        ..query.clone()
    };
    assert!(catalog.search(&behind).unwrap().is_empty());
    // With a filter that leaves room, all forms count.
    let few = IndexQuery {
        sessions: Some([make::id("old"), make::id("longer")].into()),
        ..query
    };
    assert_eq!(make::hits(&catalog, &few), ["old/0 x3", "longer/0 x3"]);
    assert_eq!(catalog.search(&make::ask("erro")).unwrap().len(), 100);
}
