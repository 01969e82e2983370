//! Typed payloads of the events that this house acts on (`session.md` 1.5 and 1.7).
//!
//! Each type is a view for writing and reading; what was read from a log stays raw in its event.
//! Payloads of all other known types are carried as JSON.

use serde::{Deserialize, Serialize};

use crate::chunk::{LlmFailure, StreamChunk, Usage};
use crate::ids::CallId;
use crate::json::Json;
use crate::message::Message;
use crate::seq::SessionSeq;
use crate::time::Timestamp;

/// `turn/start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// 1-based, dense within the session.
    pub turn: u64,
}

/// `turn/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn that ends.
    pub turn: u64,
    /// How.
    pub reason: TurnEndReason,
}

/// How a turn ended. The set is open; an unknown kind reads as [`TurnEndReason::Other`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEndReason {
    /// The model had nothing more to do.
    Completed,
    /// Somebody stopped it.
    Aborted {
        /// Who or what.
        reason: AbortCause,
    },
    /// Its input was rejected before the first step.
    Blocked,
    /// It failed.
    Error {
        /// The failure.
        error: LlmFailure,
    },
    /// The model's answer hit its length limit.
    MaxTokens,
    /// The Host died while it ran; written by repair only.
    Interrupted,
    /// A kind this build does not know.
    #[serde(other)]
    Other,
}

/// Why a turn was aborted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AbortCause {
    /// A person stopped it.
    User,
    /// The delegating parent stopped it.
    Parent,
    /// A hook stopped it.
    Hook {
        /// What the hook said.
        reason: String,
    },
    /// The session was taken down.
    Disposed,
    /// An import that recorded no cause.
    Legacy,
}

/// `step/start` and `step/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMark {
    /// The open turn.
    pub turn: u64,
    /// 1-based, dense within the turn.
    pub step: u64,
}

/// `assistant/chunk`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantChunk {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// What arrived.
    pub chunk: StreamChunk,
}

/// `assistant/message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The assembled message; empty content anchors usage and derives no message.
    pub message: Message,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the stream was cut by a stop; only `true` is ever written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// `tool/call`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The call.
    pub call_id: CallId,
    /// The tool's name.
    pub name: String,
    /// The model's raw argument text.
    pub arguments: String,
}

/// `tool/result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The turn of the call.
    pub turn: u64,
    /// The step of the call.
    pub step: u64,
    /// The answer, exactly one tool-result block.
    pub message: Message,
    /// The structured error, where the failure has a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
    /// What a client may show beside the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A tool's failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// The error's class.
    pub name: String,
    /// Its stable code, such as `UNKNOWN_TOOL`.
    pub code: String,
}

/// Which model answers, and how it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestConfig {
    /// The provider's name; not empty.
    pub provider: String,
    /// The model's name; not empty.
    pub model: String,
    /// How hard it should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
}

/// Which fields of a [`RequestConfig`] the adapter filled in by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterDefaults {
    /// `reasoningEffort` is the adapter's own default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning_effort: bool,
    /// `maxTokens` is the adapter's own default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub max_tokens: bool,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name by which the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Json,
}

/// Everything of a model request but its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    /// Which model, and how.
    pub config: RequestConfig,
    /// Which parts of `config` nobody chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_defaults: Option<AdapterDefaults>,
    /// The system prompt; absent when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools in order; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolDefinition>>,
}

impl RequestHeader {
    /// The canonical form: no empty system, no empty tools, no defaults without a mark
    /// (`session.md` 1.10).
    pub fn canonical(mut self) -> Self {
        self.system = self.system.filter(|text| !text.is_empty());
        self.tools = self.tools.filter(|tools| !tools.is_empty());
        self.adapter_defaults = self
            .adapter_defaults
            .filter(|d| d.reasoning_effort || d.max_tokens);
        self
    }

    /// Whether both ask for the same, once canonical: tools in order, schemas as JSON values.
    pub fn same_request(&self, other: &Self) -> bool {
        let (a, b) = (self.clone().canonical(), other.clone().canonical());
        let tools = |a: &[ToolDefinition], b: &[ToolDefinition]| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| {
                    a.name == b.name
                        && a.description == b.description
                        && a.parameters.same_value(&b.parameters)
                })
        };
        a.config == b.config
            && a.adapter_defaults == b.adapter_defaults
            && a.system == b.system
            && tools(
                a.tools.as_deref().unwrap_or(&[]),
                b.tools.as_deref().unwrap_or(&[]),
            )
    }
}

/// Why a `request/header` was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeaderReason {
    /// The first one of the log.
    Initial,
    /// The first one of this process over an older log.
    Resume,
    /// It differs from the last one.
    Change,
    /// It is equal, but a new series of requests begins.
    Series,
}

/// `request/header`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeaderRecord {
    /// The header.
    pub header: RequestHeader,
    /// Why it is logged.
    pub reason: HeaderReason,
    /// Whether earlier requests are no longer a prefix of later ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_series: bool,
}

/// `request/context`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestContext {
    /// The provider asked.
    pub provider: String,
    /// The model asked.
    pub model: String,
    /// The window that the route advertises, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// `session/title`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTitle {
    /// The title, normalised.
    pub title: String,
    /// The messages it was made from; empty exactly when a person chose it.
    pub message_seqs: Vec<SessionSeq>,
    /// Who chose it.
    pub source: TitleSource,
}

/// Who chose a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TitleSource {
    /// The first words of the first prompt.
    Fallback,
    /// A model.
    Provider {
        /// The title provider asked.
        provider: String,
        /// The model asked, in whatever form the writer names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<serde_json::Value>,
    },
    /// A person: automatic titling never overwrites it.
    User,
}

/// Which inbox list a splice changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InboxTarget {
    /// Waits for a turn of its own: the queue.
    NextTurn,
    /// Joins the running turn at its next step.
    NextStep,
}

/// `agent/inbox/spliced`: every change of an inbox list, logged before it is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxSpliced {
    /// Which list.
    pub target: InboxTarget,
    /// Where in the list.
    pub start: u64,
    /// How many messages leave it there; written only when positive.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed_count: u64,
    /// The messages that enter there: user messages, verbatim.
    pub inserted: Vec<Json>,
    /// Present when the removal discards: a claim has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SpliceOutcome>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What a removal from the inbox means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpliceOutcome {
    /// The messages were discarded, edited or replaced.
    Canceled,
}

/// `approval/asked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAsked {
    /// The audit id, which is the interaction's id.
    pub id: String,
    /// The tool that wants to run.
    pub tool_name: String,
    /// Its call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Why a person has to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `approval/decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The audit id.
    pub id: String,
    /// The decision.
    pub outcome: ApprovalOutcome,
}

/// How a question for approval was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalOutcome {
    /// The only grant: this call, once.
    AllowedOnce,
    /// A person refused.
    Rejected,
    /// The turn was stopped meanwhile.
    Cancelled,
    /// Nobody could answer.
    Unavailable,
}

/// `approval/policy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalPolicyRecord {
    /// Whether questions are asked at all.
    pub policy: ApprovalPolicy,
    /// What set it, where that is not a person: `delegation` for what a subagent was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Whether questions are asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalPolicy {
    /// A person is asked.
    Ask,
    /// What would need a question is refused.
    Never,
}

/// `sandbox/mode`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxModeRecord {
    /// What commands and tools may touch.
    pub mode: SandboxMode,
    /// What set it, where that is not a person: `delegation` for what a subagent was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What tools may touch; also the permission presets of the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing is written; commands ask.
    ReadOnly,
    /// Writes inside the workspace are allowed; commands ask.
    WorkspaceWrite,
    /// Never asks.
    DangerFullAccess,
}

impl SandboxMode {
    /// The mode's name as logged and configured.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

/// `job/started`: a background job began. Skippable by readers that do not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStarted {
    /// 1.
    pub version: u64,
    /// The job's id.
    pub job_id: String,
    /// What it is, such as `subagent`.
    pub kind: String,
    /// What it does, for people.
    pub label: String,
    /// The tool call that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// When it began.
    pub started_at: Timestamp,
}

/// `job/finished`: a background job ended. Skippable by readers that do not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobFinished {
    /// 1.
    pub version: u64,
    /// The job's id.
    pub job_id: String,
    /// How it ended.
    pub status: JobEnd,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// How a background job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobEnd {
    /// By itself.
    Completed,
    /// It was stopped.
    Killed,
    /// It failed.
    Failed,
}

/// `permission/preset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionPreset {
    /// The preset's name.
    pub preset: String,
}

/// `model/selection`: the model that a person chose for the next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSelection {
    /// The provider's name.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// How hard it should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// `agent-preset/selected`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPresetSelected {
    /// The preset's id.
    pub agent_preset: String,
}

/// `llm/retry`: a failed attempt will be repeated after a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmRetry {
    /// Groups the attempts of one step.
    pub retry_id: String,
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The provider asked.
    pub provider: String,
    /// `normal` or `always`.
    pub mode: String,
    /// Which policy counts.
    pub policy_key: String,
    /// The number of this retry, from 1.
    pub retry: u64,
    /// The most there will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
    /// The wait before it.
    pub delay_ms: u64,
    /// What failed.
    pub failure: LlmFailure,
}

/// `llm/retry-started`: the wait is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmRetryStarted {
    /// Groups the attempts of one step.
    pub retry_id: String,
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The number of this retry.
    pub retry: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_of_a_foreign_title_provider_reads_whatever_form_its_model_has() {
        let text = r#"{"title":"t","messageSeqs":[7],"source":{"kind":"provider","provider":"p","model":{"provider":"a","model":"b"}}}"#;
        let title: SessionTitle = serde_json::from_str(text).unwrap();
        assert!(matches!(title.source, TitleSource::Provider { .. }));
    }
}
