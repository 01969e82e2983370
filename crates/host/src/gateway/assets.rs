//! The page: files built into the binary, served with a strict policy, and signing in.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::Gateway;

/// The built page. In development builds the files are read from disk with each request.
#[derive(rust_embed::RustEmbed)]
#[folder = "../../web/app/dist"]
#[allow_missing = true]
struct Page;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const NOT_BUILT: &str = "The page is not part of this build: run `cargo xtask run`, which builds \
    it first.\nThe API works all the same.\n";
const SIGN_IN: &str = "This link does not sign in (any more): each works once.\nRun `orrery open` \
    for a new one, or use the link that the Host printed last.\n";

pub(super) async fn openapi() -> Response {
    let mut response = Response::new(Body::from(orrery_api::emit::openapi()));
    set(
        response.headers_mut(),
        header::CONTENT_TYPE,
        "application/json",
    );
    response
}

pub(super) async fn page(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (method, headers, uri) = (request.method(), request.headers(), request.uri());
    if method != Method::GET && method != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    let tokens: Vec<&str> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.strip_prefix("token="))
        .collect();
    if !tokens.is_empty() {
        let once = method == Method::GET && uri.path() == "/" && tokens.len() == 1;
        return sign_in(&gateway, headers, tokens.first().filter(|_| once).copied());
    }
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let known = Page::get(path).is_some();
    // The page does its own routing: what is no file and looks like no file is the page.
    let path = if known || path.contains('.') {
        path
    } else {
        "index.html"
    };
    file(path, headers, method == Method::HEAD)
}

fn sign_in(gateway: &Gateway, headers: &HeaderMap, token: Option<&str>) -> Response {
    let authority = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let cookie = token
        .zip(authority)
        .and_then(|(token, at)| gateway.auth.exchange(token, at));
    let signed_in = cookie.is_some() || (token.is_some() && gateway.auth.check(headers).is_some());
    if !signed_in {
        return plain(StatusCode::UNAUTHORIZED, SIGN_IN);
    }
    let mut response = plain(StatusCode::SEE_OTHER, "");
    set(response.headers_mut(), header::LOCATION, "/");
    if let Some(cookie) = cookie.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn file(path: &str, headers: &HeaderMap, head: bool) -> Response {
    let accepts_gzip = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| {
            value
                .split(',')
                .any(|coding| coding.trim().starts_with("gzip"))
        });
    let packed = accepts_gzip
        .then(|| Page::get(&format!("{path}.gz")))
        .flatten();
    let is_packed = packed.is_some();
    let Some(found) = packed.or_else(|| Page::get(path)) else {
        return match path {
            "index.html" => plain(StatusCode::NOT_FOUND, NOT_BUILT),
            _ => plain(StatusCode::NOT_FOUND, "no such file\n"),
        };
    };
    let body = if head {
        Body::empty()
    } else {
        Body::from(found.data.into_owned())
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let media_type = mime_guess::from_path(path).first_or_octet_stream();
    let charset = if media_type.type_() == "text" {
        "; charset=utf-8"
    } else {
        ""
    };
    set(
        headers,
        header::CONTENT_TYPE,
        &format!("{media_type}{charset}"),
    );
    set(headers, header::VARY, "accept-encoding");
    if is_packed {
        set(headers, header::CONTENT_ENCODING, "gzip");
    }
    // Built assets carry a digest in their name; everything else may change with the binary.
    let cache = if path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    set(headers, header::CACHE_CONTROL, cache);
    guard(headers);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    set(headers, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    set(headers, header::CACHE_CONTROL, "no-store");
    guard(headers);
    response
}

fn guard(headers: &mut HeaderMap) {
    set(headers, header::CONTENT_SECURITY_POLICY, POLICY);
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, header::REFERRER_POLICY, "no-referrer");
    set(headers, header::X_FRAME_OPTIONS, "DENY");
}

fn set(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
