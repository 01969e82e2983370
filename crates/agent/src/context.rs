//! What the model is told beside the conversation: the workspace's AGENTS.md and a snapshot of its
//! surroundings (`session.md` 3.4).
//!
//! Both are user messages from the house, appended when their text differs from the last one that
//! is still on the surface. Never rewritten into the system prompt, so that earlier requests stay
//! prefixes of later ones.

use orrery_session::{ContentBlock, EventType, Json, Message, MessageId, Role, Source, Surface};
use serde::Serialize;

/// Names the house as the source of a message.
const INSTRUCTIONS: &str = "orrery/instructions";
const SURROUNDINGS: &str = "orrery/surroundings";

/// What was read at the start of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnContext {
    /// The text of AGENTS.md at the root of the workspace, if there is one.
    pub instructions: Option<String>,
    /// Named facts about the surroundings, in order.
    pub surroundings: Vec<(String, String)>,
}

/// The messages that the surface lacks.
pub(crate) fn missing(
    surface: &Surface,
    context: &TurnContext,
    mut mint: impl FnMut() -> MessageId,
) -> Vec<Message> {
    let mut messages = Vec::new();
    if let Some(text) = &context.instructions {
        let text = format!(
            "The workspace has an AGENTS.md with instructions for agents. Follow them unless the \
             user says otherwise.\n\n<agents-md>\n{text}\n</agents-md>"
        );
        let form = Some("instructions".to_owned());
        add(
            &mut messages,
            surface,
            INSTRUCTIONS,
            form,
            None,
            text,
            &mut mint,
        );
    }
    if !context.surroundings.is_empty() {
        let lines: Vec<String> = context
            .surroundings
            .iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        let text = format!("The present surroundings:\n{}", lines.join("\n"));
        let sections = sections(&context.surroundings);
        let form = Some("snapshot".to_owned());
        add(
            &mut messages,
            surface,
            SURROUNDINGS,
            form,
            sections,
            text,
            &mut mint,
        );
    }
    messages
}

fn sections(surroundings: &[(String, String)]) -> Option<Json> {
    #[derive(Serialize)]
    struct Section<'a> {
        name: &'a str,
        text: &'a str,
    }
    let sections: Vec<Section<'_>> = surroundings
        .iter()
        .map(|(name, text)| Section { name, text })
        .collect();
    Json::from_value(&sections).ok()
}

fn add(
    messages: &mut Vec<Message>,
    surface: &Surface,
    plugin: &str,
    form: Option<String>,
    sections: Option<Json>,
    text: String,
    mint: &mut impl FnMut() -> MessageId,
) {
    if last_of(surface, plugin).as_deref() == Some(text.as_str()) {
        return;
    }
    messages.push(Message {
        role: Role::User,
        content: vec![ContentBlock::text(text)],
        source: Source::Plugin {
            plugin: plugin.to_owned(),
            form,
            sections,
            summary: None,
        },
        id: mint(),
    });
}

/// The newest text from one part of the house that is still on the surface.
fn last_of(surface: &Surface, wanted: &str) -> Option<String> {
    surface
        .nodes()
        .iter()
        .rev()
        .filter(|e| *e.event_type() == EventType::UserMessage)
        .find_map(|event| {
            let message = event.payload::<Message>().ok()?;
            match &message.source {
                Source::Plugin { plugin, .. } if plugin == wanted => Some(message.visible_text()),
                _ => None,
            }
        })
}
