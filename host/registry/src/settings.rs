//! Everything an installer can say about registries, with the defaults we ship.

use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use url::Url;

use crate::guard::{Allowed, Network, SystemNetwork};
use crate::manifest::Platform;
use crate::mirror::Mirrors;

/// How registries are reached and how much is accepted from them.
#[derive(Clone)]
pub struct Settings {
    /// Prefix rewrites.
    pub mirrors: Mirrors,
    /// Extra certificate authorities, PEM, trusted besides those of the system.
    pub extra_ca: Vec<u8>,
    /// Hosts (`host` or `host:port`) spoken to over plain HTTP. Everything else is HTTPS.
    pub plain_http: Vec<String>,
    /// Proxies, normally from the environment.
    pub proxy: ProxySettings,
    /// Addresses that are allowed although they are loopback, or deeper than the registry's own.
    pub allowed: Vec<Allowed>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Second tries.
    pub retry: Retry,
    /// Size limits.
    pub limits: Limits,
    /// Which image of a multi-arch index is read.
    pub platform: Platform,
    /// Where blobs are kept between runs; nowhere when absent.
    pub cache_dir: Option<Arc<Dir>>,
    /// How much may lie in `cache_dir`.
    pub cache_bytes: u64,
    /// How long a tag's digest is believed before it is asked for again.
    pub tag_ttl: Duration,
    /// Whether a cached digest is only given to a credential that the registry has let read it.
    /// True where several tenants share the cache (the operator), false on one person's machine.
    pub check_access: bool,
    /// Names to addresses.
    pub network: Arc<dyn Network>,
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
        }
    }
}

/// The three limits of a request, and of what a request is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// Between two reads.
    pub read: Duration,
    /// For one whole operation, with its retries, tokens and redirects.
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

/// When and how often a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, at least one.
    pub attempts: u32,
    /// Wait before the second try; doubles after that, with jitter.
    pub first_wait: Duration,
    /// The longest wait, also when the registry asks for more with `Retry-After`: beyond it the
    /// request fails and the caller's own schedule takes over.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            first_wait: Duration::from_millis(300),
            longest_wait: Duration::from_secs(20),
        }
    }
}

/// How much is read before a registry is disbelieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A manifest or index. 4 MiB is what registries themselves accept.
    pub manifest_bytes: u64,
    /// An image's config blob, labels included.
    pub config_bytes: u64,
    /// A decoded base configuration, from a label or a file. The largest shipped one is 60 KB.
    pub base_bytes: u64,
    /// A layer as stored. A layer made for the configuration is a few KB.
    pub layer_bytes: u64,
    /// The same layer unpacked.
    pub unpacked_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes: 4 << 20,
            config_bytes: 8 << 20,
            base_bytes: 1 << 20,
            layer_bytes: 256 << 20,
            unpacked_bytes: 1 << 30,
        }
    }
}

/// Proxies by scheme of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// For `https` registries.
    pub https: Option<Url>,
    /// For plain `http` registries.
    pub http: Option<Url>,
    /// Hosts, domains and networks reached without a proxy, comma separated.
    pub no_proxy: String,
}

impl ProxySettings {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or their lower-case forms, from a lookup
    /// such as `|name| std::env::var(name).ok()`. A value that is no URL is reported by its name.
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
                problem: format!("{name} is not a URL; write http://host:port"),
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
    fn a_proxy_that_is_no_url_is_named_without_its_value() {
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
