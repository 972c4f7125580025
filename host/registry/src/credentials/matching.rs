//! Matches the keys of a docker config with an image, by the rules of the kubelet.
//!
//! A key is `[scheme://]host[:port][/path]`. Hosts are compared label by label, and `*` matches any
//! characters within a label. Ports must be equal, and the path of the key must be a prefix of the path
//! of the image. Matching keys are sorted in reverse order, so that a longer path precedes a shorter one.

/// Normalizes a key: removes the scheme, and `/v1` or `/v2` before the path.
pub(super) fn normalize(key: &str) -> String {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let path = match path {
        "/v1" | "/v2" => "",
        _ => path
            .strip_prefix("/v1/")
            .or(path.strip_prefix("/v2/"))
            .unwrap_or(path),
    };
    match path.trim_matches('/') {
        "" => host.to_owned(),
        path => format!("{host}/{path}"),
    }
}

/// The matching keys, the best match first. If no key matches Docker Hub, its historical key
/// `index.docker.io` is used.
pub(super) fn keys_for<'a>(keys: impl Iterator<Item = &'a String>, image: &str) -> Vec<&'a String> {
    let mut all: Vec<&String> = keys.collect();
    all.sort_by(|a, b| b.cmp(a));
    let matching: Vec<_> = all
        .iter()
        .copied()
        .filter(|key| matches(key, image))
        .collect();
    if matching.is_empty() && image.starts_with("docker.io/") {
        return all
            .into_iter()
            .filter(|key| *key == "index.docker.io")
            .collect();
    }
    matching
}

fn matches(key: &str, image: &str) -> bool {
    let (key_host, key_path) = key.split_once('/').unwrap_or((key, ""));
    let (host, path) = image.split_once('/').unwrap_or((image, ""));
    let split_port = |host: &str| match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host.to_owned(), port.to_owned()),
        _ => (host.to_owned(), String::new()),
    };
    let ((key_host, key_port), (host, port)) = (split_port(key_host), split_port(host));
    let (key_labels, labels): (Vec<_>, Vec<_>) =
        (key_host.split('.').collect(), host.split('.').collect());
    key_port == port
        && key_labels.len() == labels.len()
        && key_labels
            .iter()
            .zip(&labels)
            .all(|(pattern, label)| glob(pattern, label))
        && path.starts_with(key_path)
}

/// Matches a label of a host name with a pattern in which `*` matches any characters.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && glob(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_api_versions_and_final_slashes_are_ignored() {
        for key in [
            "https://index.docker.io/v1/",
            "http://index.docker.io/v2/",
            "index.docker.io/v1",
            "index.docker.io",
        ] {
            assert_eq!(normalize(key), "index.docker.io", "{key}");
        }
        assert_eq!(normalize("https://ghcr.io/v2/acme/"), "ghcr.io/acme");
        assert_eq!(normalize("ghcr.io/v1beta/x"), "ghcr.io/v1beta/x");
    }

    #[test]
    fn hosts_match_label_by_label() {
        for (key, image, expected) in [
            ("ghcr.io", "ghcr.io/a/b", true),
            ("ghcr.io", "evil-ghcr.io/a", false),
            ("*.azurecr.io", "team.azurecr.io/a", true),
            ("*.azurecr.io", "a.b.azurecr.io/a", false),
            ("*.azurecr.io", "azurecr.io/a", false),
            ("reg*.local", "registry.local/a", true),
            ("host:5000", "host:5000/a", true),
            ("host:5000", "host/a", false),
            ("host", "host:5000/a", false),
            ("[::1]:5000", "[::1]:5000/a", true),
        ] {
            assert_eq!(matches(key, image), expected, "{key} {image}");
        }
    }

    #[test]
    fn the_longer_path_comes_first() {
        let keys = ["ghcr.io", "ghcr.io/acme", "ghcr.io/acme/stack", "quay.io"].map(String::from);
        assert_eq!(
            keys_for(keys.iter(), "ghcr.io/acme/stack/starter"),
            ["ghcr.io/acme/stack", "ghcr.io/acme", "ghcr.io"]
        );
        assert_eq!(keys_for(keys.iter(), "ghcr.io/other"), ["ghcr.io"]);
    }

    #[test]
    fn docker_hub_matches_its_historical_key_only_if_its_own_name_is_missing() {
        let old = ["index.docker.io".to_owned()];
        assert_eq!(
            keys_for(old.iter(), "docker.io/library/x"),
            ["index.docker.io"]
        );
        let both = ["index.docker.io".to_owned(), "docker.io".to_owned()];
        assert_eq!(keys_for(both.iter(), "docker.io/library/x"), ["docker.io"]);
        assert!(keys_for(old.iter(), "ghcr.io/x").is_empty());
    }
}
