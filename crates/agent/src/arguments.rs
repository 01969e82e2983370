//! From argument structs to the schemas that models read, and from arguments back to the structs.
//!
//! The doc comments of a struct are its schema's descriptions. The schema's text is deterministic
//! (keys sorted), because it is part of the cached prefix of every request.

use crate::tool::{ToolError, ToolOutput};
use orrery_session::Json;
use orrery_session::payload::ToolDefinition;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A tool's definition, its schema derived from `Args`.
pub fn definition<Args: JsonSchema>(name: &str, description: &str) -> ToolDefinition {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema: Value = settings
        .into_generator()
        .into_root_schema_for::<Args>()
        .to_value();
    simplify(&mut schema);
    let parameters = Json::from_value(&schema).unwrap_or_else(|error| {
        // A derived schema holds strings and small numbers only; a tool without one still works.
        tracing::error!(tool = name, %error, "the schema is not lossless JSON");
        Json::from_value(&Value::Null).unwrap_or_else(|_null_is_json| unreachable!())
    });
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    }
}

/// Leaves out what strict model servers choke on: dialect, titles, number formats, `null` as a type.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for key in ["$schema", "title", "format"] {
                if fields.get(key).is_some_and(Value::is_string) {
                    fields.remove(key);
                }
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Reads the arguments of a call.
///
/// # Errors
///
/// `INVALID_ARGS` with what is wrong: a field that is missing, unknown or of another type.
pub fn parse<Args: DeserializeOwned>(arguments: &Json) -> Result<Args, ToolError> {
    arguments
        .parse()
        .map_err(|error| invalid(error.to_string()))
}

/// An `INVALID_ARGS` error.
pub fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::InvalidArguments {
        message: message.into(),
    }
}

/// A failure with a code.
pub fn failed(code: &'static str, message: impl Into<String>) -> ToolError {
    ToolError::Failed {
        code,
        message: message.into(),
    }
}

/// An answer of text with something for clients beside it.
pub fn output<Meta: Serialize>(text: String, meta: &Meta) -> Result<ToolOutput, ToolError> {
    let meta = Json::from_value(meta).map_err(|error| failed("IO", error.to_string()))?;
    Ok(ToolOutput {
        meta: Some(meta),
        ..ToolOutput::text(text)
    })
}
