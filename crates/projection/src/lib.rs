//! Projections: each a pure fold of one session's log into one small value.
//!
//! Owns the unit trait, the registry of units, the cells that hold a session's current values, what
//! a checkpoint of them is, and the units of core events. A unit is defined once; live cells, cold folds and the wire all run
//! that definition, and no consumer folds its events by hand (`subagent.md` 1.1). Leaves to others:
//! where events come from, and who hears of a change.
//!
//! Invariants: a unit never fails, bad payloads are "no value"; a unit that panics poisons its own
//! cell and nothing else (decision D10); equal logs give equal values, however they were fed.
//!
//! Start reading at [`unit`].

pub mod cells;
pub mod checkpoint;
pub mod registry;
pub mod unit;
pub mod units;

pub use cells::{Cells, Changed, Snapshot};
pub use registry::{RegisterError, Registration, Registry};
pub use unit::{HostOnly, Unit, UnitState};
