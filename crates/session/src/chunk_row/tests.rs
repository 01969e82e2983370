use proptest::prelude::*;

use super::*;
use crate::testing::event;

fn chunk(seq: u64, time: i64, chunk: &str) -> SharedEvent {
    event(&format!(
        r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"chunk":{chunk}}}}}"#
    ))
}

fn text(seq: u64, time: i64, text: &str) -> SharedEvent {
    chunk(
        seq,
        time,
        &format!(r#"{{"type":"text-delta","index":0,"text":{text}}}"#),
    )
}

fn call(seq: u64, more: &str) -> SharedEvent {
    let delta =
        format!(r#"{{"type":"tool-call-delta","index":1,"id":"c"{more},"argumentsDelta":"x"}}"#);
    chunk(seq, 0, &delta)
}

fn shape(events: &[SharedEvent]) -> Vec<usize> {
    pack(events)
        .iter()
        .map(|record| match record {
            Record::Event(_) => 1,
            Record::Chunks(row) => row.len(),
        })
        .collect()
}

#[test]
fn a_run_of_three_becomes_one_row_and_reads_back_with_its_clock_set_back() {
    let events = [
        text(0, 100, "\"a\""),
        text(1, 90, r#""\ud800""#),
        text(2, 95, "\"c\""),
    ];
    let records = pack(&events);
    let [Record::Chunks(row)] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!(
        row.to_json(Spelling::Disk),
        r#"{"type":"text-chunks","seq0":0,"time0":100,"data":{"turn":1,"step":1,"index":0,"dt":[-10,5],"texts":["a","\ud800","c"]}}"#
    );
    assert!(
        row.to_json(Spelling::Wire)
            .starts_with(r#"{"type":"chunkrow/text-chunks","seq":0,"time":100,"data":"#)
    );
    let back = ChunkRow::from_disk(&row.to_json(Spelling::Disk))
        .unwrap()
        .unwrap()
        .expand();
    assert!(back.iter().zip(&events).all(|(a, b)| a == b.as_ref()));
}

#[test]
fn runs_break_on_gaps_names_and_foreign_keys() {
    assert_eq!(shape(&[text(0, 0, "\"a\""), text(1, 0, "\"b\"")]), [1, 1]);
    let gap = [
        text(0, 0, "\"\""),
        text(1, 0, "\"\""),
        text(2, 0, "\"\""),
        text(4, 0, "\"\""),
    ];
    assert_eq!(shape(&gap), [3, 1]);
    let named = r#","name":"t""#;
    let calls: Vec<_> = (0..3)
        .map(|i| call(i, named))
        .chain((3..6).map(|i| call(i, "")))
        .collect();
    assert_eq!(shape(&calls), [3, 3]);
    let null_name: Vec<_> = (0..3).map(|i| call(i, r#","name":null"#)).collect();
    assert_eq!(shape(&null_name), [1, 1, 1]);
    let extra: Vec<_> = (0..3)
        .map(|i| {
            chunk(
                i,
                0,
                r#"{"type":"text-delta","index":0,"text":"a","more":1}"#,
            )
        })
        .collect();
    assert_eq!(shape(&extra), [1, 1, 1]);
    let far = (1i64 << 53) - 1;
    let far_apart = [
        text(0, -far, "\"\""),
        text(1, far, "\"\""),
        text(2, far, "\"\""),
        text(3, far, "\"\""),
    ];
    assert_eq!(shape(&far_apart), [1, 3]);
}

#[test]
fn malformed_rows_are_refused_whole() {
    let good = r#"{"type":"text-chunks","seq0":0,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}"#;
    assert_eq!(ChunkRow::from_disk(good).unwrap().unwrap().len(), 1);
    for bad in [
        good.replace("\"dt\":[]", "\"dt\":[0]"),
        good.replace("[\"a\"]", "[]"),
        good.replace("[\"a\"]", "[1]"),
        good.replace("\"step\":1,", ""),
        good.replace("\"step\":1", "\"step\":1,\"more\":1"),
        good.replace("\"seq0\":0", "\"seq0\":0,\"more\":1"),
        good.replace("\"seq0\":0", "\"seq0\":9007199254740992"),
        good.replace("\"time0\":0", "\"time0\":-0"),
    ] {
        assert!(ChunkRow::from_disk(&bad).unwrap().is_err(), "{bad}");
    }
    assert!(ChunkRow::from_disk(r#"{"type":"turn/start"}"#).is_none());
}

fn any_chunk() -> impl Strategy<Value = String> {
    let string = prop_oneof![
        Just("\"\"".to_owned()),
        Just(r#""\udfff""#.to_owned()),
        ".{0,4}".prop_map(|s| serde_json::to_string(&s).unwrap())
    ];
    prop_oneof![
        4 => (0..2u64, string.clone())
            .prop_map(|(i, s)| format!(r#"{{"type":"text-delta","index":{i},"text":{s}}}"#)),
        2 => (0..2u64, string.clone())
            .prop_map(|(i, s)| format!(r#"{{"index":{i},"type":"reasoning-delta","text":{s}}}"#)),
        3 => (prop_oneof![Just(""), Just(r#","name":"a""#), Just(r#","name":null"#)], string)
            .prop_map(|(n, s)| format!(
                r#"{{"type":"tool-call-delta","index":0,"id":"c"{n},"argumentsDelta":{s}}}"#
            )),
        1 => Just(r#"{"type":"block-start","index":0,"blockType":"text"}"#.to_owned()),
        1 => Just(r#"{"type":"text-delta","index":0,"text":7}"#.to_owned()),
    ]
}

proptest! {
    #[test]
    fn packing_and_expanding_is_the_identity(
        chunks in prop::collection::vec((any_chunk(), -3..3i64, 0..8u64), 0..40)
    ) {
        let mut seq = 0;
        let mut time = 0;
        let mut events = Vec::new();
        for (body, step, jump) in chunks {
            seq += if jump == 0 { 2 } else { 1 };
            time += step;
            events.push(chunk(seq, time, &body));
        }
        let mut back = Vec::new();
        for record in pack(&events) {
            match record {
                Record::Event(event) => back.push(event),
                Record::Chunks(row) => {
                    let text = row.to_json(Spelling::Disk);
                    let row = ChunkRow::from_disk(&text).unwrap().unwrap();
                    back.extend(row.expand().into_iter().map(SharedEvent::new));
                }
            }
        }
        prop_assert_eq!(back.len(), events.len());
        for (a, b) in back.iter().zip(&events) {
            prop_assert!(a == b || a.same_value(b), "{:?} {:?}", a, b);
        }
    }
}
