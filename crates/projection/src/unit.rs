//! What a projection unit is (`subagent.md` 1.2, decision D10), and its erased form.

use std::any::{Any, TypeId};
use std::sync::Arc;

use orrery_session::{Event, EventType, Json, SessionHeader, SessionLogOffset};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One fold of a log into one value.
pub trait Unit: Send + Sync + std::fmt::Debug + 'static {
    /// The state that is folded; survives JSON unchanged.
    type State: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What clients see of it; [`HostOnly`] for nothing. "No value" is a JSON value such as `null`,
    /// never an absent one, so that it can overwrite an older value.
    type View: Serialize + JsonSchema + 'static;

    /// The unit's name: unique per process and, where it has a view, a name on the wire.
    fn key(&self) -> &'static str;

    /// Moved whenever the state's shape or the fold's meaning changes. A safe integer.
    fn state_version(&self) -> u64;

    /// The only events that [`Unit::apply`] is shown; no others can change the state.
    fn event_types(&self) -> &'static [EventType];

    /// The state before any event.
    fn init(&self, header: &SessionHeader, inherited: SessionLogOffset) -> Self::State;

    /// The state after `event`, or `None` when nothing changed. Total: a payload that does not
    /// parse is no value, never a failure.
    fn apply(&self, state: &Self::State, event: &Event) -> Option<Self::State>;

    /// What clients see; `None` only of a unit whose view is [`HostOnly`].
    fn view(&self, state: &Self::State) -> Option<Self::View>;
}

/// The view of a unit that clients never see: there is none.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub enum HostOnly {}

/// A state of some unit, for those who know which one. Copies share it.
#[derive(Debug, Clone)]
pub struct UnitState(pub(crate) ErasedState);

impl UnitState {
    /// The state, when it is one of this unit's.
    pub fn of<U: Unit>(&self, _: &U) -> Option<&U::State> {
        self.0.downcast_ref()
    }

    /// Whether both are the same copy: then nothing changed in between.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A state of a unit whose type is erased.
pub(crate) type ErasedState = Arc<dyn Any + Send + Sync>;

/// A unit whose state type is erased, so that a registry can hold many.
pub(crate) trait ErasedUnit: Send + Sync + std::fmt::Debug {
    fn key(&self) -> &'static str;
    fn state_version(&self) -> u64;
    fn event_types(&self) -> &'static [EventType];
    fn init(&self, header: &SessionHeader, inherited: SessionLogOffset) -> ErasedState;
    fn apply(&self, state: &ErasedState, event: &Event) -> Option<ErasedState>;
    fn view(&self, state: &ErasedState) -> Option<Json>;
    /// The view's schema; `None` of a unit that clients never see.
    fn view_schema(&self) -> Option<Schema>;
    /// The state as JSON; `None` when it cannot be.
    fn encode(&self, state: &ErasedState) -> Option<Json>;
    /// A state that was kept as JSON; `None` when it is none of this unit's.
    fn decode(&self, kept: &Json) -> Option<ErasedState>;
}

impl<U: Unit> ErasedUnit for U {
    fn key(&self) -> &'static str {
        Unit::key(self)
    }
    fn state_version(&self) -> u64 {
        Unit::state_version(self)
    }
    fn event_types(&self) -> &'static [EventType] {
        Unit::event_types(self)
    }
    fn init(&self, header: &SessionHeader, inherited: SessionLogOffset) -> ErasedState {
        Arc::new(Unit::init(self, header, inherited))
    }
    fn apply(&self, state: &ErasedState, event: &Event) -> Option<ErasedState> {
        let state = state.downcast_ref::<U::State>()?;
        Unit::apply(self, state, event).map(|next| Arc::new(next) as ErasedState)
    }
    fn view(&self, state: &ErasedState) -> Option<Json> {
        let view = Unit::view(self, state.downcast_ref::<U::State>()?)?;
        Json::from_value(&view).ok()
    }
    fn view_schema(&self) -> Option<Schema> {
        (TypeId::of::<U::View>() != TypeId::of::<HostOnly>())
            .then(|| schemars::schema_for!(U::View))
    }
    fn encode(&self, state: &ErasedState) -> Option<Json> {
        Json::from_value(state.downcast_ref::<U::State>()?).ok()
    }
    fn decode(&self, kept: &Json) -> Option<ErasedState> {
        let state = kept.parse::<U::State>().ok()?;
        Some(Arc::new(state))
    }
}
