//! What goes wrong, and the code that it gets.

use std::time::Duration;

use futures_util::StreamExt;
use orrery_llm::{Adapter, ApiKey, OpenAiChat, OpenAiChatConfig};
use orrery_session::StreamChunk;
use orrery_testkit::{ModelServer, Reply};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fixture::{
    KEY, adapter, answer_to, ask, config, failure_in, failure_of, request, request_config, text,
    user,
};

#[tokio::test]
async fn statuses_have_their_codes() {
    let context = "This model's maximum context length is 8192 tokens";
    for (status, message, code) in [
        (401, "bad key", "INVALID_CREDENTIAL"),
        (402, "Insufficient Balance", "QUOTA"),
        (403, "no", "AUTH"),
        (404, "no such model", "INVALID_MODEL"),
        (408, "slow", "TIMEOUT"),
        (400, context, "CONTEXT_WINDOW_EXCEEDED"),
        (400, "strange", "UNKNOWN"),
        (413, "", "CONTEXT_WINDOW_EXCEEDED"),
        (429, "slow down", "RATE_LIMIT"),
        (500, "oops", "SERVER"),
        (503, "busy", "SERVER"),
        (302, "elsewhere", "UNKNOWN"),
    ] {
        let failure = failure_of(Reply::error(
            status,
            &json!({"error": {"message": message}}),
        ))
        .await;
        assert_eq!(
            (failure.code.as_str(), failure.status),
            (code, Some(status)),
            "{status}"
        );
        assert!(failure.message.contains(message));
    }
    let page = failure_of(Reply::error_text(502, "<html>Bad Gateway</html>")).await;
    assert_eq!(page.code, "SERVER");
}

#[tokio::test]
async fn the_wait_and_the_request_id_that_the_provider_gives_are_kept() {
    let reply = Reply::error(429, &json!({"error": {"message": "slow down"}}))
        .header("retry-after", "2")
        .header("x-request-id", "r-7");
    let failure = failure_of(reply).await;
    assert_eq!(failure.provider_retry_after_ms, Some(2_000));
    assert_eq!(failure.request_id.as_deref(), Some("r-7"));
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it() {
    let error = json!({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}});
    let answer = answer_to(Reply::say("half").raw(format!("data: {error}\n\n"))).await;
    assert_eq!(text(&answer), "half");
    assert_eq!(failure_in(answer).code, "RATE_LIMIT");
    let named = Reply::new().raw("event: error\ndata: {\"message\":\"overloaded\"}\n\n");
    assert_eq!(failure_of(named).await.code, "SERVER");
}

#[tokio::test]
async fn nothing_a_cut_and_an_early_end_are_told_apart() {
    assert_eq!(failure_of(Reply::new().end()).await.code, "EMPTY_RESPONSE");
    assert_eq!(
        failure_of(Reply::new().raw("data: [DONE]\n\n")).await.code,
        "EMPTY_RESPONSE"
    );
    let cut = answer_to(Reply::say("half").cut()).await;
    assert_eq!(text(&cut), "half");
    assert_eq!(failure_in(cut).code, "STREAM_CLOSED");
    assert_eq!(
        failure_of(Reply::say("half").end()).await.code,
        "STREAM_CLOSED"
    );
    let late = answer_to(Reply::say("whole").finish("stop", None).cut()).await;
    assert_eq!(late.reason, orrery_session::FinishReason::Stop);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("half").stall());
    let mut config = config(&server);
    config.idle_timeout = Duration::from_millis(100);
    let answer = ask(&OpenAiChat::new(config).unwrap(), vec![user("hi")]).await;
    assert_eq!(text(&answer), "half");
    assert_eq!(failure_in(answer).code, "TIMEOUT");
    server.wait_for_hang_ups(1).await;
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_a_transport_failure() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = OpenAiChatConfig::new("local", format!("http://{free}/v1"));
    let answer = ask(&OpenAiChat::new(config).unwrap(), vec![user("hi")]).await;
    assert_eq!(failure_in(answer).code, "TRANSPORT");
}

#[tokio::test]
async fn cancelling_drops_the_connection_and_ends_with_aborted() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("half").stall());
    let adapter = adapter(&server);
    let cancel = CancellationToken::new();
    let mut stream = adapter.stream(request(vec![user("hi")]), cancel.clone());
    let mut last = None;
    while let Some(chunk) = stream.next().await {
        if matches!(chunk, StreamChunk::TextDelta { .. }) {
            cancel.cancel();
        }
        last = Some(chunk);
    }
    let finish = serde_json::to_value(last).unwrap();
    assert_eq!(finish["reason"]["kind"], "aborted");
    assert_eq!(finish["reason"]["failure"]["code"], "ABORTED");
    server.wait_for_hang_ups(1).await;
}

#[tokio::test]
async fn dropping_the_stream_drops_the_connection() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::say("half").stall());
    let adapter = adapter(&server);
    let mut stream = adapter.stream(request(vec![user("hi")]), CancellationToken::new());
    assert!(stream.next().await.is_some());
    drop(stream);
    server.wait_for_hang_ups(1).await;
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = ModelServer::start().await.unwrap();
    server.push(Reply::error(
        401,
        &json!({"error": {"message": format!("wrong key {KEY}")}}),
    ));
    let adapter = adapter(&server);
    let failure = failure_in(ask(&adapter, vec![user("hi")]).await);
    assert_eq!(
        failure.message,
        "the provider answered 401: wrong key [key]"
    );
    assert!(!format!("{adapter:?}").contains(KEY));
    let sent = server.received()[0].headers["authorization"].clone();
    assert_eq!(sent, format!("Bearer {KEY}"));
}

#[tokio::test]
async fn a_missing_key_is_named_before_anything_is_sent() {
    let server = ModelServer::start().await.unwrap();
    let mut config = config(&server);
    config.api_key = ApiKey::from_variable("LOCAL_API_KEY", None);
    let adapter = OpenAiChat::new(config).unwrap();
    let failure = adapter.prepare(request_config()).await.unwrap_err();
    assert_eq!(failure.code, "MISSING_CREDENTIAL");
    assert!(failure.message.contains("LOCAL_API_KEY"));
    assert_eq!(
        failure_in(ask(&adapter, vec![user("hi")]).await).code,
        "MISSING_CREDENTIAL"
    );
    assert!(server.received().is_empty());
}

#[test]
fn an_address_that_is_none_is_refused() {
    for address in ["", "localhost:1", "ftp://x/v1", "http://"] {
        let refused = OpenAiChat::new(OpenAiChatConfig::new("p", address)).unwrap_err();
        assert_eq!(refused.code, "INVALID_ADAPTER", "{address}");
    }
    let encrypted = OpenAiChatConfig::new("p", "https://models.example.invalid/v1/");
    assert!(OpenAiChat::new(encrypted).is_ok());
}
