//! Decides which requests are answered, and what a browser may do with the page.
//!
//! The server listens on the loopback address, but every page that the user opens can send requests to
//! it. A page of another origin gets nothing: its `Origin` or `Sec-Fetch-Site` gives it away. A page whose
//! host name was made to resolve to the loopback address (DNS rebinding) is of the same origin as far as
//! the browser knows, but its name is in `Host`.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

/// What the browser may do with the page: load our own files, and nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The headers of every response.
pub(super) fn response_headers() -> [(HeaderName, HeaderValue); 6] {
    let text = HeaderValue::from_static;
    [
        (
            header::CONTENT_SECURITY_POLICY,
            text(CONTENT_SECURITY_POLICY),
        ),
        (header::X_CONTENT_TYPE_OPTIONS, text("nosniff")),
        (header::REFERRER_POLICY, text("no-referrer")),
        (header::CACHE_CONTROL, text("no-store")),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            text("same-origin"),
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            text("same-origin"),
        ),
    ]
}

/// The header with the token.
pub(super) const TOKEN_HEADER: &str = "x-llsd-token";

/// A request that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the Host header is not the address that `llsd explore` printed; open that address")]
    Host,
    #[error("another page may not use `llsd explore`; open the address that it printed")]
    Origin,
    #[error("the request body must be JSON; set the Content-Type header to application/json")]
    ContentType,
    #[error("this needs the token of the address that `llsd explore` printed; open that address")]
    Token,
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::Token => StatusCode::FORBIDDEN,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }
}

/// Checks the headers of a request. `port` is the port of the server.
pub(super) fn check(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    port: u16,
) -> Result<(), Refusal> {
    let host = only(headers, &header::HOST).ok_or(Refusal::Host)?;
    let mut names = ["127.0.0.1", "localhost"].into_iter();
    let name = names.find(|name| host == format!("{name}:{port}"));
    let name = name.ok_or(Refusal::Host)?;
    if headers.contains_key(header::ORIGIN) {
        let own = format!("http://{name}:{port}");
        let origin = only(headers, &header::ORIGIN).ok_or(Refusal::Origin)?;
        if origin != own {
            return Err(Refusal::Origin);
        }
    }
    let fetched_by = |name: &str| headers.get(name).map(|value| value.as_bytes());
    // Programs other than browsers do not send these.
    let is_other_site = match fetched_by("sec-fetch-site") {
        None => false,
        Some(site) => ![&b"same-origin"[..], b"none"].contains(&site),
    };
    // A link to the page in a document of someone else opens it, but shows that document nothing.
    let is_link = *method == Method::GET
        && path == "/"
        && fetched_by("sec-fetch-mode") == Some(&b"navigate"[..])
        && fetched_by("sec-fetch-dest") == Some(&b"document"[..]);
    if is_other_site && !is_link {
        return Err(Refusal::Origin);
    }
    // Without this type, a page of another origin could send the request without asking first.
    if *method == Method::POST {
        let media_type = only(headers, &header::CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/json") {
            return Err(Refusal::ContentType);
        }
    }
    Ok(())
}

/// Checks the token that the printed address has. Other users of this machine do not know it.
pub(super) fn check_token(headers: &HeaderMap, token: &str) -> Result<(), Refusal> {
    let given = headers
        .get(TOKEN_HEADER)
        .map_or(&b""[..], |value| value.as_bytes());
    let differences = given.iter().zip(token.as_bytes()).map(|(a, b)| a ^ b);
    // Every byte is compared, so that the time says nothing about the token.
    let difference = differences.fold(0, |all, one| all | one);
    match given.len() == token.len() && difference == 0 {
        true => Ok(()),
        false => Err(Refusal::Token),
    }
}

/// The value of a header that is set exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: &Method, path: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        check(method, path, &map, 8322)
    }

    const OWN: (&str, &str) = ("host", "127.0.0.1:8322");

    #[test]
    fn only_the_own_address_is_answered() {
        let get = |headers: &[(&str, &str)]| checked(&Method::GET, "/", headers);
        assert_eq!(get(&[OWN]), Ok(()));
        assert_eq!(get(&[("host", "localhost:8322")]), Ok(()));
        for host in [
            "attacker.example:8322",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:8322.attacker.example",
            "localhost:83220",
            "[::1]:8322",
            "",
        ] {
            assert_eq!(get(&[("host", host)]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(get(&[]), Err(Refusal::Host));
        assert_eq!(
            get(&[OWN, ("host", "attacker.example")]),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn another_origin_gets_nothing() {
        let json = ("content-type", "application/json");
        let post = |headers: &[(&str, &str)]| checked(&Method::POST, "/api/answer", headers);
        assert_eq!(post(&[OWN, json]), Ok(()));
        assert_eq!(
            post(&[OWN, json, ("origin", "http://127.0.0.1:8322")]),
            Ok(())
        );
        for origin in [
            "null",
            "https://attacker.example",
            "http://127.0.0.1:8323",
            "http://localhost:8322",
            "https://127.0.0.1:8322",
        ] {
            let found = post(&[OWN, json, ("origin", origin)]);
            assert_eq!(found, Err(Refusal::Origin), "{origin}");
        }
        for (site, expected) in [
            ("same-origin", Ok(())),
            ("none", Ok(())),
            ("same-site", Err(Refusal::Origin)),
            ("cross-site", Err(Refusal::Origin)),
        ] {
            assert_eq!(
                post(&[OWN, json, ("sec-fetch-site", site)]),
                expected,
                "{site}"
            );
        }
    }

    #[test]
    fn a_link_opens_the_page_and_nothing_else() {
        let link = [
            OWN,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(checked(&Method::GET, "/", &link), Ok(()));
        assert_eq!(
            checked(&Method::GET, "/api/start", &link),
            Err(Refusal::Origin)
        );
        let mut frame = link;
        frame[3].1 = "iframe";
        assert_eq!(checked(&Method::GET, "/", &frame), Err(Refusal::Origin));
    }

    #[test]
    fn a_form_cannot_be_posted() {
        for media_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
            let headers = [OWN, ("content-type", media_type)];
            let found = checked(&Method::POST, "/api/answer", &headers);
            assert_eq!(found, Err(Refusal::ContentType));
        }
    }

    #[test]
    fn a_token_must_be_the_same() {
        let with = |token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TOKEN_HEADER, token.parse().unwrap());
            check_token(&headers, "abc")
        };
        assert_eq!(with("abc"), Ok(()));
        for wrong in ["", "ab", "abd", "abcd"] {
            assert_eq!(with(wrong), Err(Refusal::Token), "{wrong}");
        }
        assert_eq!(check_token(&HeaderMap::new(), "abc"), Err(Refusal::Token));
    }
}
