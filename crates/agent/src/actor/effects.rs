//! Running effects: each in a task of its own, each answering with one input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt as _;
use orrery_llm::Adapters;
use orrery_session::payload::RequestConfig;
use orrery_session::{CallId, Clock, Json, SessionHeader, SessionId, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{ActorDeps, LogWriter};
use crate::context::TurnContext;
use crate::machine::{Effect, Input, ToolFault, ToolOutcome, failed, not_saved};
use crate::tool::{Access, Tool, ToolContext, ToolError};

/// The largest AGENTS.md that is read, in bytes.
const MAX_INSTRUCTIONS: usize = 64 * 1024;

/// What effects need.
pub(super) struct Effects {
    adapters: Arc<Adapters>,
    tools: Arc<[Arc<dyn Tool>]>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    inputs: mpsc::Sender<Input>,
    writer: Arc<dyn LogWriter>,
    session: SessionId,
    cwd: Arc<Path>,
    workspace_context: bool,
    attempt: CancellationToken,
    running: CancellationToken,
}

impl Effects {
    pub(super) fn new(
        deps: &ActorDeps,
        header: &SessionHeader,
        inputs: mpsc::Sender<Input>,
        writer: Arc<dyn LogWriter>,
    ) -> Self {
        Self {
            adapters: Arc::clone(&deps.adapters),
            tools: Arc::clone(&deps.tools),
            clock: Arc::clone(&deps.clock),
            tasks: deps.tasks.clone(),
            inputs,
            writer,
            session: header.id.clone(),
            cwd: Path::new(header.cwd.as_deref().unwrap_or("/")).into(),
            workspace_context: deps.workspace_context,
            attempt: CancellationToken::new(),
            running: CancellationToken::new(),
        }
    }

    pub(super) fn run(&mut self, effect: Effect) {
        match effect {
            Effect::GatherContext => {
                let (cwd, now) = (Arc::clone(&self.cwd), self.clock.now());
                let wanted = self.workspace_context;
                self.answer_blocking(move || {
                    let context = wanted.then(|| gather(&cwd, now));
                    Input::Context(context.unwrap_or_default())
                });
            }
            Effect::Prepare { attempt, config } => self.prepare(attempt, config),
            Effect::Stream { attempt, request } => self.stream(attempt, *request),
            Effect::StopAttempt => self.attempt.cancel(),
            Effect::Wait { attempt, delay } => {
                let cancel = self.fresh_attempt();
                let inputs = self.inputs.clone();
                self.tasks.spawn(async move {
                    let wait = tokio::time::sleep(std::time::Duration::from_millis(delay.0));
                    if cancel.run_until_cancelled(wait).await.is_some() {
                        send(&inputs, Input::RetryDue { attempt }).await;
                    }
                });
            }
            Effect::Inspect {
                call_id,
                name,
                arguments,
            } => {
                let (tool, cwd) = (self.tool(&name), Arc::clone(&self.cwd));
                self.answer_blocking(move || inspect(call_id, tool.as_deref(), &arguments, &cwd));
            }
            Effect::RunTool {
                call_id,
                name,
                arguments,
            } => {
                self.run_tool(call_id, &name, arguments);
            }
            Effect::StopTools => self.running.cancel(),
            Effect::TurnEnded { .. } => self.running = CancellationToken::new(),
        }
    }

    fn fresh_attempt(&mut self) -> CancellationToken {
        self.attempt = CancellationToken::new();
        self.attempt.clone()
    }

    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools
            .iter()
            .find(|tool| tool.definition().name == name)
            .map(Arc::clone)
    }

    fn answer_blocking(&self, work: impl FnOnce() -> Input + Send + 'static) {
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            match tokio::task::spawn_blocking(work).await {
                Ok(input) => send(&inputs, input).await,
                Err(error) => tracing::error!(%error, "a look at the file system failed"),
            }
        });
    }

    fn prepare(&mut self, attempt: u64, config: RequestConfig) {
        let cancel = self.fresh_attempt();
        let (adapters, inputs) = (Arc::clone(&self.adapters), self.inputs.clone());
        self.tasks.spawn(async move {
            let bound = cancel.run_until_cancelled(adapters.prepare(config)).await;
            if let Some(result) = bound {
                let result = result.map(|(_, call)| call);
                send(&inputs, Input::Prepared { attempt, result }).await;
            }
        });
    }

    fn stream(&mut self, attempt: u64, request: orrery_llm::LlmRequest) {
        let cancel = self.fresh_attempt();
        let (inputs, writer) = (self.inputs.clone(), Arc::clone(&self.writer));
        let adapter = self.adapters.get(&request.config.provider);
        self.tasks.spawn(async move {
            let ended = |refused| Input::StreamEnded { attempt, refused };
            // The request must be reconstructible before it is made (checkpoint 1).
            if let Err(why) = writer.flush().await {
                return send(&inputs, ended(Some(not_saved(&why)))).await;
            }
            let adapter = match adapter {
                Ok(adapter) => adapter,
                Err(failure) => return send(&inputs, ended(Some(failure))).await,
            };
            let mut chunks = adapter.stream(request, cancel.clone());
            loop {
                match cancel.run_until_cancelled(chunks.next()).await {
                    Some(Some(chunk)) => send(&inputs, Input::Chunk { attempt, chunk }).await,
                    Some(None) => break,
                    // Dropping the stream drops the connection.
                    None => return,
                }
            }
            send(&inputs, ended(None)).await;
        });
    }

    fn run_tool(&mut self, call_id: CallId, name: &str, arguments: Json) {
        let (inputs, writer) = (self.inputs.clone(), Arc::clone(&self.writer));
        let cancel = self.running.child_token();
        let tool = self.tool(name);
        let context = ToolContext {
            call_id: call_id.clone(),
            session: self.session.clone(),
            cwd: Arc::clone(&self.cwd),
            cancel,
        };
        self.tasks.spawn(async move {
            let outcome = execute(tool, arguments, context, writer.as_ref()).await;
            send(&inputs, Input::ToolDone { call_id, outcome }).await;
        });
    }
}

async fn execute(
    tool: Option<Arc<dyn Tool>>,
    arguments: Json,
    context: ToolContext,
    writer: &dyn LogWriter,
) -> ToolOutcome {
    // The call is on disk before it has a side effect (checkpoint 2).
    if let Err(why) = writer.flush().await {
        return ToolOutcome::failure("StorageError", "NOT_SAVED", &not_saved(&why).message);
    }
    let before = "the turn was stopped before this call was started";
    if context.cancel.is_cancelled() {
        return ToolOutcome::failure("AbortError", "ABORTED_BEFORE_DISPATCH", before);
    }
    let Some(tool) = tool else {
        return ToolOutcome::failure("UnknownToolError", "UNKNOWN_TOOL", "there is no such tool");
    };
    // In a task of its own, so that a panic ends the call and not the session.
    let ran = tokio::spawn(async move { tool.run(arguments, context).await }).await;
    match ran {
        Ok(Ok(output)) => ToolOutcome {
            content: output.content,
            is_error: output.is_error,
            error: None,
            meta: output.meta,
            concludes: output.concludes,
        },
        Ok(Err(error)) => failed(&error),
        Err(_panicked) => ToolOutcome::failure(
            "ToolError",
            "INTERNAL",
            "the tool failed in an unexpected way",
        ),
    }
}

fn inspect(call_id: CallId, tool: Option<&dyn Tool>, arguments: &Json, cwd: &Path) -> Input {
    let (parallel, access): (bool, Result<Access, ToolFault>) = match tool {
        None => (false, Err(ToolFault::Unknown)),
        Some(tool) => {
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (tool.parallel(arguments), tool.access(arguments, cwd))
            }));
            let failed = || {
                let message = "the tool could not look at its arguments".to_owned();
                ToolError::Failed {
                    code: "INTERNAL",
                    message,
                }
            };
            let (parallel, access) = looked.unwrap_or_else(|_panic| (false, Err(failed())));
            (parallel, access.map_err(ToolFault::Refused))
        }
    };
    Input::Inspected {
        call_id,
        parallel,
        access,
    }
}

async fn send(inputs: &mpsc::Sender<Input>, input: Input) {
    if inputs.send(input).await.is_err() {
        tracing::debug!("a session ended before its effect did");
    }
}

/// Reads what the model is told of the workspace.
fn gather(cwd: &Path, now: Timestamp) -> TurnContext {
    let instructions = read_instructions(&cwd.join("AGENTS.md"));
    let surroundings = vec![
        ("Workspace".to_owned(), cwd.display().to_string()),
        (
            "Platform".to_owned(),
            format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        ),
        ("Date (UTC)".to_owned(), utc_date(now)),
    ];
    TurnContext {
        instructions,
        surroundings,
    }
}

fn read_instructions(path: &PathBuf) -> Option<String> {
    use std::io::Read as _;
    // Opening anything else, a pipe say, might never come back.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    if let Err(error) = file.take(MAX_INSTRUCTIONS as u64).read_to_end(&mut bytes) {
        tracing::warn!(path = %path.display(), %error, "AGENTS.md could not be read");
        return None;
    }
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The civil date of a moment, by the days of the 400-year cycle.
fn utc_date(now: Timestamp) -> String {
    let days = now.epoch_millis().div_euclid(86_400_000) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let at = |ms| utc_date(Timestamp::saturating(ms));
        assert_eq!(at(0), "1970-01-01");
        assert_eq!(at(951_782_400_000), "2000-02-29");
        assert_eq!(at(1_796_040_391_000), "2026-11-30");
        assert_eq!(at(-1), "1969-12-31");
    }
}
