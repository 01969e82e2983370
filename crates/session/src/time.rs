//! Time as the log knows it: epoch milliseconds, passed in, never read from the system here.

use serde::{Deserialize, Serialize};

use crate::seq::{MAX_SAFE_INTEGER, NotSafeInteger, safe_integer};

/// Unix epoch milliseconds, a safe integer. Event times need not be monotonic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Wraps epoch milliseconds; |value| must be at most 2^53 - 1.
    pub const fn new(epoch_millis: i64) -> Result<Self, NotSafeInteger> {
        if epoch_millis.unsigned_abs() > MAX_SAFE_INTEGER {
            Err(NotSafeInteger(epoch_millis as i128))
        } else {
            Ok(Self(epoch_millis))
        }
    }

    /// The moment nearest to `epoch_millis` that the log can hold.
    pub const fn saturating(epoch_millis: i64) -> Self {
        let max = MAX_SAFE_INTEGER as i64;
        if epoch_millis > max {
            Self(max)
        } else if epoch_millis < -max {
            Self(-max)
        } else {
            Self(epoch_millis)
        }
    }

    /// Epoch milliseconds.
    pub const fn epoch_millis(self) -> i64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        safe_integer(deserializer).map(Self)
    }
}

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// Where the time comes from. Passed in, so that tests can bend it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The system's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::saturating(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}
