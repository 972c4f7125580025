//! The Kubernetes verb of an HTTP request, as the API server's audit log names it.

use axum::http::Method;

/// The verb of a request.
pub(super) fn verb(method: &Method, path: &str, query: Option<&str>) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ if query.is_some_and(|query| query.split('&').any(|one| one.starts_with("watch="))) => {
            "watch"
        }
        _ if is_single_object(path) => "get",
        _ => "list",
    }
}

/// Whether a path names one object: true for `/api/v1/namespaces/ns/pods/p`, false for
/// `/api/v1/pods`.
fn is_single_object(path: &str) -> bool {
    let mut segments = path.trim_matches('/').split('/');
    let group_segments = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return true,
    };
    let rest: Vec<_> = segments.skip(group_segments).collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, below @ ..] if !below.is_empty() => below,
        all => all,
    };
    rest.len() != 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_verbs_of_kubernetes() {
        for (method, path, query, expected) in [
            (Method::GET, "/api/v1/pods", None, "list"),
            (
                Method::GET,
                "/api/v1/pods",
                Some("watch=true&limit=1"),
                "watch",
            ),
            (Method::GET, "/api/v1/namespaces/a/secrets/b", None, "get"),
            (
                Method::GET,
                "/apis/apps/v1/namespaces/a/deployments",
                None,
                "list",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b",
                None,
                "patch",
            ),
            (Method::GET, "/version", None, "get"),
        ] {
            assert_eq!(verb(&method, path, query), expected, "{path}");
        }
    }
}
