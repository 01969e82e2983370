//! Stand-ins that give foreign types a JSON Schema.
//!
//! The session crate does not know schemas; fields of its types name one of these with
//! `#[schemars(with = "…")]`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// 2^53 - 1, the largest integer that every reader holds exactly.
const MAX_SAFE: u64 = orrery_session::seq::MAX_SAFE_INTEGER;

macro_rules! marker {
    ($(#[$doc:meta])* $name:ident = $($schema:tt)*) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($($schema)*)
            }
        }
    };
}

marker! {
    /// A non-empty opaque id.
    Id = { "type": "string", "minLength": 1 }
}
marker! {
    /// An event's seq.
    Seq = { "type": "integer", "minimum": 0, "maximum": MAX_SAFE }
}
marker! {
    /// A cursor: a seq, or -1 before everything.
    Cursor = { "type": "integer", "minimum": -1, "maximum": MAX_SAFE }
}
marker! {
    /// Epoch milliseconds.
    Time = { "type": "integer", "minimum": -(MAX_SAFE as i64), "maximum": MAX_SAFE }
}
marker! {
    /// Any JSON value.
    Any = {}
}
