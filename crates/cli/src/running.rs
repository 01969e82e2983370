//! The Host that runs here: where it says that it does, and how a command speaks to it.
//!
//! `state/host.json` is a courtesy, written by `serve` and removed when it ends. It may be stale
//! after a crash, so it is believed only once the address answers.

use std::fs;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use orrery_api::error::ErrorBody;
use orrery_api::operations::Procedure;
use orrery_host::home::{Home, replace_file};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::report::Failure;

/// How long a Host on this machine may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// What `state/host.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The process.
    pub(crate) pid: u32,
    /// Its address, `http://127.0.0.1:PORT`.
    pub(crate) url: String,
}

impl Running {
    /// Writes down that this process listens at `url`.
    pub(crate) fn announce(home: &Home, url: &str) -> Result<Self, Failure> {
        let running = Self {
            pid: std::process::id(),
            url: url.to_owned(),
        };
        let text = serde_json::to_vec(&running).map_err(io::Error::from);
        let text = text.map_err(Failure::io("write down the address"))?;
        replace_file(&home.running_file(), &text)?;
        Ok(running)
    }

    /// Takes back what this process wrote; what another one wrote stays.
    pub(crate) fn withdraw(&self, home: &Home) {
        if Self::read(home).as_ref() == Some(self)
            && let Err(error) = fs::remove_file(home.running_file())
        {
            tracing::warn!(%error, "the record of the running Host stays");
        }
    }

    fn read(home: &Home) -> Option<Self> {
        let text = fs::read_to_string(home.running_file()).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The Host that runs here and answers.
    pub(crate) async fn find(home: &Home) -> Option<Self> {
        let running = Self::read(home)?;
        let asked = running.ask(Method::GET, "/healthz", None, Bytes::new());
        match asked.await {
            Ok((StatusCode::OK, _)) => Some(running),
            _ => None,
        }
    }

    /// Calls an operation of the Host.
    pub(crate) async fn call<P: Procedure>(
        &self,
        home: &Home,
        request: &P::Request,
    ) -> Result<P::Response, Failure> {
        let strange = |why: String| Failure::Strange(why);
        let token = home.token()?;
        let path = format!("/api/{}", P::OPERATION.name);
        let body = serde_json::to_vec(request).map_err(|e| strange(e.to_string()))?;
        let (status, answer) = self
            .ask(Method::POST, &path, Some(&token), body.into())
            .await?;
        if status.is_success() {
            return serde_json::from_slice(&answer).map_err(|e| strange(e.to_string()));
        }
        match serde_json::from_slice::<ErrorBody>(&answer) {
            Ok(body) => Err(body.error.into()),
            Err(_) => Err(strange(format!("HTTP {status}"))),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let authority = self.url.trim_start_matches("http://").to_owned();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &authority)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let strange = |why: String| Failure::Strange(why);
        let request = request
            .body(Full::new(body))
            .map_err(|e| strange(e.to_string()))?;
        let exchange = async {
            let stream = TcpStream::connect(&authority)
                .await
                .map_err(|_nobody_there| Failure::NotRunning)?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream))
                    .await
                    .map_err(|e| strange(e.to_string()))?;
            let connection = tokio::spawn(connection);
            let response = sender.send_request(request).await;
            let response = response.map_err(|e| strange(e.to_string()))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            let body = body.collect().await.map_err(|e| strange(e.to_string()))?;
            connection.abort();
            Ok((status, body.to_bytes()))
        };
        match tokio::time::timeout(DEADLINE, exchange).await {
            Ok(result) => result,
            Err(_) => Err(strange("it took too long".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_record_is_no_running_host() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        home.create().unwrap();
        assert!(Running::find(&home).await.is_none());
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let running = Running::announce(&home, &url).unwrap();
        assert!(Running::find(&home).await.is_none());
        let other = Running {
            pid: 1,
            ..running.clone()
        };
        other.withdraw(&home);
        assert!(home.running_file().exists());
        running.withdraw(&home);
        assert!(!home.running_file().exists());
    }

    #[tokio::test]
    async fn what_is_no_host_gives_a_failure_and_no_hang() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        home.create().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let running = Running { pid: 1, url };
        let stranger = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail here\r\n")
                .await
                .unwrap();
        };
        let call = running
            .call::<orrery_api::operations::HostLaunchLink>(&home, &orrery_api::content::Empty {});
        let (result, ()) = tokio::join!(call, stranger);
        assert!(matches!(result, Err(Failure::Strange(_))));
    }
}
