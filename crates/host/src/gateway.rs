//! The gateway: HTTP, one WebSocket for all streams, Server-Sent Events, the page.
//!
//! Owns the trust fence, credentials, framing, deadlines and back-pressure. Leaves every meaning to
//! `controller`. Each request passes `trust` first, then, below `/api`, `auth`.

mod assets;
pub mod auth;
mod feeds;
mod files;
mod respond;
mod socket;
mod sse;
pub mod trust;
mod unary;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use orrery_api::error::ApiError;
use orrery_session::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::controller::Controller;
use auth::Auth;
use trust::TrustedHosts;

/// What the gateway serves.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) controller: Controller,
    pub(crate) auth: Auth,
    pub(crate) trusted: TrustedHosts,
    pub(crate) address: std::net::SocketAddr,
    /// The user's home folder, which clients abbreviate.
    pub(crate) user_home: String,
    /// New for each process: clients start over when it changes.
    pub(crate) generation: String,
    pub(crate) started_at: Timestamp,
    pub(crate) connections: AtomicU64,
    pub(crate) streams: AtomicU64,
    /// Fires when the Host is going down.
    pub(crate) closing: CancellationToken,
    pub(crate) sockets: TaskTracker,
}

impl Gateway {
    /// The URL without any secret. An address that means "all" is reached by loopback.
    pub(crate) fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}")
    }

    /// A link that signs a browser in once.
    pub(crate) fn launch_url(&self) -> Result<String, auth::NoRandomness> {
        Ok(format!(
            "{}/?token={}",
            self.url(),
            self.auth.launch_token()?
        ))
    }
}

/// Counts something for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted<F: Fn(&Gateway) -> &AtomicU64>(Arc<Gateway>, F);

impl<F: Fn(&Gateway) -> &AtomicU64> Counted<F> {
    pub(crate) fn new(gateway: &Arc<Gateway>, counter: F) -> Self {
        counter(gateway).fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(gateway), counter)
    }
}

impl<F: Fn(&Gateway) -> &AtomicU64> Drop for Counted<F> {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves until `closing` fires, then lets requests finish and closes the sockets.
///
/// # Errors
/// When the listener fails.
pub async fn serve(gateway: Arc<Gateway>, listener: TcpListener) -> std::io::Result<()> {
    let closing = gateway.closing.clone();
    let sockets = gateway.sockets.clone();
    let listener = listener.tap_io(|stream| {
        // A token is a small frame: it must not wait for the answer to the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
    });
    axum::serve(listener, router(gateway))
        .with_graceful_shutdown(async move { closing.cancelled().await })
        .await?;
    // Upgraded sockets are not waited for by the server itself.
    sockets.close();
    sockets.wait().await;
    Ok(())
}

fn router(gateway: Arc<Gateway>) -> Router {
    let api = Router::new()
        .route("/api/streams", get(socket::upgrade))
        .route("/api/session/follow", get(sse::follow).post(unary::call))
        .route("/api/session/control", get(sse::control).post(unary::call))
        .route("/api/session/catalog", get(sse::catalog).post(unary::call))
        .route(
            "/api/session/export",
            get(files::export).fallback(unary::unknown),
        )
        .route(
            "/api/session/import",
            post(files::import)
                .fallback(unary::unknown)
                .layer(DefaultBodyLimit::disable()),
        )
        .route("/api/host/hello", get(sse::hello).post(unary::call))
        .route(
            "/api/{*endpoint}",
            post(unary::call).fallback(unary::unknown),
        )
        .layer(middleware::from_fn_with_state(
            Arc::clone(&gateway),
            authenticate,
        ));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/openapi.json", get(assets::openapi))
        .merge(api)
        .fallback(assets::page)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&gateway),
            trusted,
        ))
        .with_state(gateway)
}

async fn trusted(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    match gateway.trusted.check(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(error) => respond::error(&error),
    }
}

async fn authenticate(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    match gateway.auth.check(request.headers()) {
        Some(credential) => {
            request.extensions_mut().insert(credential);
            next.run(request).await
        }
        None => respond::error(&ApiError::new(
            orrery_api::ErrorCode::Unauthenticated,
            "sign in with the link that the Host printed, or `orrery open` for a new one; \
             programs send `Authorization: Bearer` with the token in the state folder",
        )),
    }
}
