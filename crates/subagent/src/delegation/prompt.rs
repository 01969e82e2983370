//! How a subagent's system prompt and tools follow from its set-up (`subagent.md` 4.4).

use std::sync::Arc;

use orrery_agent::{Preset, Tool};

use crate::delegation::DelegationError;
use crate::descriptor::{Setup, ToolFilter};

const SECTION: &str = "\
You are a subagent: another agent delegated one task to you, and reads your closing message and \
nothing else of what you do. Nobody can be asked: what is not allowed is refused, and you go on \
without it. Do the task and nothing beside it. Close with a message that stands by itself: what you \
found or did, with paths, and what you could not do.";

/// A preset as a subagent has it: its persona before everything, its part in the work behind.
pub fn preset_of(preset: &Preset, setup: &Setup) -> Preset {
    let mut system = String::new();
    if let Some(persona) = &setup.persona {
        system.push_str(persona);
        system.push_str("\n\n");
    }
    system.push_str(&preset.system);
    system.push_str("\n\n");
    system.push_str(SECTION);
    Preset {
        system,
        ..preset.clone()
    }
}

/// The tools that a filter leaves.
///
/// # Errors
/// When it names one that is not there.
pub fn tools_of(
    tools: &Arc<[Arc<dyn Tool>]>,
    filter: Option<&ToolFilter>,
) -> Result<Arc<[Arc<dyn Tool>]>, DelegationError> {
    let Some(filter) = filter else {
        return Ok(Arc::clone(tools));
    };
    let named: Vec<(String, &Arc<dyn Tool>)> = tools
        .iter()
        .map(|tool| (tool.definition().name, tool))
        .collect();
    let mentioned = [&filter.allow, &filter.deny]
        .into_iter()
        .flatten()
        .flatten();
    for name in mentioned {
        if !named.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
            let why = format!(
                "no tool is called {name:?}; there are: {}",
                known.join(", ")
            );
            return Err(DelegationError::Setup { why });
        }
    }
    let kept = named.into_iter().filter(|(name, _)| {
        filter
            .allow
            .as_ref()
            .is_none_or(|allow| allow.contains(name))
            && !filter.deny.as_ref().is_some_and(|deny| deny.contains(name))
    });
    Ok(kept.map(|(_, tool)| Arc::clone(tool)).collect())
}
