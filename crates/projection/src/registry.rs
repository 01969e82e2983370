//! The registry: the only copy of each fold rule (`subagent.md` 1.3).
//!
//! Units come and go while sessions are live: each registration counts, and the unit with all its
//! cells is gone when the last one is let go of.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use orrery_session::EventType;
use orrery_session::seq::MAX_SAFE_INTEGER;
use schemars::Schema;

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
    /// The version is no safe integer.
    #[error("projection {key:?} has stateVersion {offered}, which is more than 2^53 - 1")]
    UnsafeVersion {
        /// The key.
        key: &'static str,
        /// The version that was offered.
        offered: u64,
    },
}

/// All registered units, by key. Copies share one registry.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    units: RwLock<BTreeMap<&'static str, Registered>>,
    /// Moves whenever a unit comes or goes.
    generation: AtomicU64,
}

#[derive(Debug)]
struct Registered {
    unit: Arc<dyn ErasedUnit>,
    holders: usize,
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, Registered>> {
        self.units.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<&'static str, Registered>> {
        self.units.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps one registration of a unit; letting go of it takes it back.
#[derive(Debug)]
#[must_use = "a unit is registered only as long as somebody holds its registration"]
pub struct Registration {
    registry: Weak<Shared>,
    key: &'static str,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(shared) = self.registry.upgrade() else {
            return;
        };
        let mut units = shared.write();
        if let Entry::Occupied(mut slot) = units.entry(self.key) {
            slot.get_mut().holders -= 1;
            if slot.get().holders == 0 {
                slot.remove();
                shared.generation.fetch_add(1, Ordering::Release);
            }
        }
    }
}

impl Registry {
    /// Adds a unit for as long as the answer is held. A second registration of the same key and
    /// version shares the first, whose definition stays in force.
    ///
    /// # Errors
    /// When the key is registered in another version, or the version is no safe integer.
    pub fn register<U: Unit>(&self, unit: U) -> Result<Registration, RegisterError> {
        let key = Unit::key(&unit);
        let offered = Unit::state_version(&unit);
        if offered > MAX_SAFE_INTEGER {
            return Err(RegisterError::UnsafeVersion { key, offered });
        }
        match self.shared.write().entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(Registered {
                    unit: Arc::new(unit),
                    holders: 1,
                });
                self.shared.generation.fetch_add(1, Ordering::Release);
            }
            Entry::Occupied(mut slot) => {
                let registered = slot.get().unit.state_version();
                if registered != offered {
                    return Err(RegisterError::VersionConflict {
                        key,
                        registered,
                        offered,
                    });
                }
                slot.get_mut().holders += 1;
            }
        }
        Ok(Registration {
            registry: Arc::downgrade(&self.shared),
            key,
        })
    }

    /// The registered keys, in order.
    pub fn keys(&self) -> Vec<&'static str> {
        self.shared.read().keys().copied().collect()
    }

    /// The state version of each registered unit, by key.
    pub fn state_versions(&self) -> BTreeMap<&'static str, u64> {
        let units = self.shared.read();
        let versions = units
            .iter()
            .map(|(key, entry)| (*key, entry.unit.state_version()));
        versions.collect()
    }

    /// The event types that the units of `keys` listen to: what a selective fold has to read.
    pub fn event_types(&self, keys: &[&str]) -> Vec<&'static EventType> {
        let units = self.shared.read();
        let units = units
            .values()
            .filter(|entry| keys.contains(&entry.unit.key()));
        let mut types: Vec<_> = units.flat_map(|entry| entry.unit.event_types()).collect();
        types.sort();
        types.dedup();
        types
    }

    /// The JSON Schema of each view that clients see, by key.
    pub fn view_schemas(&self) -> BTreeMap<&'static str, Schema> {
        let units = self.shared.read();
        let schemas = units
            .iter()
            .filter_map(|(key, entry)| Some((*key, entry.unit.view_schema()?)));
        schemas.collect()
    }

    pub(crate) fn units(&self) -> Vec<Arc<dyn ErasedUnit>> {
        let units = self.shared.read();
        units
            .values()
            .map(|entry| Arc::clone(&entry.unit))
            .collect()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Whether this very definition is registered.
    pub(crate) fn holds(&self, unit: &Arc<dyn ErasedUnit>) -> bool {
        let units = self.shared.read();
        units
            .get(unit.key())
            .is_some_and(|entry| Arc::ptr_eq(&entry.unit, unit))
    }
}
