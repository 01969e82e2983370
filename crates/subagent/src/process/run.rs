//! One run of a program: an adapter whose one answer is the program's turn.
//!
//! A published run never fails: however the program ends, the stream ends with one `finish`
//! (`subagent.md` 4.5). A task of its own owns the program, so that a reader which goes away leaves
//! nothing behind; [`ProcessRun::dispose`] waits until the program and everything it started is gone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::stream;
use orrery_llm::{Adapter, ChunkStream, LlmRequest, ModelInfo, PreparedCall};
use orrery_session::payload::RequestConfig;
use orrery_session::{FinishReason, LlmFailure, StreamChunk};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::{ABORTED, Ending, Failure, finish};
use super::program::{Program, Stopped, scrubbed};
use super::report::Report;
use super::{ProcessAgent, Protocol, acp, claude, codex};

/// Chunks that may wait for the reader; a program that is faster waits.
const WAITING_CHUNKS: usize = 64;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was started.
    Fresh,
    /// The program may be there.
    Running,
    /// Nothing of it is there, and nothing will be.
    Over,
}

/// One run of a program.
#[derive(Debug)]
pub struct ProcessRun {
    agent: Arc<ProcessAgent>,
    cwd: PathBuf,
    prompt: String,
    tasks: TaskTracker,
    stopped: CancellationToken,
    stage: watch::Sender<Stage>,
    answer: Arc<Mutex<String>>,
}

impl ProcessRun {
    /// A run that has not begun: it does so when it is streamed from. Its program works in `cwd`;
    /// `tasks` counts it, so that a shutdown can wait for it.
    pub fn new(
        agent: Arc<ProcessAgent>,
        cwd: PathBuf,
        prompt: String,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        Arc::new(Self {
            agent,
            cwd,
            prompt,
            tasks,
            stopped: CancellationToken::new(),
            stage: watch::Sender::new(Stage::Fresh),
            answer: Arc::default(),
        })
    }

    /// The last message of the program that is not blank, so far.
    pub fn answer(&self) -> String {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.clone()
    }

    /// Stops the program if it runs, and waits until everything of it is gone. As often as wanted.
    pub async fn dispose(&self) {
        self.stopped.cancel();
        self.stage.send_if_modified(|stage| {
            let fresh = *stage == Stage::Fresh;
            if fresh {
                *stage = Stage::Over;
            }
            fresh
        });
        let mut stage = self.stage.subscribe();
        let over = stage.wait_for(|stage| *stage == Stage::Over).await;
        if over.is_err() {
            tracing::debug!("a run was gone before it was disposed of");
        }
    }

    /// Takes the one start that a run has.
    fn begin(&self) -> bool {
        self.stage.send_if_modified(|stage| {
            let fresh = *stage == Stage::Fresh;
            if fresh {
                *stage = Stage::Running;
            }
            fresh
        })
    }
}

#[async_trait]
impl Adapter for ProcessRun {
    fn provider(&self) -> &str {
        &self.agent.name
    }

    fn display_name(&self) -> String {
        self.agent.name.clone()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, LlmFailure> {
        Ok(vec![ModelInfo::named(self.agent.protocol.as_str())])
    }

    async fn prepare(&self, config: RequestConfig) -> Result<PreparedCall, LlmFailure> {
        Ok(PreparedCall {
            config,
            defaults: Default::default(),
            context_window: None,
        })
    }

    fn stream(&self, _request: LlmRequest, cancel: CancellationToken) -> ChunkStream {
        if cancel.is_cancelled() || self.stopped.is_cancelled() {
            let reason = FinishReason::Aborted {
                failure: LlmFailure::new(ABORTED, "stopped before the program was started"),
            };
            return only(reason);
        }
        if !self.begin() {
            let failure = LlmFailure::new("PROCESS_FAILED", "the program does one thing only");
            return only(FinishReason::Error { failure });
        }
        let (out, mut chunks) = mpsc::channel(WAITING_CHUNKS);
        let work = Work {
            agent: Arc::clone(&self.agent),
            cwd: self.cwd.clone(),
            prompt: self.prompt.clone(),
            answer: Arc::clone(&self.answer),
            cancel,
            stopped: self.stopped.clone(),
            out,
            _over: Over(self.stage.clone()),
        };
        self.tasks.spawn(work.run());
        Box::pin(stream::poll_fn(move |cx| chunks.poll_recv(cx)))
    }
}

/// A stream of one end.
fn only(reason: FinishReason) -> ChunkStream {
    let finish = StreamChunk::Finish {
        reason,
        replay_state: None,
    };
    Box::pin(stream::iter([finish]))
}

/// Says that a run is over when it is dropped, however that comes about.
struct Over(watch::Sender<Stage>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.send_replace(Stage::Over);
    }
}

/// The task that owns the program.
struct Work {
    agent: Arc<ProcessAgent>,
    cwd: PathBuf,
    prompt: String,
    answer: Arc<Mutex<String>>,
    cancel: CancellationToken,
    stopped: CancellationToken,
    out: mpsc::Sender<StreamChunk>,
    /// Dropped last.
    _over: Over,
}

impl Work {
    async fn run(self) {
        let agent = &*self.agent;
        let mut report = Report::new(self.out.clone());
        let args = match agent.protocol {
            Protocol::ClaudeCode(permission) => {
                [claude::arguments(permission), agent.args.clone()].concat()
            }
            Protocol::Acp(_) | Protocol::Codex(_) => agent.args.clone(),
        };
        let mut program = match Program::start(agent, &args, &self.cwd).await {
            Ok(program) => program,
            Err(failure) => return self.close(&mut report, Err(failure)).await,
        };
        let ended = {
            let talk = async {
                let (lines, report) = (&mut program.lines, &mut report);
                match agent.protocol {
                    Protocol::Acp(permission) => {
                        acp::talk(lines, report, permission, &self.cwd, &self.prompt).await
                    }
                    Protocol::Codex(permission) => {
                        codex::talk(lines, report, permission, &self.cwd, &self.prompt).await
                    }
                    Protocol::ClaudeCode(_) => claude::talk(lines, report, &self.prompt).await,
                }
            };
            tokio::select! {
                // What was stopped from here is stopped, whatever the program says of it.
                biased;
                () = self.cancel.cancelled() => None,
                () = self.stopped.cancelled() => None,
                () = self.out.closed() => None,
                ended = talk => Some(ended),
            }
        };
        match ended {
            None => {
                let stopped = program.stop(agent, true).await;
                tracing::debug!(
                    agent = agent.name,
                    how = stopped.how,
                    "a program was stopped"
                );
                let failure = LlmFailure::new(ABORTED, "stopped");
                let reason = FinishReason::Aborted { failure };
                report
                    .send(StreamChunk::Finish {
                        reason,
                        replay_state: None,
                    })
                    .await;
            }
            Some(Err(Failure::Ended { .. })) => {
                let Stopped { how, errors } = program.stop(agent, false).await;
                tracing::warn!(agent = agent.name, how, errors, "a program ended too early");
                self.close(&mut report, Err(Failure::Ended { how })).await;
            }
            Some(ended) => {
                let failure = ended.as_ref().err().map(ToString::to_string);
                self.close(&mut report, ended).await;
                let Stopped { how, errors } = program.stop(agent, false).await;
                if let Some(why) = failure {
                    let why = scrubbed(agent, &why);
                    tracing::warn!(agent = agent.name, why, how, errors, "a program failed");
                }
            }
        }
    }

    /// Says how the turn ended.
    async fn close(&self, report: &mut Report, ended: Result<Ending, Failure>) {
        report.close().await;
        let answer = report.answer().to_owned();
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        let reason = finish(&ended, |text| scrubbed(&self.agent, text));
        report
            .send(StreamChunk::Finish {
                reason,
                replay_state: None,
            })
            .await;
    }
}
