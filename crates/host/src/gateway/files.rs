//! Files: `GET|HEAD /api/session/export` and `POST /api/session/import`.
//!
//! Neither has a deadline. An export is sent while it is made, so what fails late breaks the
//! connection off instead of ending the file; an import lies in a file of its own before anybody
//! looks at it.

use std::io::{self, BufWriter, Seek as _, Write};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::response::Response;
use futures_util::StreamExt as _;
use http::{HeaderValue, Method, header};
use orrery_api::error::{ApiError, ErrorCode};
use orrery_session::SessionId;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::{Gateway, respond};

/// The media type of archives.
const ZIP: &str = "application/zip";
/// Bytes that are sent at once.
const PIECE: usize = 64 * 1024;
/// Pieces that wait for a slow reader; the archive stands still meanwhile.
const PIECES_AHEAD: usize = 4;
/// Bytes of an archive that comes in.
const ARCHIVE_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Which session, as query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ExportQuery {
    session_id: SessionId,
    #[serde(default)]
    include_descendants: bool,
}

pub(super) async fn export(
    State(gateway): State<Arc<Gateway>>,
    method: Method,
    query: Result<Query<ExportQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(error) => {
            let error = ApiError::new(ErrorCode::BadRequest, error.body_text());
            return respond::error(&error);
        }
    };
    let wanted = (query.session_id, query.include_descendants);
    let export = match gateway.controller.export(&wanted.0, wanted.1).await {
        Ok(export) => export,
        Err(error) => return respond::error(&error),
    };
    let disposition = format!("attachment; filename=\"{}\"", export.file_name());
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
        tokio::task::spawn_blocking(move || {
            let mut out = BufWriter::with_capacity(PIECE, Pieces(sender.clone()));
            let done = export.write(&mut out).and_then(|()| out.flush());
            if let Err(error) = done {
                tracing::warn!(%error, "an export was broken off");
                // Whoever went away needs no word.
                drop(sender.blocking_send(Err(error)));
            }
        });
        let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
            let piece: io::Result<Bytes> = receiver.recv().await?;
            Some((piece, receiver))
        });
        Body::from_stream(pieces)
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(ZIP));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// Hands what is written on; stands still while nobody takes it.
struct Pieces(mpsc::Sender<io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Ok(Bytes::copy_from_slice(bytes));
        match self.0.blocking_send(piece) {
            Ok(()) => Ok(bytes.len()),
            Err(_gone) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) async fn import(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let imported = async {
        let archive = received(request).await?;
        gateway.controller.import(archive).await
    };
    match imported.await {
        Ok(response) => respond::value(&response),
        Err(error) => respond::error(&error),
    }
}

/// The body, in a file without a name.
async fn received(request: Request) -> Result<std::fs::File, ApiError> {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok()?.split(';').next());
    if !media_type.is_some_and(|name| name.trim().eq_ignore_ascii_case(ZIP)) {
        let message = format!("the Content-Type must be {ZIP}");
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
    }
    let failed = |error: io::Error| {
        tracing::error!(%error, "an archive could not be received");
        let message = "there is no room for the archive; the Host's log says why";
        ApiError::new(ErrorCode::StorageUnavailable, message)
    };
    let mut file = tokio::fs::File::from_std(tempfile::tempfile().map_err(failed)?);
    let mut length = 0;
    let mut pieces = request.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_broken| {
            ApiError::new(ErrorCode::Cancelled, "the archive broke off on the way")
        })?;
        length += piece.len() as u64;
        if length > ARCHIVE_MAX {
            let message = format!("the archive is larger than {ARCHIVE_MAX} bytes");
            return Err(ApiError::new(ErrorCode::TooLarge, message).with("limit", ARCHIVE_MAX));
        }
        let written = tokio::io::AsyncWriteExt::write_all(&mut file, &piece).await;
        written.map_err(failed)?;
    }
    tokio::io::AsyncWriteExt::flush(&mut file)
        .await
        .map_err(failed)?;
    let mut file = file.into_std().await;
    file.rewind().map_err(failed)?;
    Ok(file)
}
