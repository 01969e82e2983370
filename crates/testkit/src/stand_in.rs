//! Stand-ins for programs that are subagents: strict about their protocol, and misbehaving on order.
//!
//! `STAND-IN acp|codex|-p … --steps STEP…`. The steps are done in order once the prompt is there; what is
//! said before it by protocol (`initialize` and the like) is done by itself. A client that breaks
//! the protocol is told so on standard error, and ends the program with 9.
//!
//! | step | what it does |
//! |---|---|
//! | `say:TEXT`, `think:TEXT`, `tool:TEXT` | as the protocol says it |
//! | `prompt`, `cwd` | says what it was asked, and where it works |
//! | `ask` | asks for leave, and says what the answer was |
//! | `garbage`, `huge` | writes a line that is no JSON, or 9 MiB long |
//! | `crash` | ends with 3 |
//! | `silent` | waits until it is stopped |
//! | `stop:REASON` | ends the turn for that reason; otherwise it completes |
//! | `ignore-eof`, `ignore-term`, `child` | (first) does not end with its input, at SIGTERM; leaves a process behind that ignores SIGTERM |
//! | `pids:FILE`, `env:FILE`, `heard:FILE` | (first) writes its ids, its environment, what it is sent |

mod acp;
mod claude;
mod codex;

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// Runs a stand-in with the arguments behind the program's name.
pub fn run(args: impl IntoIterator<Item = String>) -> std::process::ExitCode {
    match play(args.into_iter().collect()) {
        Ok(code) => code.into(),
        Err(error) => {
            complain(&format!("{error:#}"));
            9.into()
        }
    }
}

fn complain(what: &str) {
    if let Err(error) = writeln!(std::io::stderr(), "stand-in: {what}") {
        drop(error); // Nobody is left to be told.
    }
}

fn play(args: Vec<String>) -> anyhow::Result<u8> {
    let (protocol, steps) = match args.split_first().context("the protocol is missing")? {
        // What a real Claude Code is started with.
        (first, _) if first == "-p" => ("claude", args.as_slice()),
        (first, rest) => (first.as_str(), rest),
    };
    let flags = ["ignore-eof", "ignore-term", "child"];
    let is_flag = |step: &&String| {
        flags.contains(&step.as_str())
            || ["pids:", "env:", "heard:"]
                .iter()
                .any(|start| step.starts_with(start))
    };
    // What is the protocol's own to give to the program (`-p` and the like) is its to look at.
    let own = steps.iter().take_while(|step| step.as_str() != "--steps");
    let own: Vec<String> = own.cloned().collect();
    let steps: Vec<&String> = steps.iter().skip(own.len() + 1).collect();
    let (flags, steps): (Vec<&String>, Vec<&String>) = steps.into_iter().partition(is_flag);
    let mut wire = Wire::new();
    prepare(&flags, &mut wire)?;
    let script = Script { steps: &steps };
    let ended = match protocol {
        "acp" => acp::play(&mut wire, &script),
        "codex" => codex::play(&mut wire, &script),
        "claude" => claude::play(&mut wire, &own, &script),
        other => bail!("no protocol is called {other}"),
    };
    let code = match ended? {
        Played::Crashed => return Ok(3),
        Played::Done => 0,
    };
    // A well-behaved program ends with its input.
    while wire.hear().is_some() {}
    while flags.iter().any(|flag| flag.as_str() == "ignore-eof") {
        std::thread::park();
    }
    Ok(code)
}

fn prepare(flags: &[&String], wire: &mut Wire) -> anyhow::Result<()> {
    let mut ids = vec![std::process::id()];
    if flags.iter().any(|flag| flag.as_str() == "ignore-term") {
        ignore_term()?;
    }
    if flags.iter().any(|flag| flag.as_str() == "child") {
        let stubborn = "trap '' TERM; while :; do sleep 1; done";
        let mut child = Command::new("sh");
        child.args(["-c", stubborn]).stdin(Stdio::null());
        child.stdout(Stdio::null()).stderr(Stdio::null());
        ids.push(child.spawn()?.id());
    }
    for flag in flags {
        if let Some(file) = flag.strip_prefix("pids:") {
            let text: Vec<String> = ids.iter().map(u32::to_string).collect();
            whole(Path::new(file), &text.join(" "))?;
        } else if let Some(file) = flag.strip_prefix("env:") {
            let all = std::env::vars_os().map(|(name, value)| {
                format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
            });
            whole(Path::new(file), &all.collect::<Vec<_>>().join("\n"))?;
        } else if let Some(file) = flag.strip_prefix("heard:") {
            wire.heard = Some(std::fs::File::create(file)?);
        }
    }
    Ok(())
}

/// Writes a file that nobody sees half of.
fn whole(file: &Path, text: &str) -> anyhow::Result<()> {
    let part = file.with_extension("part");
    std::fs::write(&part, text)?;
    Ok(std::fs::rename(part, file)?)
}

/// Takes SIGTERM and does nothing about it.
fn ignore_term() -> anyhow::Result<()> {
    let (ready, taken) = channel();
    std::thread::spawn(move || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let mut terms = tokio::signal::unix::signal(kind)?;
            ready.send(())?;
            loop {
                terms.recv().await;
            }
        })
    });
    Ok(taken.recv()?)
}

/// How a script went.
enum Played {
    /// The turn is over.
    Done,
    /// The program is to end at once.
    Crashed,
}

struct Script<'a> {
    steps: &'a [&'a String],
}

/// What a protocol can say in its turn.
trait Voice {
    fn say(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()>;
    fn think(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()>;
    fn tool(&mut self, wire: &mut Wire, text: &str) -> anyhow::Result<()>;
    /// Asks for leave; whether it was given.
    fn ask(&mut self, wire: &mut Wire) -> anyhow::Result<bool>;
    /// Waits until it is told to stop (and says that it stopped), or its input ends.
    fn wait(&mut self, wire: &mut Wire) -> anyhow::Result<()>;
    fn stop(&mut self, wire: &mut Wire, reason: Option<&str>) -> anyhow::Result<()>;
}

impl Script<'_> {
    fn play(
        &self,
        wire: &mut Wire,
        prompt: &str,
        voice: &mut impl Voice,
    ) -> anyhow::Result<Played> {
        for step in self.steps {
            let (name, what) = step.split_once(':').unwrap_or((step, ""));
            match name {
                "say" => voice.say(wire, what)?,
                "think" => voice.think(wire, what)?,
                "tool" => voice.tool(wire, what)?,
                "prompt" => voice.say(wire, prompt)?,
                "cwd" => voice.say(wire, &std::env::current_dir()?.to_string_lossy())?,
                "ask" => {
                    let answer = if voice.ask(wire)? {
                        "leave given"
                    } else {
                        "leave refused"
                    };
                    voice.say(wire, answer)?;
                }
                "garbage" => wire.raw(b"no JSON\xff at all\n")?,
                "huge" => wire.raw(&vec![b'x'; 9 * 1024 * 1024])?,
                "crash" => return Ok(Played::Crashed),
                "silent" => {
                    voice.wait(wire)?;
                    return Ok(Played::Done);
                }
                "stop" => {
                    voice.stop(wire, Some(what))?;
                    return Ok(Played::Done);
                }
                other => bail!("no step is called {other}"),
            }
        }
        voice.stop(wire, None)?;
        Ok(Played::Done)
    }
}

/// Lines of JSON in and out.
struct Wire {
    lines: Receiver<String>,
    heard: Option<std::fs::File>,
    broken: Option<String>,
}

impl Wire {
    fn new() -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            lines,
            heard: None,
            broken: None,
        }
    }

    /// The next message; `None` at the end of the input.
    fn hear(&mut self) -> Option<Value> {
        let line = self.lines.recv().ok()?;
        if let Some(file) = &mut self.heard
            && let Err(error) = writeln!(file, "{line}")
        {
            complain(&error.to_string());
        }
        match serde_json::from_str(&line) {
            Ok(message) => Some(message),
            Err(error) => {
                self.broken = Some(error.to_string());
                None
            }
        }
    }

    /// The next message, which must be there.
    fn expect(&mut self) -> anyhow::Result<Value> {
        let message = self.hear();
        if let Some(why) = self.broken.take() {
            bail!("a line was no JSON: {why}");
        }
        message.context("the input ended too early")
    }

    fn send(&self, message: &Value) -> anyhow::Result<()> {
        self.raw(format!("{message}\n").as_bytes())
    }

    fn raw(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// A request of that method: its id and parameters.
    fn request(&mut self, method: &str, marked: bool) -> anyhow::Result<(Value, Value)> {
        let message = self.expect()?;
        check(&message, marked)?;
        ensure!(
            message["method"] == method,
            "expected {method}, not {message}"
        );
        ensure!(message["id"].is_u64(), "{method} needs an id: {message}");
        Ok((message["id"].clone(), message["params"].clone()))
    }
}

fn check(message: &Value, marked: bool) -> anyhow::Result<()> {
    let mark = if marked {
        Value::from("2.0")
    } else {
        Value::Null
    };
    ensure!(
        message["jsonrpc"] == mark,
        "the version mark is wrong: {message}"
    );
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    let fields = message.as_object().context("no object")?;
    let odd = fields.keys().find(|key| !known.contains(&key.as_str()));
    ensure!(odd.is_none(), "an unknown field {odd:?}: {message}");
    Ok(())
}

/// A folder that a client names: whole, and there.
fn check_folder(folder: &Value) -> anyhow::Result<()> {
    let folder = Path::new(folder.as_str().context("no folder")?);
    ensure!(
        folder.is_absolute() && folder.is_dir(),
        "no usable folder: {folder:?}"
    );
    Ok(())
}
