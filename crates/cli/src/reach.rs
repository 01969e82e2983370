//! The Host that a command changes things through: the one that runs here, or one of its own.
//!
//! A session has one writer, so a command never changes what a running Host has. Where none runs,
//! one is started in this process, on a port of its own that nobody is told.

use std::net::{Ipv4Addr, SocketAddr};

use orrery_api::operations::Procedure;
use orrery_host::home::Home;
use orrery_host::{Host, HostError};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::context::{self, Context};
use crate::report::Failure;
use crate::running::Running;

/// A way to a Host.
#[derive(Debug)]
pub(crate) struct Reach {
    home: Home,
    running: Running,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    host: Host,
    closing: CancellationToken,
    serving: JoinHandle<Result<(), HostError>>,
}

impl Reach {
    /// Finds the Host that runs here, or starts one.
    pub(crate) async fn open(context: Context) -> Result<Self, Failure> {
        context.prepare()?;
        let home = context.home.clone();
        if let Some(running) = Running::find(&home).await {
            return Ok(Self {
                home,
                running,
                own: None,
            });
        }
        let host = context::host(context.home, context.config, None)?;
        let listening = host
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let running = Running {
            pid: std::process::id(),
            url: listening.url(),
        };
        let closing = CancellationToken::new();
        let serving = tokio::spawn(listening.serve(closing.clone()));
        Ok(Self {
            home,
            running,
            own: Some(Own {
                host,
                closing,
                serving,
            }),
        })
    }

    /// Calls an operation.
    pub(crate) async fn call<P: Procedure>(
        &self,
        request: &P::Request,
    ) -> Result<P::Response, Failure> {
        let called = self.running.call::<P>(&self.home, request).await;
        // Another Host may have taken the place of the one that was found first.
        match (called, &self.own) {
            (Err(Failure::NotRunning), None) => {
                let running = Running::find(&self.home).await;
                let running = running.ok_or(Failure::NotRunning)?;
                running.call::<P>(&self.home, request).await
            }
            (called, _) => called,
        }
    }

    /// The Host's address, and whose it is.
    pub(crate) fn way(&self) -> (Home, Running) {
        (self.home.clone(), self.running.clone())
    }

    /// Fetches a file, handing each piece on as it comes.
    pub(crate) async fn download(
        &self,
        path: &str,
        take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.running.download(&self.home, path, take).await
    }

    /// Sends a file, and reads the answer.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        media_type: &str,
        file: tokio::fs::File,
    ) -> Result<T, Failure> {
        let running = &self.running;
        running.upload(&self.home, path, media_type, file).await
    }

    /// Ends a Host of its own, once all it has is on disk.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        let Some(own) = self.own else { return Ok(()) };
        own.closing.cancel();
        match own.serving.await {
            Ok(served) => served?,
            Err(error) => return Err(Failure::Strange(error.to_string())),
        }
        match own.host.shutdown().await.as_slice() {
            [] => Ok(()),
            unsaved => Err(Failure::Unsaved(unsaved.join("; "))),
        }
    }
}
