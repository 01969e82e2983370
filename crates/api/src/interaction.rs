//! The `interaction` namespace: what waits for a person, and the answer.

use orrery_session::{CallId, SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What kind of answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InteractionKind {
    /// May a tool run?
    Approval,
    /// One or more questions.
    Question,
    /// Is a plan good?
    PlanReview,
}

/// Whether an answer is still possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InteractionState {
    /// It waits.
    Pending,
    /// The turn that asked was interrupted by a restart of the Host.
    Expired,
}

/// Something that waits for a person. It keeps its id over reconnects and settles exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interaction {
    /// The approval's audit id, or the id of the asking call.
    #[schemars(with = "schema::Id")]
    pub interaction_id: String,
    /// The session that asks.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// The ordinary session above it; the same one when it is ordinary itself.
    #[schemars(with = "schema::Id")]
    pub root_session_id: SessionId,
    /// What kind of answer is wanted.
    pub kind: InteractionKind,
    /// Whether an answer is still possible.
    pub state: InteractionState,
    /// When it was asked.
    #[schemars(with = "schema::Time")]
    pub created_at: Timestamp,
    /// What is asked.
    pub request: InteractionRequest,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InteractionRequest {
    /// May a tool run?
    Approval(ApprovalRequest),
    /// Questions; also the shape of a plan's review.
    Questions(QuestionsRequest),
}

/// May a tool run? Its arguments stand in the log's `tool/call` of the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// The tool.
    pub tool_name: String,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Id>")]
    pub call_id: Option<CallId>,
    /// Why it needs a person, for that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One batch of questions, answered together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionsRequest {
    /// At least one question.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its id within the batch.
    pub id: String,
    /// The question.
    pub question: String,
    /// A short heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// More about it, such as the plan under review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What can be chosen; free text when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<QuestionOption>>,
    /// Whether several options may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_select: Option<bool>,
    /// What the question is for, where the page treats it specially.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<QuestionIntent>,
}

/// One thing that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOption {
    /// What stands on it; also its identity.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What a question is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionIntent {
    /// `plan-review`.
    pub kind: String,
    /// The label of the option that approves.
    pub approve: String,
}

/// `interaction/answer`: settle one interaction. Live only; also for subagents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnswerRequest {
    /// The session that asks.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
    /// What is answered.
    #[schemars(with = "schema::Id")]
    pub interaction_id: String,
    /// The answer.
    pub outcome: InteractionOutcome,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum InteractionOutcome {
    /// To an approval.
    Approval {
        /// The decision.
        value: ApprovalValue,
        /// What to tell the model, with a refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// To questions: every one exactly once.
    Answers {
        /// The answers.
        answers: Vec<QuestionAnswer>,
    },
    /// None: the request is withdrawn by the person.
    Cancel,
}

/// The decision on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalValue {
    /// This call may run.
    AllowedOnce,
    /// This call may not run.
    Rejected,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct QuestionAnswer {
    /// The question's id.
    pub id: String,
    /// The chosen labels.
    pub selected: Vec<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
}

/// Whether the answer counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerResponse {
    /// `false` when somebody or something settled it before.
    pub accepted: bool,
    /// How it was settled, when `accepted` is `false`: `allowed-once`, `rejected`, `cancelled`,
    /// `unavailable`, `answered`, `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_as: Option<String>,
}
