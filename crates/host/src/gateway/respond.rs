//! Answers: JSON values and errors of the contract.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use orrery_api::error::{ApiError, ErrorBody};
use serde::Serialize;

/// A value, with status 200.
pub(super) fn value<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => json(StatusCode::OK, bytes),
        Err(error) => {
            tracing::error!(%error, "an answer could not be serialised");
            self::error(&ApiError::internal())
        }
    }
}

/// An error of the contract, with its status.
pub(super) fn error(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.http_status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // Strings and plain values only: serialising them cannot fail.
    let bytes = serde_json::to_vec(&ErrorBody::from(error.clone())).unwrap_or_default();
    json(status, bytes)
}

fn json(status: StatusCode, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
