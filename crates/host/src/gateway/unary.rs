//! Unary calls: `POST /api/<namespace>/<method>`.
//!
//! One place reads, checks and bounds the request; one table below leads each operation to its
//! method of the controller.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use http::{HeaderMap, header};
use orrery_api::content::Empty;
use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::host::{HostStats, LaunchLinkResponse};
use orrery_api::{Kind, operations};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::auth::Credential;
use super::{Gateway, respond};

/// The largest request body, in bytes.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Any other path or verb below `/api`.
pub(super) async fn unknown(request: Request) -> Response {
    let endpoint = request.uri().path().trim_start_matches("/api/").to_owned();
    respond::error(&ApiError::unknown_method(&endpoint))
}

/// One call.
pub(super) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Extension(credential): Extension<Credential>,
    request: Request,
) -> Response {
    let endpoint = request.uri().path().trim_start_matches("/api/").to_owned();
    let operation = operations::find(&endpoint)
        .filter(|operation| operation.implemented && operation.kind == Kind::Unary);
    let Some(operation) = operation else {
        return respond::error(&ApiError::unknown_method(&endpoint));
    };
    let answer = async {
        let body = read_body(request).await?;
        let value = dispatch(&gateway, credential, operation.name, &body).await?;
        Ok::<_, ApiError>(value)
    };
    let answer = match operation.deadline_seconds {
        None => answer.await,
        Some(seconds) => {
            let deadline = Duration::from_secs(seconds.into());
            tokio::time::timeout(deadline, answer)
                .await
                .unwrap_or_else(|_elapsed| Err(ApiError::deadline()))
        }
    };
    answer.unwrap_or_else(|error| respond::error(&error))
}

/// Reads a JSON body; its type and size are checked before anything runs.
async fn read_body(request: Request) -> Result<Bytes, ApiError> {
    let json = |headers: &HeaderMap| {
        let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let media_type = value.split(';').next()?.trim();
        media_type
            .eq_ignore_ascii_case("application/json")
            .then_some(())
    };
    if json(request.headers()).is_none() {
        let message = "the Content-Type must be application/json";
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
    }
    let too_large = || {
        let message = format!("the body is larger than {MAX_BODY} bytes");
        ApiError::new(ErrorCode::TooLarge, message).with("limit", MAX_BODY)
    };
    let declared = request.headers().get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    axum::body::to_bytes(request.into_body(), MAX_BODY)
        .await
        .map_err(|_over| too_large())
}

/// Reads a request as its type; a field that nobody knows is refused by name.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    // A list would be read as the fields in their order, whatever they are called.
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|byte| *byte != b'{') {
        let message = "the request must be a JSON object";
        return Err(ApiError::new(ErrorCode::BadRequest, message));
    }
    serde_json::from_slice(body).map_err(|error| {
        let message = error.to_string();
        let named = message
            .split('`')
            .nth(1)
            .filter(|_| message.contains("field `"));
        match named {
            Some(field) => {
                let field = field.to_owned();
                ApiError::bad_request(&field, message)
            }
            None => ApiError::new(ErrorCode::BadRequest, message),
        }
    })
}

async fn dispatch(
    gateway: &Arc<Gateway>,
    credential: Credential,
    name: &str,
    body: &[u8],
) -> Result<Response, ApiError> {
    let c = &gateway.controller;
    Ok(match name {
        "session/list" => ok(&c.list(parse(body)?).await?),
        "session/search" => ok(&c.search(parse(body)?).await?),
        "subagent/list" => ok(&c.list_subagents(parse(body)?).await?),
        "subagent/prompt" => ok(&c.prompt_subagent(parse(body)?).await?),
        "subagent/interrupt" => ok(&c.interrupt_subagent(parse(body)?).await?),
        "job/output" => ok(&c.job_output(&parse(body)?)?),
        "job/kill" => ok(&c.kill_job(&parse(body)?)?),
        "session/create" => ok(&c.create(parse(body)?).await?),
        "session/prompt" => ok(&c.prompt(parse(body)?).await?),
        "session/cancel" => ok(&c.cancel(parse(body)?).await?),
        "session/rename" => ok(&c.rename(parse(body)?).await?),
        "session/fork" => ok(&c.fork(parse(body)?).await?),
        "session/selectModel" => ok(&c.select_model(parse(body)?).await?),
        "session/modelCatalog" => {
            parse::<Empty>(body)?;
            ok(&c.model_catalog().await)
        }
        "session/updateQueue" => ok(&c.update_queue(parse(body)?).await?),
        "session/resumeQueue" => ok(&c.resume_queue(parse(body)?).await?),
        "session/page" => ok(&c.page(parse(body)?).await?),
        "session/archive" => ok(&c.archive(parse(body)?).await?),
        "session/unarchive" => ok(&c.unarchive(parse(body)?).await?),
        "session/delete" => ok(&c.delete(parse(body)?).await?),
        "session/restore" => ok(&c.restore(parse(body)?).await?),
        "session/trash" => {
            parse::<Empty>(body)?;
            ok(&c.trash().await?)
        }
        "interaction/answer" => ok(&c.answer(parse(body)?).await?),
        "workspace/list" => {
            parse::<Empty>(body)?;
            ok(&c.workspace_list())
        }
        "workspace/add" => ok(&c.workspace_add(parse(body)?).await?),
        "workspace/rename" => ok(&c.workspace_rename(parse(body)?)?),
        "workspace/remove" => ok(&c.workspace_remove(&parse(body)?)?),
        "workspace/listDirectory" => ok(&c.list_directory(parse(body)?).await?),
        "host/stats" => {
            parse::<Empty>(body)?;
            ok(&stats(gateway).await?)
        }
        "host/launchLink" => {
            parse::<Empty>(body)?;
            ok(&launch_link(gateway, credential)?)
        }
        other => return Err(ApiError::unknown_method(other)),
    })
}

fn ok<T: Serialize>(value: &T) -> Response {
    respond::value(value)
}

async fn stats(gateway: &Gateway) -> Result<HostStats, ApiError> {
    use std::sync::atomic::Ordering::Relaxed;
    let (live, running) = gateway.controller.live_counts();
    Ok(HostStats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host_id: gateway.controller.host_id(),
        generation: gateway.generation.clone(),
        started_at: gateway.started_at,
        sessions: gateway.controller.session_count().await?,
        live_sessions: live as u64,
        running_sessions: running as u64,
        connections: gateway.connections.load(Relaxed),
        streams: gateway.streams.load(Relaxed),
        resident_bytes: resident_bytes(),
        listing: gateway.controller.listing_stats(),
    })
}

/// The resident set, where the system tells it in pages.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn launch_link(gateway: &Gateway, credential: Credential) -> Result<LaunchLinkResponse, ApiError> {
    if credential != Credential::Bearer {
        let message = "only programs with the token of the state folder get a launch link";
        return Err(ApiError::new(ErrorCode::Unauthenticated, message));
    }
    let url = gateway.launch_url().map_err(|error| {
        tracing::error!(%error, "no launch link could be made");
        ApiError::internal()
    })?;
    Ok(LaunchLinkResponse { url })
}
