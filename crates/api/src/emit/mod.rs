//! What is generated from the table: an OpenAPI document, TypeScript types, a reference page.
//!
//! All are text and the same for the same types, so that a stale file is seen by comparing.
//! Leaves to `xtask`: where the files lie.

mod openapi;
mod reference;
mod typescript;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::error::ErrorBody;
use crate::frames::{ClientFrame, ServerFrame};
use crate::operations::{OPERATIONS, Operation};

/// Where definitions live, as a prefix of every reference.
const DEFINITIONS: &str = "#/components/schemas/";

/// The table with its schemas.
struct Contract {
    definitions: Map<String, Value>,
    operations: Vec<(&'static Operation, Value, Value)>,
}

impl Contract {
    fn collect() -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        let mut generator = SchemaGenerator::new(settings);
        let operations = OPERATIONS
            .iter()
            .map(|operation| {
                let request = (operation.request)(&mut generator).to_value();
                let response = (operation.response)(&mut generator).to_value();
                (operation, request, response)
            })
            .collect();
        generator.subschema_for::<ErrorBody>();
        generator.subschema_for::<ClientFrame>();
        generator.subschema_for::<ServerFrame>();
        Self {
            definitions: generator.take_definitions(true),
            operations,
        }
    }
}

/// The OpenAPI 3.1 document, as text that ends with a newline.
pub fn openapi() -> String {
    openapi::emit(&Contract::collect())
}

/// The TypeScript module, as text that ends with a newline.
pub fn typescript() -> String {
    typescript::emit(&Contract::collect())
}

/// The reference page in Markdown, as text that ends with a newline.
pub fn reference() -> String {
    reference::emit(&Contract::collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_openapi_document_leads_somewhere() {
        fn visit(value: &Value, definitions: &Map<String, Value>) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(target)) = map.get("$ref") {
                        let known = target
                            .strip_prefix(DEFINITIONS)
                            .is_some_and(|name| definitions.contains_key(name));
                        assert!(
                            known || target == "#/components/responses/Error",
                            "{target}"
                        );
                    }
                    map.values().for_each(|value| visit(value, definitions));
                }
                Value::Array(items) => items.iter().for_each(|value| visit(value, definitions)),
                _ => {}
            }
        }
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        let definitions = document["components"]["schemas"].as_object().unwrap();
        visit(&document, definitions);
        assert_eq!(document["openapi"], "3.1.0");
        assert!(document["paths"]["/api/session/prompt"]["post"].is_object());
    }

    #[test]
    fn typescript_spells_seqs_as_numbers_and_optional_fields_with_a_question_mark() {
        let text = typescript();
        assert!(text.contains("  seq: number;"), "{text}");
        assert!(text.contains("  cursor?: string;"), "{text}");
        assert!(
            text.contains("({ type: \"snapshot\" } & FollowSnapshot)"),
            "{text}"
        );
        assert!(text.contains("  turn: number | null;"), "{text}");
        assert!(!text.contains("bigint"));
    }

    #[test]
    fn the_reference_page_says_what_is_not_offered() {
        let text = reference();
        let section = |name: &str| {
            let start = text.find(&format!("### `{name}`")).unwrap_or_default();
            text.get(start..)
                .unwrap_or_default()
                .split("###")
                .nth(1)
                .unwrap_or_default()
                .to_owned()
        };
        assert!(section("session/attachment").contains("not offered"));
        assert!(!section("session/prompt").contains("not offered"));
        assert!(section("session/prompt").contains("| `clientTimeZone` | optional |"));
        assert!(text.contains("| `gateway/overflow` | 503 | yes |"));
    }

    #[test]
    fn the_emitters_say_the_same_twice() {
        assert_eq!(openapi(), openapi());
        assert_eq!(typescript(), typescript());
    }
}
