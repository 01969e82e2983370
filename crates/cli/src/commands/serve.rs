//! `orrery serve` and `orrery web`: the Host on a socket, until a signal ends it.

use std::net::SocketAddr;
use std::path::PathBuf;

use orrery_api::content::Empty;
use orrery_api::operations::HostStats;
use orrery_host::home::Home;
use orrery_host::{Host, HostOptions};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::open;
use crate::args::{self, Listen};
use crate::context::Context;
use crate::output;
use crate::progress::Progress;
use crate::report::{Exit, Failure};
use crate::running::Running;

/// What is special about this start.
#[derive(Debug, Clone, Copy)]
struct Manner {
    json: bool,
    browse: bool,
}

pub(super) async fn serve(context: Context, serve: &args::Serve) -> Result<(), Failure> {
    let manner = Manner {
        json: serve.json,
        browse: false,
    };
    host(context, &serve.listen, manner).await
}

/// Opens the page of the Host that runs here already, or starts one.
pub(super) async fn web(context: Context, web: &args::Web) -> Result<(), Failure> {
    if let Some(running) = Running::find(&context.home).await {
        output::say(&format!("a Host is running already at {}", running.url));
        let open = args::Open {
            no_open: web.no_open,
            json: false,
        };
        return open::open(&context.home, &open).await;
    }
    let manner = Manner {
        json: false,
        browse: !web.no_open,
    };
    host(context, &web.listen, manner).await
}

async fn host(mut context: Context, listen: &Listen, manner: Manner) -> Result<(), Failure> {
    context.prepare()?;
    let server = &mut context.config.server;
    server.host = listen.host.unwrap_or(server.host);
    server.port = listen.port.unwrap_or(server.port);
    let address = SocketAddr::new(server.host, server.port);
    if !address.ip().is_loopback() {
        output::say(&format!(
            "{} is not a loopback address: whoever reaches it can talk to this Host",
            address.ip()
        ));
    }
    // Before anything is started, so that no signal finds nobody listening.
    let closing = closing_by_signal()?;
    let home = context.home.clone();
    let other = other_host(&home).await;
    let host = Host::start(HostOptions {
        home: context.home,
        config: context.config,
        default_cwd: default_cwd(),
        model: None,
    })?;
    let listening = match host.listen(address).await {
        Ok(listening) => listening,
        Err(error) => {
            host.shutdown().await;
            return Err(error.into());
        }
    };
    let url = listening.url();
    let running = match other {
        // The record names one Host: overwriting it here, and removing it with this one's end,
        // would hide the Host that was there before.
        Some(other) => {
            output::say(&format!(
                "another Host runs here at {}; `orrery open` goes there",
                other.url
            ));
            None
        }
        None => Some(Running::announce(&home, &url)?),
    };
    let link = listening.launch_url()?;
    let serving = tokio::spawn(listening.serve(closing.clone()));
    let told = tell(&url, &link, manner);
    let telling = tokio::spawn(tell_of_filling(host.controller().unsearchable()));
    if told.is_err() {
        closing.cancel();
    }
    let served = serving.await;
    telling.abort();
    if let Some(running) = running {
        running.withdraw(&home);
    }
    let unsaved = host.shutdown().await;
    told?;
    match served {
        Ok(served) => served?,
        Err(error) => return Err(Failure::Strange(error.to_string())),
    }
    if !unsaved.is_empty() {
        return Err(Failure::Unsaved(unsaved.join("; ")));
    }
    Ok(())
}

/// The Host that runs on this home already. It has to know the token: after a crash something else
/// may answer at the address that was written down.
async fn other_host(home: &Home) -> Option<Running> {
    let running = Running::find(home).await?;
    let asked = running.call::<HostStats>(home, &Empty {}).await;
    asked.is_ok().then_some(running)
}

/// Shows on the terminal how far the search index is, while it is being filled.
async fn tell_of_filling(mut unsearchable: watch::Receiver<usize>) {
    while unsearchable.wait_for(|left| *left > 0).await.is_ok() {
        let mut bar = Progress::new("sessions are searchable");
        loop {
            let left = *unsearchable.borrow_and_update();
            if left == 0 {
                break;
            }
            bar.show(left);
            if unsearchable.changed().await.is_err() {
                break;
            }
        }
        bar.done();
    }
}

fn tell(url: &str, link: &str, manner: Manner) -> Result<(), Failure> {
    if manner.json {
        output::json(&json!({ "type": "listening", "url": url }))?;
    } else {
        output::line(&format!("listening on {url}"))?;
    }
    output::say(&format!("open {link}"));
    if manner.browse {
        open::browse(link);
    }
    Ok(())
}

/// The folder of sessions that name none: the person's own.
fn default_cwd() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    home.filter(|home| home.is_absolute())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// Fires with the first SIGINT or SIGTERM; a second one ends the process where it stands.
fn closing_by_signal() -> Result<CancellationToken, Failure> {
    let listen = |kind| signal(kind).map_err(Failure::io("listen to signals"));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let closing = CancellationToken::new();
    let fired = closing.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        output::say("saving and closing; interrupt again to stop at once");
        fired.cancel();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(closing)
}
