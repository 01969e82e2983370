//! A small client of the wire.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Longer than anything here takes: a hang fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) base: String,
    pub(crate) token: String,
    pub(crate) http: reqwest::Client,
}

impl Client {
    pub(crate) fn new(base: String, token: String) -> Self {
        // Installed once for the process; a second try is told so and changes nothing.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { base, token, http }
    }

    pub(crate) async fn call(&self, endpoint: &str, body: Value) -> (u16, Value) {
        let request = self.http.post(format!("{}/api/{endpoint}", self.base));
        let response = request
            .bearer_auth(&self.token)
            .json(&body)
            .send()
            .await
            .unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    pub(crate) async fn ok(&self, endpoint: &str, body: Value) -> Value {
        let (status, value) = self.call(endpoint, body).await;
        assert_eq!(status, 200, "{endpoint}: {value}");
        value
    }

    pub(crate) async fn code(&self, endpoint: &str, body: Value) -> (u16, String) {
        let (status, value) = self.call(endpoint, body).await;
        (
            status,
            value["error"]["code"].as_str().unwrap_or("none").to_owned(),
        )
    }

    pub(crate) async fn prompt(&self, session: &str, request: &str, text: &str) -> Value {
        let content = json!([{"type": "text", "text": text}]);
        let body = json!({
            "requestId": request, "sessionId": session, "mode": "queue", "content": content
        });
        self.ok("session/prompt", body).await
    }

    pub(crate) async fn socket(&self) -> Socket {
        let mut socket = self.bare_socket().await;
        socket.open("hello", "host/hello", json!({})).await;
        assert_eq!(socket.item("hello").await["type"], "ready");
        socket
    }

    pub(crate) async fn bare_socket(&self) -> Socket {
        let url = format!("{}/api/streams", self.base.replace("http://", "ws://"));
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {}", self.token);
        request
            .headers_mut()
            .insert("authorization", bearer.parse().unwrap());
        let (stream, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        Socket {
            stream,
            waiting: Vec::new(),
        }
    }
}

pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    waiting: Vec<Value>,
}

impl Socket {
    pub(crate) async fn send(&mut self, frame: Value) {
        self.stream
            .send(Message::text(frame.to_string()))
            .await
            .unwrap();
    }

    pub(crate) async fn open(&mut self, id: &str, endpoint: &str, request: Value) {
        let frame =
            json!({"type": "open", "streamId": id, "endpoint": endpoint, "request": request});
        self.send(frame).await;
    }

    /// The next frame of a stream; other streams' frames wait.
    pub(crate) async fn frame(&mut self, id: &str) -> Value {
        if let Some(at) = self.waiting.iter().position(|f| f["streamId"] == id) {
            return self.waiting.remove(at);
        }
        loop {
            let frame = self
                .any()
                .await
                .unwrap_or_else(|| panic!("the socket ended"));
            if frame["streamId"] == id {
                return frame;
            }
            self.waiting.push(frame);
        }
    }

    async fn any(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.stream.next())
                .await
                .unwrap();
            match message? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The code that the socket is closed with.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        loop {
            match tokio::time::timeout(PATIENCE, self.stream.next())
                .await
                .unwrap()?
            {
                Ok(Message::Close(frame)) => return frame.map(|f| f.code.into()),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    pub(crate) async fn send_binary(&mut self) {
        self.stream.send(Message::binary(vec![1u8])).await.unwrap();
    }

    pub(crate) async fn item(&mut self, id: &str) -> Value {
        let frame = self.frame(id).await;
        assert_eq!(frame["type"], "item", "{frame}");
        frame["value"].clone()
    }

    /// Items of a stream up to and including the first that satisfies.
    pub(crate) async fn until(&mut self, id: &str, done: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut items = Vec::new();
        loop {
            let item = self.item(id).await;
            let last = done(&item);
            items.push(item);
            if last {
                return items;
            }
        }
    }

    pub(crate) async fn follow(&mut self, id: &str, session: &str) -> Value {
        let address = json!({"kind": "session", "sessionId": session});
        self.open(id, "session/follow", json!({"address": address}))
            .await;
        self.item(id).await
    }

    /// Followed events up to the end of a turn.
    pub(crate) async fn turn(&mut self, id: &str) -> Vec<Value> {
        self.until(id, |item| item["event"]["type"] == "turn/end")
            .await
    }
}
