//! Errors as values: stable codes, their HTTP status, and the body that carries them.
//!
//! The spelling is the one of the wire; libraries below keep their own codes and the Host maps them
//! here. `details` has a shape fixed by the code.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $retryable:literal; )+) => {
        /// What went wrong, by a stable name. Clients show failures by code and message.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( $(#[$doc])* $variant, )+
            /// A code that this build does not know; only ever read, never raised.
            Other(Arc<str>),
        }

        impl ErrorCode {
            /// Every code that this build raises, in the order of the documentation.
            pub const ALL: &[Self] = &[$( Self::$variant, )+];

            /// The code as it stands on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $text, )+
                    Self::Other(text) => text,
                }
            }

            /// The HTTP status that a unary failure with this code has; 500 for an unknown code.
            pub fn http_status(&self) -> u16 {
                match self {
                    $( Self::$variant => $status, )+
                    Self::Other(_) => 500,
                }
            }

            /// Whether the same call may succeed later without anybody changing anything.
            pub fn retryable(&self) -> bool {
                match self {
                    $( Self::$variant => $retryable, )+
                    Self::Other(_) => false,
                }
            }

            /// The code that stands on the wire as `text`.
            pub fn parse(text: &str) -> Self {
                match text {
                    $( $text => Self::$variant, )+
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

codes! {
    /// The request does not fit the operation; `details.field` names the culprit where there is one.
    BadRequest = "gateway/bad-request", 400, false;
    /// The caller went away, or the deadline passed (`details.reason` is then `deadline`).
    Cancelled = "gateway/cancelled", 499, true;
    /// Anything unexpected; the message tells nothing about the backend.
    Internal = "gateway/internal", 500, false;
    /// No credential, or one that is not valid any more.
    Unauthenticated = "gateway/unauthenticated", 401, false;
    /// The request comes from a foreign page or names a foreign host.
    UntrustedOrigin = "gateway/untrusted-origin", 403, false;
    /// No such operation, or one that this build does not offer; `{endpoint}`.
    UnknownMethod = "gateway/unknown-method", 404, false;
    /// The body is larger than the limit; `{limit}`.
    TooLarge = "gateway/too-large", 413, false;
    /// The body is not `application/json`.
    UnsupportedMediaType = "gateway/unsupported-media-type", 415, false;
    /// A stream fell so far behind that its range cannot be supplied; open it again.
    Overflow = "gateway/overflow", 503, true;
    /// The log cannot be reached right now.
    StorageUnavailable = "storage/unavailable", 503, true;

    /// No such session, or one that the operation needs live and is not; `{sessionId}`.
    SessionNotFound = "session/not-found", 404, false;
    /// The model cannot be routed or refuses its configuration; `{provider, model}`.
    ModelUnavailable = "session/model-unavailable", 422, false;
    /// The id exists with another folder, or the request id with another content;
    /// `{sessionId, requestedCwd?, existingCwd?}`.
    SessionConflict = "session/conflict", 409, false;
    /// Neither `UTC` nor a known Area/Location name; `{value}`.
    InvalidTimeZone = "session/invalid-time-zone", 400, false;
    /// The session exists now, but not in its workspace; `{sessionId, workspaceId}`.
    WorkspaceAttachFailed = "session/workspace-attach-failed", 500, true;
    /// A subagent owns the session, or it is busy otherwise; `{reason}`.
    AgentBusy = "session/agent-busy", 409, true;
    /// An image or file was refused or cannot be read; `{reason}`.
    AttachmentInvalid = "session/attachment-invalid", 400, false;
    /// The queue has no such row any more; `{itemId}`.
    QueueItemNotFound = "session/queue-item-not-found", 404, false;
    /// The moment for steering has passed and the row stays; `{itemId}`.
    SteerUnavailable = "session/steer-unavailable", 409, false;
    /// The title has no visible character; `{sessionId}`.
    TitleInvalid = "session/title-invalid", 400, false;
    /// There is no finished turn to fork at; `{sessionId}`.
    ForkUnavailable = "session/fork-unavailable", 409, false;
    /// Another process writes this session; `{sessionId}`.
    WriterHeld = "session/writer-held", 409, true;

    /// No such pending question or approval; `{interactionId}`.
    InteractionNotFound = "interaction/not-found", 404, false;
    /// The answer does not fit the question, which stays pending; `{interactionId, reason}`.
    AnswerInvalid = "interaction/answer-invalid", 422, false;

    /// No such background job; `{jobId}`.
    JobNotFound = "job/not-found", 404, false;

    /// No such workspace; `{workspaceId}`.
    WorkspaceNotFound = "workspace/not-found", 404, false;
    /// The folder cannot be a workspace; `{path}`.
    WorkspaceInvalidPath = "workspace/invalid-path", 400, false;
    /// The name is taken; `{name}`.
    WorkspaceNameConflict = "workspace/name-conflict", 409, false;
    /// The move makes no sense; `{workspaceId, sessionId, beforeSessionId?}`.
    WorkspaceMoveInvalid = "workspace/move-invalid", 422, false;
    /// The folder cannot be listed; `{path}`.
    DirectoryUnreadable = "directory/unreadable", 422, false;
    /// The folder exists already; `{path}`.
    DirectoryExists = "directory/exists", 409, false;
    /// The folder could not be made; `{path}`.
    DirectoryCreateFailed = "directory/create-failed", 422, false;

    /// No such preset; `{agentPreset, available}`.
    AgentPresetNotFound = "agent-preset/not-found", 404, false;
    /// The preset cannot be used; `{agentPreset, reason}`.
    AgentPresetInvalid = "agent-preset/invalid", 422, false;
    /// The session runs under another preset; `{sessionId, requestedPreset, existingPreset?}`.
    AgentPresetConflict = "agent-preset/conflict", 409, false;
    /// The preset is built in; `{agentPreset, reason}`.
    AgentPresetReadOnly = "agent-preset/read-only", 409, false;
    /// The session's preset is fixed by now; `{sessionId, agentPreset}`.
    AgentPresetLocked = "agent-preset/locked", 409, false;

    /// No such child; `{parentSessionId, childSessionId}`.
    SubagentNotFound = "subagent/not-found", 404, false;
    /// The child's identity cannot be read;
    /// `{parentSessionId, childSessionId, reason: corrupt|unsupported|unavailable}`.
    SubagentCatalogDiagnostic = "subagent/catalog-diagnostic", 422, false;
    /// The child belongs to another parent or has another mode; `{childSessionId}`.
    SubagentUnauthorized = "subagent/unauthorized", 403, false;
    /// The child had one task and cannot be spoken to again; `{childSessionId}`.
    SubagentNotResumable = "subagent/not-resumable", 422, false;
    /// The message could not be handed to the child; `{childSessionId}`.
    SubagentDeliveryUnavailable = "subagent/delivery-unavailable", 503, true;
    /// The parent is neither live nor resumable; `{parentSessionId}`.
    SubagentParentUnavailable = "subagent/parent-unavailable", 503, false;
    /// The listing has no corpus to ask; `{reason}`.
    SubagentQueryUnavailable = "subagent/query-unavailable", 503, true;
    /// The listing has no projections to ask; `{reason}`.
    SubagentProjectionsUnavailable = "subagent/projections-unavailable", 503, true;
    /// The listing has no registry of live sessions to ask; `{reason}`.
    SubagentSessionStoreUnavailable = "subagent/session-store-unavailable", 503, true;

    /// A setting was refused; `{ns}`.
    SettingsRejected = "settings/rejected", 422, false;
    /// The settings changed meanwhile; `{ns, expected, actual}`.
    SettingsConflict = "settings/conflict", 409, false;
    /// A credential was refused; `{ref}`.
    CredentialRejected = "credential/rejected", 422, false;
    /// A provider would not list its models; `{settingsNs, baseURL?}`.
    ModelDiscoveryFailed = "model/discovery-failed", 503, true;
    /// A command failed.
    CommandError = "command/error", 422, false;
    /// No such command.
    CommandUnknown = "command/not-found", 404, false;
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

/// A failure of a call or a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message} ({code})")]
pub struct ApiError {
    /// The stable name of the failure, such as `session/not-found`.
    #[schemars(with = "String")]
    pub code: ErrorCode,
    /// What happened and what to do, for a person.
    pub message: String,
    /// Facts for a program; the keys are fixed by the code.
    #[serde(default)]
    pub details: Map<String, Value>,
    /// Whether the same call may succeed later without anybody changing anything.
    #[serde(default)]
    pub retryable: bool,
}

impl ApiError {
    /// A failure with empty details; `retryable` follows the code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let retryable = code.retryable();
        Self {
            code,
            message: message.into(),
            details: Map::new(),
            retryable,
        }
    }

    /// Adds one detail; a value that is not JSON becomes `null`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.details.insert(key.to_owned(), value);
        self
    }

    /// The HTTP status of a unary call that failed so.
    pub fn http_status(&self) -> u16 {
        self.code.http_status()
    }

    /// A request that does not fit; `field` is the culprit's name on the wire.
    pub fn bad_request(field: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message).with("field", field)
    }

    /// A request that could not be read as what the operation takes.
    ///
    /// `details.field` is the field that the reader names, where it names one.
    pub fn malformed(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let bad = Self::new(
            ErrorCode::BadRequest,
            format!("the request is malformed: {text}"),
        );
        // The reader has no other way to tell than its words: unknown field `x`, missing field `x`.
        match text
            .split_once("field `")
            .and_then(|(_, rest)| rest.split_once('`'))
        {
            Some((field, _)) => bad.with("field", field),
            None => bad,
        }
    }

    /// Something unexpected. The message is fixed, so that nothing of the backend leaks.
    pub fn internal() -> Self {
        Self::new(
            ErrorCode::Internal,
            "the Host failed unexpectedly; its log says why",
        )
    }

    /// The caller went away.
    pub fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the call was cancelled")
    }

    /// The call ran longer than its deadline.
    pub fn deadline() -> Self {
        Self::new(
            ErrorCode::Cancelled,
            "the call took longer than its deadline",
        )
        .with("reason", "deadline")
    }

    /// No operation has this name.
    pub fn unknown_method(endpoint: &str) -> Self {
        Self::new(
            ErrorCode::UnknownMethod,
            format!("this Host has no operation {endpoint:?}"),
        )
        .with("endpoint", endpoint)
    }

    /// No session has this id, or the operation needs it live and it is not.
    pub fn session_not_found(session_id: &str) -> Self {
        Self::new(
            ErrorCode::SessionNotFound,
            format!("there is no session {session_id:?}"),
        )
        .with("sessionId", session_id)
    }

    /// The session cannot take this now; `reason` says why and what to do instead.
    pub fn agent_busy(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::new(ErrorCode::AgentBusy, reason.clone()).with("reason", reason)
    }

    /// The fence around sessions that a subagent owns.
    pub fn subagent_owned() -> Self {
        Self::agent_busy("use subagent delivery for this child session")
    }

    /// The model cannot be used.
    pub fn model_unavailable(provider: &str, model: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ModelUnavailable, message)
            .with("provider", provider)
            .with("model", model)
    }

    /// The queue has no such row any more.
    pub fn queue_item_not_found(item_id: &str) -> Self {
        Self::new(
            ErrorCode::QueueItemNotFound,
            "this queued message is gone already",
        )
        .with("itemId", item_id)
    }

    /// No such pending question or approval.
    pub fn interaction_not_found(interaction_id: &str) -> Self {
        Self::new(
            ErrorCode::InteractionNotFound,
            "there is no such pending request",
        )
        .with("interactionId", interaction_id)
    }

    /// No such workspace.
    pub fn workspace_not_found(workspace_id: &str) -> Self {
        Self::new(
            ErrorCode::WorkspaceNotFound,
            format!("there is no workspace {workspace_id:?}"),
        )
        .with("workspaceId", workspace_id)
    }
}

/// The body of a unary call that failed: `{"error":{…}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The failure.
    pub error: ApiError,
}

impl From<ApiError> for ErrorBody {
    fn from(error: ApiError) -> Self {
        Self { error }
    }
}
