//! A searcher over this catalogue and real logs: pages, their cursors, and filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use orrery_catalog::Catalog;
use orrery_query::NobodyLive;
use orrery_query::search::{FoundPage, SearchRequest, Searcher};
use orrery_session::{
    Event, EventType, SessionHeader, SessionId, SessionLogOffset, SharedEvent, Timestamp,
};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Store, StoreOptions};

fn said(seq: u64, time: i64, text: &str) -> SharedEvent {
    let text = format!(
        r#"{{"type":"user/message","seq":{seq},"time":{time},"data":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"id":"u{seq}"}},"surfaceOp":"append"}}"#
    );
    SharedEvent::new(Event::from_json(&text).unwrap())
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

async fn put(store: &Store, name: &str, events: Vec<SharedEvent>) {
    let mut header = SessionHeader::root(id(name), Timestamp::saturating(1));
    header.cwd = Some("/project".to_owned());
    let writer = store.create(header, SessionLogOffset::ZERO).await.unwrap();
    writer.append(events).unwrap();
    writer.close().await.unwrap();
}

struct House {
    _folder: tempfile::TempDir,
    store: Store,
    searcher: Searcher,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(folder.path());
        let store = Store::start(Arc::new(RealDisk), options).unwrap();
        for number in 0..4 {
            let name = format!("s{number}");
            let time = 100 * (i64::from(number) + 1);
            let events = vec![said(0, time, "apples here"), said(1, time + 1, "and pears")];
            put(&store, &name, events).await;
        }
        let index = Arc::new(Catalog::in_memory().unwrap());
        let searcher = Searcher::new(store.clone(), Arc::new(NobodyLive), index);
        searcher.catch_up(|_| true).await.unwrap();
        Self {
            _folder: folder,
            store,
            searcher,
        }
    }

    async fn ask(&self, request: &SearchRequest) -> Result<FoundPage, &'static str> {
        let page = self.searcher.search(request).await;
        page.map_err(|error| error.code())
    }
}

fn request(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        ..SearchRequest::default()
    }
}

fn sessions(page: &FoundPage) -> Vec<String> {
    let items = page.items.iter();
    items.map(|found| found.session.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_put_together_are_all_hits_once_and_in_order() {
    let house = House::new().await;
    let whole = house.ask(&request("apples")).await.unwrap();
    assert_eq!((whole.items.len(), whole.next_cursor), (4, None));
    let mut asked = request("apples");
    asked.limit = Some(1);
    let mut found = Vec::new();
    loop {
        let page = house.ask(&asked).await.unwrap();
        found.extend(page.items);
        match page.next_cursor {
            Some(cursor) => asked.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(found, whole.items);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_good_for_its_own_question_until_something_is_written() {
    let house = House::new().await;
    let mut asked = request("apples");
    asked.limit = Some(1);
    let cursor = house.ask(&asked).await.unwrap().next_cursor;
    assert!(cursor.is_some());
    asked.cursor = cursor.clone();
    assert!(house.ask(&asked).await.is_ok());
    let invalid = Err("SESSION_QUERY_INVALID_CURSOR");
    let with = |change: fn(&mut SearchRequest)| {
        let mut other = asked.clone();
        change(&mut other);
        other
    };
    for other in [
        with(|other| other.query = "pears".to_owned()),
        with(|other| other.types = Some(vec![EventType::UserMessage])),
        with(|other| other.one_per_session = true),
        with(|other| other.cursor = Some("bm8gY3Vyc29y".to_owned())),
        with(|other| other.cursor = Some("?".to_owned())),
        with(|other| other.cursor = Some(String::new())),
    ] {
        assert_eq!(house.ask(&other).await, invalid, "{other:?}");
    }
    put(&house.store, "later", vec![said(0, 9, "plums")]).await;
    house.searcher.catch_up(|_| true).await.unwrap();
    let stale = Err("SESSION_QUERY_STALE_CURSOR");
    assert_eq!(house.ask(&asked).await, stale);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_none_is_refused_by_its_code() {
    let house = House::new().await;
    for blank in ["", " \t", "a\0b"] {
        let code = house.ask(&request(blank)).await;
        assert_eq!(code, Err("SESSION_QUERY_INVALID_QUERY"), "{blank:?}");
    }
    for limit in [0, 101] {
        let mut asked = request("apples");
        asked.limit = Some(limit);
        let code = house.ask(&asked).await;
        assert_eq!(code, Err("SESSION_QUERY_INVALID_LIMIT"), "{limit}");
    }
    let nothing = house.ask(&request("\"(*")).await.unwrap();
    assert!(
        nothing.items.is_empty(),
        "no word is looked for, and none found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_count_before_hits_are_ranked_and_cut_off() {
    let house = House::new().await;
    let mut asked = request("apples");
    asked.limit = Some(1);
    asked.sessions = Some(BTreeSet::from([id("s2")]));
    assert_eq!(sessions(&house.ask(&asked).await.unwrap()), ["s2"]);
    asked.sessions = Some((0..2_000).map(|number| id(&format!("x{number}"))).collect());
    assert!(house.ask(&asked).await.unwrap().items.is_empty());
    asked.sessions = Some(BTreeSet::new());
    assert!(house.ask(&asked).await.unwrap().items.is_empty());
    asked.sessions = None;
    let time = Timestamp::saturating;
    asked.times = Some(time(200)..=time(299));
    assert_eq!(sessions(&house.ask(&asked).await.unwrap()), ["s1"]);
    asked.types = Some(vec![EventType::AssistantMessage]);
    assert!(house.ask(&asked).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_message_that_is_very_long_the_beginning_is_searched() {
    let house = House::new().await;
    let filler = "界 ".repeat(700_000);
    let text = format!("damsons at first {filler} medlars at last");
    put(&house.store, "long", vec![said(0, 9, &text)]).await;
    house.searcher.catch_up(|_| true).await.unwrap();
    let found = house.ask(&request("damsons")).await.unwrap();
    assert_eq!(sessions(&found), ["long"]);
    let found = house.ask(&request("medlars")).await.unwrap();
    assert_eq!(found.items, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_filled_from_other_logs_answers_for_the_ones_that_are_there() {
    let index = Arc::new(Catalog::in_memory().unwrap());
    for (folder, word) in [
        (tempfile::tempdir(), "apples"),
        (tempfile::tempdir(), "nuts"),
    ] {
        let folder = folder.unwrap();
        let options = StoreOptions::new(folder.path());
        let store = Store::start(Arc::new(RealDisk), options).unwrap();
        // As long, as old, and under the same id.
        put(&store, "s", vec![said(0, 100, &format!("{word:>8}"))]).await;
        let searcher = Searcher::new(store, Arc::new(NobodyLive), Arc::clone(&index) as _);
        for query in ["apples", "nuts"] {
            let page = searcher.search(&request(query)).await.unwrap();
            assert_eq!(page.items.len(), usize::from(query == word), "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_is_taken_back_anywhere_spoils_none_that_comes_after_it() {
    let house = House::new().await;
    for turns in 0..24_u64 {
        let name = format!("later{turns}");
        let events = vec![said(0, 500, "apples again")];
        put(&house.store, &name, events).await;
        let wanted = request("again");
        tokio::select! {
            biased;
            answer = house.ask(&wanted) => drop(answer.unwrap()),
            () = async { for _ in 0..turns * turns { tokio::task::yield_now().await; } } => {}
        }
        house.searcher.catch_up(|_| true).await.unwrap();
        let page = house.ask(&wanted).await.unwrap();
        let made = usize::try_from(turns).unwrap() + 1;
        assert_eq!((page.items.len(), page.indexing), (made.min(20), false));
    }
}
