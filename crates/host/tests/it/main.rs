//! The Host over its real wire: HTTP, the socket, Server-Sent Events.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lint configuration does not see as such"
)]

mod answers;
mod carry;
mod checkpoints;
mod client;
mod crash;
mod delegation;
mod documents;
mod gateway;
mod kills;
mod logs;
mod models;
mod process_children;
mod processes;
mod put_away;
mod residency;
mod samples;
mod search;
mod sessions;
mod structured;
mod subagents;

use std::path::Path;

use orrery_host::config::Config;
use orrery_host::home::Home;
use orrery_host::{Host, HostOptions};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use client::Client;

/// A Host of its own on a free port.
pub(crate) struct TestHost {
    pub(crate) client: Client,
    pub(crate) launch_url: String,
    closing: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl TestHost {
    /// Starts on a home folder with a configuration text.
    pub(crate) async fn start(folder: &Path, config: &str) -> Self {
        let home = Home::at(folder);
        let config = Config::parse(&folder.join("config.toml"), config).unwrap();
        let options = HostOptions {
            home: home.clone(),
            config,
            default_cwd: folder.to_path_buf(),
            model: None,
        };
        let host = Host::start(options).unwrap();
        let listening = host.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let client = Client::new(listening.url(), home.token().unwrap());
        let launch_url = listening.launch_url().unwrap();
        let closing = CancellationToken::new();
        let token = closing.clone();
        let serving = tokio::spawn(async move {
            listening.serve(token).await.unwrap();
            assert_eq!(host.shutdown().await, Vec::<String>::new());
        });
        Self {
            client,
            launch_url,
            closing,
            serving,
        }
    }

    /// Stops as SIGTERM does: drains, flushes, lets go.
    pub(crate) async fn stop(self) {
        self.closing.cancel();
        self.serving.await.unwrap();
    }
}

/// A new session in a folder of its own below the home.
pub(crate) async fn session(host: &TestHost, folder: &Path) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let made = host
        .client
        .ok("session/create", serde_json::json!({"cwd": folder}))
        .await;
    made["sessionId"].as_str().unwrap().to_owned()
}

/// The types of the events of a snapshot or of followed items.
pub(crate) fn types(records: &[Value]) -> Vec<String> {
    records
        .iter()
        .map(|r| r["event"]["type"].as_str().unwrap_or_default().to_owned())
        .collect()
}
