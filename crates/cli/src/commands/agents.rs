//! `orrery agents`: the subagents of a session.
//!
//! Asks the Host that runs here, which knows who is at work; without one, what lies on disk answers.

use orrery_api::content::SubagentMode;
use orrery_api::operations::SubagentList;
use orrery_api::subagent::{
    SubagentActivity, SubagentDiagnosticReason, SubagentEntry, SubagentListRequest, SubagentScope,
};
use orrery_session::SessionId;

use super::sessions;
use crate::args::Agents;
use crate::context::{self, Context};
use crate::output;
use crate::report::Failure;
use crate::running::Running;

/// Characters of a label.
const LABEL_WIDTH: usize = 60;

pub(super) async fn agents(context: Context, asked: &Agents) -> Result<(), Failure> {
    context.prepare()?;
    let running = Running::find(&context.home).await;
    let home = context.home.clone();
    let host = context::host(context.home, context.config, None)?;
    let listed = async {
        let parent_session_id = match sessions::find(host.controller(), &asked.session).await {
            Ok(id) => id,
            // The list of sessions has no subagents; a child is a parent too.
            Err(failure) => SessionId::new(&asked.session).map_err(|_not_an_id| failure)?,
        };
        let request = SubagentListRequest {
            parent_session_id,
            scope: asked.tree.then_some(SubagentScope::Descendants),
        };
        match &running {
            Some(running) => running.call::<SubagentList>(&home, &request).await,
            None => Ok(host.controller().list_subagents(request).await?),
        }
    }
    .await;
    host.shutdown().await;
    let listed = listed?;
    if asked.json {
        return output::json(&listed);
    }
    if !listed.parent_available {
        return Err(orrery_api::ApiError::session_not_found(&asked.session).into());
    }
    let rows: Vec<Vec<String>> = listed.entries.iter().map(row).collect();
    output::data(&output::table(&rows))?;
    if rows.is_empty() {
        output::say("it has no subagents");
    }
    Ok(())
}

fn row(entry: &SubagentEntry) -> Vec<String> {
    let indented = |id: &SessionId, depth: Option<u32>| {
        let depth = depth.unwrap_or(1).saturating_sub(1);
        // Deeper than this nobody reads; the JSON has the depth.
        format!("{}{id}", "  ".repeat(depth.min(20) as usize))
    };
    match entry {
        SubagentEntry::Child {
            id,
            activity,
            mode,
            label,
            has_children,
            depth,
            ..
        } => {
            let activity = match activity {
                SubagentActivity::Running => "running",
                SubagentActivity::Inactive => "inactive",
            };
            let mode = match mode {
                SubagentMode::OneShot => "one-shot",
                SubagentMode::Continuable => "continuable",
            };
            let below = if *has_children && depth.is_none() {
                "has subagents of its own"
            } else {
                ""
            };
            vec![
                indented(id, *depth),
                activity.to_owned(),
                mode.to_owned(),
                output::short(label.as_deref().unwrap_or("(no label)"), LABEL_WIDTH),
                below.to_owned(),
            ]
        }
        SubagentEntry::Diagnostic {
            id, reason, depth, ..
        } => {
            let (reason, why) = match reason {
                SubagentDiagnosticReason::Corrupt => ("corrupt", "it does not say who it is"),
                SubagentDiagnosticReason::Unsupported => ("unsupported", "of another version"),
                SubagentDiagnosticReason::Unavailable => {
                    ("unavailable", "its log cannot be read; see `orrery doctor`")
                }
            };
            vec![
                indented(id, *depth),
                reason.to_owned(),
                String::new(),
                why.to_owned(),
                String::new(),
            ]
        }
    }
}
