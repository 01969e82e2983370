use proptest::prelude::*;

use super::*;

fn assemble(chunks: &[StreamChunk]) -> Assembled {
    let mut assembler = Assembler::new();
    for chunk in chunks {
        assembler.push(chunk);
    }
    assembler.finish()
}

fn chunk(text: &str) -> StreamChunk {
    serde_json::from_str(text).unwrap()
}

fn call_delta(index: u64, name: Option<&str>, delta: &str) -> StreamChunk {
    StreamChunk::ToolCallDelta {
        index,
        id: CallId::new("c").unwrap(),
        name: name.map(str::to_owned),
        arguments_delta: delta.to_owned(),
    }
}

fn finish(reason: FinishReason, replay: Option<&str>) -> StreamChunk {
    StreamChunk::Finish {
        reason,
        replay_state: replay.map(|text| Json::from_text(text).unwrap()),
    }
}

#[test]
fn a_stream_without_starts_ends_or_finish_still_assembles() {
    let done = assemble(&[
        chunk(r#"{"type":"text-delta","index":3,"text":"a"}"#),
        chunk(r#"{"type":"reasoning-delta","index":1,"text":"r"}"#),
        chunk(r#"{"type":"text-delta","index":3,"text":"b"}"#),
    ]);
    assert_eq!(done.reason, FinishReason::Stop);
    let reasoning = ContentBlock::Reasoning { text: "r".into() };
    assert_eq!(done.content, [ContentBlock::text("ab"), reasoning]);
}

#[test]
fn the_first_block_end_wins_and_stragglers_are_ignored() {
    let done = assemble(&[
        chunk(r#"{"type":"text-delta","index":0,"text":"draft"}"#),
        chunk(r#"{"type":"block-end","index":0,"block":{"type":"text","text":"final"}}"#),
        chunk(r#"{"type":"block-end","index":0,"block":{"type":"text","text":"second"}}"#),
        chunk(r#"{"type":"text-delta","index":0,"text":"late"}"#),
    ]);
    assert_eq!(done.content, [ContentBlock::text("final")]);
}

#[test]
fn a_call_without_an_id_is_named_after_its_place() {
    let done = assemble(&[
        chunk(r#"{"type":"block-start","index":2,"blockType":"tool-call"}"#),
        chunk(
            r#"{"type":"block-end","index":4,"block":{"type":"tool-call","name":"n","arguments":""}}"#,
        ),
    ]);
    let ids: Vec<&str> = done.tool_calls().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["call-2", "call-4"]);
}

#[test]
fn max_tokens_drops_the_calls_and_their_replay_entries() {
    let done = assemble(&[
        chunk(r#"{"type":"text-delta","index":0,"text":"t"}"#),
        call_delta(1, Some("read"), "{\"pa"),
        finish(
            FinishReason::MaxTokens,
            Some(r#"{"response":1,"blocks":["t","c"]}"#),
        ),
    ]);
    assert_eq!(done.content, [ContentBlock::text("t")]);
    let replay = done.replay_state.unwrap();
    assert_eq!(replay.text(), r#"{"response":1,"blocks":["t"]}"#);
}

#[test]
fn a_replay_state_of_another_length_is_dropped_whole() {
    let text = chunk(r#"{"type":"text-delta","index":0,"text":"t"}"#);
    let end = finish(FinishReason::Stop, Some(r#"{"response":1,"blocks":[]}"#));
    assert_eq!(assemble(&[text.clone(), end]).replay_state, None);
    let end = finish(FinishReason::Stop, Some(r#"{"response":1}"#));
    assert!(assemble(&[text, end]).replay_state.is_some());
}

#[test]
fn a_cancelled_stream_leaves_what_was_said_and_nothing_else() {
    let mut assembler = Assembler::new();
    assembler.push(&chunk(
        r#"{"type":"reasoning-delta","index":0,"text":" \n"}"#,
    ));
    assembler.push(&chunk(r#"{"type":"text-delta","index":1,"text":"half"}"#));
    assembler.push(&call_delta(2, Some("bash"), "{}"));
    assert_eq!(assembler.partial(), [ContentBlock::text("half")]);
}

/// Cuts `text` at the given places, each taken modulo what is left and moved to a character's border.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut out = vec![text.to_owned()];
    for cut in cuts {
        let last = out.pop().unwrap();
        let (head, tail) = last.split_at(last.floor_char_boundary(cut % (last.len() + 1)));
        out.extend([head.to_owned(), tail.to_owned()]);
    }
    out
}

proptest! {
    #[test]
    fn any_split_of_the_deltas_assembles_equally(
        reasoning in ".{0,20}", text in ".{0,40}", arguments in ".{0,40}",
        cuts in proptest::collection::vec(0usize..200, 0..8),
        framed in any::<bool>(),
    ) {
        let build = |cuts: &[usize]| {
            let mut chunks = Vec::new();
            if framed {
                chunks.push(chunk(r#"{"type":"block-start","index":0,"blockType":"reasoning"}"#));
            }
            for text in pieces(&reasoning, cuts) {
                chunks.push(StreamChunk::ReasoningDelta { index: 0, text });
            }
            for text in pieces(&text, cuts) {
                chunks.push(StreamChunk::TextDelta { index: 1, text });
            }
            for (at, delta) in pieces(&arguments, cuts).iter().enumerate() {
                chunks.push(call_delta(2, (at % 2 == 0).then_some("read"), delta));
            }
            chunks.push(finish(FinishReason::ToolCalls, None));
            assemble(&chunks)
        };
        prop_assert_eq!(build(&cuts), build(&[]));
    }
}
