//! What a program that we start may see of the host's environment: everything but secrets.
//!
//! Owns the rule by which a variable's name gives a secret away. Values are not looked at.

use std::ffi::OsString;

/// Words that make a name secret wherever they stand between underscores.
const SECRET_WORDS: [&str; 17] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "ACCESSKEY",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "CREDENTIAL",
    "CREDENTIALS",
    "PAT",
    "PRIVATE",
];
/// Endings that make a word secret, for names that are written together (`PGPASSWORD`).
const SECRET_ENDINGS: [&str; 6] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "APIKEY",
    "CREDENTIALS",
];

/// The variables of this process that a program gets: those whose names give no secret away.
pub fn for_commands() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !is_secret(&name.to_string_lossy()))
}

/// Whether a name looks like that of a key, token, secret or password.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    // `PWD` and `OLDPWD` are folders, `MYSQL_PWD` is not.
    let password = name.ends_with("_PWD");
    password
        || words.any(|word| {
            SECRET_WORDS.contains(&word) || SECRET_ENDINGS.iter().any(|end| word.ends_with(end))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_other_names() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "MYSQL_PWD",
            "npm_config__authToken",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "DB_PASS",
            "my.secret",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "HOME",
            "KEYBOARD",
            "SSH_AUTH_SOCK",
            "LANG",
            "COMPASS",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
