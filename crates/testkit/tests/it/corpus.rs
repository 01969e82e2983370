//! The fuzz targets' entries over the committed corpus, without a fuzzer: as it is, and with each
//! file changed at random.

use std::path::{Path, PathBuf};

use orrery_testkit::log_layout::{Container, Layout};
use orrery_testkit::{Dice, fuzz_entries, log_fixtures};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<_> = std::fs::read_dir(corpus(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn the_committed_corpus_breaks_no_rule() {
    for (target, entry) in fuzz_entries::ALL {
        let files = files(target);
        assert!(!files.is_empty(), "no corpus for {target}");
        for (path, bytes) in files {
            println!("{}", path.display());
            entry(&bytes);
        }
    }
}

#[test]
fn changed_files_of_the_corpus_break_no_rule() {
    let mut dice = Dice::new(11);
    for (target, entry) in fuzz_entries::ALL {
        let files = files(target);
        // The index's log is long.
        let rounds = if target == "index" { 100 } else { 600 };
        for round in 0..rounds {
            let (path, bytes) = &files[dice.below(files.len())];
            let mut bytes = bytes.clone();
            for _ in 0..=dice.below(3) {
                let at = dice.below(bytes.len());
                match dice.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at.min(bytes.len()), b"0\"[]{},\n"[dice.below(8)]),
                    2 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
                    _ if !bytes.is_empty() => drop(bytes.remove(at)),
                    _ => {}
                }
            }
            println!("{target}, round {round}, from {}", path.display());
            entry(&bytes);
        }
    }
}

/// Writes the corpus anew from the fixtures: `cargo test -p orrery-testkit --test it -- --ignored
/// corpus`.
#[test]
#[ignore = "writes into the source tree"]
fn the_corpus_is_written_from_the_fixtures() {
    let put = |target: &str, name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(corpus(target)).unwrap();
        std::fs::write(corpus(target).join(name), bytes).unwrap();
    };
    for fixture in log_fixtures::all() {
        let name = fixture.id.trim_start_matches("session-");
        let target = match fixture.container {
            Container::Zstd => "log_zstd",
            Container::Plain => "log_plain",
        };
        if fixture.bytes.len() < 1600 {
            put(target, name, &fixture.bytes);
        }
        if fixture.container == Container::Zstd || !["packed", "raw-text"].contains(&name) {
            continue;
        }
        let layout = Layout::of(&fixture.bytes, fixture.container).unwrap();
        put("scanner", name, &fixture.bytes[layout.header_end..]);
        for (number, line) in layout.frames[0].lines.iter().enumerate() {
            let text = &fixture.bytes[line.span.clone()];
            if line.events > 1 || text.windows(6).any(|w| w == b"append") {
                put("record", &format!("{name}-{number}"), text);
            }
        }
    }
    put("index", "empty", b"");
    put("index", "zeros", &[0; 4096]);
    for (name, container) in [("zstd", Container::Zstd), ("plain", Container::Plain)] {
        put("index", name, &fuzz_entries::index_of_long(container));
    }
}

/// Else the fuzzer would begin with bytes that are no index at all.
#[test]
fn the_committed_indexes_are_those_that_this_build_writes() {
    for (name, container) in [("zstd", Container::Zstd), ("plain", Container::Plain)] {
        let committed = std::fs::read(corpus("index").join(name)).unwrap();
        assert!(committed.len() > 200);
        assert_eq!(committed, fuzz_entries::index_of_long(container), "{name}");
    }
}
