//! Image and artifact references.
//!
//! Parses references such as `starter`, `ghcr.io/acme/plugin:1.2` and `host:5000/team/x@sha256:…` into
//! registry, repository, tag and digest, with the defaults of the kubelet (`docker.io`, `library/`,
//! `latest`).

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// The registry of a reference without a host.
pub(crate) const DEFAULT_REGISTRY: &str = "docker.io";

/// A parsed reference. `Display` prints it in full.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// A string is not a valid reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid image reference: {problem}; {fix}")]
pub struct ParseReferenceError {
    text: String,
    problem: &'static str,
    fix: &'static str,
}

impl Reference {
    /// Host and port, for example `docker.io` or `registry.local:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// `registry/repository`. The prefixes of policies and mirrors are compared with it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The tag, if the reference has one or `latest` is implied.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if the reference is pinned.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same repository pinned to a digest, without a tag.
    pub fn at(&self, digest: &Digest) -> Self {
        Self {
            tag: None,
            digest: Some(digest.clone()),
            ..self.clone()
        }
    }

    /// The same repository with another tag, without a digest.
    pub(crate) fn with_tag(&self, tag: &str) -> Result<Self, ParseReferenceError> {
        check_tag(tag).map_err(|(problem, fix)| ParseReferenceError {
            text: format!("{}:{tag}", self.name()),
            problem,
            fix,
        })?;
        Ok(Self {
            tag: Some(tag.to_owned()),
            digest: None,
            ..self.clone()
        })
    }

    /// The same tag and digest in another repository. `name` is `registry/repository`.
    pub(crate) fn with_name(&self, name: &str) -> Result<Self, ParseReferenceError> {
        let target: Self = name.parse()?;
        Ok(Self {
            tag: self.tag.clone(),
            digest: self.digest.clone(),
            ..target
        })
    }

    /// The digest if there is one, otherwise the tag. The registry API calls this the reference.
    pub(crate) fn tag_or_digest(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|(problem, fix)| ParseReferenceError {
            text: text.chars().take(300).collect(),
            problem,
            fix,
        })
    }
}

type Problem = (&'static str, &'static str);

fn parse(text: &str) -> Result<Reference, Problem> {
    const SHAPE: &str = "write [registry/]repository[:tag][@sha256:digest]";
    if text.contains("://") {
        return Err((
            "it starts with a URL scheme",
            "remove everything up to and including \"://\"",
        ));
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => {
            let problem = (
                "the digest is not a valid sha256 digest",
                "copy the digest in full",
            );
            (rest, Some(digest.parse().map_err(|_| problem)?))
        }
        None => (text, None),
    };
    let (registry, path) = split_registry(rest);
    check_registry(registry)?;
    let (path, tag) = match path.rsplit_once(':') {
        Some((path, tag)) => {
            check_tag(tag)?;
            (path, Some(tag.to_owned()))
        }
        None => (path, None),
    };
    if path.is_empty() {
        return Err(("the repository is missing", SHAPE));
    }
    if path.len() > 255 {
        return Err(("the repository is longer than 255 characters", SHAPE));
    }
    if !path.split('/').all(is_path_component) {
        let fix = "use lower-case letters, digits and single separators (. _ -) between slashes";
        return Err(("the repository contains invalid characters", fix));
    }
    let repository = match registry {
        DEFAULT_REGISTRY if !path.contains('/') => format!("library/{path}"),
        _ => path.to_owned(),
    };
    let tag = if tag.is_none() && digest.is_none() {
        Some("latest".to_owned())
    } else {
        tag
    };
    Ok(Reference {
        registry: registry.to_owned(),
        repository,
        tag,
        digest,
    })
}

/// Splits the registry off. The first component is a host if it cannot be a repository name.
fn split_registry(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some(("index.docker.io", path)) => (DEFAULT_REGISTRY, path),
        Some((host, path))
            if host.contains(['.', ':']) || host == "localhost" || host != host.to_lowercase() =>
        {
            (host, path)
        }
        _ => (DEFAULT_REGISTRY, text),
    }
}

fn check_registry(registry: &str) -> Result<(), Problem> {
    let problem = (
        "the registry is not a valid host",
        "write host or host:port",
    );
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(problem)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| problem)?;
            (
                "v6",
                port.strip_prefix(':')
                    .or((port.is_empty()).then_some("443"))
                    .ok_or(problem)?,
            )
        }
        None => registry.split_once(':').unwrap_or((registry, "443")),
    };
    let is_host_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
    let host_ok = !host.is_empty() && host.len() <= 253 && host.bytes().all(is_host_byte);
    if host_ok && port.parse::<u16>().is_ok() {
        Ok(())
    } else {
        Err(problem)
    }
}

fn check_tag(tag: &str) -> Result<(), Problem> {
    let is_tag_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let ok = (1..=128).contains(&tag.len())
        && tag.bytes().all(is_tag_byte)
        && !tag.starts_with(['.', '-']);
    let fix = "use up to 128 letters, digits, '_', '.' and '-', starting with neither '.' nor '-'";
    if ok {
        Ok(())
    } else {
        Err(("the tag is invalid", fix))
    }
}

/// `[a-z0-9]+` separated by one dot, one or two underscores, or dashes, as in the distribution spec.
fn is_path_component(component: &str) -> bool {
    let mut runs = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let edges_ok = !component.is_empty()
        && !component.starts_with(['.', '_', '-'])
        && !component.ends_with(['.', '_', '-']);
    edges_ok
        && runs.all(|run| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(text: &str) -> String {
        text.parse::<Reference>().unwrap().to_string()
    }

    #[test]
    fn short_names_get_the_defaults_of_the_kubelet() {
        assert_eq!(full("nginx"), "docker.io/library/nginx:latest");
        assert_eq!(
            full("llamastack/starter:0.7"),
            "docker.io/llamastack/starter:0.7"
        );
        assert_eq!(full("index.docker.io/a/b"), "docker.io/a/b:latest");
        assert_eq!(full("localhost/x"), "localhost/x:latest");
        assert_eq!(full("host:5000/x:1"), "host:5000/x:1");
        assert_eq!(full("[::1]:5000/x"), "[::1]:5000/x:latest");
    }

    #[test]
    fn a_pinned_reference_keeps_its_tag_and_gets_no_default_tag() {
        let digest = Digest::of(b"x");
        assert_eq!(
            full(&format!("ghcr.io/a/b@{digest}")),
            format!("ghcr.io/a/b@{digest}")
        );
        let both: Reference = format!("ghcr.io/a/b:1@{digest}").parse().unwrap();
        assert_eq!(
            (both.tag(), both.tag_or_digest()),
            (Some("1"), digest.to_string())
        );
    }

    #[test]
    fn invalid_references_are_refused_with_a_fix() {
        for text in [
            "",
            "https://ghcr.io/a/b",
            "ghcr.io/",
            "ghcr.io/a//b",
            "ghcr.io/a/../b",
            "ghcr.io/A/b",
            "ghcr.io/a/b:",
            "ghcr.io/a/b:-x",
            "ghcr.io/a/b@sha256:123",
            "ghcr.io/a/b@sha256:../../x",
            "ghcr.io:99999/a",
            "gh cr.io/a",
            "user:pw@host/a",
            "[::1/a",
            "ghcr.io/a.-b",
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains("; "), "{error}");
        }
    }

    #[test]
    fn separators_inside_a_component_follow_the_distribution_spec() {
        assert!(is_path_component("a--b__c.d_e"));
        for bad in ["a..b", "a___b", "-a", "a.", "a_-b"] {
            assert!(!is_path_component(bad), "{bad}");
        }
    }
}
