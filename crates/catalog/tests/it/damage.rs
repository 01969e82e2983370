//! What a file may suffer: it is lost, cut, overwritten, foreign, of another version. Nothing of it
//! ends in a panic, a wrong checkpoint or a catalogue that stays unusable.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use orrery_catalog::{Catalog, CatalogError};
use orrery_projection::checkpoint::CheckpointStore;
use orrery_query::search::{IndexError, SearchIndex};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::make::{ask, document, hits, id, record, update};

const SESSIONS: u64 = 40;

struct Place {
    _folder: TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state").join("catalog.sqlite");
    Place {
        _folder: folder,
        path,
    }
}

fn name(number: u64) -> String {
    format!("session-{number}")
}

/// A catalogue with something of everything.
fn fill(catalog: &Catalog) {
    for number in 0..SESSIONS {
        let text = format!("word{number} common {}", "filler ".repeat(200));
        let documents = (0..4).map(|seq| document(seq, &text)).collect();
        SearchIndex::update(catalog, &[update(&name(number), documents)]).unwrap();
        let record = record(number as i64, r#""some state""#);
        catalog.put(&[(id(&name(number)), record)]).unwrap();
    }
}

fn filled(path: &Path) {
    let catalog = Catalog::open(path).unwrap();
    fill(&catalog);
}

/// Whether everything works, after at most a few calls that notice the damage. Checkpoints are right
/// or absent all the while.
fn recovers(catalog: &Catalog) {
    for round in 0.. {
        let mut failed = Vec::new();
        match catalog.load_all() {
            Ok(records) => {
                for (session, found) in records {
                    let created = found.identity.created_at.epoch_millis();
                    assert_eq!(found, record(created, r#""some state""#));
                    assert_eq!(session, id(&name(created as u64)));
                }
            }
            Err(error) => failed.push(error.to_string()),
        }
        let mut index = |result: Result<(), IndexError>| failed.extend(result.err().map(|e| e.0));
        index(SearchIndex::sessions(catalog).map(drop));
        index(catalog.search(&ask("common")).map(drop));
        let fresh = update("fresh", vec![document(1, "entirely fresh")]);
        index(SearchIndex::update(catalog, &[fresh]));
        if failed.is_empty() {
            break;
        }
        assert!(round < 6, "it does not recover: {failed:?}");
    }
    assert!(hits(catalog, &ask("entirely")).contains(&"fresh/1 x1".to_owned()));
    catalog
        .put(&[(id("session-1"), record(1, r#""some state""#))])
        .unwrap();
    assert!(catalog.load(&id("session-1")).unwrap().is_some());
    catalog.heal().unwrap();
    SearchIndex::sessions(catalog).unwrap();
    catalog.search(&ask("common")).unwrap();
}

fn is_empty(catalog: &Catalog) -> bool {
    SearchIndex::sessions(catalog).unwrap().is_empty() && catalog.load_all().unwrap().is_empty()
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let place = place();
    filled(&place.path);
    let catalog = Catalog::open(&place.path).unwrap();
    assert_eq!(
        SearchIndex::sessions(&catalog).unwrap().len() as u64,
        SESSIONS
    );
    assert_eq!(catalog.load_all().unwrap().len() as u64, SESSIONS);
    assert_eq!(hits(&catalog, &ask("word7")).len(), 4);
    assert!(!catalog.heal().unwrap());
    assert_eq!(hits(&catalog, &ask("word7")).len(), 4);
}

#[test]
fn a_new_folder_and_new_files_are_the_owners_alone() {
    let place = place();
    let catalog = Catalog::open(&place.path).unwrap();
    fill(&catalog);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.path.parent().unwrap()), 0o700);
    let files = fs::read_dir(place.path.parent().unwrap()).unwrap();
    let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    for sql in [
        "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 77; CREATE TABLE state (x)",
    ] {
        let place = place();
        fs::create_dir_all(place.path.parent().unwrap()).unwrap();
        change(&place.path, sql);
        let before = fs::read(&place.path).unwrap();
        let refused = Catalog::open(&place.path);
        assert!(
            matches!(refused, Err(CatalogError::Foreign { .. })),
            "{refused:?}"
        );
        assert_eq!(fs::read(&place.path).unwrap(), before);
    }
    let place = place();
    filled(&place.path);
    change(&place.path, "CREATE TABLE theirs (x)");
    assert!(matches!(
        Catalog::open(&place.path),
        Err(CatalogError::Foreign { .. })
    ));
    change(&place.path, "DROP TABLE theirs");
    assert!(!is_empty(&Catalog::open(&place.path).unwrap()));
}

#[test]
fn another_version_is_made_anew() {
    for sql in [
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 99; CREATE TABLE later (x)",
        "DROP TABLE checkpoints",
        "DELETE FROM state",
        "DROP TABLE text",
    ] {
        let place = place();
        filled(&place.path);
        change(&place.path, sql);
        let catalog = Catalog::open(&place.path).unwrap();
        assert!(is_empty(&catalog), "{sql}");
        fill(&catalog);
        recovers(&catalog);
    }
}

#[test]
fn a_place_that_cannot_be_used_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    let below = Catalog::open(&file.join("catalog.sqlite"));
    assert!(
        matches!(below, Err(CatalogError::Place { .. })),
        "{below:?}"
    );
    let taken = Catalog::open(folder.path());
    assert!(
        matches!(taken, Err(CatalogError::Place { .. })),
        "{taken:?}"
    );
}

#[test]
fn a_file_that_is_cut_anywhere_is_made_anew_or_read() {
    let place = place();
    filled(&place.path);
    let whole = fs::read(&place.path).unwrap();
    let sizes = [
        0, 1, 16, 50, 99, 100, 512, 4096, 8191, 8192, 8193, 30_000, 100_000,
    ];
    let near_the_end = [whole.len() - 8192, whole.len() - 1];
    for size in sizes
        .into_iter()
        .chain(near_the_end)
        .filter(|size| *size < whole.len())
    {
        fs::write(&place.path, &whole[..size]).unwrap();
        recovers(&Catalog::open(&place.path).unwrap());
    }
}

#[test]
fn a_file_with_flipped_bytes_is_made_anew_read_or_refused() {
    let place = place();
    filled(&place.path);
    let whole = fs::read(&place.path).unwrap();
    let mut chance: u64 = 88_172_645_463_325_252;
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..=round % 20 {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            // Every other time near the beginning, where the structure lies.
            let within = if chance & 1 == 0 { 20_000 } else { bytes.len() };
            let at = (chance >> 8) as usize % within.min(bytes.len());
            bytes[at] ^= 1 << (chance >> 3 & 7);
        }
        fs::write(&place.path, &bytes).unwrap();
        let _nothing_beside = fs::remove_file(place.path.with_extension("sqlite-wal"));
        match Catalog::open(&place.path) {
            Ok(catalog) => recovers(&catalog),
            Err(CatalogError::Foreign { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_file_that_is_overwritten_while_open_is_made_anew() {
    for garbage in [
        &b""[..],
        &b"text, and a long one at that"[..],
        &[0; 60_000][..],
    ] {
        let place = place();
        let catalog = Catalog::open(&place.path).unwrap();
        fill(&catalog);
        change(&place.path, "PRAGMA wal_checkpoint(TRUNCATE)");
        fs::write(&place.path, garbage).unwrap();
        recovers(&catalog);
    }
}

#[test]
fn files_that_are_deleted_while_open_come_back_empty() {
    for suffixes in [
        &["", "-wal", "-shm"][..],
        &[""][..],
        &["-wal"][..],
        &["-wal", "-shm"][..],
    ] {
        let place = place();
        let catalog = Catalog::open(&place.path).unwrap();
        fill(&catalog);
        hits(&catalog, &ask("word7"));
        for suffix in suffixes {
            let mut name = place.path.clone().into_os_string();
            name.push(suffix);
            fs::remove_file(name).unwrap();
        }
        recovers(&catalog);
        if suffixes.contains(&"") {
            assert_eq!(SearchIndex::sessions(&catalog).unwrap().len(), 1);
        }
    }
}

#[test]
fn a_lost_index_is_no_empty_answer_until_somebody_asked_what_it_holds() {
    let place = place();
    let catalog = Catalog::open(&place.path).unwrap();
    fill(&catalog);
    let generation = catalog.generation().unwrap();
    fs::remove_dir_all(place.path.parent().unwrap()).unwrap();
    assert!(catalog.search(&ask("common")).is_err());
    let more = update(&name(1), vec![document(9, "more")]);
    assert!(SearchIndex::update(&catalog, std::slice::from_ref(&more)).is_err());
    assert_ne!(catalog.generation().unwrap(), generation);
    assert!(catalog.search(&ask("common")).is_err());
    // Checkpoints promise nothing about what was before.
    assert_eq!(catalog.load(&id("session-1")).unwrap(), None);
    assert!(SearchIndex::sessions(&catalog).unwrap().is_empty());
    assert!(catalog.search(&ask("common")).unwrap().is_empty());
    SearchIndex::update(&catalog, &[more]).unwrap();
    assert_eq!(hits(&catalog, &ask("more")).len(), 1);
}

#[test]
fn two_catalogues_over_one_file_see_each_other() {
    let place = place();
    let one = Catalog::open(&place.path).unwrap();
    let two = Catalog::open(&place.path).unwrap();
    fill(&one);
    assert_eq!(hits(&two, &ask("word7")).len(), 4);
    SearchIndex::update(&two, &[update("b", vec![document(1, "word7")])]).unwrap();
    assert_eq!(hits(&one, &ask("word7")).len(), 5);
    one.rebuild().unwrap();
    assert!(two.search(&ask("word7")).is_err());
    assert!(SearchIndex::sessions(&two).unwrap().is_empty());
    SearchIndex::sessions(&one).unwrap();
    fill(&two);
    assert_eq!(hits(&one, &ask("word7")).len(), 4);
}

#[test]
fn readers_go_on_while_somebody_writes() {
    let place = place();
    let catalog = Catalog::open(&place.path).unwrap();
    fill(&catalog);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(hits(&catalog, &ask("word7")).len(), 4);
                }
            });
        }
        for number in 0..20 {
            let documents = vec![document(number, "other")];
            SearchIndex::update(&catalog, &[update("writer", documents)]).unwrap();
        }
    });
    assert_eq!(hits(&catalog, &ask("other")).len(), 20);
}
