//! The `workspace` namespace: folders that sessions belong to, and looking for one.

use orrery_session::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A folder that people work in. A session belongs to the workspace whose path equals its `cwd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Its id.
    #[schemars(with = "schema::Id")]
    pub workspace_id: String,
    /// The folder, absolute.
    pub path: String,
    /// Its name; the folder's own name at first.
    pub title: String,
    /// When it was added.
    #[schemars(with = "schema::Time")]
    pub created_at: Timestamp,
}

/// `workspace/list`: every workspace, in the order they were added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceListResponse {
    /// The workspaces.
    pub items: Vec<Workspace>,
}

/// `workspace/add`: make a folder a workspace; one that is one already is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkspaceAddRequest {
    /// An absolute path of an existing folder.
    pub path: String,
}

/// The workspace that exists now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceAddResponse {
    /// The workspace.
    pub workspace: Workspace,
    /// Whether it is new.
    pub created: bool,
}

/// `workspace/rename`: give it another name; the folder stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkspaceRenameRequest {
    /// The workspace.
    #[schemars(with = "schema::Id")]
    pub workspace_id: String,
    /// The name; it needs a visible character.
    pub title: String,
}

/// The workspace with its new name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceRenameResponse {
    /// The workspace.
    pub workspace: Workspace,
}

/// `workspace/remove`: forget a workspace; folder and sessions stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkspaceRemoveRequest {
    /// The workspace.
    #[schemars(with = "schema::Id")]
    pub workspace_id: String,
}

/// The workspace is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceRemoveResponse {
    /// Always `true`.
    pub removed: bool,
}

/// `workspace/listDirectory`: the folders in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListDirectoryRequest {
    /// An absolute path; the folder that new sessions get by default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The folders in a folder; files are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListDirectoryResponse {
    /// The folder, absolute and normalised.
    pub path: String,
    /// The folder above; `null` at the root.
    pub parent: Option<String>,
    /// Its folders by name.
    pub entries: Vec<DirectoryEntry>,
    /// Whether there are more than these.
    pub truncated: bool,
}

/// One folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: String,
    /// Its absolute path.
    pub path: String,
    /// Whether its name starts with a dot.
    pub hidden: bool,
}
