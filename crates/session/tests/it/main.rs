//! Properties of whole logs: what was appended live is what a reader of its bytes sees.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint configuration does not see as such"
)]

use orrery_session::chunk_row::{Record, pack};
use orrery_session::repair::closers;
use orrery_session::v0::{encode_batch, scan_records};
use orrery_session::{
    EventDraft, EventType, Json, SessionHeader, SessionId, SessionLog, SessionLogOffset,
    SessionSeq, SharedEvent, Surface, SurfaceOp, Timestamp, Vocabulary,
};
use proptest::prelude::*;

/// One move of a writer; moves that do not fit the state of the log are refused by it.
#[derive(Debug, Clone)]
enum Move {
    Open,
    Close,
    StepOpen,
    StepClose,
    Prompt(String),
    Chunk(String),
    Answer(Vec<u8>),
    Call(u8),
    Result(u8),
    Compact(u8, u8),
    Title(String),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let text = prop_oneof![".{0,12}", Just("\\ud800 \u{1F600} 会话".to_owned())];
    let one = prop_oneof![
        3 => Just(Move::Open),
        1 => Just(Move::Close),
        3 => Just(Move::StepOpen),
        1 => Just(Move::StepClose),
        3 => text.clone().prop_map(Move::Prompt),
        6 => text.clone().prop_map(Move::Chunk),
        3 => prop::collection::vec(0..4u8, 0..3).prop_map(Move::Answer),
        3 => (0..4u8).prop_map(Move::Call),
        3 => (0..4u8).prop_map(Move::Result),
        1 => (0..6u8, 0..4u8).prop_map(|(at, len)| Move::Compact(at, len)),
        1 => text.prop_map(Move::Title),
    ];
    prop::collection::vec(one, 0..80)
}

fn data(text: String) -> Json {
    Json::from_text(&text).unwrap()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn message(text: &str, id: u64) -> String {
    let text = quoted(text);
    format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"source":{{"kind":"user"}},"role":"user","id":"m{id}"}}"#
    )
}

/// The draft of a move against the present log.
fn draft(log: &SessionLog, step: &Move) -> Option<EventDraft> {
    let enclosure = log.enclosure();
    let turn = enclosure.open_turn().unwrap_or(enclosure.last_turn() + 1);
    let step_number = enclosure.open_step().unwrap_or(1);
    let next = log.end().get();
    let place = format!(r#""turn":{turn},"step":{step_number}"#);
    Some(match step {
        Move::Open => {
            let turn = enclosure.last_turn() + 1;
            EventDraft::raw(EventType::TurnStart, data(format!(r#"{{"turn":{turn}}}"#)))
        }
        Move::Close => EventDraft::raw(
            EventType::TurnEnd,
            data(format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#)),
        ),
        Move::StepOpen => EventDraft::raw(EventType::StepStart, data(format!("{{{place}}}"))),
        Move::StepClose => EventDraft::raw(EventType::StepEnd, data(format!("{{{place}}}"))),
        Move::Prompt(text) => {
            EventDraft::raw(EventType::UserMessage, data(message(text, next))).on_surface()
        }
        Move::Chunk(text) => EventDraft::raw(
            EventType::AssistantChunk,
            data(format!(
                r#"{{{place},"chunk":{{"type":"text-delta","index":0,"text":{}}}}}"#,
                quoted(text)
            )),
        ),
        Move::Answer(calls) => {
            let blocks: Vec<String> = calls
                .iter()
                .map(|c| {
                    format!(r#"{{"type":"tool-call","id":"c{c}","name":"t","arguments":"{{}}"}}"#)
                })
                .collect();
            let body = format!(
                r#"{{{place},"message":{{"role":"assistant","content":[{}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"m{next}"}}}}"#,
                blocks.join(",")
            );
            let chunks: Vec<SessionSeq> = log
                .events()
                .iter()
                .rev()
                .take_while(|e| *e.event_type() == EventType::AssistantChunk)
                .map(|e| e.seq())
                .collect();
            let cited = chunks.into_iter().rev().collect();
            EventDraft::raw(EventType::AssistantMessage, data(body)).on_surface().citing(cited)
        }
        Move::Call(id) => EventDraft::raw(
            EventType::ToolCall,
            data(format!(r#"{{{place},"callId":"c{id}","name":"t","arguments":""}}"#)),
        ),
        Move::Result(id) => EventDraft::raw(
            EventType::ToolResult,
            data(format!(
                r#"{{{place},"message":{{"source":{{"kind":"tool","callId":"c{id}"}},"content":[{{"type":"tool-result","toolCallId":"c{id}","content":[],"isError":false}}],"role":"user","id":"m{next}"}}}}"#
            )),
        )
        .on_surface(),
        Move::Compact(at, len) => {
            let nodes = log.surface().nodes();
            let first = usize::from(*at);
            let last = (first + usize::from(*len)).min(nodes.len().checked_sub(1)?);
            let range = nodes.get(first..=last)?;
            let (start, end) = (range.first()?.seq(), range.last()?.seq());
            let mut draft = EventDraft::raw(EventType::UserMessage, data(message("sum", next)))
                .citing(range.iter().map(|n| n.seq()).collect());
            draft.surface_op = Some(SurfaceOp::Replace { start, end });
            draft
        }
        Move::Title(text) => EventDraft::raw(
            EventType::SessionTitle,
            data(format!(
                r#"{{"title":{},"messageSeqs":[],"source":{{"kind":"user"}}}}"#,
                quoted(text)
            )),
        ),
    })
}

fn header() -> SessionHeader {
    SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0))
}

fn live(moves: &[Move]) -> SessionLog {
    let mut log = SessionLog::fresh(header(), Vocabulary::default()).unwrap();
    for (i, step) in moves.iter().enumerate() {
        let time = Timestamp::saturating(1_000 + 7 * i64::try_from(i).unwrap());
        if let Some(draft) = draft(&log, step) {
            // A move that does not fit is refused and leaves no trace: that is part of the property.
            drop(log.append(draft, time));
        }
    }
    log
}

fn seqs(surface: &Surface) -> Vec<SessionSeq> {
    surface.nodes().iter().map(|n| n.seq()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_log_replayed_from_its_bytes_is_the_log_that_was_written(moves in moves()) {
        let log = live(&moves);
        let bytes = encode_batch(log.events());
        let scan = scan_records(&bytes, SessionLogOffset::ZERO).unwrap();
        prop_assert!(scan.issue.is_none());
        prop_assert_eq!(scan.committed_bytes, bytes.len());
        prop_assert_eq!(scan.events.as_slice(), log.events());
        let cut = SessionLogOffset::ZERO;
        let read = SessionLog::read(header(), scan.events, cut, Vocabulary::default()).unwrap();
        prop_assert_eq!(read.messages(), log.messages());
        prop_assert_eq!(seqs(read.surface()), seqs(log.surface()));
        prop_assert_eq!(
            read.surface().replace_generation(),
            log.surface().replace_generation()
        );
        prop_assert_eq!(read.enclosure(), log.enclosure());
        prop_assert_eq!(read.request_header(), log.request_header());
    }

    #[test]
    fn a_surface_folded_in_two_parts_is_the_surface_folded_whole(
        moves in moves(), at in 0..80usize
    ) {
        let log = live(&moves);
        let (head, tail) = log.events().split_at(at.min(log.events().len()));
        let mut surface = Surface::fold(head).unwrap();
        for event in tail {
            let plan = surface.plan(event).unwrap();
            surface.apply(plan, event);
        }
        prop_assert_eq!(seqs(&surface), seqs(&Surface::fold(log.events()).unwrap()));
        prop_assert_eq!(seqs(&surface), seqs(log.surface()));
    }

    #[test]
    fn packing_is_the_identity_on_any_log(moves in moves()) {
        let log = live(&moves);
        let back: Vec<SharedEvent> = pack(log.events()).iter().flat_map(Record::events).collect();
        prop_assert_eq!(back.as_slice(), log.events());
    }

    #[test]
    fn closers_close_any_cut_of_a_log_and_close_it_once(moves in moves(), at in 0..80usize) {
        let log = live(&moves);
        let mut events = log.events()[..at.min(log.events().len())].to_vec();
        events.extend(closers(&events).unwrap());
        prop_assert!(closers(&events).unwrap().is_empty());
        let cut = SessionLogOffset::ZERO;
        let read = SessionLog::read(header(), events, cut, Vocabulary::default()).unwrap();
        prop_assert_eq!(read.enclosure().open_turn(), None);
        prop_assert_eq!(read.enclosure().open_step(), None);
    }

    #[test]
    fn bytes_cut_anywhere_give_a_prefix_of_the_log(moves in moves(), at in 0..100_000usize) {
        let log = live(&moves);
        let bytes = encode_batch(log.events());
        let cut = at.min(bytes.len());
        let scan = scan_records(&bytes[..cut], SessionLogOffset::ZERO).unwrap();
        prop_assert_eq!(scan.events.as_slice(), &log.events()[..scan.events.len()]);
    }

    #[test]
    fn no_line_whatever_it_holds_panics_the_scanner(
        lines in prop::collection::vec(prop_oneof![
            ".{0,80}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..60),
            Just(br#"{"type":"turn/end","seq":0,"time":0,"data":{"turn":1,"reason":{"kind":"x"}}}"#.to_vec()),
            Just(br#"{"type":"text-chunks","seq0":0,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[9e15],"texts":["a","b"]}}"#.to_vec()),
        ], 0..8)
    ) {
        let bytes = lines.join(&b'\n');
        // Damage is an answer here, not a failure.
        drop(scan_records(&bytes, SessionLogOffset::ZERO));
    }
}
