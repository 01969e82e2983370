//! Whether the checkpoints say what the logs say.

use std::collections::BTreeMap;

use orrery_catalog::Catalog;
use orrery_host::checkup::Checkup;
use orrery_host::home::Home;
use orrery_projection::checkpoint::{CheckpointRecord, CheckpointStore as _};
use orrery_session::SessionId;
use orrery_storage::read::StoredLog;

use super::Findings;

/// What was kept before the logs were looked at: a Host that runs meanwhile only adds to these.
pub(super) struct Kept {
    checkup: Checkup,
    records: BTreeMap<SessionId, CheckpointRecord>,
}

impl Kept {
    /// `None` when nothing is kept, or it cannot be read.
    pub(super) fn of(home: &Home, findings: &mut Findings) -> Option<Self> {
        let path = home.index();
        if !path.exists() {
            findings.note(
                "kept",
                "there are no checkpoints; they are made with the next list",
            );
            return None;
        }
        let read = || -> Result<Self, Box<dyn std::error::Error>> {
            Ok(Self {
                records: Catalog::open(&path)?.load_all()?,
                checkup: Checkup::new()?,
            })
        };
        let kept = match read() {
            Ok(kept) => kept,
            Err(error) => {
                findings.problem("kept", error.to_string());
                return None;
            }
        };
        let sessions = kept.records.len();
        findings.ok("kept", format!("checkpoints of {sessions} sessions"));
        Some(kept)
    }

    /// Compares with a log that was read whole.
    pub(super) fn verify(&self, log: &StoredLog, findings: &mut Findings) {
        let Some(record) = self.records.get(&log.header.id) else {
            return;
        };
        let complaint = self
            .checkup
            .complaint(record, &log.header, log.inherited, &log.events);
        if let Some(complaint) = complaint {
            let id = &log.header.id;
            let cure = "`orrery doctor --rebuild` makes it anew";
            findings.problem("kept", format!("{id}: {complaint}; {cure}"));
        }
    }
}
