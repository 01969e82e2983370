//! What reading costs, counted: for `orrery doctor --stats`, and for tests that say what a question
//! may cost. Owns the counters; what a count means to whoever asked is theirs to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What reading has cost since a store was started. Opening a log to write it is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// Looks at the whole root.
    pub enumerations: u64,
    /// Logs that were opened to be read.
    pub logs: u64,
    /// Frames of events that selective reads decoded, those included that only their index wanted.
    pub frames: u64,
}

#[derive(Debug, Default)]
struct Counters {
    enumerations: AtomicU64,
    logs: AtomicU64,
    frames: AtomicU64,
}

/// Counts. Copies count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<Counters>);

impl Tally {
    pub(crate) fn looked(&self) {
        self.0.enumerations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn log(&self) {
        self.0.logs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn frame(&self) {
        self.0.frames.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reads(&self) -> Reads {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reads {
            enumerations: read(&self.0.enumerations),
            logs: read(&self.0.logs),
            frames: read(&self.0.frames),
        }
    }
}
