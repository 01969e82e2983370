//! What no log can say: workspaces, archive marks, the default model.
//!
//! One small file, versioned, replaced atomically with every change, read once at start.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use orrery_api::workspace::Workspace;
use orrery_session::SessionId;
use orrery_session::payload::ModelSelection;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// It could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not what this build writes.
    #[error("{}: {why}; move it away to start with an empty one", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostState {
    version: u32,
    /// The workspaces, in the order in which they were added.
    #[serde(default)]
    pub workspaces: Vec<Workspace>,
    /// The sessions that were put away.
    #[serde(default)]
    pub archived: Vec<SessionId>,
    /// The model that a person chose last; new sessions start with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<ModelSelection>,
    /// What the configuration's default was when it was chosen: a changed configuration wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model_over: Option<String>,
    /// Names this Host for life.
    pub host_id: String,
}

/// The file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    state: Mutex<HostState>,
}

impl StateFile {
    /// Reads the file; an absent one is empty.
    pub fn open(path: PathBuf, fresh_host_id: String) -> Result<Self, StateFileError> {
        let mut fresh = false;
        let state = match std::fs::read_to_string(&path) {
            Ok(text) => {
                let malformed = |why| StateFileError::Malformed {
                    path: path.clone(),
                    why,
                };
                let state: HostState =
                    serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
                if state.version != VERSION {
                    let why = format!("its version is {}, not {VERSION}", state.version);
                    return Err(malformed(why));
                }
                state
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fresh = true;
                HostState {
                    version: VERSION,
                    workspaces: Vec::new(),
                    archived: Vec::new(),
                    default_model: None,
                    default_model_over: None,
                    host_id: fresh_host_id,
                }
            }
            Err(source) => return Err(StateFileError::Io { path, source }),
        };
        if fresh {
            // The Host keeps its name from the first start on.
            write(&path, &state)?;
        }
        Ok(Self {
            path,
            state: Mutex::new(state),
        })
    }

    /// The content now.
    pub fn get(&self) -> HostState {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the content; it counts once it is on disk.
    pub fn change<T>(&self, change: impl FnOnce(&mut HostState) -> T) -> Result<T, StateFileError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = state.clone();
        let result = change(&mut next);
        if next != *state {
            write(&self.path, &next)?;
            *state = next;
        }
        Ok(result)
    }
}

fn write(path: &Path, state: &HostState) -> Result<(), StateFileError> {
    let io = |source| StateFileError::Io {
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_vec_pretty(state).map_err(|e| io(e.into()))?;
    crate::home::replace_file(path, &text).map_err(|e| io(std::io::Error::other(e.to_string())))
}
