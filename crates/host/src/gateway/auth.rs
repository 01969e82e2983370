//! Credentials: a cookie for browsers, got once by a launch link, and a bearer token for programs
//! (`controller.md` 5.8).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use http::{HeaderMap, header};
use orrery_session::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// How long a browser stays signed in.
const COOKIE_LIFE_SECONDS: i64 = 30 * 24 * 3600;
/// How long a launch link waits to be used.
const LINK_LIFE_MS: i64 = 24 * 3600 * 1000;

/// Who is calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// A browser that was signed in.
    Cookie,
    /// A program that can read the state folder.
    Bearer,
}

/// The credentials of this Host. Its `Debug` shows none of them.
pub struct Auth {
    /// The digest of the bearer token.
    bearer: [u8; 32],
    cookie_secret: Vec<u8>,
    /// Digests of unused launch tokens, and when each was made.
    links: Mutex<HashMap<[u8; 32], Timestamp>>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CookiePayload {
    version: u32,
    authority: String,
    issued_at: i64,
    expires_at: i64,
}

/// The system had no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the system's random source failed: {0}")]
pub struct NoRandomness(String);

/// 32 random bytes in URL-safe base64.
pub fn random_token() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| NoRandomness(e.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Auth {
    /// The credentials: the token of programs, and the secret that cookies are signed with.
    pub fn new(bearer_token: &str, cookie_secret: Vec<u8>, clock: Arc<dyn Clock>) -> Self {
        Self {
            bearer: digest(bearer_token),
            cookie_secret,
            links: Mutex::default(),
            clock,
        }
    }

    /// A fresh launch token: good for one sign-in.
    pub fn launch_token(&self) -> Result<String, NoRandomness> {
        let token = random_token()?;
        let now = self.clock.now();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, made| now.epoch_millis() - made.epoch_millis() < LINK_LIFE_MS);
        links.insert(digest(&token), now);
        Ok(token)
    }

    /// Uses up a launch token; gives the cookie for the authority that the browser spoke to.
    pub fn exchange(&self, token: &str, authority: &str) -> Option<String> {
        let now = self.clock.now().epoch_millis();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let made = links.remove(&digest(token))?;
        drop(links);
        if now - made.epoch_millis() >= LINK_LIFE_MS {
            return None;
        }
        let payload = CookiePayload {
            version: 1,
            authority: authority.to_owned(),
            issued_at: now,
            expires_at: now + COOKIE_LIFE_SECONDS * 1000,
        };
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&payload).ok()?);
        let signature = URL_SAFE_NO_PAD.encode(self.sign(&payload)?);
        let name = cookie_name(authority);
        Some(format!(
            "{name}=v1.{payload}.{signature}; Max-Age={COOKIE_LIFE_SECONDS}; Path=/; HttpOnly; \
             SameSite=Strict"
        ))
    }

    /// Who is calling, if they may.
    pub fn check(&self, headers: &HeaderMap) -> Option<Credential> {
        if let Some(value) = headers.get(header::AUTHORIZATION) {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return None;
            }
            let same: bool = digest(token.trim()).ct_eq(&self.bearer).into();
            return same.then_some(Credential::Bearer);
        }
        let authority = headers.get(header::HOST)?.to_str().ok()?;
        let name = cookie_name(authority);
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(key, _)| *key == name)
            .any(|(_, value)| self.valid_cookie(value, authority))
            .then_some(Credential::Cookie)
    }

    fn valid_cookie(&self, value: &str, authority: &str) -> bool {
        let valid = || {
            let (payload, signature) = value.strip_prefix("v1.")?.split_once('.')?;
            let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
            let mut mac = Hmac::<Sha256>::new_from_slice(&self.cookie_secret).ok()?;
            mac.update(payload.as_bytes());
            mac.verify_slice(&signature).ok()?;
            let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
            let payload: CookiePayload = serde_json::from_slice(&payload).ok()?;
            let now = self.clock.now().epoch_millis();
            let life = payload.expires_at - payload.issued_at;
            Some(
                payload.version == 1
                    && payload.authority == authority
                    && now < payload.expires_at
                    && life <= COOKIE_LIFE_SECONDS * 1000,
            )
        };
        valid().unwrap_or(false)
    }

    fn sign(&self, payload: &str) -> Option<Vec<u8>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.cookie_secret).ok()?;
        mac.update(payload.as_bytes());
        Some(mac.finalize().into_bytes().to_vec())
    }
}

/// Cookies do not tell ports apart, so the name does.
fn cookie_name(authority: &str) -> String {
    format!("orrery-auth-{}", URL_SAFE_NO_PAD.encode(digest(authority)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Bent(AtomicI64);
    impl Clock for Bent {
        fn now(&self) -> Timestamp {
            Timestamp::saturating(self.0.load(Ordering::Relaxed))
        }
    }

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_launch_token_signs_in_once_and_its_cookie_is_bound_to_host_and_time() {
        let clock = Arc::new(Bent::default());
        let auth = Auth::new(
            "program",
            b"secret".to_vec(),
            Arc::clone(&clock) as Arc<dyn Clock>,
        );
        let token = auth.launch_token().unwrap();
        assert!(auth.exchange("wrong", "localhost:1").is_none());
        let cookie = auth.exchange(&token, "localhost:1").unwrap();
        assert!(auth.exchange(&token, "localhost:1").is_none(), "used up");
        let pair = cookie.split(';').next().unwrap().to_owned();
        let at = |host: &str| headers(&[(header::HOST, host), (header::COOKIE, &pair)]);
        assert_eq!(auth.check(&at("localhost:1")), Some(Credential::Cookie));
        assert_eq!(auth.check(&at("localhost:2")), None);
        let forged = format!("{pair}x");
        let forged = headers(&[(header::HOST, "localhost:1"), (header::COOKIE, &forged)]);
        assert_eq!(auth.check(&forged), None);
        clock.0.store(COOKIE_LIFE_SECONDS * 1000, Ordering::Relaxed);
        assert_eq!(auth.check(&at("localhost:1")), None, "expired");
    }

    #[test]
    fn programs_show_the_token_and_nothing_else_will_do() {
        let auth = Auth::new("program", b"secret".to_vec(), Arc::new(Bent::default()));
        let with = |value: &str| headers(&[(header::AUTHORIZATION, value)]);
        for good in ["Bearer program", "bearer program"] {
            assert_eq!(auth.check(&with(good)), Some(Credential::Bearer));
        }
        for bad in ["Bearer other", "Bearer", "program", "Basic program"] {
            assert_eq!(auth.check(&with(bad)), None);
        }
    }
}
