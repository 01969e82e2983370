//! The Host that runs here: where it says that it does, and how a command speaks to it.
//!
//! `state/host.json` is a courtesy, written by `serve` and removed when it ends. It may be stale
//! after a crash, so it is believed only once the address answers.

use std::fs;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use orrery_api::error::{ApiError, ErrorBody};
use orrery_api::operations::Procedure;
use orrery_host::home::{Home, replace_file};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_util::io::ReaderStream;
use tokio_util::task::AbortOnDropHandle;

use crate::report::Failure;

/// How long a Host on this machine may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one event of a stream.
const EVENT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// An answer that is on its way; its connection goes with it.
struct Exchange {
    response: Response<Incoming>,
    _connection: AbortOnDropHandle<()>,
}

impl Exchange {
    async fn answer(self) -> Result<Bytes, Failure> {
        let body = Limited::new(self.response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await;
        Ok(body
            .map_err(|e| Failure::Strange(e.to_string()))?
            .to_bytes())
    }

    /// Why it was refused.
    async fn refused(self) -> Failure {
        let status = self.response.status();
        match self.answer().await {
            Ok(answer) => refusal(status, &answer),
            Err(failure) => failure,
        }
    }
}

fn refusal(status: StatusCode, answer: &[u8]) -> Failure {
    match serde_json::from_slice::<ErrorBody>(answer) {
        Ok(body) => body.error.into(),
        Err(_) => Failure::Strange(format!("HTTP {status}")),
    }
}

/// A stream of Server-Sent Events, as the Host writes them: each has one line of data.
pub(crate) struct Events {
    exchange: Exchange,
    rest: Vec<u8>,
}

impl Events {
    /// The data of the next event; `None` once the Host has ended the stream, or it broke off.
    ///
    /// # Errors
    /// What the Host says is wrong, and a line that is too long to be one.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Failure> {
        let mut failed = false;
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end();
                failed |= line == "event: error";
                let Some(data) = line.strip_prefix("data:") else {
                    continue;
                };
                let data = data.trim_start();
                if !failed {
                    return Ok(Some(data.to_owned()));
                }
                return Err(match serde_json::from_str::<ApiError>(data) {
                    Ok(error) => error.into(),
                    Err(error) => Failure::Strange(error.to_string()),
                });
            }
            if self.rest.len() > EVENT_BYTES_MAX {
                return Err(Failure::Strange("an event without an end".to_owned()));
            }
            match self.exchange.response.body_mut().frame().await {
                Some(Ok(frame)) => self.rest.extend(frame.data_ref().into_iter().flatten()),
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

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
        Err(refusal(status, &answer))
    }

    /// Fetches a file, handing each piece on as it comes.
    pub(crate) async fn download(
        &self,
        home: &Home,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let token = home.token()?;
        let request = self.request(Method::GET, path, Some(&token), "application/json");
        let mut exchange = self.send(request, Full::new(Bytes::new())).await?;
        if !exchange.response.status().is_success() {
            return Err(exchange.refused().await);
        }
        while let Some(frame) = exchange.response.body_mut().frame().await {
            let frame = frame.map_err(|_broken| {
                Failure::Strange("the file broke off; the Host's log says why".to_owned())
            })?;
            if let Some(piece) = frame.data_ref() {
                take(piece)?;
            }
        }
        Ok(())
    }

    /// Opens a stream of Server-Sent Events.
    pub(crate) async fn events(&self, home: &Home, path: &str) -> Result<Events, Failure> {
        let token = home.token()?;
        let request = self.request(Method::GET, path, Some(&token), "application/json");
        let exchange = self.send(request, Full::new(Bytes::new())).await?;
        if !exchange.response.status().is_success() {
            return Err(exchange.refused().await);
        }
        Ok(Events {
            exchange,
            rest: Vec::new(),
        })
    }

    /// Sends a file, and reads the answer.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        home: &Home,
        path: &str,
        media_type: &str,
        file: tokio::fs::File,
    ) -> Result<T, Failure> {
        let token = home.token()?;
        let request = self.request(Method::POST, path, Some(&token), media_type);
        let pieces = ReaderStream::new(file).map_ok(Frame::data);
        let exchange = self.send(request, StreamBody::new(pieces)).await?;
        if !exchange.response.status().is_success() {
            return Err(exchange.refused().await);
        }
        let answer = exchange.answer().await?;
        serde_json::from_slice(&answer).map_err(|e| Failure::Strange(e.to_string()))
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let request = self.request(method, path, token, "application/json");
        let exchange = async {
            let exchange = self.send(request, Full::new(body)).await?;
            Ok((exchange.response.status(), exchange.answer().await?))
        };
        match tokio::time::timeout(DEADLINE, exchange).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Strange("it took too long".to_owned())),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        media_type: &str,
    ) -> request::Builder {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.authority())
            .header(CONTENT_TYPE, media_type);
        match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    fn authority(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    async fn send<B>(&self, request: request::Builder, body: B) -> Result<Exchange, Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let strange = |why: String| Failure::Strange(why);
        let request = request.body(body).map_err(|e| strange(e.to_string()))?;
        let stream = TcpStream::connect(self.authority())
            .await
            .map_err(|_nobody_there| Failure::NotRunning)?;
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|e| strange(e.to_string()))?;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
        let connection = AbortOnDropHandle::new(connection);
        let response = sender.send_request(request).await;
        let response = response.map_err(|e| strange(e.to_string()))?;
        Ok(Exchange {
            response,
            _connection: connection,
        })
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
