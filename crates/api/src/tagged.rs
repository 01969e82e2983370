//! Unions tagged by `type` whose bodies carry raw JSON.
//!
//! serde buffers an internally tagged union before it reads it, and a buffered value cannot become
//! raw text again. So reading goes through the text: first the tag, then the body.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Tag {
    r#type: String,
}

/// The tag of the object in `raw`.
pub(crate) fn tag_of<E: Error>(raw: &RawValue) -> Result<String, E> {
    serde_json::from_str::<Tag>(raw.get())
        .map(|tag| tag.r#type)
        .map_err(E::custom)
}

/// The body of the object in `raw`; the tag is ignored like any unknown field.
pub(crate) fn body_of<T: DeserializeOwned, E: Error>(raw: &RawValue) -> Result<T, E> {
    serde_json::from_str(raw.get()).map_err(E::custom)
}

/// Declares a union tagged by `type` and reads it from text.
macro_rules! tagged_union {
    (
        $(#[$outer:meta])*
        pub enum $name:ident {
            $( $(#[$inner:meta])* $variant:ident($body:ty) = $tag:literal, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
        #[serde(tag = "type")]
        pub enum $name {
            $( $(#[$inner])* #[serde(rename = $tag)] $variant($body), )+
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
                match $crate::tagged::tag_of::<D::Error>(&raw)?.as_str() {
                    $( $tag => $crate::tagged::body_of(&raw).map(Self::$variant), )+
                    other => Err(serde::de::Error::unknown_variant(other, &[$($tag),+])),
                }
            }
        }
    };
}
