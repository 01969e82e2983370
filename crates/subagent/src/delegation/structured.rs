//! Answers in a shape that the caller asked for (`subagent.md` 4.6).
//!
//! The child gets one more tool, `structured_output`, whose arguments are the answer. It is taken in
//! two steps: the call is checked when it runs, and counts once the loop has logged its success
//! ([`TurnOutcome::concluded`](orrery_agent::actor::TurnOutcome)); a call that was denied, failed or
//! came after a stop never counts.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use jsonschema::Validator;
use orrery_agent::arguments;
use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use serde_json::Value;

use super::DelegationError;

/// The tool's name.
pub const STRUCTURED_OUTPUT: &str = "structured_output";

/// Bytes of a schema.
const SCHEMA_MAX: usize = 64 * 1024;
/// What a call is told of an answer that does not fit.
const FAULTS_MAX: usize = 5;

const SECTION: &str = "\
Your answer is taken as data: when you are done, call structured_output once with all of it, and in \
no other way. A text message is not read. The call ends your work, so make it last and alone.";

/// The shape that an answer must have: a JSON Schema of an object.
#[derive(Debug, Clone)]
pub struct AnswerShape {
    schema: Json,
    validator: Arc<Validator>,
}

impl AnswerShape {
    /// Reads a schema. References lead to places within it, never to a file or another machine.
    ///
    /// # Errors
    /// `INVALID_SCHEMA` when it is none, or not one of an object.
    pub fn new(schema: &Json) -> Result<Self, DelegationError> {
        let refuse = |why: String| DelegationError::InvalidSchema { why };
        if schema.text().len() > SCHEMA_MAX {
            return Err(refuse(format!("it is longer than {SCHEMA_MAX} bytes")));
        }
        let value: Value = schema.parse().map_err(|error| refuse(error.to_string()))?;
        if value.get("type").and_then(Value::as_str) != Some("object") {
            return Err(refuse("its `type` must be \"object\"".to_owned()));
        }
        let validator =
            jsonschema::validator_for(&value).map_err(|error| refuse(error.to_string()))?;
        Ok(Self {
            schema: schema.clone(),
            validator: Arc::new(validator),
        })
    }

    /// The tool through which the answer is given.
    pub(super) fn tool(&self) -> Arc<dyn Tool> {
        Arc::new(StructuredOutput(self.clone()))
    }

    /// What the child is told about it.
    pub(super) const fn section() -> &'static str {
        SECTION
    }

    fn check(&self, answer: &Json) -> Result<(), ToolError> {
        let value: Value = arguments::parse(answer)?;
        let faults = self.validator.iter_errors(&value).take(FAULTS_MAX);
        let faults: Vec<String> = faults
            .map(|fault| match fault.instance_path().as_str() {
                "" => fault.to_string(),
                path => format!("{path}: {fault}"),
            })
            .collect();
        match faults.is_empty() {
            true => Ok(()),
            false => Err(arguments::invalid(faults.join("; "))),
        }
    }
}

#[derive(Debug)]
struct StructuredOutput(AnswerShape);

#[async_trait]
impl Tool for StructuredOutput {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: STRUCTURED_OUTPUT.to_owned(),
            description: "Gives your whole answer, and ends your work.".to_owned(),
            parameters: self.0.schema.clone(),
        }
    }

    fn access(&self, arguments: &Json, _cwd: &Path) -> Result<Access, ToolError> {
        self.0.check(arguments)?;
        Ok(Access::Read)
    }

    async fn run(&self, arguments: Json, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.check(&arguments)?;
        Ok(ToolOutput {
            concludes: true,
            ..ToolOutput::text("taken")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text).unwrap()
    }

    #[test]
    fn a_schema_that_is_none_or_not_of_an_object_is_refused() {
        for (schema, said) in [
            (r#"{"type":"array"}"#, "object"),
            ("true", "object"),
            (r#"{"type":"object","properties":7}"#, "7"),
            (r#"{"type":"object","$ref":"https://example.com/s"}"#, ""),
            (r#"{"type":"object","$ref":"file:///etc/passwd"}"#, ""),
        ] {
            let error = AnswerShape::new(&json(schema)).unwrap_err();
            assert_eq!(error.code(), "INVALID_SCHEMA");
            assert!(error.to_string().contains(said), "{schema}: {error}");
        }
    }

    #[test]
    fn an_answer_is_checked_and_told_where_it_is_wrong() {
        let schema = r##"{"type":"object","required":["paths"],"additionalProperties":false,
            "properties":{"paths":{"type":"array","items":{"$ref":"#/$defs/p"}}},
            "$defs":{"p":{"type":"string"}}}"##;
        let shape = AnswerShape::new(&json(schema)).unwrap();
        shape.check(&json(r#"{"paths":["a"]}"#)).unwrap();
        let wrong = shape.check(&json(r#"{"paths":[1]}"#)).unwrap_err();
        assert!(wrong.to_string().contains("/paths/0"), "{wrong}");
        assert!(shape.check(&json("{}")).is_err());
        assert!(shape.check(&json(r#""text""#)).is_err());
    }
}
