//! Which sessions are live in this process, and bringing a session to life once.
//!
//! The only place that knows actors by id. Concurrent wishes to activate one id share one
//! activation (`controller.md` 1.17).

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use orrery_agent::SessionHandle;
use orrery_api::error::ApiError;
use orrery_session::SessionId;
use tokio::sync::{OnceCell, watch};

type Activation = Arc<OnceCell<Result<SessionHandle, ApiError>>>;

/// The live sessions.
#[derive(Debug)]
pub(crate) struct LiveSessions {
    handles: Mutex<BTreeMap<SessionId, SessionHandle>>,
    activations: Mutex<HashMap<SessionId, Activation>>,
    /// Moves with every change that a client may want to see.
    changes: watch::Sender<u64>,
}

impl LiveSessions {
    pub(crate) fn new() -> Self {
        Self {
            handles: Mutex::default(),
            activations: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// The live session of that id.
    pub(crate) fn get(&self, id: &SessionId) -> Option<SessionHandle> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.get(id).filter(|handle| handle.is_live()).cloned()
    }

    /// Whether a session of that id is being made or brought to life.
    pub(crate) fn is_arriving(&self, id: &SessionId) -> bool {
        let all = self.activations.lock();
        all.unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// All live sessions, by id.
    pub(crate) fn all(&self) -> Vec<SessionHandle> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles
            .values()
            .filter(|handle| handle.is_live())
            .cloned()
            .collect()
    }

    /// All sessions whose log is not free yet: the live ones and those that are being closed.
    pub(crate) fn unclosed(&self) -> Vec<SessionHandle> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles
            .values()
            .filter(|handle| !handle.live().head().borrow().closed)
            .cloned()
            .collect()
    }

    /// Wakes everybody who watches.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// To wait for changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The live session of that id, or the one that `activate` brings to life; of many callers at
    /// once only one activates.
    pub(crate) async fn get_or_activate<F>(
        &self,
        id: &SessionId,
        activate: impl FnOnce() -> F,
    ) -> Result<SessionHandle, ApiError>
    where
        F: Future<Output = Result<SessionHandle, ApiError>>,
    {
        if let Some(handle) = self.get(id) {
            return Ok(handle);
        }
        let activation = {
            let mut all = self
                .activations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(id.clone()).or_default())
        };
        let result = activation
            .get_or_init(|| async {
                self.wait_until_free(id).await;
                let result = activate().await;
                if let Ok(handle) = &result {
                    let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
                    handles.insert(id.clone(), handle.clone());
                }
                result
            })
            .await
            .clone();
        let mut all = self
            .activations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all
            .get(id)
            .is_some_and(|current| Arc::ptr_eq(current, &activation))
        {
            all.remove(id);
        }
        drop(all);
        self.changed();
        result
    }

    /// A session that is just being closed still holds its lock: waits for it to let go.
    async fn wait_until_free(&self, id: &SessionId) {
        let closing = {
            let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
            handles.get(id).cloned()
        };
        if let Some(handle) = closing {
            handle.closed().await;
        }
    }

    /// Forgets sessions that have closed.
    pub(crate) fn sweep(&self) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.retain(|_, handle| handle.is_live() || !handle.live().head().borrow().closed);
    }
}
