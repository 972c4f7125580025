//! Parses the addresses that users write.

use std::fmt::Write as _;

/// `scheme://host:port/path`, of which only the host is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address<'t> {
    /// The part before `://`.
    pub(crate) scheme: Option<&'t str>,
    /// Whether it contains a user name or a password.
    pub(crate) has_userinfo: bool,
    /// Host name or address; an IPv6 address without its brackets.
    pub(crate) host: &'t str,
    /// Port number.
    pub(crate) port: Option<u16>,
    /// The path with its slash, and everything after it.
    pub(crate) path: &'t str,
}

/// Parses an address, or returns what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Address<'_>, &'static str> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("it contains white space");
    }
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    if scheme.is_some_and(|s| {
        s.is_empty()
            || !s
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    }) {
        return Err("the part before :// is not a valid scheme");
    }
    let (authority, path) = rest
        .find(['/', '?', '#'])
        .and_then(|at| rest.split_at_checked(at))
        .unwrap_or((rest, ""));
    let (has_userinfo, location) = match authority.rsplit_once('@') {
        Some((_, location)) => (true, location),
        None => (false, authority),
    };
    let (host, port) = match location
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match location.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (location, None),
        },
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(
            port.parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or("its port must be a number from 1 to 65535")?,
        ),
    };
    Ok(Address {
        scheme,
        has_userinfo,
        host,
        port,
        path,
    })
}

impl Address<'_> {
    /// The address with another path.
    pub(crate) fn with_path(&self, path: &str) -> String {
        let mut out = String::new();
        if let Some(scheme) = self.scheme {
            out.push_str(scheme);
            out.push_str("://");
        }
        if self.host.contains(':') {
            let _ = write!(out, "[{}]", self.host);
        } else {
            out.push_str(self.host);
        }
        if let Some(port) = self.port {
            let _ = write!(out, ":{port}");
        }
        out.push_str(path);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (text, scheme, host, port, path) in [
            ("http://vllm:8000", Some("http"), "vllm", Some(8000), ""),
            (
                "https://a.example/v1/",
                Some("https"),
                "a.example",
                None,
                "/v1/",
            ),
            (
                "redis.default.svc:6379",
                None,
                "redis.default.svc",
                Some(6379),
                "",
            ),
            ("pg", None, "pg", None, ""),
            (
                "http://[::1]:8000/v1",
                Some("http"),
                "::1",
                Some(8000),
                "/v1",
            ),
            ("http://a?x=1", Some("http"), "a", None, "?x=1"),
        ] {
            let address = parse(text).unwrap();
            assert_eq!(
                (address.scheme, address.host, address.port, address.path),
                (scheme, host, port, path),
                "{text}"
            );
            assert_eq!(address.with_path(address.path), text);
        }
        assert!(parse("redis://:secret@redis:6379").unwrap().has_userinfo);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "http://",
            "http:// a",
            "http://a:b",
            "http://a:0",
            "http://a:99999",
            "://a",
            "a b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
