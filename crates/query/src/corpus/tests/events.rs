//! The events of one session.

use super::*;

#[tokio::test]
async fn events_are_told_apart_by_where_they_stand_and_filtered_by_what_they_say() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let records = house.corpus.list_events(&id("log"), &house.open).await;
    let standings: Vec<Standing> = records.unwrap().iter().map(|r| r.standing).collect();
    let expected = [
        Standing::Shadowed,
        Standing::LogOnly,
        Standing::Shadowed,
        Standing::Current,
        Standing::Current,
    ];
    assert_eq!(standings, expected);
    let time = Timestamp::saturating;
    let text = |text: &str| EventFilter::Text(text.to_owned());
    let cases: [(Vec<EventFilter>, &[u64]); 7] = [
        (vec![EventFilter::Seq(seq(1)..=seq(3))], &[1, 2, 3]),
        (vec![EventFilter::Time(time(104)..=time(900))], &[4]),
        (vec![EventFilter::Type(vec![])], &[]),
        (vec![EventFilter::Type(vec![EventType::SessionTitle])], &[1]),
        (
            vec![EventFilter::Standing(vec![Standing::Shadowed])],
            &[0, 2],
        ),
        (vec![text(" erste\tFRAGE ")], &[0]),
        (
            vec![EventFilter::Standing(vec![Standing::Current]), text("o")],
            &[3],
        ),
    ];
    for (filters, expected) in cases {
        assert_eq!(house.passing(&filters).await, expected, "{filters:?}");
    }
    for wrong in [
        text(" \t "),
        EventFilter::Seq(RangeInclusive::new(seq(3), seq(2))),
        EventFilter::Time(RangeInclusive::new(time(3), time(2))),
    ] {
        let log = id("nobody");
        let error = house
            .corpus
            .filter_events(&log, &[wrong], &house.open)
            .await;
        let code = error.unwrap_err().code();
        assert_eq!(
            code, "SESSION_QUERY_INVALID_FILTER",
            "before anything is read"
        );
    }
}

#[tokio::test]
async fn the_surface_is_what_the_model_sees_at_a_moment_that_is_named() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    house.live(header("empty", 1), Vec::new(), "");
    let surface = house
        .corpus
        .read_surface(&id("log"), &house.open)
        .await
        .unwrap();
    let seqs: Vec<u64> = surface
        .events
        .iter()
        .map(|event| event.seq().get())
        .collect();
    assert_eq!((seqs, surface.captured_through.get()), (vec![3, 4], 4));
    let empty = house
        .corpus
        .read_surface(&id("empty"), &house.open)
        .await
        .unwrap();
    assert_eq!(empty.captured_through, SessionSeqCursor::new(-1).unwrap());
}

#[tokio::test]
async fn a_window_ends_where_the_log_does_and_no_further_than_allowed() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let log = id("log");
    let read = async |at: u64, around| {
        let window = house
            .corpus
            .read_event(&log, seq(at), around, &house.open)
            .await;
        window.map(|window| {
            let seqs = window.events.iter().map(|event| event.seq().get());
            (window.target.seq().get(), seqs.collect::<Vec<_>>())
        })
    };
    assert_eq!(read(2, (0, 0)).await.unwrap(), (2, vec![2]));
    assert_eq!(read(1, (50, 2)).await.unwrap(), (1, vec![0, 1, 2, 3]));
    assert_eq!(read(4, (1, 50)).await.unwrap(), (4, vec![3, 4]));
    let missing = read(5, (50, 0)).await.unwrap_err();
    assert_eq!(missing.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
    let wide = read(0, (0, MAX_WINDOW + 1)).await.unwrap_err();
    assert_eq!(wide.code(), "SESSION_QUERY_INVALID_WINDOW");
}

#[tokio::test]
async fn an_event_is_traced_to_what_replaced_it_and_what_it_was_made_of() {
    let house = House::new();
    house.cold(header("log", 1), replaced()).await;
    let trace = async |at: u64| {
        let log = id("log");
        house.corpus.trace_event(&log, seq(at), &house.open).await
    };
    let numbers = |seqs: &[SessionSeq]| seqs.iter().map(|seq| seq.get()).collect::<Vec<_>>();
    let old = trace(0).await.unwrap();
    assert_eq!(old.replaced_by, Some(seq(3)));
    assert_eq!(numbers(&old.replacement_chain), [3]);
    assert_eq!(
        (numbers(&old.derived), old.target.standing),
        (vec![3], Standing::Shadowed)
    );
    let new = trace(3).await.unwrap();
    assert_eq!(
        (numbers(&new.replaced), numbers(&new.sources)),
        (vec![0, 2], vec![0, 2])
    );
    assert_eq!((new.replaced_by, new.derived.len()), (None, 0));
    let missing = trace(99).await.unwrap_err();
    assert_eq!(missing.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
}

#[tokio::test]
async fn an_event_that_claims_a_place_it_may_not_have_is_told_as_such() {
    let house = House::new();
    let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
    let text = format!(
        r#"{{"type":"session/title","seq":0,"time":1,"data":{title},"surfaceOp":"append"}}"#
    );
    let folder = house.store.root().join("--project--/odd");
    std::fs::create_dir_all(&folder).unwrap();
    let header = r#"{"type":"session","version":0,"id":"odd","createdAt":1,"cwd":"/project","delegationDepth":0}"#;
    let whole = r#"{"type":"turn/start","seq":1,"time":1,"data":{"turn":1}}"#;
    let log = format!("{header}\n{text}\n{whole}\n");
    std::fs::write(folder.join("session.jsonl"), log).unwrap();
    let (odd, open) = (id("odd"), &house.open);
    let corpus = &house.corpus;
    let errors = [
        corpus.list_events(&odd, open).await.unwrap_err(),
        corpus.trace_event(&odd, seq(0), open).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), "SESSION_QUERY_INVALID_SURFACE", "{error}");
    }
    // Whether an event is there is asked first.
    let missing = corpus.trace_event(&odd, seq(99), open).await.unwrap_err();
    assert_eq!(missing.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
    let window = corpus.read_event(&odd, seq(0), (0, 0), open).await.unwrap();
    assert_eq!(window.events.len(), 1, "what is read needs no surface");
}

#[tokio::test]
async fn what_replaced_a_replacement_ends_the_chain() {
    let house = House::new();
    let mut all = replaced();
    let again = said("all of it", "e");
    let rest = r#","sourceEventSeqs":[3,4],"surfaceOp":{"op":"replace","start":3,"end":4}"#;
    let text = format!(r#"{{"type":"user/message","seq":5,"time":105,"data":{again}{rest}}}"#);
    all.push(SharedEvent::new(Event::from_json(&text).unwrap()));
    house.cold(header("log", 1), all).await;
    let (log, open) = (id("log"), &house.open);
    let first = house.corpus.trace_event(&log, seq(0), open).await.unwrap();
    assert_eq!(first.replaced_by, Some(seq(3)));
    assert_eq!(first.replacement_chain, [seq(3), seq(5)]);
    let between = house.corpus.trace_event(&log, seq(3), open).await.unwrap();
    assert_eq!(
        (between.replaced, between.derived),
        (vec![seq(0), seq(2)], vec![seq(5)])
    );
    assert_eq!(between.target.standing, Standing::Shadowed);
    let surface = house.corpus.read_surface(&log, open).await.unwrap();
    assert_eq!(surface.events.len(), 1);
}

#[tokio::test]
async fn text_is_looked_for_literally_in_any_case_of_any_script() {
    let house = House::new();
    let texts = [
        "ΟΔΟΣΑ",
        "ΟΔΟΣ",
        "STRASSE ÉTÉ",
        "a.*b (x|y) 100%_",
        "two  words\\nin lines",
    ];
    let messages: Vec<String> = texts.iter().map(|text| said(text, text)).collect();
    let lines: Vec<(&str, &str, &str)> = messages
        .iter()
        .map(|data| ("user/message", data.as_str(), APPEND))
        .collect();
    house.cold(header("log", 1), events(&lines)).await;
    let cases: [(&str, &[u64]); 12] = [
        // A letter is the same letter at the end of a word.
        ("οδος", &[0, 1]),
        ("οδοσ", &[0, 1]),
        ("ΟΔΟΣ", &[0, 1]),
        ("straſse", &[2]),
        ("été", &[2]),
        ("A.*B", &[3]),
        ("a.+b", &[]),
        ("(X|Y)", &[3]),
        ("%_", &[3]),
        ("wordsin", &[]),
        ("two words in", &[4]),
        ("\t words\u{a0}IN\n", &[4]),
    ];
    for (text, expected) in cases {
        let filter = EventFilter::Text(text.to_owned());
        assert_eq!(house.passing(&[filter]).await, expected, "{text:?}");
    }
}
