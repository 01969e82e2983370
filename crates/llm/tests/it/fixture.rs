//! A provider on a scripted server, and a judge of streams.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use orrery_llm::{Adapter, ApiKey, Assembled, Assembler, LlmRequest, OpenAiChat, OpenAiChatConfig};
use orrery_session::payload::RequestConfig;
use orrery_session::{
    ContentBlock, FinishReason, LlmFailure, Message, MessageId, Role, SessionId, Source,
    StreamChunk,
};
use orrery_testkit::{ModelServer, Reply};
use tokio_util::sync::CancellationToken;

pub(crate) const KEY: &str = "sk-very-secret";

pub(crate) fn config(server: &ModelServer) -> OpenAiChatConfig {
    let mut config = OpenAiChatConfig::new("local", server.base_url());
    config.api_key = ApiKey::from_variable("LOCAL_API_KEY", Some(KEY.to_owned()));
    config.idle_timeout = Duration::from_secs(20);
    config
}

pub(crate) fn adapter(server: &ModelServer) -> OpenAiChat {
    OpenAiChat::new(config(server)).unwrap()
}

pub(crate) fn request_config() -> RequestConfig {
    RequestConfig {
        provider: "local".into(),
        model: "test".into(),
        reasoning_effort: None,
        temperature: None,
        max_tokens: None,
        stop: None,
    }
}

pub(crate) fn user(text: &str) -> Message {
    let source = Source::User {
        rpc_id: None,
        client_time_zone: None,
    };
    let id = MessageId::new("m").unwrap();
    Message::user(id, vec![ContentBlock::text(text)], source)
}

pub(crate) fn model(content: Vec<ContentBlock>) -> Message {
    Message {
        role: Role::Assistant,
        content,
        source: Source::Model {
            provider: "local".into(),
            model: "test".into(),
            replay_state: None,
        },
        id: MessageId::new("m").unwrap(),
    }
}

pub(crate) fn request(messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        config: request_config(),
        system: None,
        tools: [].into(),
        messages,
        session_id: SessionId::new("s").unwrap(),
    }
}

/// Asks and collects; every stream is checked against the grammar.
pub(crate) async fn ask(adapter: &OpenAiChat, messages: Vec<Message>) -> Assembled {
    let mut stream = adapter.stream(request(messages), CancellationToken::new());
    let mut chunks = Vec::new();
    while let Some(chunk) = stream.next().await {
        chunks.push(chunk);
    }
    check_grammar(&chunks);
    let mut assembler = Assembler::new();
    chunks.iter().for_each(|chunk| assembler.push(chunk));
    assembler.finish()
}

/// One reply to one question.
pub(crate) async fn answer_to(reply: Reply) -> Assembled {
    let server = ModelServer::start().await.unwrap();
    server.push(reply);
    ask(&adapter(&server), vec![user("hi")]).await
}

/// The failure that a reply leads to, with what was said before it.
pub(crate) async fn failure_of(reply: Reply) -> LlmFailure {
    failure_in(answer_to(reply).await)
}

pub(crate) fn failure_in(answer: Assembled) -> LlmFailure {
    match answer.reason {
        FinishReason::Error { failure } | FinishReason::Aborted { failure } => failure,
        other => panic!("no failure but {other:?}"),
    }
}

pub(crate) fn text(answer: &Assembled) -> String {
    answer
        .content
        .iter()
        .filter_map(ContentBlock::as_text)
        .collect()
}

/// The grammar of `session.md` 3.9.
fn check_grammar(chunks: &[StreamChunk]) {
    let mut seen = BTreeSet::new();
    let mut open = BTreeSet::new();
    let mut usages = 0;
    for (at, chunk) in chunks.iter().enumerate() {
        match chunk {
            StreamChunk::BlockStart { index, .. } => {
                assert!(seen.insert(*index), "index {index} twice");
                open.insert(*index);
            }
            StreamChunk::TextDelta { index, .. }
            | StreamChunk::ReasoningDelta { index, .. }
            | StreamChunk::ToolCallDelta { index, .. } => {
                assert!(open.contains(index), "delta outside of block {index}");
            }
            StreamChunk::BlockEnd { index, .. } => assert!(open.remove(index)),
            StreamChunk::Usage { .. } => usages += 1,
            StreamChunk::Finish { reason, .. } => {
                assert_eq!(at, chunks.len() - 1, "finish is not last");
                let failed = matches!(
                    reason,
                    FinishReason::Error { .. } | FinishReason::Aborted { .. }
                );
                assert!(failed || open.is_empty(), "open blocks at the end");
            }
        }
    }
    assert!(usages <= 1);
    assert!(matches!(chunks.last(), Some(StreamChunk::Finish { .. })));
}
