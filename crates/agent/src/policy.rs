//! Who may do what: the permission presets of the wire page, as one table.
//!
//! | sandbox | read | write inside | outside | command |
//! |---|---|---|---|---|
//! | `read-only` | allow | refuse | read: ask, write: refuse | ask |
//! | `workspace-write` | allow | allow | ask | ask |
//! | `danger-full-access` | allow | allow | allow | allow |
//!
//! With the approval policy `never` nothing is asked: what would ask is refused.

use orrery_session::payload::{ApprovalPolicy, SandboxMode};

use crate::tool::Access;

/// What happens with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person is asked, and told why.
    Ask(String),
    /// It does not run, and the model is told why.
    Refuse(String),
}

/// Decides on one call.
pub fn decide(sandbox: SandboxMode, policy: ApprovalPolicy, access: &Access) -> Verdict {
    let verdict = within(sandbox, access);
    match (policy, verdict) {
        (ApprovalPolicy::Never, Verdict::Ask(reason)) => {
            Verdict::Refuse(format!("{reason}; nobody is asked in this session"))
        }
        (_, verdict) => verdict,
    }
}

fn within(sandbox: SandboxMode, access: &Access) -> Verdict {
    use SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    match (sandbox, access) {
        (DangerFullAccess, _) | (_, Access::Read) | (WorkspaceWrite, Access::Write(_)) => {
            Verdict::Allow
        }
        (ReadOnly, Access::Write(_) | Access::Outside { write: true, .. }) => {
            Verdict::Refuse("this session is read-only, so nothing is written".to_owned())
        }
        (_, Access::Outside { paths, write }) => {
            let list: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
            let verb = if *write { "writes" } else { "reads" };
            Verdict::Ask(format!(
                "it {verb} outside of the workspace: {}",
                list.join(", ")
            ))
        }
        (_, Access::Command(line)) => Verdict::Ask(format!("it runs a command: {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds() {
        use ApprovalPolicy::{Ask, Never};
        use SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
        let outside = |write| Access::Outside {
            paths: vec!["/etc/passwd".into()],
            write,
        };
        let write = Access::Write(vec!["/w/a".into()]);
        let command = Access::Command("ls".to_owned());
        let short = |s, p, a: &Access| match decide(s, p, a) {
            Verdict::Allow => 'a',
            Verdict::Ask(_) => '?',
            Verdict::Refuse(_) => 'x',
        };
        let row = |s, p| -> String {
            [
                &Access::Read,
                &write,
                &outside(false),
                &outside(true),
                &command,
            ]
            .into_iter()
            .map(|a| short(s, p, a))
            .collect()
        };
        assert_eq!(row(ReadOnly, Ask), "ax?x?");
        assert_eq!(row(WorkspaceWrite, Ask), "aa???");
        assert_eq!(row(DangerFullAccess, Ask), "aaaaa");
        assert_eq!(row(ReadOnly, Never), "axxxx");
        assert_eq!(row(WorkspaceWrite, Never), "aaxxx");
        assert_eq!(row(DangerFullAccess, Never), "aaaaa");
    }
}
