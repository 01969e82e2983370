//! JSON-RPC 2.0 in lines, as the Agent Client Protocol and Codex speak it.
//!
//! One request of ours is open at a time. What comes meanwhile, notifications and questions, is
//! handed to the protocol at once, in order. Types of our own and not the official crate of the Agent
//! Client Protocol: Codex leaves out the version mark, lines must be bounded, and that crate brings
//! a runtime and a process handling of its own.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::failure::Failure;
use super::frames::Lines;

/// There is no such method.
pub(super) const METHOD_NOT_FOUND: i64 = -32_601;
/// Characters of an error's text that is shown.
const MESSAGE_MAX: usize = 1_000;

/// How one protocol writes its frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    pub(super) name: &'static str,
    /// Whether each frame says `"jsonrpc": "2.0"`.
    pub(super) marked: bool,
}

/// What a protocol does with what comes by itself.
pub(super) trait Incoming {
    /// A notification.
    async fn told(&mut self, method: &str, params: &RawValue) -> Result<(), Failure>;

    /// A question. `None`: there is no such method.
    async fn asked(
        &mut self,
        method: &str,
        params: &RawValue,
    ) -> Result<Option<serde_json::Value>, Failure>;
}

pub(super) struct Peer<'a> {
    pub(super) lines: &'a mut Lines,
    dialect: Dialect,
    last_id: u64,
}

#[derive(Serialize)]
struct Request<'a, P> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a P>,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RemoteError>,
}

#[derive(Deserialize)]
pub(super) struct RemoteError {
    code: i64,
    #[serde(default)]
    message: String,
}

pub(super) type Outcome = Result<Box<RawValue>, RemoteError>;

impl<'a> Peer<'a> {
    pub(super) const fn new(lines: &'a mut Lines, dialect: Dialect) -> Self {
        Self {
            lines,
            dialect,
            last_id: 0,
        }
    }

    fn mark(&self) -> Option<&'static str> {
        self.dialect.marked.then_some("2.0")
    }

    fn broken(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Protocol {
            protocol: self.dialect.name,
            why: why.to_string(),
        }
    }

    /// Tells something that wants no answer.
    pub(super) async fn tell<P: Serialize>(
        &mut self,
        method: &str,
        params: Option<&P>,
    ) -> Result<(), Failure> {
        let frame = Request {
            jsonrpc: self.mark(),
            id: None,
            method,
            params,
        };
        self.lines.send(&frame).await
    }

    /// Says what is told when the run is stopped from here: a notification, or a request whose
    /// answer nobody waits for.
    pub(super) fn say_on_stop<P: Serialize>(&mut self, method: &str, params: &P, request: bool) {
        let id = request.then_some(self.last_id + 1);
        let frame = Request {
            jsonrpc: self.mark(),
            id,
            method,
            params: Some(params),
        };
        self.lines.say_on_stop(&frame);
    }

    /// Asks, and handles what comes until the answer is there.
    pub(super) async fn call<P: Serialize, R: serde::de::DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &P,
        incoming: &mut impl Incoming,
    ) -> Result<R, Failure> {
        self.last_id += 1;
        let id = self.last_id;
        let frame = Request {
            jsonrpc: self.mark(),
            id: Some(id),
            method,
            params: Some(params),
        };
        self.lines.send(&frame).await?;
        loop {
            match self.hear(incoming).await? {
                None => {}
                Some((answered, outcome)) if answered == id => {
                    let result = outcome.map_err(|error| Failure::Answered {
                        method,
                        code: error.code,
                        message: error.message.chars().take(MESSAGE_MAX).collect(),
                    })?;
                    return serde_json::from_str(result.get())
                        .map_err(|error| self.broken(format!("its answer to {method}: {error}")));
                }
                Some((other, _)) => {
                    let why = format!("it answered a request {other} that nobody made");
                    return Err(self.broken(why));
                }
            }
        }
    }

    /// Takes one frame; gives the answer to a request of ours, if it is one.
    pub(super) async fn hear(
        &mut self,
        incoming: &mut impl Incoming,
    ) -> Result<Option<(u64, Outcome)>, Failure> {
        let (dialect, mark) = (self.dialect, self.mark());
        let broken = |why: String| Failure::Protocol {
            protocol: dialect.name,
            why,
        };
        let Some(line) = self.lines.next().await? else {
            return Err(Failure::Ended { how: String::new() });
        };
        // Its text is not shown: it may hold anything.
        let frame: Frame<'_> = serde_json::from_slice(line)
            .map_err(|error| broken(format!("a line of its output is no message ({error})")))?;
        let nothing = RawValue::NULL;
        let params = frame.params.unwrap_or(nothing);
        match (frame.id, frame.method) {
            (None, Some(method)) => {
                incoming.told(&method, params).await?;
                Ok(None)
            }
            (Some(id), Some(method)) => {
                if !matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')) {
                    return Err(broken(
                        "it asked under an id that is no text and no number".into(),
                    ));
                }
                let result = incoming.asked(&method, params).await?;
                let error = result.is_none().then(
                    || serde_json::json!({"code": METHOD_NOT_FOUND, "message": "Method not found"}),
                );
                let answer = Answer {
                    jsonrpc: mark,
                    id: &id.to_owned(),
                    result,
                    error,
                };
                self.lines.send(&answer).await?;
                Ok(None)
            }
            (Some(id), None) => {
                let id = id.get().parse::<u64>();
                let id = id.map_err(|_not_ours| {
                    broken("it answered under an id that is none of ours".to_owned())
                })?;
                let outcome = match (frame.result, frame.error) {
                    (_, Some(error)) => Err(error),
                    (result, None) => Ok(result.unwrap_or(nothing).to_owned()),
                };
                Ok(Some((id, outcome)))
            }
            (None, None) => Err(broken("a message has neither id nor method".to_owned())),
        }
    }
}

/// Reads the parameters of a message.
pub(super) fn read<'a, T: Deserialize<'a>>(
    dialect: Dialect,
    method: &str,
    params: &'a RawValue,
) -> Result<T, Failure> {
    serde_json::from_str(params.get()).map_err(|error| Failure::Protocol {
        protocol: dialect.name,
        why: format!("{method}: {error}"),
    })
}
