//! The four streams as one type: what the socket and Server-Sent Events pull from.

use std::collections::HashMap;
use std::sync::Arc;

use orrery_api::content::Empty;
use orrery_api::error::ApiError;
use orrery_api::hello::{Emit, HelloItem, Protocol, Ready};
use orrery_session::{Json, SessionId};
use orrery_subagent::delegation::Lifecycle;
use serde::Serialize;
use tokio::sync::{broadcast, watch};

use super::Gateway;
use super::unary::parse;
use crate::controller::{CatalogFeed, ControlFeed, FollowFeed, FollowPiece};

/// One item, serialised, with the seq that a client may continue after.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) json: String,
    pub(super) seq: Option<i64>,
}

/// A stream that somebody pulls.
pub(super) enum Feed {
    Hello(HelloFeed),
    Follow(Box<FollowFeed>),
    Control(ControlFeed),
    Catalog(CatalogFeed),
}

impl Feed {
    /// Opens the stream of an endpoint.
    pub(super) async fn open(
        gateway: &Arc<Gateway>,
        endpoint: &str,
        request: &[u8],
    ) -> Result<Self, ApiError> {
        let c = &gateway.controller;
        Ok(match endpoint {
            "host/hello" => {
                parse::<Empty>(request)?;
                Self::Hello(HelloFeed::new(gateway))
            }
            "session/follow" => Self::Follow(Box::new(c.follow(parse(request)?).await?)),
            "session/control" => {
                parse::<Empty>(request)?;
                Self::Control(c.control())
            }
            "session/catalog" => Self::Catalog(c.catalog(parse(request)?)),
            other => return Err(ApiError::unknown_method(other)),
        })
    }

    /// The next item; waits for one.
    pub(super) async fn next(&mut self) -> Result<Piece, ApiError> {
        match self {
            Self::Hello(feed) => feed.next().await.and_then(|item| serialised(&item)),
            Self::Follow(feed) => {
                let FollowPiece { json, seq } = feed.next().await?;
                Ok(Piece {
                    json,
                    seq: Some(seq),
                })
            }
            Self::Control(feed) => feed.next().await.and_then(|item| serialised(&item)),
            Self::Catalog(feed) => feed.next().await.and_then(|item| serialised(&item)),
        }
    }
}

fn serialised<T: Serialize>(item: &T) -> Result<Piece, ApiError> {
    match serde_json::to_string(item) {
        Ok(json) => Ok(Piece { json, seq: None }),
        Err(error) => {
            tracing::error!(%error, "a stream item could not be serialised");
            Err(ApiError::internal())
        }
    }
}

/// Who the Host is, then one-way news.
pub(super) struct HelloFeed {
    gateway: Arc<Gateway>,
    changes: watch::Receiver<u64>,
    opened: bool,
    faults: HashMap<SessionId, u64>,
    subagents: broadcast::Receiver<Lifecycle>,
    waiting: Vec<HelloItem>,
}

impl HelloFeed {
    fn new(gateway: &Arc<Gateway>) -> Self {
        let changes = gateway.controller.changes();
        let faults = gateway
            .controller
            .faults()
            .into_iter()
            .map(|(id, (count, _))| (id, count))
            .collect();
        Self {
            gateway: Arc::clone(gateway),
            changes,
            opened: false,
            faults,
            subagents: gateway.controller.lifecycle(),
            waiting: Vec::new(),
        }
    }

    async fn next(&mut self) -> Result<HelloItem, ApiError> {
        if !self.opened {
            self.opened = true;
            return Ok(HelloItem::Ready(Ready {
                client_id: self.gateway.controller.fresh_id(),
                protocol: Protocol {
                    name: orrery_api::PROTOCOL_NAME.to_owned(),
                    major: orrery_api::PROTOCOL_MAJOR,
                    minor: orrery_api::PROTOCOL_MINOR,
                },
                capabilities: vec![orrery_api::CAPABILITY_FOLLOW_AFTER_SEQ.to_owned()],
                host_id: self.gateway.controller.host_id(),
                generation: self.gateway.generation.clone(),
                home: self.gateway.user_home.clone(),
            }));
        }
        loop {
            if let Some(item) = self.waiting.pop() {
                return Ok(item);
            }
            let changed = tokio::select! {
                changed = self.changes.changed() => changed.is_ok(),
                news = self.subagents.recv() => match news {
                    Ok(news) => return subagent_news(news),
                    // News is not repeated for those who were away.
                    Err(broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(broadcast::error::RecvError::Closed) => false,
                },
            };
            if !changed {
                return Err(ApiError::cancelled());
            }
            for (id, (count, message)) in self.gateway.controller.faults() {
                if self.faults.insert(id.clone(), count) != Some(count) {
                    self.waiting.push(session_error(&id, &message)?);
                }
            }
        }
    }
}

fn subagent_news(news: Lifecycle) -> Result<HelloItem, ApiError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Args {
        run_id: String,
        provider: String,
        session_id: SessionId,
        parent_session_id: SessionId,
        local: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        last_assistant_message: Option<String>,
    }
    let (event, stay, stop_reason, last_assistant_message) = match news {
        Lifecycle::Start(stay) => ("subagent/start", stay, None, None),
        Lifecycle::End { stay, reason, last } => {
            ("subagent/end", stay, Some(reason.as_str()), last)
        }
    };
    let args = Json::from_value(&Args {
        run_id: stay.run_id,
        provider: stay.provider,
        session_id: stay.child,
        parent_session_id: stay.parent,
        local: stay.local,
        stop_reason,
        last_assistant_message,
    });
    let args = args.map_err(|_never| ApiError::internal())?;
    let event = event.to_owned();
    Ok(HelloItem::Emit(Emit { event, args }))
}

fn session_error(id: &SessionId, message: &str) -> Result<HelloItem, ApiError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Args<'a> {
        session_id: &'a SessionId,
        message: &'a str,
    }
    let args = Json::from_value(&Args {
        session_id: id,
        message,
    });
    let args = args.map_err(|_never| ApiError::internal())?;
    Ok(HelloItem::Emit(Emit {
        event: "session/error".to_owned(),
        args,
    }))
}
