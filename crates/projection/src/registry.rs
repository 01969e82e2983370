//! The registry: the only copy of each fold rule.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use orrery_session::EventType;

use crate::unit::{ErasedUnit, Unit};

/// Why a unit is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The key is taken by another version of the fold.
    #[error(
        "projection {key:?} is already registered at stateVersion {registered}; \
         refusing to share it with stateVersion {offered}"
    )]
    VersionConflict {
        /// The key.
        key: &'static str,
        /// The version that is there.
        registered: u64,
        /// The version that was offered.
        offered: u64,
    },
}

/// All registered units, by key.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    units: BTreeMap<&'static str, Arc<dyn ErasedUnit>>,
}

impl Registry {
    /// Adds a unit. A second registration of the same key and version shares the first.
    pub fn register<U: Unit>(&mut self, unit: U) -> Result<(), RegisterError> {
        let key = Unit::key(&unit);
        match self.units.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(Arc::new(unit));
                Ok(())
            }
            Entry::Occupied(slot) => {
                let (registered, offered) =
                    (slot.get().state_version(), Unit::state_version(&unit));
                if registered == offered {
                    Ok(())
                } else {
                    Err(RegisterError::VersionConflict {
                        key,
                        registered,
                        offered,
                    })
                }
            }
        }
    }

    /// The registered keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.units.keys().copied()
    }

    /// The event types that the units of `keys` listen to: what a selective fold has to read.
    pub fn event_types(&self, keys: &[&str]) -> Vec<&'static EventType> {
        let units = self
            .units
            .values()
            .filter(|unit| keys.contains(&unit.key()));
        let mut types: Vec<_> = units.flat_map(|unit| unit.event_types()).collect();
        types.sort();
        types.dedup();
        types
    }

    pub(crate) fn units(&self) -> impl Iterator<Item = &Arc<dyn ErasedUnit>> {
        self.units.values()
    }
}
