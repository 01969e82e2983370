//! A key that cannot be printed by accident, and what is known when there is none.

use orrery_session::LlmFailure;

/// A secret text. It shows itself to nobody who does not ask for it by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself: for the one place it is meant for, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text without the secret, for words of others that may repeat it.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.0, "[key]")
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// The key of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ApiKey {
    /// The provider wants none.
    #[default]
    NotNeeded,
    /// There is one.
    Present(Secret),
    /// The variable that should hold it is not set, or is blank.
    Missing {
        /// The variable's name.
        variable: String,
    },
}

impl ApiKey {
    /// The key from what the environment variable `variable` holds.
    pub fn from_variable(variable: &str, value: Option<String>) -> Self {
        match value.as_deref().map(str::trim) {
            Some(key) if !key.is_empty() => Self::Present(Secret::new(key.to_owned())),
            _ => Self::Missing {
                variable: variable.to_owned(),
            },
        }
    }

    /// The key to send, if one is wanted.
    ///
    /// # Errors
    ///
    /// `MISSING_CREDENTIAL` with the name of the variable to set.
    pub(crate) fn get(&self, provider: &str) -> Result<Option<&Secret>, LlmFailure> {
        match self {
            Self::NotNeeded => Ok(None),
            Self::Present(key) => Ok(Some(key)),
            Self::Missing { variable } => {
                let message = format!(
                    "the provider `{provider}` needs a key: set the environment variable \
                     {variable} and start again"
                );
                Err(LlmFailure::new("MISSING_CREDENTIAL", message))
            }
        }
    }

    /// The text without the key.
    pub fn scrub(&self, text: &str) -> String {
        match self {
            Self::Present(key) => key.scrub(text),
            Self::NotNeeded | Self::Missing { .. } => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_prints_nothing_and_a_blank_one_is_missing() {
        let key = ApiKey::from_variable("K", Some(" sk-1\n".to_owned()));
        assert_eq!(format!("{key:?}"), "Present([secret])");
        assert_eq!(key.scrub("no sk-1 here"), "no [key] here");
        let missing = ApiKey::from_variable("K", Some(" ".to_owned()));
        let failure = missing.get("p").unwrap_err();
        assert_eq!(failure.code, "MISSING_CREDENTIAL");
        assert!(failure.message.contains(" K "));
    }
}
