//! The streams as Server-Sent Events, so that `curl -N` works.
//!
//! `data:` is the item, `id:` the seq to continue after; `Last-Event-ID` is answered from the log.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use orrery_api::error::ApiError;
use serde::Deserialize;
use serde_json::json;

use super::feeds::Feed;
use super::{Counted, Gateway, respond};

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which log to follow, as query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FollowQuery {
    session_id: Option<String>,
    parent_session_id: Option<String>,
    child_session_id: Option<String>,
    mode: Option<String>,
    max_messages: Option<u32>,
    after_seq: Option<u64>,
}

pub(super) async fn follow(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    query: Result<Query<FollowQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(error) => {
            return respond::error(&ApiError::new(
                orrery_api::ErrorCode::BadRequest,
                error.body_text(),
            ));
        }
    };
    let address = match (
        query.session_id,
        query.parent_session_id,
        query.child_session_id,
    ) {
        (Some(session), None, None) => json!({"kind": "session", "sessionId": session}),
        (None, Some(parent), Some(child)) => json!({
            "kind": "subagent",
            "parentSessionId": parent,
            "childSessionId": child,
            "mode": query.mode,
        }),
        _ => {
            let message = "name sessionId, or parentSessionId, childSessionId and mode";
            return respond::error(&ApiError::bad_request("sessionId", message));
        }
    };
    let last = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse::<i64>().ok());
    let mut request = json!({"address": address});
    if let Some(messages) = query.max_messages {
        request["maxMessages"] = messages.into();
    }
    // A cursor of -1 has seen nothing: it starts like a new follower.
    let after = last
        .and_then(|last| u64::try_from(last).ok())
        .or(query.after_seq);
    if let Some(after) = after {
        request["afterSeq"] = after.into();
    }
    stream(gateway, "session/follow", request.to_string()).await
}

pub(super) async fn control(State(gateway): State<Arc<Gateway>>) -> Response {
    stream(gateway, "session/control", "{}".to_owned()).await
}

pub(super) async fn catalog(State(gateway): State<Arc<Gateway>>) -> Response {
    stream(gateway, "session/catalog", "{}".to_owned()).await
}

pub(super) async fn hello(State(gateway): State<Arc<Gateway>>) -> Response {
    stream(gateway, "host/hello", "{}".to_owned()).await
}

struct Streaming {
    gateway: Arc<Gateway>,
    feed: Feed,
    ended: bool,
    _counted: Box<dyn std::any::Any + Send>,
}

async fn stream(gateway: Arc<Gateway>, endpoint: &'static str, request: String) -> Response {
    let feed = match Feed::open(&gateway, endpoint, request.as_bytes()).await {
        Ok(feed) => feed,
        Err(error) => return respond::error(&error),
    };
    let counted = Box::new(Counted::new(&gateway, |g| &g.streams));
    let start = Streaming {
        gateway,
        feed,
        ended: false,
        _counted: counted,
    };
    let events = futures_util::stream::unfold(start, |mut state| async move {
        if state.ended {
            return None;
        }
        let closing = state.gateway.closing.clone();
        let event = match closing.run_until_cancelled(state.feed.next()).await? {
            Ok(piece) => {
                let event = Event::default().data(piece.json);
                match piece.seq {
                    Some(seq) => event.id(seq.to_string()),
                    None => event,
                }
            }
            Err(error) => {
                state.ended = true;
                // Strings and plain values only: serialising them cannot fail.
                let body = serde_json::to_string(&error).unwrap_or_default();
                Event::default().event("error").data(body)
            }
        };
        Some((Ok::<_, Infallible>(event), state))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}
