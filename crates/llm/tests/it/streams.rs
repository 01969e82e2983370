//! What comes out of well-meant streams, whatever their form.

use orrery_llm::Assembled;
use orrery_session::{CallId, ContentBlock, FinishReason, Message, MessageId, Usage};
use orrery_testkit::{Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::fixture::{adapter, answer_to, ask, config, model, text, user};

fn calls(answer: &Assembled) -> Vec<(&str, &str)> {
    answer
        .tool_calls()
        .map(|(_, name, arguments)| (name, arguments))
        .collect()
}

fn call_delta(fields: Value) -> Value {
    json!({"tool_calls": [fields]})
}

#[tokio::test]
async fn reasoning_text_calls_and_usage_arrive() {
    let reply = Reply::new()
        .reasoning("Let me ")
        .reasoning("look.")
        .text("I ")
        .text("look.")
        .tool_call("c1", "read", "{\"path\":\"a\"}")
        .tool_call("c2", "list", "{}")
        .usage(10, 5);
    let answer = answer_to(reply).await;
    let reasoning = ContentBlock::Reasoning {
        text: "Let me look.".into(),
    };
    assert_eq!(
        answer.content[..2],
        [reasoning, ContentBlock::text("I look.")]
    );
    assert_eq!(
        calls(&answer),
        [("read", "{\"path\":\"a\"}"), ("list", "{}")]
    );
    assert_eq!(answer.reason, FinishReason::ToolCalls);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (10, 5));
}

#[tokio::test]
async fn calls_without_index_or_id_or_with_repeated_names_are_told_apart() {
    let neither = Reply::new()
        .delta(&call_delta(
            json!({"function": {"name": "read", "arguments": "{\"a\""}}),
        ))
        .delta(&call_delta(
            json!({"function": {"name": "read", "arguments": ":1}"}}),
        ))
        .delta(&call_delta(
            json!({"function": {"name": "read", "arguments": "{\"b\":2}"}}),
        ));
    let answer = answer_to(neither).await;
    assert_eq!(
        calls(&answer),
        [("read", "{\"a\":1}"), ("read", "{\"b\":2}")]
    );
    let ids: Vec<&CallId> = answer.tool_calls().map(|(id, ..)| id).collect();
    assert_ne!(ids[0], ids[1]);

    let repeated = Reply::new()
        .delta(&call_delta(
            json!({"index": 0, "id": "x", "function": {"name": "read", "arguments": ""}}),
        ))
        .delta(&call_delta(
            json!({"index": 0, "id": "", "function": {"name": "read", "arguments": "{}"}}),
        ))
        .delta(&call_delta(
            json!({"index": 0, "id": "x", "function": {"name": null, "arguments": null}}),
        ));
    let answer = answer_to(repeated).await;
    assert_eq!(calls(&answer), [("read", "{}")]);

    let all_zero = Reply::new()
        .delta(&call_delta(json!({"index": 0, "id": "x", "function": {"name": "read", "arguments": "{}"}})))
        .delta(&call_delta(json!({"index": 0, "id": "y", "function": {"name": "list", "arguments": {"path": "."}}})));
    let answer = answer_to(all_zero).await;
    assert_eq!(
        calls(&answer),
        [("read", "{}"), ("list", "{\"path\":\".\"}")]
    );

    let interleaved = Reply::new()
        .delta(&call_delta(
            json!({"index": 0, "id": "x", "function": {"name": "read", "arguments": "{\"a\""}}),
        ))
        .delta(&call_delta(
            json!({"index": 1, "id": "y", "function": {"name": "list", "arguments": "{"}}),
        ))
        .delta(&call_delta(
            json!({"index": 0, "function": {"arguments": ":1}"}}),
        ))
        .delta(&call_delta(
            json!({"index": 1, "function": {"arguments": "}"}}),
        ))
        .finish("stop", None);
    let answer = answer_to(interleaved).await;
    assert_eq!(calls(&answer), [("read", "{\"a\":1}"), ("list", "{}")]);
    assert_eq!(answer.reason, FinishReason::ToolCalls);
}

#[tokio::test]
async fn usage_is_found_wherever_it_is() {
    let wire = json!({
        "prompt_tokens": 100, "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5}
    });
    let expected = Usage {
        input_tokens: 40,
        output_tokens: 20,
        cache_read_tokens: Some(60),
        cache_write_tokens: None,
        reasoning_tokens: Some(5),
    };
    let with_finish = Reply::say("x").finish("stop", Some(wire.clone()));
    let behind = Reply::say("x")
        .finish("stop", None)
        .chunk(json!({"choices": [], "usage": wire}));
    let in_every_chunk = Reply::new()
        .chunk(json!({"choices": [{"delta": {"content": "x"}}], "usage": {"prompt_tokens": 100}}))
        .chunk(json!({"choices": [{"delta": {}, "finish_reason": "stop", "usage": wire}]}));
    for reply in [with_finish, behind, in_every_chunk] {
        assert_eq!(answer_to(reply).await.usage, Some(expected));
    }
    let deepseek =
        json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4});
    let answer = answer_to(Reply::say("x").finish("stop", Some(deepseek))).await;
    assert_eq!(answer.usage.map(|usage| usage.input_tokens), Some(5));
}

#[tokio::test]
async fn one_transcript_in_all_framings_reads_the_same() {
    let chunk = |delta: Value, finish: Value| {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).to_string()
    };
    let events = [
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"reasoning": "思考 🙂"}), Value::Null),
        chunk(json!({"content": "Zwölf "}), Value::Null),
        json!({"choices": []}).to_string(),
        chunk(json!({"content": "星星"}), Value::Null),
        chunk(
            call_delta(
                json!({"index": 0, "id": "c", "function": {"name": "n", "arguments": "{\"é\":1}"}}),
            ),
            Value::Null,
        ),
        chunk(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}).to_string(),
    ];
    let framed = |start: &str, end: &str, done: &str| {
        let frames = events
            .iter()
            .map(|event| format!("{start}{event}{end}{end}"));
        frames.collect::<String>() + done
    };
    let plain = framed("data: ", "\n", "data: [DONE]\n\n");
    let expected = answer_to(Reply::new().raw(plain.clone())).await;
    assert_eq!(text(&expected), "Zwölf 星星");
    assert_eq!(expected.content.len(), 3);
    for reply in [
        Reply::new().raw(framed("data:", "\r\n", "data:[DONE]\r\n\r\n")),
        Reply::new().raw(framed("data: ", "\r", "")),
        Reply::new().raw(framed(": keep-alive\n\ndata: ", "\n", "data: [DONE]")),
        Reply::new().raw(framed("event: chunk\ndata: ", "\n", "data: ping\n\n")),
        Reply::new().raw_split(plain.as_bytes(), 1),
        Reply::new().raw_split(plain.as_bytes(), 7).gzip(),
    ] {
        assert_eq!(answer_to(reply).await, expected);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_taken_too() {
    let whole = json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "all at once"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}
    });
    let reply = Reply::new()
        .raw(whole.to_string())
        .header("content-type", "application/json");
    let answer = answer_to(reply).await;
    assert_eq!(text(&answer), "all at once");
    assert!(answer.usage.is_some());
}

#[tokio::test]
async fn characters_cut_in_two_and_lone_halves_come_out_as_text() {
    let reply = Reply::new().raw(
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"\\ude00 \\ud99c!\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(text(&answer_to(reply).await), "a😀 \u{fffd}!");
}

#[tokio::test]
async fn a_length_limit_drops_the_calls_and_an_empty_answer_is_an_answer() {
    let cut = Reply::say("half")
        .tool_call("c", "read", "{\"pa")
        .finish("length", None);
    let answer = answer_to(cut).await;
    assert_eq!(answer.reason, FinishReason::MaxTokens);
    assert_eq!(answer.content, [ContentBlock::text("half")]);
    let answer = answer_to(Reply::new().finish("stop", None)).await;
    assert_eq!(
        (answer.reason, answer.content),
        (FinishReason::Stop, vec![])
    );
}

#[tokio::test]
async fn a_complete_answer_does_not_wait_for_a_connection_that_stays_open() {
    let server = ModelServer::start().await.unwrap();
    server.push(
        Reply::say("x")
            .finish("stop", None)
            .raw("data: [DONE]\n\n")
            .stall(),
    );
    let answer = ask(&adapter(&server), vec![user("hi")]).await;
    assert_eq!(answer.reason, FinishReason::Stop);
    server.wait_for_hang_ups(1).await;
}

#[tokio::test]
async fn chunks_are_handed_on_while_the_server_still_thinks() {
    use futures_util::StreamExt as _;
    use orrery_llm::Adapter as _;
    let server = ModelServer::start().await.unwrap();
    let gate = Gate::new();
    server.push(Reply::say("first").gate(&gate).text("second"));
    let adapter = adapter(&server);
    let mut stream = adapter.stream(
        crate::fixture::request(vec![user("hi")]),
        tokio_util::sync::CancellationToken::new(),
    );
    let mut heard = 0;
    while let Some(chunk) = stream.next().await {
        if let orrery_session::StreamChunk::TextDelta { text, .. } = chunk {
            heard += 1;
            if text == "first" {
                gate.open();
            }
        }
    }
    assert_eq!(heard, 2);
}

#[tokio::test]
async fn a_server_that_demands_its_reasoning_back_gets_it() {
    let server = ModelServer::start().await.unwrap();
    server.set_strict(true);
    server.push(
        Reply::new()
            .reasoning("I must\n read")
            .tool_call("c1", "read", "{}"),
    );
    server.push(Reply::new().tool_call("c2", "read", ""));
    server.push(Reply::say("done"));
    let mut config = config(&server);
    config.echo_reasoning = Some(true);
    let adapter = orrery_llm::OpenAiChat::new(config).unwrap();
    let mut messages = vec![user("hi")];
    for _ in 0..2 {
        let answer = ask(&adapter, messages.clone()).await;
        let id = answer.tool_calls().next().unwrap().0.clone();
        messages.push(model(answer.content));
        let content = vec![ContentBlock::text("file")];
        messages.push(Message::tool_result(
            MessageId::new("m").unwrap(),
            id,
            content,
            false,
        ));
    }
    let answer = ask(&adapter, messages).await;
    assert_eq!(text(&answer), "done");
    let received = server.received();
    // Each request begins with the bytes of the one before, up to the end of its messages.
    let shared = received[1].text.split("],\"stream\"").next().unwrap();
    assert!(received[2].text.starts_with(shared));
}
