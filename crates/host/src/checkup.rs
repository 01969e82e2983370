//! Whether what is kept of sessions is what their logs say: for `orrery doctor` and for tests. Owns
//! no cure: a record that is wrong is forgotten or replaced by whoever meets it.

use std::collections::BTreeMap;

use orrery_projection::checkpoint::{Checkpoint, CheckpointIdentity, CheckpointRecord};
use orrery_projection::{Cells, RegisterError, Registration, Registry};
use orrery_query::anchor::anchor_of;
use orrery_session::{SessionHeader, SessionLogOffset, SharedEvent};
use serde_json::Value;

/// The units of this build, to fold logs with.
#[derive(Debug)]
pub struct Checkup {
    registry: Registry,
    _units: Vec<Registration>,
}

impl Checkup {
    /// With all units that a Host registers.
    ///
    /// # Errors
    /// When two units claim one key, which is a fault of the build.
    pub fn new() -> Result<Self, RegisterError> {
        let registry = Registry::default();
        let mut units = orrery_agent::units::register(&registry)?;
        units.extend(orrery_subagent::units::register(&registry)?);
        Ok(Self {
            registry,
            _units: units,
        })
    }

    /// Folds a whole log and compares. `None` when the record is right, or is of another log and
    /// counts as absent; otherwise what is wrong. `events` are those that lie on disk.
    pub fn complaint(
        &self,
        record: &CheckpointRecord,
        header: &SessionHeader,
        inherited: SessionLogOffset,
        events: &[SharedEvent],
    ) -> Option<String> {
        if record.identity != CheckpointIdentity::of(header, inherited) {
            return None;
        }
        let before = events.get(..record.reach().index());
        if let (Some(before), Some(anchor)) = (before, record.anchor)
            && anchor != anchor_of(before)
        {
            return None;
        }
        let versions = self.registry.state_versions();
        let mut stops: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
        for (key, row) in &record.rows {
            if versions.get(key.as_str()) == Some(&row.ver) {
                stops.entry(row.seq.offset().index()).or_default().push(key);
            }
        }
        let mut cells = Cells::new(&self.registry, header, inherited);
        let mut fed = 0;
        for (stop, keys) in stops {
            let Some(piece) = events.get(fed..stop) else {
                let lies = events.len();
                let keys = keys.iter().map(|key| key.as_str()).collect::<Vec<_>>();
                let keys = keys.join(", ");
                return Some(format!(
                    "what is kept of {keys} has seen {stop} events, and {lies} lie on disk"
                ));
            };
            cells.feed(piece);
            fed = stop;
            let Ok(folded) = cells.checkpoint() else {
                return Some("a state cannot be written as JSON".to_owned());
            };
            for key in keys {
                let value = |rows: &Checkpoint| rows.get(key)?.val.parse::<Value>().ok();
                if value(&folded) != value(&record.rows) {
                    return Some(format!("what is kept of {key} is not what the log says"));
                }
            }
        }
        None
    }
}
