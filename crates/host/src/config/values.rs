//! Values that are checked while they are read, so that a refusal knows its line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// A model of a provider, written `provider/model`. The model's own name may hold slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    provider: String,
    model: String,
}

impl ModelRef {
    /// Puts a reference together.
    ///
    /// # Errors
    ///
    /// When a part is empty, or the provider's name holds a slash.
    pub fn new(provider: &str, model: &str) -> Result<Self, String> {
        Self::try_from(format!("{provider}/{model}")).and_then(|made| {
            if made.provider == provider {
                Ok(made)
            } else {
                Err(format!("`{provider}` is no provider's name"))
            }
        })
    }

    /// The built-in model.
    pub fn offline() -> Self {
        Self {
            provider: super::OFFLINE_PROVIDER.to_owned(),
            model: "demo".to_owned(),
        }
    }

    /// The provider's name.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

impl TryFrom<String> for ModelRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Self {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }),
            _ => Err(format!("`{text}` is no model, expected `provider/model`")),
        }
    }
}

impl std::str::FromStr for ModelRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.to_owned().try_into()
    }
}

impl From<ModelRef> for String {
    fn from(value: ModelRef) -> Self {
        value.to_string()
    }
}

impl JsonSchema for ModelRef {
    fn schema_name() -> Cow<'static, str> {
        "ModelRef".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A name under which the Host may be reached: `host` or `host:port`, in canonical spelling.
///
/// Refusing every other spelling keeps a stray blank or path from widening an exact entry
/// (`controller.md` 5.7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Authority {
    host: String,
    port: Option<u16>,
}

impl Authority {
    /// The host: lower case, IPv6 in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if the entry is for one only.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether a request that went to `host` and `port` is meant.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        self.host.eq_ignore_ascii_case(host) && self.port.is_none_or(|own| own == port)
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl From<Authority> for String {
    fn from(value: Authority) -> Self {
        value.to_string()
    }
}

impl TryFrom<String> for Authority {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{text}` is no bare authority, expected `host` or `host:port` in lower case, \
                 without scheme, path, user or spaces"
            )
        };
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let number: u16 = port.parse().map_err(|_not_a_port| refuse())?;
                // `parse` takes `+80` and `080`, which are not canonical.
                if number == 0 || number.to_string() != port {
                    return Err(refuse());
                }
                (host, Some(number))
            }
            _ => (text.as_str(), None),
        };
        if !is_canonical_host(host) {
            return Err(refuse());
        }
        let host = host.to_owned();
        Ok(Self { host, port })
    }
}

impl JsonSchema for Authority {
    fn schema_name() -> Cow<'static, str> {
        "Authority".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

fn is_canonical_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.strip_suffix(']').map(str::parse::<Ipv6Addr>);
        return matches!(address, Some(Ok(address)) if format!("[{address}]") == host);
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    if host.len() > 253 || !host.split('.').all(label) {
        return false;
    }
    // What ends in a number is an IPv4 address to a browser, whatever the rest looks like.
    let last = host.rsplit('.').next().unwrap_or_default();
    let number = last.starts_with("0x") || last.bytes().all(|b| b.is_ascii_digit());
    !number || host.parse::<Ipv4Addr>().is_ok()
}

/// How long a model server may be silent when nothing is configured, in seconds.
pub(super) const fn idle_timeout_seconds() -> u64 {
    120
}

/// Reads a whole number between two bounds.
pub(super) fn whole<'de, const MIN: u64, const MAX: u64, D, T>(
    deserializer: D,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    struct Whole<T> {
        min: u64,
        max: u64,
        into: PhantomData<T>,
    }
    impl<T: TryFrom<u64>> Visitor<'_> for Whole<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {} to {}", self.min, self.max)
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            let refuse = |expected: &Self| {
                E::invalid_value(
                    de::Unexpected::Signed(number),
                    expected as &dyn de::Expected,
                )
            };
            match u64::try_from(number) {
                Ok(number) if (self.min..=self.max).contains(&number) => {
                    T::try_from(number).map_err(|_too_big_for_this_machine| refuse(&self))
                }
                _ => Err(refuse(&self)),
            }
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            match i64::try_from(number) {
                Ok(number) => self.visit_i64(number),
                Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
            }
        }
    }
    deserializer.deserialize_i64(Whole {
        min: MIN,
        max: MAX,
        into: PhantomData,
    })
}

/// Reads the address of a model server.
pub(super) fn base_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let plain = |text: &str| !text.contains(|c: char| c.is_whitespace() || c.is_control());
    match host {
        // Not shown: what stands before the `@` is a secret.
        Some(host) if host.contains('@') => Err(de::Error::custom(
            "expected an address without user and password; a key goes into the variable that \
             `api_key_env` names",
        )),
        Some(host) if !host.is_empty() && plain(&text) && !text.contains(['?', '#']) => Ok(text),
        _ => Err(de::Error::custom(
            "expected an address such as `https://api.example.com/v1`, without `?` and `#`",
        )),
    }
}

/// Reads the name of an environment variable.
pub(super) fn variable_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Ok(Some(text));
    }
    // Not shown: whoever gets this wrong has most likely put the key here.
    Err(de::Error::custom(
        "expected the name of an environment variable, such as `EXAMPLE_API_KEY`, and never the \
         key itself",
    ))
}

/// Reads the names of models.
pub(super) fn model_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    for (at, name) in names.iter().enumerate() {
        if name.trim().is_empty() {
            return Err(de::Error::custom(
                "expected the names of models, one is empty",
            ));
        }
        if names.iter().take(at).any(|other| other == name) {
            return Err(de::Error::custom(format!("`{name}` is listed twice")));
        }
    }
    Ok(names)
}

/// Reads a folder's path.
pub(super) fn folder<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() || text.starts_with('~') {
        // Expanding `~` is the shell's; taken literally it would make a folder of that name.
        return Err(de::Error::custom(
            "expected the path of a folder, absolute or beside this file; `~` is not understood",
        ));
    }
    Ok(Some(PathBuf::from(text)))
}

/// Reads an address to listen on.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_not_an_address| {
        de::Error::custom(format!(
            "`{text}` is no address, expected one such as `127.0.0.1` or `::1`"
        ))
    })
}
