//! The settings of the registry client, with their defaults.

use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use url::Url;

use crate::guard::{AllowedAddress, Network, SystemNetwork};
use crate::manifest::Platform;
use crate::mirror::Mirrors;

/// How the client connects to registries, and its limits.
#[derive(Clone)]
pub struct Settings {
    /// The mirrors.
    pub mirrors: Mirrors,
    /// CA certificates in PEM that are trusted in addition to those of the system.
    pub extra_ca: Vec<u8>,
    /// Hosts (`host` or `host:port`) that use plain HTTP. All others use HTTPS.
    pub plain_http: Vec<String>,
    /// Proxies, normally from the environment.
    pub proxy: ProxySettings,
    /// Addresses that are allowed although they are loopback addresses, or further inside the network than
    /// the registry.
    pub allowed: Vec<AllowedAddress>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Retries.
    pub retry: Retry,
    /// Size limits.
    pub limits: Limits,
    /// The platform to select from an index.
    pub platform: Platform,
    /// The directory of the disk cache. Without it, nothing is cached on disk.
    pub cache_dir: Option<Arc<Dir>>,
    /// The size limit of `cache_dir`.
    pub cache_bytes: u64,
    /// How long the digest of a tag is cached.
    pub tag_ttl: Duration,
    /// Whether cached content is returned only to credentials with which the registry grants access to
    /// it. True if tenants share the cache (the operator), false on the machine of one user.
    pub check_access: bool,
    /// Resolves host names.
    pub network: Arc<dyn Network>,
    /// Is told about transfers of blobs.
    pub observer: Option<Arc<dyn TransferObserver>>,
}

/// Is told about transfers of blobs, to show their progress.
pub trait TransferObserver: Send + Sync {
    /// Of the blob `at`, `done` of `total` bytes were transferred. The transfer ends with the last byte, or
    /// without notice if it fails.
    fn transferred(&self, at: &str, done: u64, total: u64);
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mirrors: Mirrors::default(),
            extra_ca: Vec::new(),
            plain_http: Vec::new(),
            proxy: ProxySettings::default(),
            allowed: Vec::new(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            limits: Limits::default(),
            platform: Platform::default(),
            cache_dir: None,
            cache_bytes: 256 << 20,
            tag_ttl: Duration::from_secs(300),
            check_access: true,
            network: Arc::new(SystemNetwork),
            observer: None,
        }
    }
}

/// The time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For establishing a connection.
    pub connect: Duration,
    /// Between two reads of a response.
    pub read: Duration,
    /// For a whole operation, including retries, token requests and redirects.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            total: Duration::from_secs(300),
        }
    }
}

/// How requests are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The total number of attempts, at least one.
    pub attempts: u32,
    /// The delay before the second attempt. It doubles for each further attempt, with jitter.
    pub initial_backoff: Duration,
    /// The longest delay. If `Retry-After` is longer, the request fails and the caller decides when to
    /// retry.
    pub max_backoff: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            initial_backoff: Duration::from_millis(300),
            max_backoff: Duration::from_secs(20),
        }
    }
}

/// The size limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A manifest or index. Real ones have a few KB; it is held while the image is read.
    pub manifest_bytes: u64,
    /// The config blob of an image, including its labels.
    pub config_bytes: u64,
    /// A decoded base configuration. The largest published one has 60 KB.
    pub base_bytes: u64,
    /// A compressed layer. A layer made for the configuration has a few KB.
    pub layer_bytes: u64,
    /// An uncompressed layer.
    pub unpacked_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes: 1 << 20,
            config_bytes: 4 << 20,
            base_bytes: 1 << 20,
            layer_bytes: 256 << 20,
            unpacked_bytes: 1 << 30,
        }
    }
}

/// Proxies, by the URL scheme of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// For `https` registries.
    pub https: Option<Url>,
    /// For plain `http` registries.
    pub http: Option<Url>,
    /// Hosts, domains and networks that are reached without a proxy, separated by commas.
    pub no_proxy: String,
}

impl ProxySettings {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or their lower-case forms, from a lookup
    /// such as `|name| std::env::var(name).ok()`. The error for an invalid URL names the variable only,
    /// because the value may contain a password.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, crate::Error> {
        let value = |name: &str| {
            let found = lookup(name).or_else(|| lookup(&name.to_lowercase()));
            found.filter(|text| !text.trim().is_empty())
        };
        let url = |name: &str| {
            let Some(text) = value(name) else {
                return Ok(None);
            };
            let full = if text.contains("://") {
                text
            } else {
                format!("http://{text}")
            };
            full.parse().map(Some).map_err(|_| crate::Error::Settings {
                problem: format!(
                    "environment variable {name} is not a valid URL; write http://host:port"
                ),
            })
        };
        Ok(Self {
            https: url("HTTPS_PROXY")?,
            http: url("HTTP_PROXY")?,
            no_proxy: value("NO_PROXY").unwrap_or_default(),
        })
    }

    pub(crate) fn hosts(&self) -> Vec<String> {
        let urls = [&self.https, &self.http].into_iter().flatten();
        urls.filter_map(|url| url.host_str())
            .map(str::to_ascii_lowercase)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_variables_are_read_in_both_spellings() {
        let proxies = ProxySettings::from_variables(|name| match name {
            "HTTPS_PROXY" => Some("proxy.local:3128".into()),
            "no_proxy" => Some("10.0.0.0/8,.local".into()),
            _ => None,
        })
        .unwrap();
        assert_eq!(proxies.https.unwrap().as_str(), "http://proxy.local:3128/");
        assert_eq!(proxies.http, None);
        assert_eq!(proxies.no_proxy, "10.0.0.0/8,.local");
    }

    #[test]
    fn an_invalid_proxy_url_is_reported_without_its_value() {
        let lookup = |name: &str| (name == "HTTP_PROXY").then(|| "http://user:pw@:::".to_owned());
        let error = ProxySettings::from_variables(lookup)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("HTTP_PROXY") && !error.contains("pw"),
            "{error}"
        );
    }
}
