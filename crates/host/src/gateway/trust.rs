//! The trust fence: which Host and Origin a request may carry (`controller.md` 5.7).
//!
//! Stops pages of other origins and names that were bent to this address. Applies to every request,
//! also to those of programs.

use http::{HeaderMap, Uri, header};
use orrery_api::error::{ApiError, ErrorCode};

use crate::config::Authority;

/// The hosts that a request may be meant for, beside loopback.
#[derive(Debug, Clone, Default)]
pub struct TrustedHosts(pub Vec<Authority>);

impl TrustedHosts {
    /// Whether a request is meant for us and comes from ourselves.
    ///
    /// # Errors
    /// `gateway/untrusted-origin`, saying which header is wrong.
    pub fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
        let refuse = |why: &str| Err(ApiError::new(ErrorCode::UntrustedOrigin, why));
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next(), uri.authority()) {
            (Some(host), None, _) => host.to_str().ok().and_then(authority),
            (None, None, Some(uri)) => authority(uri.as_str()),
            _ => None,
        };
        let Some(host) = host else {
            return refuse("the Host header is missing or malformed");
        };
        let (name, port) = (&host.0, host.1);
        if !is_loopback(name) && !self.0.iter().any(|trusted| trusted.matches(name, port)) {
            return refuse("this Host header is not trusted; add it to server.trusted_hosts");
        }
        if headers
            .get("sec-fetch-site")
            .is_some_and(|site| site == "cross-site")
        {
            return refuse("requests from other sites are refused");
        }
        for origin in headers.get_all(header::ORIGIN) {
            if origin.to_str().ok().and_then(origin_authority).as_ref() != Some(&host) {
                return refuse("requests from other origins are refused");
            }
        }
        Ok(())
    }
}

/// Host and port, in lower case, with the default port of http.
fn authority(text: &str) -> Option<(String, u16)> {
    parts(text, 80)
}

fn origin_authority(origin: &str) -> Option<(String, u16)> {
    match origin.split_once("://")? {
        ("http", rest) => parts(rest, 80),
        ("https", rest) => parts(rest, 443),
        _ => None,
    }
}

fn parts(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inner, after) = rest.split_once(']')?;
            (
                format!("[{inner}]"),
                after.strip_prefix(':').or(after.is_empty().then_some(""))?,
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), port),
            None => (text.to_owned(), ""),
        },
    };
    let port = if port.is_empty() {
        default_port
    } else {
        port.parse().ok()?
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    (!host.is_empty() && host.chars().all(legal)).then(|| (host.to_ascii_lowercase(), port))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host == "[::1]"
        || host
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, value.parse().unwrap());
        }
        TrustedHosts::default()
            .check(&headers, &Uri::from_static("/"))
            .is_ok()
    }

    #[test]
    fn only_loopback_names_are_ours_without_configuration() {
        for good in [
            "localhost:1",
            "LOCALHOST",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:5",
        ] {
            assert!(check(&[("host", good)]), "{good}");
        }
        for bad in [
            "example.com",
            "127.0.0.1.nip.io",
            "localhost.evil",
            "",
            "[::1",
            "a b",
            "[::1]x",
        ] {
            assert!(!check(&[("host", bad)]), "{bad}");
        }
        assert!(!check(&[]));
        assert!(!check(&[("host", "localhost"), ("host", "localhost")]));
    }

    #[test]
    fn an_origin_must_be_the_host_itself() {
        let host = ("host", "127.0.0.1:4000");
        assert!(check(&[host, ("origin", "http://127.0.0.1:4000")]));
        for bad in [
            "http://127.0.0.1:4001",
            "http://localhost:4000",
            "null",
            "https://127.0.0.1:4000",
            "x",
        ] {
            assert_eq!(
                check(&[host, ("origin", bad)]),
                bad == "https://127.0.0.1:4000",
                "{bad}"
            );
        }
        assert!(!check(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(check(&[host, ("sec-fetch-site", "same-origin")]));
    }
}
