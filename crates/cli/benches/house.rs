//! What the house costs: starting, idling, its size, and how fast a token passes through it.
//!
//! Drives the release binary as a process, with a scripted model server and a WebSocket client in
//! this one, so that a token's way is measured between two points of one clock. Prints one JSON
//! object; `cargo xtask bench` makes a table of it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use orrery_testkit::{Gate, ModelServer, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// The program that is measured.
const BINARY: &str = env!("CARGO_BIN_EXE_orrery");
/// Starts, after one that warms the page cache.
const STARTS: usize = 21;
/// Turns that are measured.
const TURNS: usize = 100;
/// Pieces of an answer that arrive at once, in the turns that measure a burst.
const BURST: usize = 20;
/// How long a stream is held still before it goes on: longer than the 40 ms for which a kernel
/// may keep back the acknowledgement that the scripted server's next small write waits for.
const STILL: Duration = Duration::from_millis(60);
/// How long an idle Host is left alone before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

type Socket = tokio_tungstenite::WebSocketStream<TcpStream>;

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` asks every bench to be quick; there is nothing quick to say here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let figures = runtime.block_on(measure())?;
    writeln!(std::io::stdout(), "{figures}")?;
    Ok(())
}

async fn measure() -> anyhow::Result<Value> {
    let scratch = tempfile::tempdir()?;
    let mut starts = Vec::new();
    for _ in 0..=STARTS {
        let (host, took) = Host::start(&scratch.path().join("start"))?;
        host.end()?;
        starts.push(took);
    }
    starts.remove(0);
    let (idle, _) = Host::start(&scratch.path().join("start"))?;
    idle.get("/healthz").await?;
    tokio::time::sleep(SETTLE).await;
    let resident = resident_bytes(&idle.child)?;
    idle.end()?;
    let measured = turns(&scratch.path().join("turns")).await?;
    Ok(json!({
        "binaryBytes": std::fs::metadata(BINARY)?.len(),
        "residentBytes": resident,
        "startMs": spread(starts),
        "acceptedMs": spread(measured.accepted),
        "tokenMs": spread(measured.token),
        "burstMs": spread(measured.burst),
    }))
}

/// Median and 95th percentile, in milliseconds.
fn spread(mut times: Vec<Duration>) -> Value {
    times.sort();
    let at = |share: usize| {
        let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times.get(index).map(|time| time.as_secs_f64() * 1000.0)
    };
    json!({ "median": at(50), "p95": at(95), "runs": times.len() })
}

/// A Host as a process.
struct Host {
    child: Child,
    address: String,
    token: String,
}

impl Host {
    /// Starts one and says how long it took until it accepted requests.
    fn start(home: &Path) -> anyhow::Result<(Self, Duration)> {
        let started = Instant::now();
        let mut child = Command::new(BINARY)
            .args(["serve", "--port", "0", "--home"])
            .arg(home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let took = started.elapsed();
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.context("it did not say where it listens")?;
        let token = std::fs::read_to_string(home.join("state/token"))?;
        let host = Self {
            child,
            address: address.to_owned(),
            token: token.trim().to_owned(),
        };
        Ok((host, took))
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        self.ask(&format!("GET {path}"), "").await
    }

    async fn call(&self, operation: &str, request: &Value) -> anyhow::Result<Value> {
        let answer = self
            .ask(&format!("POST /api/{operation}"), &request.to_string())
            .await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        if !head.starts_with("HTTP/1.1 200") {
            bail!("{operation}: {answer}");
        }
        Ok(serde_json::from_str(body)?)
    }

    async fn ask(&self, what: &str, body: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!(
            "{what} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn socket(&self) -> anyhow::Result<Socket> {
        let mut request = format!("ws://{}/api/streams", self.address).into_client_request()?;
        let credential = format!("Bearer {}", self.token).parse()?;
        request.headers_mut().insert("authorization", credential);
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(socket)
    }

    fn end(mut self) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the Host ended with {status}");
        Ok(())
    }
}

/// What turns took.
#[derive(Debug, Default)]
struct Measured {
    /// From a prompt to its acceptance.
    accepted: Vec<Duration>,
    /// From the model server to the socket, for one token.
    token: Vec<Duration>,
    /// The same for the last of several tokens that arrive at once.
    burst: Vec<Duration>,
}

async fn turns(home: &Path) -> anyhow::Result<Measured> {
    let server = ModelServer::start().await?;
    std::fs::create_dir_all(home)?;
    let url = server.base_url();
    let config = format!(
        "[providers.bench]\nkind = \"openai-chat\"\nbase_url = \"{url}\"\nmodels = [\"test\"]\n"
    );
    std::fs::write(home.join("config.toml"), config)?;
    let (host, _) = Host::start(home)?;
    let project = home.join("project");
    std::fs::create_dir_all(&project)?;
    let made = host
        .call("session/create", &json!({"cwd": project}))
        .await?;
    let session = made["sessionId"].clone();
    let mut socket = host.socket().await?;
    for (stream, endpoint, request) in [
        ("h", "host/hello", json!({})),
        (
            "f",
            "session/follow",
            json!({"address": {"kind": "session", "sessionId": session}}),
        ),
    ] {
        let open = json!({
            "type": "open", "streamId": stream, "endpoint": endpoint, "request": request,
        });
        socket.send(Message::text(open.to_string())).await?;
    }
    let mut measured = Measured::default();
    for turn in 0..2 * TURNS {
        let burst = turn % 2 == 1;
        let gate = Gate::new();
        let reply = Reply::new().text("before").gate(&gate);
        server.push(match burst {
            true => reply.raw(pieces(BURST)),
            false => reply.raw(pieces(1)),
        });
        let prompt = json!({
            "requestId": format!("r{turn}"),
            "sessionId": session,
            "mode": "queue",
            "content": [{"type": "text", "text": "go on"}],
        });
        let asked = Instant::now();
        host.call("session/prompt", &prompt).await?;
        measured.accepted.push(asked.elapsed());
        until(&mut socket, "\"before\"").await?;
        tokio::time::sleep(STILL).await;
        let sent = Instant::now();
        gate.open();
        until(&mut socket, "\"the-last\"").await?;
        match burst {
            true => measured.burst.push(sent.elapsed()),
            false => measured.token.push(sent.elapsed()),
        }
        until(&mut socket, "\"turn/end\"").await?;
    }
    host.end()?;
    Ok(measured)
}

/// Pieces of an answer in one write, with the answer's end.
fn pieces(count: usize) -> String {
    let piece = |text: &str, reason: Value| {
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "bench", "choices": [choice]}))
    };
    let mut text = String::new();
    for _ in 1..count {
        text.push_str(&piece("more ", Value::Null));
    }
    text.push_str(&piece("the-last", Value::Null));
    text.push_str(&piece("", "stop".into()));
    text.push_str("data: [DONE]\n\n");
    text
}

/// Reads frames until one holds `text`.
async fn until(socket: &mut Socket, text: &str) -> anyhow::Result<()> {
    let read = async {
        while let Some(frame) = socket.next().await {
            if let Message::Text(frame) = frame?
                && frame.contains(text)
            {
                return Ok(());
            }
        }
        bail!("the socket ended before {text}")
    };
    tokio::time::timeout(PATIENCE, read).await?
}

fn resident_bytes(child: &Child) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))
        .context("resident memory is read from /proc, which only Linux has")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.context("no VmRSS")?.trim().parse()?;
    Ok(kilobytes * 1024)
}
