use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Whether indices are unique, deltas inside of their blocks, and all blocks closed.
fn keeps_the_grammar(chunks: &[StreamChunk]) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = BTreeSet::new();
    let good = chunks.iter().all(|chunk| match chunk {
        StreamChunk::BlockStart { index, .. } => seen.insert(*index) && open.insert(*index),
        StreamChunk::TextDelta { index, .. }
        | StreamChunk::ReasoningDelta { index, .. }
        | StreamChunk::ToolCallDelta { index, .. } => open.contains(index),
        StreamChunk::BlockEnd { index, .. } => open.remove(index),
        StreamChunk::Usage { .. } | StreamChunk::Finish { .. } => true,
    });
    good && open.is_empty()
}

fn event() -> impl Strategy<Value = String> {
    let text = prop::option::of(prop::sample::select(vec!["", "a", "{", "{}", "星"]));
    let id = prop::option::of(prop::sample::select(vec!["", "x", "y"]));
    let call = (prop::option::of(0u64..3), id, text.clone(), text.clone()).prop_map(
        |(index, id, name, arguments)| {
            json!({"tool_calls": [
                {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
            ]})
        },
    );
    let words = (text.clone(), text).prop_map(
        |(content, reasoning)| json!({"content": content, "reasoning_content": reasoning}),
    );
    let delta = prop_oneof![call, words];
    prop_oneof![
        8 => delta.prop_map(|delta| json!({"choices": [{"delta": delta}]}).to_string()),
        1 => ".{0,30}",
        1 => Just("{\"choices\":[{\"delta\":{\"content\":{}}}]}".to_owned()),
    ]
}

proptest! {
    #[test]
    fn whatever_a_server_sends_keeps_the_grammar(events in proptest::collection::vec(event(), 0..30)) {
        let mut decoder = Decoder::new();
        let mut chunks = Vec::new();
        for event in &events {
            // Nothing in here is an error object, so that the stream goes on.
            let flow = decoder.event(event, &ApiKey::NotNeeded);
            prop_assert!(matches!(flow, Flow::More));
            chunks.append(&mut decoder.take());
        }
        decoder.event("[DONE]", &ApiKey::NotNeeded);
        decoder.end();
        chunks.append(&mut decoder.take());
        prop_assert!(keeps_the_grammar(&chunks), "{:?}", chunks);
    }
}
