//! `docs/api-reference.md`: the operations and the error codes, from the tables of `orrery-api`.

use orrery_api::{Activation, ErrorCode, Kind, OPERATIONS};

const HEAD: &str = "\
# API reference

This page is generated from the operation table; `cargo xtask generate` writes it. How calls, \
streams and credentials work: [api.md](api.md). The shapes: [openapi.json](openapi.json), which a \
running Host serves at `/api/openapi.json`.

## Operations

Operations that are not there yet answer `gateway/unknown-method`.

| operation | how | what it does | wakes a session | there |
| --- | --- | --- | --- | --- |
";

/// The page, in Markdown.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for operation in OPERATIONS {
        let how = match operation.kind {
            Kind::Unary => "call",
            Kind::Stream => "stream",
        };
        let wakes = match operation.activation {
            Activation::Never => "never",
            Activation::LiveOnly => "never; needs a live one",
            Activation::MayResume => "may resume it",
            Activation::Creates => "makes one",
        };
        let there = if operation.implemented {
            "yes"
        } else {
            "not yet"
        };
        let (name, summary) = (operation.name, operation.summary);
        page.push_str(&format!(
            "| `{name}` | {how} | {summary} | {wakes} | {there} |\n"
        ));
    }
    page.push_str("\n## Error codes\n\nCodes are only ever added.\n\n");
    page.push_str("| code | HTTP status | may work later by itself |\n| --- | --- | --- |\n");
    for code in ErrorCode::ALL {
        let later = if code.retryable() { "yes" } else { "no" };
        let status = code.http_status();
        page.push_str(&format!("| `{code}` | {status} | {later} |\n"));
    }
    page
}
