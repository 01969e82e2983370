//! The reference page, from the schema of the types.

use schemars::schema_for;
use serde_json::{Map, Value};

use super::Config;

const HEAD: &str = "\
# Configuration

This page is generated from the program; `cargo xtask generate` writes it.

The file is `config.toml` below `ORRERY_HOME` (or `--home`), otherwise \
`$XDG_CONFIG_HOME/orrery/config.toml`, otherwise `~/.config/orrery/config.toml`; `orrery config path` \
says which. Every key is optional, and so is the file. A wrong file stops the start with its line, \
its key and what was expected; `orrery doctor` says the same. Secrets never stand in it.

```toml
default_model = \"local/small\"

[providers.local]
kind = \"openai-chat\"
base_url = \"http://127.0.0.1:9000/v1\"
api_key_env = \"LOCAL_API_KEY\"
models = [\"small\"]
```
";

/// The reference page of the configuration, in Markdown.
pub fn reference() -> String {
    let schema = schema_for!(Config).to_value();
    let mut page = HEAD.to_owned();
    let properties = object(&schema, "properties");
    let (tables, plain): (Vec<_>, Vec<_>) = properties
        .iter()
        .partition(|(_, value)| is_table(&schema, value));
    page.push_str("\n## At the top\n\n");
    rows(&schema, &plain, &[], None, &mut page);
    for (name, value) in tables {
        let table = resolve(&schema, value);
        // A map's values are tables of their own, under a name that the user chooses.
        let (heading, body) = match table.get("additionalProperties") {
            Some(values @ Value::Object(_)) => (format!("{name}.NAME"), resolve(&schema, values)),
            _ => (name.clone(), table),
        };
        section(&schema, &heading, value, body, &mut page);
    }
    page
}

/// A table, and behind it the tables within it whose names the user chooses.
fn section(schema: &Value, heading: &str, value: &Value, body: &Value, page: &mut String) {
    page.push_str(&format!("\n## `[{heading}]`\n\n"));
    let about = text(value, "description").or_else(|| text(resolve(schema, value), "description"));
    page.push_str(&one_line(about.unwrap_or_default()));
    page.push_str("\n\n");
    let tables = |field: &Value| {
        let values = resolve(schema, field).get("additionalProperties")?;
        let values = resolve(schema, values);
        (types(values) == ["object"]).then(|| values.clone())
    };
    let (inner, fields): (Vec<_>, Vec<_>) = object(body, "properties")
        .iter()
        .partition(|(_, field)| tables(field).is_some());
    let defaults = value.get("default");
    rows(schema, &fields, &required(body), defaults, page);
    for (name, field) in inner {
        if let Some(values) = tables(field) {
            section(
                schema,
                &format!("{heading}.{name}.NAME"),
                field,
                &values,
                page,
            );
        }
    }
}

fn rows(
    schema: &Value,
    fields: &[(&String, &Value)],
    required: &[&str],
    defaults: Option<&Value>,
    page: &mut String,
) {
    page.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for (name, field) in fields {
        let default = field
            .get("default")
            .or_else(|| defaults.and_then(|all| all.get(name.as_str())));
        let default = match default {
            _ if required.contains(&name.as_str()) => "required".to_owned(),
            None | Some(Value::Null) => "not set".to_owned(),
            Some(value) => format!("`{value}`"),
        };
        let meaning = one_line(text(field, "description").unwrap_or_default());
        let kind = kind(schema, field);
        page.push_str(&format!("| `{name}` | {kind} | {default} | {meaning} |\n"));
    }
}

fn kind(schema: &Value, field: &Value) -> String {
    let target = resolve(schema, field);
    if let Some(choices) = target.get("oneOf").and_then(Value::as_array) {
        let names: Vec<String> = choices
            .iter()
            .filter_map(|choice| {
                let name = choice.get("const")?.as_str()?;
                let about = one_line(text(choice, "description").unwrap_or_default());
                Some(format!("`\"{name}\"`: {about}"))
            })
            .collect();
        return names.join("<br>");
    }
    let bound = |name: &str| field.get(name).and_then(Value::as_u64);
    match types(target).as_slice() {
        ["boolean", ..] => "`true` or `false`".to_owned(),
        ["string", ..] => "text".to_owned(),
        ["array", ..] => "list of texts".to_owned(),
        ["object", ..] => "table of texts".to_owned(),
        ["integer", ..] => match (bound("minimum"), bound("maximum")) {
            (Some(min), Some(max)) => format!("whole number, {min} to {max}"),
            _ => "whole number".to_owned(),
        },
        other => other.join(" or "),
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => match schema.get("anyOf").and_then(Value::as_array) {
            Some(many) => many.iter().flat_map(types).collect(),
            None => Vec::new(),
        },
    }
}

fn is_table(schema: &Value, value: &Value) -> bool {
    types(resolve(schema, value)) == ["object"]
}

fn resolve<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let name = text(value, "$ref").and_then(|r| r.strip_prefix("#/$defs/"));
    let found = name.and_then(|name| schema.get("$defs")?.get(name));
    found.unwrap_or(value)
}

fn object<'a>(value: &'a Value, key: &str) -> &'a Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let found = value.get(key).and_then(Value::as_object);
    found.unwrap_or(&EMPTY)
}

fn required(schema: &Value) -> Vec<&str> {
    let list = schema.get("required").and_then(Value::as_array);
    list.map_or_else(Vec::new, |list| {
        list.iter().filter_map(Value::as_str).collect()
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
