//! What delegation needs of the house it lives in: sessions by id, new ones, cold ones brought back.
//!
//! Implemented by the host over its store and its actors. The port takes whole decisions (header,
//! seed, first events, set-up) and takes none itself.

use std::sync::Arc;

use async_trait::async_trait;
use orrery_agent::{SessionHandle, Tool};
use orrery_llm::Adapter;
use orrery_session::payload::ModelSelection;
use orrery_session::{EventDraft, SessionHeader, SessionId, SharedEvent};

use crate::delegation::DelegationError;
use crate::descriptor::{Descriptor, Setup};

/// A child session that is about to be made.
#[derive(Debug)]
pub struct NewChild {
    /// Its header, whole.
    pub header: SessionHeader,
    /// The events that it inherits; empty for a fresh conversation.
    pub seed: Vec<SharedEvent>,
    /// Its own first events, behind the seed.
    pub first: Vec<EventDraft>,
    /// Logged in its first step, behind the prompt.
    pub on_enter: Option<EventDraft>,
    /// The model that it asks unless its seed or its set-up names another.
    pub model: ModelSelection,
    /// Who it is told to be, and with which tools.
    pub setup: Setup,
    /// Tools of its own, which no filter takes away.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What it is told beside the rest of its system prompt.
    pub instructions: Option<&'static str>,
    /// What answers in place of any model: a program. It then has no tools, no system prompt, and
    /// is told nothing but its prompt.
    pub program: Option<Arc<dyn Adapter>>,
}

/// The sessions of this process.
#[async_trait]
pub trait Sessions: Send + Sync + std::fmt::Debug {
    /// The live session of that id.
    fn live(&self, id: &SessionId) -> Option<SessionHandle>;

    /// The events of a live session through its last closed turn; empty when none has ended.
    async fn closed_turns(
        &self,
        parent: &SessionHandle,
    ) -> Result<Vec<SharedEvent>, DelegationError>;

    /// Makes a child's log durable and brings it to life.
    ///
    /// # Errors
    /// When its set-up names what is not here (then nothing was made), or nothing can be written.
    async fn create(&self, child: NewChild) -> Result<SessionHandle, DelegationError>;

    /// Brings a cold child of `parent` back to life, set up as its own descriptor says.
    ///
    /// # Errors
    /// When it is no child of that parent, or is not continuable, or its log cannot be read.
    async fn resume(
        &self,
        child: &SessionId,
        parent: &SessionId,
    ) -> Result<(SessionHandle, Descriptor), DelegationError>;
}
