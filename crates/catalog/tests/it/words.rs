//! Words and the tokenizer of the index: ours must pass it as they are, or a query would mean
//! something else to the index than to whoever shows the hits.

use orrery_catalog::Catalog;
use orrery_query::search::SearchIndex as _;
use orrery_query::search::words::of_document;
use rusqlite::Connection;

use crate::make::{ask, document, update};

#[test]
fn every_character_of_unicode_passes_the_tokenizer_as_it_is() {
    let mut connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(include_str!("../../src/schema.sql"))
        .unwrap();
    let transaction = connection.transaction().unwrap();
    let mut expected = Vec::new();
    for character in ('\u{80}'..=char::MAX).filter(|c| !c.is_whitespace()) {
        let words = of_document(&format!("a{character}b")).words;
        // What separates, what is dropped and what is ASCII in the end is nothing new.
        if !words.is_ascii() {
            let row = i64::from(u32::from(character));
            let sql = "INSERT INTO text (rowid, words, joined) VALUES (?1, ?2, '')";
            let mut insert = transaction.prepare_cached(sql).unwrap();
            insert.execute((row, &words)).unwrap();
            expected.push((row, words));
        }
    }
    transaction.commit().unwrap();
    let create = "CREATE VIRTUAL TABLE found USING fts5vocab(text, 'instance')";
    connection.execute_batch(create).unwrap();
    let mut found =
        std::collections::BTreeMap::<i64, std::collections::BTreeMap<i64, String>>::new();
    let mut statement = connection
        .prepare("SELECT doc, offset, term FROM found")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let words = found.entry(row.get(0).unwrap()).or_default();
        words.insert(row.get(1).unwrap(), row.get(2).unwrap());
    }
    assert!(expected.len() > 100_000);
    let mut wrong = Vec::new();
    for (row, words) in expected {
        let passed = found.remove(&row).unwrap_or_default();
        if passed.into_values().collect::<Vec<_>>().join(" ") != words {
            wrong.push(format!("{row:x}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} are changed: {}",
        wrong.len(),
        wrong.join(" ")
    );
}

#[test]
fn cjk_and_identifiers_are_found_from_end_to_end() {
    let catalog = Catalog::in_memory().unwrap();
    let texts = [
        "读取身份",
        "重读",
        "投影单元的身份",
        "看会话列表吧",
        "重跑gen-itgc后",
        "list_children",
        "a projection",
        "解压 UTF-8 与 sha256",
        "0xFF",
        "Café",
        "\"quoted\" AND (more)*",
    ];
    let documents = (0..)
        .zip(texts)
        .map(|(n, text)| document(n, text))
        .collect();
    catalog.update(&[update("s", documents)]).unwrap();
    let found = |query: &str| {
        let hits = catalog.search(&ask(query)).unwrap();
        let mut seqs: Vec<u64> = hits.iter().map(|hit| hit.seq.get()).collect();
        seqs.sort_unstable();
        let seqs: Vec<String> = seqs.iter().map(u64::to_string).collect();
        seqs.join(" ")
    };
    assert_eq!(found("身份"), "0 2");
    assert_eq!(found("投影"), "2");
    assert_eq!(found("会话列表"), "3");
    assert_eq!(found("读"), "0 1");
    assert_eq!(found("读取身份"), "0");
    assert_eq!(found("身份 投影"), "2");
    assert_eq!(found("gen"), "4");
    assert_eq!(found("重跑gen"), "4");
    assert_eq!(found("后"), "4");
    assert_eq!(found("list children"), "5");
    assert_eq!(found("listChildren"), "5");
    assert_eq!(found("children"), "5");
    assert_eq!(found("project"), "6");
    assert_eq!(found("utf8"), "7");
    assert_eq!(found("utf-8"), "7");
    assert_eq!(found("SHA-256"), "7");
    assert_eq!(found("256"), "7");
    assert_eq!(found("0xff"), "8");
    assert_eq!(found("cafe"), "9");
    assert_eq!(found("CAFÉ"), "9");
    assert_eq!(found("\"quoted\" AND"), "10");
    assert_eq!(found("quoted OR nothing"), "");
    assert_eq!(found("*"), "");
}
