//! Which models are on offer, and what preparing a call fills in.

use orrery_llm::{Adapter, ModelInfo, OpenAiChat};
use orrery_testkit::ModelServer;

use crate::fixture::{adapter, config, request_config};

fn info(id: &str) -> ModelInfo {
    ModelInfo {
        id: id.to_owned(),
        name: id.to_owned(),
        description: None,
        context_window: Some(8_000),
        reasoning_efforts: vec!["low".into(), "high".into()],
        default_effort: Some("low".into()),
        images: false,
    }
}

#[tokio::test]
async fn models_are_discovered_once_and_remembered() {
    let server = ModelServer::start().await.unwrap();
    server.set_models(&["big", "small"]);
    let adapter = adapter(&server);
    let names = |models: Vec<ModelInfo>| models.into_iter().map(|m| m.id).collect::<Vec<_>>();
    assert_eq!(names(adapter.models().await.unwrap()), ["big", "small"]);
    server.set_models(&["other"]);
    assert_eq!(names(adapter.models().await.unwrap()), ["big", "small"]);
}

#[tokio::test]
async fn a_provider_that_is_down_says_so_and_is_asked_again() {
    let server = ModelServer::start().await.unwrap();
    let adapter = adapter(&server);
    let port = server
        .base_url()
        .split([':', '/'])
        .nth(4)
        .unwrap()
        .parse()
        .unwrap();
    drop(server);
    while adapter.models().await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(adapter.models().await.unwrap_err().code, "TRANSPORT");
    let _server = loop {
        // The port is free as soon as the old server's task has ended.
        match ModelServer::start_on(port).await {
            Ok(server) => break server,
            Err(_still_taken) => tokio::task::yield_now().await,
        }
    };
    assert!(adapter.models().await.is_ok());
}

#[tokio::test]
async fn configured_models_are_checked_and_their_defaults_filled_in() {
    let server = ModelServer::start().await.unwrap();
    let mut config = config(&server);
    config.models = vec![info("test")];
    config.default_max_tokens = Some(100);
    let adapter = OpenAiChat::new(config).unwrap();

    let call = adapter.prepare(request_config()).await.unwrap();
    assert_eq!(call.config.reasoning_effort.as_deref(), Some("low"));
    assert_eq!(call.config.max_tokens, Some(100));
    assert!(call.defaults.reasoning_effort && call.defaults.max_tokens);
    assert_eq!(call.context_window, Some(8_000));

    let mut asked = request_config();
    asked.reasoning_effort = Some("extreme".into());
    let failure = adapter.prepare(asked).await.unwrap_err();
    assert_eq!(failure.code, "UNSUPPORTED_REASONING_EFFORT");
    let mut asked = request_config();
    asked.model = "other".into();
    assert_eq!(
        adapter.prepare(asked).await.unwrap_err().code,
        "INVALID_MODEL"
    );
}
