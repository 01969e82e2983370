//! The tool that delegates, one for each provider: `subagent` for fresh conversations.

use std::path::Path;

use async_trait::async_trait;
use orrery_agent::arguments;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::payload::ToolDefinition;
use orrery_session::{Json, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{failed, filled};
use crate::delegation::{AnswerShape, Context, Delegation, Provider, Task, answer_of};
use crate::descriptor::Setup;

/// Characters of a label.
const LABEL_MAX: usize = 80;

/// What `run_in_background` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// A child that can be spoken to again.
    Continuable,
    /// A run whose answer is fetched as that of a job.
    OneShot,
}

/// Delegates a task.
#[derive(Debug)]
pub struct Delegate {
    name: String,
    provider: Provider,
    background: Background,
    delegation: Delegation,
    /// The programs that may be chosen instead.
    programs: Vec<Provider>,
}

impl Delegate {
    /// The tool of one provider, under a name of its own.
    pub fn new(
        name: impl Into<String>,
        provider: Provider,
        background: Background,
        delegation: Delegation,
    ) -> Self {
        Self {
            name: name.into(),
            provider,
            background,
            delegation,
            programs: Vec::new(),
        }
    }

    /// Lets models choose programs by name.
    #[must_use]
    pub fn with_programs(mut self, programs: Vec<Provider>) -> Self {
        self.programs = programs;
        self
    }

    /// The program that a call chooses; `None` is the tool's own provider.
    fn program(&self, arguments: &Arguments) -> Result<Option<&Provider>, ToolError> {
        let Some(agent) = &arguments.agent else {
            return Ok(None);
        };
        let found = self.programs.iter().find(|program| program.name == *agent);
        if found.is_some() || (*agent == self.provider.name && !self.programs.is_empty()) {
            return Ok(found);
        }
        let message = if self.programs.is_empty() {
            "unknown field `agent`: no other agents are configured".to_owned()
        } else {
            let names = self.choices().join(", ");
            format!("no agent is called {agent:?}; there are: {names}")
        };
        Err(ToolError::InvalidArguments { message })
    }

    fn choices(&self) -> Vec<&str> {
        let programs = self.programs.iter().map(|program| program.name.as_str());
        std::iter::once(self.provider.name.as_str())
            .chain(programs)
            .collect()
    }

    /// Adds the choice of an agent to the arguments.
    fn offer_programs(&self, definition: &mut ToolDefinition) {
        let Ok(mut schema) = definition.parameters.parse::<Value>() else {
            return;
        };
        let about = format!(
            "Who works on it: `{}` (the default) is an agent of this Host; the others are programs \
             of their own, which work once, with their own tools and rules, and know nothing but \
             the prompt.",
            self.provider.name
        );
        if let Some(properties) = schema.get_mut("properties").and_then(|p| p.as_object_mut()) {
            let choice = serde_json::json!({
                "type": "string", "enum": self.choices(), "description": about,
            });
            properties.insert("agent".to_owned(), choice);
        }
        if let Ok(parameters) = Json::from_value(&schema) {
            definition.parameters = parameters;
        }
    }

    fn answer(&self, arguments: &Arguments) -> Result<Option<AnswerShape>, ToolError> {
        let Some(schema) = &arguments.output_schema else {
            return Ok(None);
        };
        if self.background == Background::Continuable && arguments.run_in_background == Some(true) {
            let message = "with output_schema a subagent does one thing while you wait: leave \
                           run_in_background out";
            return Err(arguments::invalid(message));
        }
        let schema = Json::from_value(schema).map_err(|e| arguments::invalid(e.to_string()))?;
        AnswerShape::new(&schema)
            .map(Some)
            .map_err(|error| failed(&error))
    }

    fn description(&self) -> String {
        let knows = match self.provider.context {
            Context::Fresh => {
                "It knows nothing of your conversation: say everything that it needs, with paths, \
                 and what its closing message should hold."
            }
            Context::Inherited => {
                "It begins with all that was said before this turn, so say only what is new."
            }
        };
        let how = match self.background {
            Background::Continuable => {
                "In the background (the default) this answers at once with the subagent's id; you \
                 are told when it comes to rest, and can send it more with send_message. In the \
                 foreground this waits and answers with its closing message."
            }
            Background::OneShot => {
                "In the foreground (the default) this waits and answers with its closing message. \
                 In the background it answers at once with the id of a job; you are told when the \
                 job ends, and job_output has the closing message."
            }
        };
        format!(
            "Delegates a task to a subagent, which works in the same folder with the same tools, \
             and whose closing message alone comes back. Calls made together work side by side. \
             {knows} {how} Nobody can be asked in a subagent: what would need a person's leave is \
             refused there."
        )
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The task in three to five words.
    description: String,
    /// The whole task.
    prompt: String,
    /// Whether to go on without waiting for it.
    #[serde(default)]
    run_in_background: Option<bool>,
    /// A JSON Schema of an object, where the answer is to be such an object instead of a message.
    #[serde(default)]
    output_schema: Option<Map<String, Value>>,
    // Offered only where there is a choice.
    #[serde(default)]
    #[schemars(skip)]
    agent: Option<String>,
}

#[derive(Serialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum Meta {
    Continuable {
        subagent_id: SessionId,
    },
    Background {
        job_id: String,
    },
    Foreground {
        subagent_id: SessionId,
        stop_reason: &'static str,
    },
}

#[async_trait]
impl Tool for Delegate {
    fn definition(&self) -> ToolDefinition {
        let mut definition = arguments::definition::<Arguments>(&self.name, &self.description());
        if !self.programs.is_empty() {
            self.offer_programs(&mut definition);
        }
        definition
    }

    fn parallel(&self, _arguments: &Json) -> bool {
        true
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        filled("description", &arguments.description)?;
        filled("prompt", &arguments.prompt)?;
        self.answer(&arguments)?;
        // A program is held by its own rules, not by this session's: it is a command like others.
        let program = self.program(&arguments)?.and_then(|p| p.process.as_ref());
        Ok(program.map_or(Access::Read, |agent| Access::Command(agent.command_line())))
    }

    async fn run(&self, arguments: Json, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments::parse(&arguments)?;
        let answer = self.answer(&arguments)?;
        let program = self.program(&arguments)?;
        let how = match program {
            Some(_) => Background::OneShot,
            None => self.background,
        };
        let background = arguments
            .run_in_background
            .unwrap_or(how == Background::Continuable && answer.is_none());
        let label = arguments.description.split_whitespace();
        let label = label.collect::<Vec<_>>().join(" ");
        let task = Task {
            provider: program.unwrap_or(&self.provider).name.clone(),
            label: label.chars().take(LABEL_MAX).collect(),
            prompt: arguments.prompt,
            setup: Setup::default(),
            answer,
        };
        let (text, meta) = if background {
            match how {
                Background::Continuable => {
                    let started = self.delegation.start(&cx.session, task).await;
                    let (subagent_id, _) = started.map_err(|error| failed(&error))?;
                    let text = format!("started subagent {subagent_id}");
                    (text, Meta::Continuable { subagent_id })
                }
                Background::OneShot => {
                    let started = self.delegation.start_job(&cx.session, task, &cx.call_id);
                    let job_id = started.await.map_err(|error| failed(&error))?;
                    let text = format!("started background subagent job {job_id}");
                    (text, Meta::Background { job_id })
                }
            }
        } else {
            let ran = self.delegation.run(&cx.session, task, &cx.cancel).await;
            let end = ran.map_err(|error| failed(&error))?;
            if cx.cancel.is_cancelled() {
                return Err(ToolError::Aborted);
            }
            let (succeeded, text) = answer_of(&end);
            if !succeeded {
                let code = "SUBAGENT_FAILED";
                return Err(ToolError::Failed {
                    code,
                    message: text,
                });
            }
            let meta = Meta::Foreground {
                subagent_id: end.child,
                stop_reason: end.reason.as_str(),
            };
            (text, meta)
        };
        let mut output = ToolOutput::text(text);
        output.meta = Json::from_value(&meta).ok();
        Ok(output)
    }
}
