//! The closed vocabulary of event types that this build knows, and the open rest.

use std::collections::BTreeSet;
use std::sync::Arc;

macro_rules! event_types {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// What kind of fact an event records (`session.md` 1.7).
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType {
            $(#[doc = $doc] $variant,)*
            /// A type outside the vocabulary: legal only when the event is ignorable or the name
            /// is registered in the [`Vocabulary`].
            Unknown(Arc<str>),
        }

        impl EventType {
            /// All types of the vocabulary.
            pub const KNOWN: &[Self] = &[$(Self::$variant,)*];

            /// The type's name as logged.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(name) => name,
                }
            }

            /// The type of that name.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Unknown(other.into()),
                }
            }
        }
    };
}

event_types! {
    AgentPresetSelected = "agent-preset/selected", "The agent preset changed.";
    InboxSpliced = "agent/inbox/spliced", "An inbox list changed.";
    ApprovalAsked = "approval/asked", "A tool call waits for a person.";
    ApprovalDecided = "approval/decided", "A person, or the lack of one, decided.";
    ApprovalPolicy = "approval/policy", "Whether questions are asked at all.";
    AssistantChunk = "assistant/chunk", "A piece of the model's answer arrived.";
    AssistantMessage = "assistant/message", "The model's answer, assembled.";
    CommandRun = "command/run", "A slash command was run.";
    CommandDone = "command/done", "A slash command ended.";
    CompactionStart = "compaction/start", "A compaction began.";
    CompactionEnd = "compaction/end", "A compaction ended.";
    CompactionSummary = "compaction/summary", "A summary that replaces a range.";
    CompactionPrune = "compaction/prune", "A pruned range.";
    FeedbackRecord = "feedback/record", "Feedback on the session.";
    GoalChange = "goal/change", "The goal changed.";
    HookInvoked = "hook/invoked", "A hook was run.";
    HookResult = "hook/result", "A hook answered.";
    JobStarted = "job/started", "A background job began.";
    JobFinished = "job/finished", "A background job ended.";
    LlmRetry = "llm/retry", "A failed model call will be repeated.";
    LlmRetryStarted = "llm/retry-started", "It is being repeated.";
    PermissionPreset = "permission/preset", "The permission preset changed.";
    PlanMode = "plan/mode", "Plan mode went on or off.";
    RequestContext = "request/context", "The route's advertised window.";
    RequestHeader = "request/header", "Everything of a request but its messages.";
    SandboxMode = "sandbox/mode", "What tools may touch changed.";
    ScheduleChange = "schedule/change", "A schedule changed.";
    SessionEndSeed = "session/end-seed", "What follows was made by this process.";
    SessionTitle = "session/title", "The title changed.";
    SessionTitleRequest = "session/title-llm-request", "A model was asked for a title.";
    StepStart = "step/start", "A step began.";
    StepEnd = "step/end", "A step ended.";
    TurnStart = "turn/start", "A turn began.";
    TurnEnd = "turn/end", "A turn ended.";
    TodoWrite = "todo/write", "The to-do list, whole.";
    ToolCall = "tool/call", "A tool call is about to start.";
    ToolResult = "tool/result", "A tool answered.";
    UserMessage = "user/message", "A message that the model reads.";
    SubagentDescriptor = "subagent/descriptor", "What a subagent is.";
    TeamMember = "team/member", "A team member changed.";
    TeamMessageQueued = "team/message/queued", "A team message waits.";
    TeamMessageDelivered = "team/message/delivered", "A team message arrived.";
    TeamTask = "team/task", "A team task changed.";
    WorkflowRunStart = "tool-workflow/run-start", "A workflow began.";
    WorkflowAgentStart = "tool-workflow/agent-start", "A workflow's agent began.";
    WorkflowAgentEnd = "tool-workflow/agent-end", "A workflow's agent ended.";
    WorkflowRunEnd = "tool-workflow/run-end", "A workflow ended.";
    CodeDispatchStart = "tool/code-dispatch-start", "Code called a tool.";
    CodeDispatch = "tool/code-dispatch", "The tool answered the code.";
    WebSearchRequest = "web/deepseek-search-llm-request", "A search model was asked.";
    ModelSelection = "model/selection", "A person chose the next model.";
    SubagentModelPolicy = "subagent/model-selection-policy", "How subagents choose models.";
    DeliveryAccepted = "session-log-deepseek/delivery-accepted", "A delivery was accepted.";
}

impl EventType {
    /// Whether events of this type are what the model sees (`session.md` 1.8).
    pub const fn is_surface(&self) -> bool {
        matches!(
            self,
            Self::UserMessage | Self::AssistantMessage | Self::ToolResult
        )
    }

    /// Whether the name was once used and is refused everywhere (`session.md` 1.5).
    pub fn is_retired(&self) -> bool {
        match self {
            Self::Unknown(name) => matches!(name.as_ref(), "request/header-delta" | "mode/set"),
            // All others are the present vocabulary.
            _ => false,
        }
    }
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which types outside the built-in set are accepted without being ignorable.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    registered: BTreeSet<String>,
}

impl Vocabulary {
    /// The built-in set and `registered`.
    pub fn with(registered: impl IntoIterator<Item = String>) -> Self {
        Self {
            registered: registered.into_iter().collect(),
        }
    }

    /// Whether an event of this type may stand in a log.
    pub fn accepts(&self, event_type: &EventType, ignorable: bool) -> bool {
        match event_type {
            EventType::Unknown(name) => ignorable || self.registered.contains(name.as_ref()),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_reads_back_as_its_type() {
        assert_eq!(EventType::KNOWN.len(), 53);
        for known in EventType::KNOWN {
            assert_eq!(&EventType::from_name(known.as_str()), known);
        }
    }
}
