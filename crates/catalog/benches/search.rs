//! What indexing and searching cost: `cargo bench -p orrery-catalog`.
//!
//! Prints one line for each figure; nothing here fails on a number. Run it on an idle machine.
//! `ORRERY_BENCH_SESSIONS` and `ORRERY_BENCH_MEGABYTES` change the size of the corpus, and
//! `ORRERY_BENCH_FOLDER` keeps the file in a folder and searches it again without indexing.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a program for developers: it stops at the first surprise and prints its figures"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use orrery_catalog::Catalog;
use orrery_projection::checkpoint::CheckpointIdentity;
use orrery_query::search::words::of_query;
use orrery_query::search::{
    Document, IndexQuery, IndexedSession, SearchIndex as _, SessionUpdate, Standing,
};
use orrery_session::{EventType, SessionId, SessionLogOffset, SessionSeq, Timestamp};

/// How many different words there are; the frequency of each falls with its rank.
const VOCABULARY: f64 = 60_000.0;
/// How often each query is asked.
const ROUNDS: usize = 20;
/// How many sessions an update brings.
const BATCH: usize = 8;

/// A small generator of numbers that look random (xorshift), the same on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The rank of a word: the first ones come up again and again.
    fn rank(&mut self) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (unit * VOCABULARY.ln()).exp() as u64
    }
}

/// The word of a rank: pronounceable, and no word is the beginning of all others.
fn word(rank: u64) -> String {
    const HEADS: &[&str] = &[
        "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl", "k",
    ];
    const TAILS: &[&str] = &["a", "e", "i", "o", "u", "an", "er", "in", "ost", "ur"];
    let mut rest = rank * 7 + 3;
    let mut word = String::new();
    loop {
        word.push_str(HEADS[(rest % 18) as usize]);
        rest /= 18;
        word.push_str(TAILS[(rest % 10) as usize]);
        rest /= 10;
        if rest == 0 {
            return word;
        }
    }
}

/// A character of text in Chinese.
fn character(rank: u64) -> char {
    char::from_u32(0x4e00 + (rank * 37 % 6000) as u32).unwrap()
}

fn prose(chance: &mut Chance, bytes: usize) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(&word(chance.rank()));
        text.push_str(match chance.below(12) {
            0 => ". ",
            1 => ", ",
            _ => " ",
        });
    }
    text
}

fn chinese(chance: &mut Chance, bytes: usize) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        for _ in 0..=chance.below(14) {
            text.push(character(chance.rank()));
        }
        text.push_str(match chance.below(5) {
            0 => "。",
            1 => " src/main.rs ",
            _ => "，",
        });
    }
    text
}

fn code(chance: &mut Chance, bytes: usize) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        let (a, b, c) = (
            word(chance.rank()),
            word(chance.rank()),
            word(chance.rank()),
        );
        let number = chance.below(100_000);
        match chance.below(6) {
            0 => text.push_str(&format!("    let {a}_{b} = {c}({number});\n")),
            1 => text.push_str(&format!("src/{a}/{b}_{c}.rs:{number}: ")),
            2 => text.push_str(&format!("{:016x} {a}\n", chance.next())),
            3 => text.push_str(&format!("fn {a}{number}(self) -> {b}::{c};\n")),
            4 => {
                let mut letters = b.chars();
                let first = letters.next().unwrap().to_ascii_uppercase();
                text.push_str(&format!("{a}{first}{}.{c}();\n", letters.as_str()));
            }
            _ => text.push_str(&format!("2026-12-{:02}T{number} {a} {b}\n", number % 28)),
        }
    }
    text
}

fn document(chance: &mut Chance, seq: u64) -> Document {
    let (event_type, standing, text) = match chance.below(10) {
        0 => {
            let bytes = 100 + chance.below(400) as usize;
            (
                EventType::UserMessage,
                Standing::Current,
                prose(chance, bytes),
            )
        }
        1 => {
            let bytes = 200 + chance.below(1200) as usize;
            (
                EventType::AssistantMessage,
                Standing::Current,
                chinese(chance, bytes),
            )
        }
        2..5 => {
            let bytes = 300 + chance.below(1500) as usize;
            (
                EventType::AssistantMessage,
                Standing::Current,
                prose(chance, bytes),
            )
        }
        5..7 => {
            let bytes = 60 + chance.below(200) as usize;
            (EventType::ToolCall, Standing::LogOnly, code(chance, bytes))
        }
        _ => {
            let bytes = 300 + chance.below(5000) as usize;
            (
                EventType::ToolResult,
                Standing::Current,
                code(chance, bytes),
            )
        }
    };
    Document {
        seq: SessionSeq::new(seq).unwrap(),
        event_type,
        time: Timestamp::saturating(1_000_000 + seq as i64),
        standing,
        text,
    }
}

fn session(chance: &mut Chance, number: usize, bytes: usize) -> SessionUpdate {
    let mut documents = Vec::new();
    let mut written = 0;
    while written < bytes {
        let document = document(chance, documents.len() as u64 * 3);
        written += document.text.len();
        documents.push(document);
    }
    SessionUpdate {
        session: IndexedSession {
            id: id(number),
            identity: CheckpointIdentity {
                format_version: 0,
                created_at: Timestamp::saturating(number as i64),
                cwd: None,
                is_seeded: false,
                inherited: SessionLogOffset::ZERO,
            },
            revision: Some("r".to_owned()),
            through: SessionLogOffset::of_len(documents.len() * 3),
            anchor: 1,
        },
        from_scratch: true,
        documents,
        shadowed: Vec::new(),
    }
}

fn id(number: usize) -> SessionId {
    SessionId::new(format!("session-{number:06}")).unwrap()
}

fn size(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// What people ask, by kind.
fn queries() -> Vec<(&'static str, Vec<IndexQuery>)> {
    let ask = |text: &str| IndexQuery {
        phrases: of_query(text),
        one_per_session: true,
        limit: 20,
        ..IndexQuery::default()
    };
    let all = |texts: &[String]| texts.iter().map(|text| ask(text)).collect::<Vec<_>>();
    let words = |ranks: &[u64]| ranks.iter().map(|rank| word(*rank)).collect::<Vec<_>>();
    let (common, medium) = (words(&[1, 2, 3, 5, 40, 90]), words(&[300, 700, 1500]));
    let pairs = |a: &[String], b: &[String]| {
        let pairs = a.iter().zip(b).map(|(a, b)| format!("{a} {b}"));
        pairs.collect::<Vec<_>>()
    };
    let cjk = |ranks: &[u64]| {
        ranks
            .iter()
            .map(|rank| character(*rank))
            .collect::<String>()
    };
    let filtered = common.iter().map(|text| IndexQuery {
        sessions: Some(BTreeSet::from([id(3)])),
        one_per_session: false,
        ..ask(text)
    });
    let typed = common.iter().map(|text| IndexQuery {
        types: Some(vec![EventType::UserMessage]),
        ..ask(text)
    });
    vec![
        ("rare words", all(&words(&[40_001, 45_123, 51_777, 59_003]))),
        ("medium words", all(&medium)),
        ("very common words", all(&common)),
        (
            "two common words",
            all(&pairs(&common, &words(&[2, 3, 4, 6, 50, 70]))),
        ),
        ("common and medium", all(&pairs(&common, &medium))),
        (
            "phrases of common words",
            all(&[format!("{}.{}", word(1), word(2))]),
        ),
        ("one letter", all(&["s".to_owned(), "b".to_owned()])),
        ("two letters", all(&["st".to_owned(), "ma".to_owned()])),
        (
            "three letters",
            all(&["sta".to_owned(), "mer".to_owned(), "tri".to_owned()]),
        ),
        ("four letters", all(&["stan".to_owned(), "deri".to_owned()])),
        (
            "identifiers",
            all(&[
                format!("{}_{}", word(1), word(2)),
                format!("{}_{}", word(20), word(300)),
                format!("{}{}", word(1), word(2)),
            ]),
        ),
        (
            "numbers and versions",
            all(&["utf8".to_owned(), "v2".to_owned(), "2026-12".to_owned()]),
        ),
        ("one CJK character", all(&[cjk(&[1]), cjk(&[900])])),
        (
            "CJK words",
            all(&[cjk(&[1, 2]), cjk(&[1, 40]), cjk(&[3, 5, 1])]),
        ),
        ("common, in one session", filtered.collect()),
        ("common, of one type", typed.collect()),
        ("nothing", all(&["zzzzqqq".to_owned()])),
    ]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn at(times: &[Duration], share: f64) -> f64 {
    ms(times[((times.len() - 1) as f64 * share).round() as usize])
}

fn main() {
    let sessions = size("ORRERY_BENCH_SESSIONS", 1_000);
    let bytes = size("ORRERY_BENCH_MEGABYTES", 200) * 1_000_000;
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("ORRERY_BENCH_FOLDER").map(std::path::PathBuf::from);
    let path = kept
        .unwrap_or_else(|| scratch.path().to_owned())
        .join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    // A kept file lacks the session that the last run forgot.
    if catalog.sessions().unwrap().len() + 1 < sessions {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        let (mut documents, mut written) = (0, 0);
        let mut took = Duration::ZERO;
        for first in (0..sessions).step_by(BATCH) {
            let batch = first..sessions.min(first + BATCH);
            let updates: Vec<SessionUpdate> = batch
                .map(|number| session(&mut chance, number, bytes / sessions))
                .collect();
            documents += updates.iter().map(|u| u.documents.len()).sum::<usize>();
            let texts = updates.iter().flat_map(|u| &u.documents);
            written += texts.map(|d| d.text.len()).sum::<usize>();
            let started = Instant::now();
            catalog.update(&updates).unwrap();
            took += started.elapsed();
        }
        let megabytes = written as f64 / 1e6;
        let rate = megabytes / took.as_secs_f64();
        println!(
            "corpus                   {sessions:>8} sessions, {documents} documents, {megabytes:.0} MB"
        );
        println!(
            "indexing                 {:>8.1} s, {rate:.1} MB/s",
            took.as_secs_f64()
        );
    }
    let started = Instant::now();
    drop(catalog);
    println!("closing                  {:>8.1} ms", ms(started.elapsed()));
    let length = std::fs::metadata(&path).unwrap().len() as f64;
    let share = 100.0 * length / bytes as f64;
    println!(
        "file                     {:>8.1} MB, {share:.0} % of the text",
        length / 1e6
    );
    let started = Instant::now();
    let catalog = Catalog::open(&path).unwrap();
    println!("opening                  {:>8.1} ms", ms(started.elapsed()));

    let mut all = Vec::new();
    for (kind, queries) in queries() {
        let mut times = Vec::new();
        let mut hits = 0;
        for query in &queries {
            hits += catalog.search(query).unwrap().len();
            for _ in 0..ROUNDS {
                let started = Instant::now();
                catalog.search(query).unwrap();
                times.push(started.elapsed());
            }
        }
        times.sort();
        let (p50, p95) = (at(&times, 0.5), at(&times, 0.95));
        println!("{kind:<24} {p50:>8.2} ms, 95 %: {p95:.2} ms; {hits} hits");
        all.extend(times);
    }
    all.sort();
    let (p50, p95) = (at(&all, 0.5), at(&all, 0.95));
    println!("all queries              {p50:>8.2} ms, 95 %: {p95:.2} ms");

    let started = Instant::now();
    let mut chance = Chance(7);
    for number in 0..100 {
        let mut update = session(&mut chance, number, 1);
        update.from_scratch = false;
        catalog.update(&[update]).unwrap();
    }
    println!(
        "one more event           {:>8.2} ms",
        ms(started.elapsed()) / 100.0
    );
    let started = Instant::now();
    catalog.remove(&[id(1)]).unwrap();
    println!("forgetting a session     {:>8.2} ms", ms(started.elapsed()));
    let started = Instant::now();
    catalog.heal().unwrap();
    println!("looking at everything    {:>8.2} ms", ms(started.elapsed()));
}
