//! The access log of a registry.

/// One request to a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRequest {
    /// `GET`, `HEAD`, `PUT`, `POST` or `PATCH`.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// The `User-Agent` header.
    pub user_agent: String,
}

/// Removes each fence request, and the `GET /v2/` that crane sends before it.
pub(super) fn without_fences(requests: Vec<RegistryRequest>) -> Vec<RegistryRequest> {
    let mut others: Vec<RegistryRequest> = Vec::new();
    for request in requests {
        if !request.uri.starts_with("/v2/fence-") {
            others.push(request);
            continue;
        }
        let is_ping_of_fence =
            |r: &RegistryRequest| r.uri == "/v2/" && r.user_agent == request.user_agent;
        if let Some(ping) = others.iter().rposition(is_ping_of_fence) {
            others.remove(ping);
        }
    }
    others
}

/// Parses a line such as `127.0.0.1 - - [time] "GET /v2/ HTTP/1.1" 200 2 "" "client/1.0"`
pub(super) fn parse_line(line: &str) -> Option<RegistryRequest> {
    if line.starts_with('{') {
        return None;
    }
    let mut parts = line.split('"');
    let mut request = parts.nth(1)?.split(' ');
    let status = parts.next()?.split_whitespace().next()?.parse().ok()?;
    Some(RegistryRequest {
        method: request.next()?.to_owned(),
        uri: request.next()?.to_owned(),
        status,
        user_agent: parts.nth(2)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_access_log_are_requests() {
        let line = r#"127.0.0.1 - - [15/Nov/2026:04:00:00 +0000] "HEAD /v2/a/manifests/v1 HTTP/1.1" 404 12 "" "crane/0.22""#;
        let request = parse_line(line).unwrap();
        assert_eq!((request.method.as_str(), request.status), ("HEAD", 404));
        assert_eq!(
            (request.uri.as_str(), request.user_agent.as_str()),
            ("/v2/a/manifests/v1", "crane/0.22")
        );
        assert_eq!(
            parse_line(r#"{"level":"info","msg":"listening on \"x\" 200 "}"#),
            None
        );
    }

    #[test]
    fn a_fence_and_its_ping_are_removed() {
        let request = |uri: &str, agent: &str| RegistryRequest {
            method: "GET".to_owned(),
            uri: uri.to_owned(),
            status: 200,
            user_agent: agent.to_owned(),
        };
        let counted = without_fences(vec![
            request("/v2/", "llsd"),
            request("/v2/", "crane"),
            request("/v2/fence-0/tags/list?n=1000", "crane"),
            request("/v2/a/manifests/v1", "llsd"),
        ]);
        assert_eq!(
            counted,
            [
                request("/v2/", "llsd"),
                request("/v2/a/manifests/v1", "llsd")
            ]
        );
    }
}
