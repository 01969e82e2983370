//! The one table of operations. The Host routes by it; documentation, OpenAPI and TypeScript are
//! emitted from it.

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent_preset as preset;
use crate::content::{Accepted, Empty};
use crate::{catalog, control, hello, history, host, interaction, job, model, queue, session};
use crate::{subagent, workspace};

/// How an operation is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `POST /api/<name>` with one answer.
    Unary,
    /// Over the stream socket, or as Server-Sent Events.
    Stream,
}

/// What an operation may do to a session's liveness. Looking never activates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// It reads, or concerns no session; nothing becomes live.
    Never,
    /// It needs a live session and makes none.
    LiveOnly,
    /// It resumes an ordinary session that is cold.
    MayResume,
    /// It makes a session.
    Creates,
}

/// What happens when the target belongs to a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// No single session is meant.
    None,
    /// It is allowed.
    Allowed,
    /// It is refused with `session/agent-busy`.
    Refused,
    /// It is allowed through the address of the subagent only.
    Address,
}

/// An operation as a type, for typed routing and typed clients.
pub trait Procedure {
    /// What is sent.
    type Request: DeserializeOwned + Serialize;
    /// What comes back: the answer, or each item of the stream.
    type Response: DeserializeOwned + Serialize;
    /// The row of the table.
    const OPERATION: Operation;
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// `<namespace>/<method>`.
    pub name: &'static str,
    /// How it is called.
    pub kind: Kind,
    /// What it may do to a session's liveness.
    pub activation: Activation,
    /// What happens when the target belongs to a subagent.
    pub fence: Fence,
    /// After how many seconds a unary call fails by itself; `None` for never.
    pub deadline_seconds: Option<u32>,
    /// Whether this build offers it; otherwise it answers `gateway/unknown-method`.
    pub implemented: bool,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The schema of its request.
    pub request: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its answer or of its items.
    pub response: fn(&mut SchemaGenerator) -> Schema,
}

impl Operation {
    /// The part of the name before the slash.
    pub fn namespace(&self) -> &'static str {
        self.name
            .split_once('/')
            .map_or(self.name, |(namespace, _)| namespace)
    }

    /// The part of the name after the slash.
    pub fn method(&self) -> &'static str {
        self.name.split_once('/').map_or("", |(_, method)| method)
    }
}

/// The row called `name`, whether or not this build offers it.
pub fn find(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

macro_rules! operations {
    ($(
        $marker:ident = $name:literal: $kind:ident, $activation:ident, $fence:ident,
            $deadline:expr, $implemented:literal, $request:ty => $response:ty, $summary:literal;
    )+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $summary)]
            #[derive(Debug, Clone, Copy)]
            pub struct $marker;

            impl Procedure for $marker {
                type Request = $request;
                type Response = $response;
                const OPERATION: Operation = Operation {
                    name: $name,
                    kind: Kind::$kind,
                    activation: Activation::$activation,
                    fence: Fence::$fence,
                    deadline_seconds: $deadline,
                    implemented: $implemented,
                    summary: $summary,
                    request: SchemaGenerator::subschema_for::<$request>,
                    response: SchemaGenerator::subschema_for::<$response>,
                };
            }
        )+

        /// Every operation, in the order of the documentation.
        pub static OPERATIONS: &[Operation] = &[$( $marker::OPERATION, )+];
    };
}

const NORMAL: Option<u32> = Some(30);

operations! {
    SessionList = "session/list": Unary, Never, Allowed, NORMAL, true,
        session::ListRequest => session::ListResponse, "rows of sessions, newest first";
    SessionSearch = "session/search": Unary, Never, Allowed, NORMAL, true,
        session::SearchRequest => session::SearchResponse, "text in titles and messages";
    SessionCreate = "session/create": Unary, Creates, Refused, NORMAL, true,
        session::CreateRequest => session::CreateResponse, "make a session, or adopt the same id";
    SessionPrompt = "session/prompt": Unary, MayResume, Refused, NORMAL, true,
        session::PromptRequest => session::PromptResponse, "say something";
    SessionCancel = "session/cancel": Unary, LiveOnly, Refused, None, true,
        session::CancelRequest => session::CancelResponse, "stop the running turn";
    SessionRename = "session/rename": Unary, MayResume, Refused, NORMAL, true,
        session::RenameRequest => session::RenameResponse, "give a lasting title";
    SessionFork = "session/fork": Unary, Creates, Allowed, NORMAL, true,
        session::ForkRequest => session::ForkResponse, "branch off after a finished turn";
    SessionSelectModel = "session/selectModel": Unary, MayResume, Refused, NORMAL, true,
        model::SelectModelRequest => model::SelectModelResponse, "choose the next model";
    SessionModelCatalog = "session/modelCatalog": Unary, Never, None, NORMAL, true,
        Empty => model::ModelCatalog, "what can be chosen";
    SessionUpdateQueue = "session/updateQueue": Unary, LiveOnly, Refused, NORMAL, true,
        queue::UpdateQueueRequest => Accepted, "change one waiting message";
    SessionResumeQueue = "session/resumeQueue": Unary, MayResume, Refused, NORMAL, true,
        queue::ResumeQueueRequest => Accepted, "let a parked queue run on";
    SessionPage = "session/page": Unary, Never, Address, NORMAL, true,
        history::PageRequest => history::PageResponse, "older history, aligned to messages";
    SessionAttachment = "session/attachment": Unary, Never, Allowed, NORMAL, false,
        session::AttachmentRequest => session::AttachmentResponse, "the bytes of a mentioned image";
    SessionArchive = "session/archive": Unary, Never, Refused, NORMAL, true,
        session::SessionRequest => Accepted, "put a session away";
    SessionUnarchive = "session/unarchive": Unary, Never, Refused, NORMAL, true,
        session::SessionRequest => Accepted, "take a session out again";
    SessionDelete = "session/delete": Unary, Never, Refused, NORMAL, true,
        session::SessionRequest => Accepted, "move a session to the trash";
    SessionRestore = "session/restore": Unary, Never, Refused, NORMAL, true,
        session::SessionRequest => Accepted, "take a session out of the trash";
    SessionTrash = "session/trash": Unary, Never, None, NORMAL, true,
        Empty => session::TrashResponse, "what can be restored";
    SubagentList = "subagent/list": Unary, Never, Allowed, NORMAL, true,
        subagent::SubagentListRequest => subagent::SubagentListResponse, "children of a session";
    SubagentPrompt = "subagent/prompt": Unary, MayResume, Allowed, NORMAL, true,
        subagent::SubagentPromptRequest => subagent::SubagentPromptResponse, "speak to a child";
    SubagentInterrupt = "subagent/interrupt": Unary, Never, Allowed, NORMAL, true,
        subagent::SubagentInterruptRequest => Accepted, "stop a child's running turn";
    InteractionAnswer = "interaction/answer": Unary, LiveOnly, Allowed, NORMAL, true,
        interaction::AnswerRequest => interaction::AnswerResponse, "settle an approval or question";
    JobOutput = "job/output": Unary, LiveOnly, Allowed, NORMAL, true,
        job::JobOutputRequest => job::JobOutputResponse, "a piece of a job's output";
    JobKill = "job/kill": Unary, LiveOnly, Allowed, NORMAL, true,
        job::JobKillRequest => Accepted, "stop a job";
    AgentPresetList = "agentPreset/list": Unary, Never, None, NORMAL, false,
        Empty => preset::AgentPresetListResponse, "the presets";
    AgentPresetSelect = "agentPreset/select": Unary, MayResume, Refused, NORMAL, false,
        preset::AgentPresetSelectRequest => preset::AgentPresetSelectResponse, "switch a session's preset";
    WorkspaceList = "workspace/list": Unary, Never, None, NORMAL, true,
        Empty => workspace::WorkspaceListResponse, "the workspaces";
    WorkspaceAdd = "workspace/add": Unary, Never, None, NORMAL, true,
        workspace::WorkspaceAddRequest => workspace::WorkspaceAddResponse, "make a folder a workspace";
    WorkspaceRename = "workspace/rename": Unary, Never, None, NORMAL, true,
        workspace::WorkspaceRenameRequest => workspace::WorkspaceRenameResponse, "name a workspace";
    WorkspaceRemove = "workspace/remove": Unary, Never, None, NORMAL, true,
        workspace::WorkspaceRemoveRequest => workspace::WorkspaceRemoveResponse, "forget a workspace";
    WorkspaceListDirectory = "workspace/listDirectory": Unary, Never, None, NORMAL, true,
        workspace::ListDirectoryRequest => workspace::ListDirectoryResponse, "the folders in a folder";
    HostStats = "host/stats": Unary, Never, None, NORMAL, true,
        Empty => host::HostStats, "how the process is doing";
    HostLaunchLink = "host/launchLink": Unary, Never, None, NORMAL, true,
        Empty => host::LaunchLinkResponse, "a link that signs a browser in once";
    HostHello = "host/hello": Stream, Never, None, None, true,
        Empty => hello::HelloItem, "who the Host is, then one-way news; opened before anything else";
    SessionFollow = "session/follow": Stream, Never, Address, None, true,
        history::FollowRequest => history::FollowItem, "the tail of a log, then every event";
    SessionControl = "session/control": Stream, Never, None, None, true,
        Empty => control::ControlItem, "queues, jobs, interactions and projections";
    SessionCatalog = "session/catalog": Stream, Never, None, None, true,
        catalog::CatalogRequest => catalog::CatalogItem, "rows of sessions, kept up to date";
}
