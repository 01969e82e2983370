//! The shapes on the wire, as samples: what reads back as it was written, and what is refused.

use orrery_api::catalog::{CatalogItem, CatalogRequest};
use orrery_api::content::{Address, Empty, PromptContentPart};
use orrery_api::control::ControlItem;
use orrery_api::frames::{ClientFrame, ServerFrame, follow_event_text, item_frame_text};
use orrery_api::hello::HelloItem;
use orrery_api::history::{FollowItem, FollowRequest, HistoryRecord, PageRequest, PageResponse};
use orrery_api::interaction::{AnswerRequest, AnswerResponse, Interaction, InteractionOutcome};
use orrery_api::model::{ModelCatalog, SelectModelRequest};
use orrery_api::queue::{ResumeQueueRequest, UpdateQueueRequest};
use orrery_api::session::{
    CancelRequest, CancelResponse, CreateRequest, ForkRequest, ListRequest, ListResponse,
    PromptRequest, PromptResponse, RenameRequest, RenameResponse, SearchRequest, SearchResponse,
};
use orrery_api::subagent::{SubagentListResponse, SubagentPromptRequest};
use orrery_api::workspace::{ListDirectoryRequest, WorkspaceAddRequest, WorkspaceAddResponse};
use orrery_api::{ApiError, ErrorBody, ErrorCode, Kind, OPERATIONS, operations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What `text` reads and writes back as; the error's text when it is refused.
fn there_and_back<T: DeserializeOwned + Serialize>(text: &str) -> String {
    match serde_json::from_str::<T>(text) {
        Ok(value) => serde_json::to_string(&value).unwrap_or_else(|error| error.to_string()),
        Err(error) => error.to_string(),
    }
}

/// Asserts that each sample reads back as the same value.
macro_rules! samples {
    ($($type:ty: $($text:expr),+;)+) => {$($(
        let back = there_and_back::<$type>($text);
        let expected: Value = serde_json::from_str($text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&back).ok(), Some(expected), "{back}");
    )+)+};
}

const EVENT: &str = r#"{"type":"session/end-seed","seq":3,"time":1796047003653,"data":{"z":1.0,"a":"\ud800"},"ignorable":true}"#;
const ROW: &str = r#"{"type":"chunkrow/text-chunks","seq":4,"time":10,"data":{"turn":1,"step":1,"index":0,"dt":[1,-1],"texts":["a","b","c"]}}"#;
const SUMMARY: &str = r#"{"sessionId":"session-1","createdAt":1,"updatedAt":2,"running":false,"live":true,"blank":false,"archived":false,"cwd":"/p","workspaceId":"w","childCount":2,"projections":{"asOfSeq":9,"values":{"title":"Hello"}}}"#;
const APPROVAL: &str = r#"{"interactionId":"a1","sessionId":"s","rootSessionId":"s","kind":"approval","state":"pending","createdAt":5,"request":{"toolName":"bash","callId":"c","reason":"commands ask"}}"#;

#[test]
fn requests_read_back_as_they_were_written() {
    samples! {
        Empty: "{}";
        ListRequest: "{}", r#"{"cursor":"c","limit":10}"#;
        SearchRequest: r#"{"query":"q"}"#;
        CreateRequest: "{}", r#"{"cwd":"/p","sessionId":"session-1","agentPreset":"standard"}"#;
        PromptRequest: r#"{"requestId":"r","sessionId":"s","mode":"queue","content":[{"type":"text","text":"hi"},{"type":"image","mediaType":"image/png","data":"AA==","name":"a.png"},{"type":"file","receiptId":"f"}],"clientTimeZone":"Europe/Berlin"}"#;
        CancelRequest: r#"{"sessionId":"s"}"#;
        RenameRequest: r#"{"sessionId":"s","title":"t"}"#;
        ForkRequest: r#"{"sessionId":"s"}"#, r#"{"sessionId":"s","atSeq":4}"#;
        SelectModelRequest: r#"{"sessionId":"s","provider":"p","model":"m","reasoningEffort":"high"}"#;
        UpdateQueueRequest:
            r#"{"sessionId":"s","itemId":"i","action":{"kind":"edit","content":[{"type":"text","text":"x"}]}}"#,
            r#"{"sessionId":"s","itemId":"i","action":{"kind":"remove"}}"#,
            r#"{"sessionId":"s","itemId":"i","action":{"kind":"steer"}}"#,
            r#"{"sessionId":"s","itemId":"i","action":{"kind":"move","beforeItemId":"j"}}"#;
        ResumeQueueRequest: r#"{"sessionId":"s"}"#;
        PageRequest: r#"{"address":{"kind":"session","sessionId":"s"},"throughSeq":-1}"#,
            r#"{"address":{"kind":"subagent","parentSessionId":"p","childSessionId":"c","mode":"one-shot"},"throughSeq":9,"beforeSeq":4,"maxMessages":5}"#;
        FollowRequest: r#"{"address":{"kind":"session","sessionId":"s"},"maxMessages":50,"afterSeq":7}"#;
        CatalogRequest: "{}", r#"{"limit":20}"#;
        AnswerRequest:
            r#"{"sessionId":"s","interactionId":"i","outcome":{"kind":"approval","value":"allowed-once"}}"#,
            r#"{"sessionId":"s","interactionId":"i","outcome":{"kind":"approval","value":"rejected","message":"no"}}"#,
            r#"{"sessionId":"s","interactionId":"i","outcome":{"kind":"answers","answers":[{"id":"q","selected":["a"],"custom":"c"}]}}"#,
            r#"{"sessionId":"s","interactionId":"i","outcome":{"kind":"cancel"}}"#;
        SubagentPromptRequest: r#"{"requestId":"r","parentSessionId":"p","childSessionId":"c","mode":"continuable","delivery":"steer","content":[]}"#;
        WorkspaceAddRequest: r#"{"path":"/p"}"#;
        ListDirectoryRequest: "{}", r#"{"path":"~"}"#;
        ClientFrame: r#"{"type":"open","streamId":"1","endpoint":"session/control","request":{}}"#,
            r#"{"type":"cancel","streamId":"1"}"#;
    }
}

#[test]
fn answers_read_back_as_they_were_written() {
    let list = format!(
        r#"{{"items":[{SUMMARY}],"diagnostics":[{{"path":"a/b","reason":"unsupported-version","message":"m"}}],"nextCursor":"n"}}"#
    );
    samples! {
        ListResponse: &list;
        SearchResponse: r#"{"items":[{"sessionId":"s","snippet":"x","highlights":[[0,1]],"match":{"seq":4,"type":"session/title","surface":"current"}}],"hasMore":false,"indexing":true}"#;
        PromptResponse: r#"{"accepted":true,"messageId":"m"}"#;
        CancelResponse: r#"{"accepted":true,"stopped":{"turn":null,"tools":["c"],"processes":1,"children":["x"],"leftRunning":[{"kind":"job","id":"j","reason":"r"}]}}"#;
        RenameResponse: r#"{"title":"t","seq":4}"#;
        ModelCatalog: r#"{"default":{"provider":"offline","model":"demo"},"routableProviders":["offline"],"groups":[{"id":"offline","name":"Demo","models":[{"id":"demo","name":"Demo","description":"d","reasoning":{"efforts":[{"id":"high","name":"High"}],"defaultEffort":"high"}}]}],"failures":[{"id":"x","name":"X","message":"down"}]}"#,
            r#"{"default":null,"routableProviders":[],"groups":[],"failures":[]}"#;
        Interaction: APPROVAL,
            r#"{"interactionId":"c","sessionId":"s","rootSessionId":"r","kind":"plan-review","state":"expired","createdAt":5,"request":{"questions":[{"id":"q","question":"Good?","options":[{"label":"Yes"}],"multiSelect":false,"intent":{"kind":"plan-review","approve":"Yes"}}]}}"#;
        AnswerResponse: r#"{"accepted":true}"#, r#"{"accepted":false,"settledAs":"rejected"}"#;
        SubagentListResponse: r#"{"entries":[{"kind":"child","id":"c","activity":"inactive","hasChildren":false,"mode":"one-shot"},{"kind":"diagnostic","id":"d","reason":"corrupt","parentId":"p","depth":2}],"parentAvailable":true}"#;
        WorkspaceAddResponse: r#"{"workspace":{"workspaceId":"w","path":"/p","title":"p","createdAt":1},"created":true}"#;
        ErrorBody: r#"{"error":{"code":"session/not-found","message":"m","details":{"sessionId":"s"},"retryable":false}}"#;
    }
}

#[test]
fn stream_items_read_back_as_they_were_written() {
    let catalog = format!(
        r#"{{"type":"baseline","value":{{"items":[{SUMMARY}],"diagnostics":[],"hasMore":true}}}}"#
    );
    let control = format!(
        r#"{{"type":"baseline","value":{{"queues":{{"s":{{"parked":true,"items":[]}}}},"jobs":{{}},"projections":{{"s":{{"asOfSeq":-1,"values":{{}}}}}},"interactions":{{"s":[{APPROVAL}]}},"persistence":{{"s":{{"savedSeq":4,"degraded":null}}}}}}}}"#
    );
    samples! {
        CatalogItem: &catalog, r#"{"type":"remove","sessionId":"s"}"#, r#"{"type":"diagnostics","diagnostics":[]}"#;
        ControlItem: &control,
            r#"{"type":"queue","sessionId":"s","parked":false,"items":[{"id":"m","placement":"steering","rpcId":"r","message":{"id":"m","content":[{"type":"text","text":"x"}]}}]}"#,
            r#"{"type":"jobs","sessionId":"s","jobs":[{"id":"j","kind":"shell","label":"l","status":"lost","startedAt":1}]}"#,
            r#"{"type":"interaction","sessionId":"s","interactions":[]}"#,
            r#"{"type":"persistence","sessionId":"s","persistence":{"savedSeq":-1,"degraded":"full"}}"#,
            r#"{"type":"projection","sessionId":"s","key":"title","value":"x","seq":4}"#;
        HelloItem: r#"{"type":"ready","clientId":"c","protocol":{"name":"orrery","major":1,"minor":0},"capabilities":["follow.after-seq"],"hostId":"h","generation":"g","home":"/home/x"}"#,
            r#"{"type":"emit","event":"session/error","args":{"sessionId":"s","message":"m"}}"#;
        ServerFrame: r#"{"type":"end","streamId":"1"}"#,
            r#"{"type":"error","streamId":"1","error":{"code":"gateway/overflow","message":"m","details":{},"retryable":true}}"#;
    }
}

#[test]
fn events_pass_through_byte_for_byte() {
    for text in [
        format!(r#"{{"type":"event","event":{EVENT}}}"#),
        format!(r#"{{"type":"chunks","event":{ROW}}}"#),
    ] {
        assert_eq!(there_and_back::<HistoryRecord>(&text), text);
    }
    let page = format!(r#"{{"records":[{{"type":"event","event":{EVENT}}}],"hasMore":false}}"#);
    assert_eq!(there_and_back::<PageResponse>(&page), page);
    let snapshot = format!(
        r#"{{"type":"snapshot","header":{{"version":0,"id":"s","createdAt":1}},"inheritedEventCount":0,"cursor":3,"records":[{{"type":"event","event":{EVENT}}}],"hasMore":false,"projections":{{"asOfSeq":3,"values":{{}}}}}}"#
    );
    assert_eq!(there_and_back::<FollowItem>(&snapshot), snapshot);

    let item = follow_event_text(EVENT);
    assert_eq!(there_and_back::<FollowItem>(&item), item);
    let frame = item_frame_text("a\"b", &item);
    assert_eq!(there_and_back::<ServerFrame>(&frame), frame);
}

#[test]
fn unknown_request_fields_are_refused_by_name() {
    let refused = [
        there_and_back::<Empty>(r#"{"colour":1}"#),
        there_and_back::<ListRequest>(r#"{"colour":1}"#),
        there_and_back::<PromptRequest>(
            r#"{"requestId":"r","sessionId":"s","mode":"queue","content":[],"colour":1}"#,
        ),
        there_and_back::<PromptContentPart>(r#"{"type":"text","text":"x","colour":1}"#),
        there_and_back::<Address>(r#"{"kind":"session","sessionId":"s","colour":1}"#),
        there_and_back::<InteractionOutcome>(
            r#"{"kind":"approval","value":"rejected","colour":1}"#,
        ),
        there_and_back::<UpdateQueueRequest>(
            r#"{"sessionId":"s","itemId":"i","action":{"kind":"move","colour":1}}"#,
        ),
    ];
    for message in refused {
        assert!(message.contains("unknown field `colour`"), "{message}");
    }
}

#[test]
fn a_malformed_request_names_its_field() {
    for (text, field) in [
        (r#"{"sessionId":"s","colour":1}"#, json!("colour")),
        ("{}", json!("sessionId")),
        ("[", Value::Null),
    ] {
        let error = serde_json::from_str::<CancelRequest>(text).unwrap_err();
        let error = ApiError::malformed(&error);
        assert_eq!(error.code, ErrorCode::BadRequest);
        assert_eq!(
            error.details.get("field").cloned().unwrap_or_default(),
            field,
            "{error}"
        );
    }
}

#[test]
fn unknown_fields_of_answers_are_ignored() {
    let text = r#"{"accepted":true,"messageId":"m","colour":1}"#;
    assert_eq!(
        there_and_back::<PromptResponse>(text),
        r#"{"accepted":true,"messageId":"m"}"#
    );
}

#[test]
fn empty_ids_and_unsafe_numbers_are_refused() {
    assert!(there_and_back::<CancelRequest>(r#"{"sessionId":""}"#).contains("non-empty"));
    let page = r#"{"address":{"kind":"session","sessionId":"s"},"throughSeq":-2}"#;
    assert!(there_and_back::<PageRequest>(page).contains("safe integer"));
}

#[test]
fn error_codes_read_back_and_keep_their_status() {
    for code in ErrorCode::ALL {
        assert_eq!(&ErrorCode::parse(code.as_str()), code);
    }
    assert_eq!(
        ErrorCode::parse("new/code"),
        ErrorCode::Other("new/code".into())
    );
    for (code, status) in [
        ("gateway/bad-request", 400),
        ("session/title-invalid", 400),
        ("subagent/unauthorized", 403),
        ("interaction/not-found", 404),
        ("session/writer-held", 409),
        ("session/model-unavailable", 422),
        ("interaction/answer-invalid", 422),
        ("gateway/cancelled", 499),
        ("storage/unavailable", 503),
    ] {
        assert_eq!(ErrorCode::parse(code).http_status(), status, "{code}");
    }
    let error = ApiError::bad_request("limit", "limit must be 1 to 500");
    assert_eq!(
        json!(ErrorBody::from(error)),
        json!({"error": {
            "code": "gateway/bad-request", "message": "limit must be 1 to 500",
            "details": {"field": "limit"}, "retryable": false,
        }})
    );
}

#[test]
fn the_table_names_every_operation_once_and_gives_no_stream_a_deadline() {
    let mut names: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OPERATIONS.len());
    for operation in OPERATIONS {
        let unbounded = operation.kind == Kind::Stream || operation.name == "session/cancel";
        assert_eq!(
            operation.deadline_seconds.is_none(),
            unbounded,
            "{}",
            operation.name
        );
    }
    let prompt = operations::find("session/prompt").unwrap();
    assert_eq!((prompt.namespace(), prompt.method()), ("session", "prompt"));
    assert!(operations::find("session/nothing").is_none());
}
