//! Subagents that are other programs, with stand-ins that are strict and misbehave on order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use orrery_llm::{Adapter as _, LlmRequest, Secret};
use orrery_session::payload::RequestConfig;
use orrery_session::{ContentBlock, FinishReason, SessionId, StreamChunk};
use orrery_subagent::process::{
    AcpPermission, ClaudePermission, CodexPermission, Patience, ProcessAgent, ProcessRun, Protocol,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answers::PATIENCE;

pub(crate) const ACP: Protocol = Protocol::Acp(AcpPermission::Reject);
const CODEX: Protocol = Protocol::Codex(CodexPermission::Never);
const CLAUDE: Protocol = Protocol::ClaudeCode(ClaudePermission::DontAsk);
const ALL: [Protocol; 3] = [ACP, CODEX, CLAUDE];

/// The stand-in, which is built as an example of this crate.
pub(crate) fn stand_in() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let file = here.ancestors().nth(2).unwrap().join("examples/agent");
    assert!(
        file.is_file(),
        "missing: cargo build -p orrery-host --example agent"
    );
    file
}

/// What a stand-in is started with beside what its protocol adds.
pub(crate) fn args(protocol: Protocol, steps: &[&str]) -> Vec<String> {
    let first: &[&str] = match protocol {
        Protocol::Acp(_) => &["acp"],
        Protocol::Codex(_) => &["codex"],
        Protocol::ClaudeCode(_) => &[],
    };
    let all = [first, &["--steps"], steps].concat();
    all.into_iter().map(str::to_owned).collect()
}

fn agent(protocol: Protocol, steps: &[&str]) -> ProcessAgent {
    ProcessAgent {
        name: "helper".to_owned(),
        protocol,
        command: stand_in().to_string_lossy().into_owned(),
        args: args(protocol, steps),
        env: BTreeMap::new(),
        cwd: None,
        patience: Patience::default(),
    }
}

fn impatient(agent: ProcessAgent) -> ProcessAgent {
    let patience = Patience {
        eof: Duration::from_millis(100),
        terminate: Duration::from_millis(100),
    };
    ProcessAgent { patience, ..agent }
}

fn request() -> LlmRequest {
    LlmRequest {
        config: RequestConfig {
            provider: "helper".to_owned(),
            model: "acp".to_owned(),
            reasoning_effort: None,
            temperature: None,
            max_tokens: None,
            stop: None,
        },
        system: None,
        tools: Arc::default(),
        messages: Vec::new(),
        session_id: SessionId::new("s").unwrap(),
    }
}

/// A run, and everything that came of it.
struct Ran {
    run: Arc<ProcessRun>,
    blocks: Vec<ContentBlock>,
    reason: FinishReason,
}

impl Ran {
    fn texts(&self) -> Vec<&str> {
        self.blocks
            .iter()
            .filter_map(ContentBlock::as_text)
            .collect()
    }

    fn notes(&self) -> Vec<&str> {
        let notes = self.blocks.iter().filter_map(|block| match block {
            ContentBlock::Reasoning { text } => Some(text.as_str()),
            _ => None,
        });
        notes.collect()
    }

    /// The code and the words of a failure.
    fn failure(&self) -> (&str, &str) {
        match &self.reason {
            FinishReason::Error { failure } | FinishReason::Aborted { failure } => {
                (&failure.code, &failure.message)
            }
            other => panic!("no failure: {other:?}"),
        }
    }
}

fn start(agent: ProcessAgent, folder: &Path) -> Arc<ProcessRun> {
    let prompt = "look at häuser".to_owned();
    ProcessRun::new(
        Arc::new(agent),
        folder.to_owned(),
        prompt,
        TaskTracker::new(),
    )
}

async fn play(agent: ProcessAgent) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let run = start(agent, folder.path());
    let chunks = run.stream(request(), CancellationToken::new());
    let chunks: Vec<StreamChunk> = tokio::time::timeout(PATIENCE, chunks.collect())
        .await
        .unwrap();
    tokio::time::timeout(PATIENCE, run.dispose()).await.unwrap();
    let blocks = chunks.iter().filter_map(|chunk| match chunk {
        StreamChunk::BlockEnd { block, .. } => Some(block.clone()),
        _ => None,
    });
    let blocks = blocks.collect();
    let Some(StreamChunk::Finish { reason, .. }) = chunks.last() else {
        panic!("no end: {chunks:?}");
    };
    Ran {
        run,
        blocks,
        reason: reason.clone(),
    }
}

/// The processes that a stand-in wrote down.
pub(crate) async fn processes(file: &Path) -> Vec<String> {
    let begin = Instant::now();
    while !file.is_file() {
        assert!(begin.elapsed() < PATIENCE, "the program did not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let text = std::fs::read_to_string(file).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Whether a process still runs; one that is dead and not collected does not.
pub(crate) fn runs(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, after)| after.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn every_protocol_brings_messages_notes_and_the_last_message_as_the_answer() {
    for protocol in ALL {
        let steps = [
            "say:I look first.",
            "think:hm",
            "tool:src/main.rs",
            "prompt",
        ];
        let ran = play(agent(protocol, &steps)).await;
        assert_eq!(ran.reason, FinishReason::Stop, "{protocol:?}");
        assert_eq!(
            ran.texts(),
            ["I look first.", "look at häuser"],
            "{protocol:?}"
        );
        assert_eq!(ran.run.answer(), "look at häuser", "{protocol:?}");
        let notes = ran.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(notes[0], "hm");
        assert!(notes[1].contains("src/main.rs"), "{notes:?}");
    }
}

#[tokio::test]
async fn the_ends_that_programs_tell_are_told_apart() {
    let table = [
        (ACP, "stop:max_tokens", None),
        (ACP, "stop:refusal", Some("REFUSAL")),
        (ACP, "stop:cancelled", Some("ABORTED")),
        (ACP, "stop:max_turn_requests", Some("PROCESS_FAILED")),
        (ACP, "stop:of_another_day", Some("PROCESS_FAILED")),
        (CODEX, "stop:contextWindowExceeded", None),
        (CODEX, "stop:interrupted", Some("ABORTED")),
        (CODEX, "stop:unauthorized", Some("PROCESS_FAILED")),
        (CLAUDE, "stop:max_tokens", None),
        (CLAUDE, "stop:refusal", Some("REFUSAL")),
        (CLAUDE, "stop:error_max_turns", Some("PROCESS_FAILED")),
        (CLAUDE, "stop:blank", Some("PROCESS_FAILED")),
    ];
    for (protocol, stop, code) in table {
        let ran = play(agent(protocol, &["say:half", stop])).await;
        match code {
            None => assert_eq!(ran.reason, FinishReason::MaxTokens, "{stop}"),
            Some(code) => assert_eq!(ran.failure().0, code, "{stop}: {:?}", ran.reason),
        }
        assert_eq!(ran.texts(), ["half"], "{stop}");
    }
}

#[tokio::test]
async fn what_is_asked_is_answered_by_policy() {
    let table = [
        (ACP, "leave refused"),
        (Protocol::Acp(AcpPermission::Allow), "leave given"),
        (CODEX, "leave refused"),
        (
            Protocol::Codex(CodexPermission::ApproveForMe),
            "leave refused",
        ),
        (
            Protocol::Codex(CodexPermission::DangerouslyBypass),
            "leave given",
        ),
        (CLAUDE, "leave refused"),
    ];
    for (protocol, said) in table {
        let ran = play(agent(protocol, &["ask"])).await;
        assert_eq!(ran.reason, FinishReason::Stop, "{protocol:?}");
        assert_eq!(ran.run.answer(), said, "{protocol:?}");
    }
}

#[tokio::test]
async fn nonsense_floods_and_sudden_ends_are_failures_in_safe_words() {
    for protocol in ALL {
        for (step, code, word) in [
            ("garbage", "PROCESS_PROTOCOL", "is no message"),
            ("huge", "PROCESS_OUTPUT_LIMIT", "more than"),
            ("crash", "PROCESS_ENDED", "exit status: 3"),
        ] {
            let ran = play(impatient(agent(protocol, &["say:half of it", step]))).await;
            let (got, message) = ran.failure();
            assert_eq!(got, code, "{protocol:?} {step}: {message}");
            assert!(message.contains(word), "{message}");
            assert!(
                !message.contains("no JSON"),
                "its own words are shown: {message}"
            );
            assert_eq!(ran.texts(), ["half of it"], "{protocol:?} {step}");
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_or_is_none_is_a_failure() {
    let mut missing = agent(ACP, &[]);
    missing.command = "no-such-program-here".to_owned();
    let ran = play(missing).await;
    assert_eq!(ran.failure().0, "PROCESS_NOT_STARTED");
    assert!(
        ran.failure().1.contains("no such program"),
        "{:?}",
        ran.reason
    );
    let mut other = agent(ACP, &[]);
    (other.command, other.args) = ("true".to_owned(), Vec::new());
    assert_eq!(play(other).await.failure().0, "PROCESS_ENDED");
    let mut echo = agent(ACP, &[]);
    (echo.command, echo.args) = ("cat".to_owned(), Vec::new());
    // What it is told it tells us: a request that has no answer here.
    let ran = play(impatient(echo)).await;
    assert!(ran.failure().0.starts_with("PROCESS_"), "{:?}", ran.reason);
}

#[tokio::test]
async fn a_stop_reaches_a_program_that_listens_and_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    for (at, protocol) in ALL.into_iter().enumerate() {
        for stubborn in [false, true] {
            let pids = folder.path().join(format!("pids-{at}-{stubborn}"));
            let heard = folder.path().join(format!("heard-{at}-{stubborn}"));
            let (pids_flag, heard_flag) = (
                format!("pids:{}", pids.display()),
                format!("heard:{}", heard.display()),
            );
            let mut steps = vec![pids_flag.as_str(), &heard_flag, "say:I begin", "silent"];
            if stubborn {
                steps.extend(["ignore-eof", "ignore-term", "child"]);
            }
            let agent = agent(protocol, &steps);
            let agent = if stubborn { impatient(agent) } else { agent };
            let run = start(agent, folder.path());
            let cancel = CancellationToken::new();
            let mut chunks = run.stream(request(), cancel.clone());
            while let Some(chunk) = chunks.next().await {
                if matches!(chunk, StreamChunk::TextDelta { .. }) {
                    break;
                }
            }
            let ids = processes(&pids).await;
            assert!(ids.iter().all(|id| runs(id)), "{ids:?}");
            cancel.cancel();
            drop(chunks);
            let begin = Instant::now();
            tokio::time::timeout(PATIENCE, run.dispose()).await.unwrap();
            assert!(ids.iter().all(|id| !runs(id)), "{protocol:?} {ids:?}");
            let told = std::fs::read_to_string(&heard).unwrap();
            let farewell = ["session/cancel", "turn/interrupt", "interrupt"][at];
            assert!(told.contains(farewell), "{protocol:?}: {told}");
            if !stubborn {
                assert!(
                    begin.elapsed() < Patience::default().eof,
                    "it had to be forced"
                );
            }
            // As often as wanted.
            run.dispose().await;
        }
    }
}

#[tokio::test]
async fn nothing_is_started_for_a_stopped_run_and_a_run_starts_once() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let step = format!("pids:{}", pids.display());
    let run = start(agent(ACP, &[&step]), folder.path());
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let chunks: Vec<_> = run.stream(request(), cancelled).collect().await;
    assert!(
        matches!(
            &chunks[..],
            [StreamChunk::Finish {
                reason: FinishReason::Aborted { .. },
                ..
            }]
        ),
        "{chunks:?}"
    );
    run.dispose().await;
    let chunks: Vec<_> = run
        .stream(request(), CancellationToken::new())
        .collect()
        .await;
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    assert!(!pids.exists());

    let ran = play(agent(ACP, &["say:once"])).await;
    let again: Vec<_> = ran
        .run
        .stream(request(), CancellationToken::new())
        .collect()
        .await;
    assert_eq!(again.len(), 1, "{again:?}");
}

#[tokio::test]
async fn a_program_gets_its_own_variables_and_none_of_them_is_ever_shown() {
    let folder = tempfile::tempdir().unwrap();
    let env = folder.path().join("env");
    let step = format!("env:{}", env.display());
    let mut agent = agent(ACP, &[&step, "stop:my-secret-value"]);
    let variables = [("HELPER_TOKEN", "my-secret-value"), ("PLAIN", "yes")];
    agent.env = variables
        .map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned())))
        .into();
    assert!(!format!("{:?}", agent.env).contains("my-secret-value"));
    let ran = play(agent).await;
    let (_, message) = ran.failure();
    assert!(
        message.contains("[key]") && !message.contains("my-secret"),
        "{message}"
    );
    let seen = std::fs::read_to_string(env).unwrap();
    let has = |line: &str| seen.lines().any(|l| l == line);
    assert!(
        has("HELPER_TOKEN=my-secret-value") && has("PLAIN=yes"),
        "{seen}"
    );
    // Of the Host's own it gets those that look like no secret.
    let path = std::env::var("PATH").unwrap();
    assert!(has(&format!("PATH={path}")), "{seen}");
    for line in seen.lines() {
        let name = line.split('=').next().unwrap();
        let own = name == "HELPER_TOKEN";
        assert!(own || !orrery_tools::environment::is_secret(name), "{name}");
    }
}

#[test]
fn a_program_works_in_its_own_folder_or_in_its_parents_or_nowhere() {
    let (own, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let parent = parent.path().to_str().unwrap();
    let mut agent = ProcessAgent {
        command: "true".into(),
        ..agent(ACP, &[])
    };
    assert_eq!(agent.folder(Some(parent)).unwrap(), Path::new(parent));
    for wrong in [
        None,
        Some("relative"),
        Some("/no/such/folder"),
        Some("/dev/null"),
    ] {
        assert!(agent.folder(wrong).is_err(), "{wrong:?}");
    }
    agent.cwd = Some(own.path().to_owned());
    assert_eq!(agent.folder(Some("/no/such/folder")).unwrap(), own.path());
}
