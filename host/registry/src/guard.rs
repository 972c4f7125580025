//! Decides which addresses the registry client may connect to (protection against SSRF).
//!
//! Image references come from users, redirects and token realms come from registries, and the
//! operator runs inside the cluster network. Every request, redirect and token request is therefore
//! checked by the address that its host *resolves* to, when the connection is made:
//!
//! * connections to link-local, metadata, unspecified and multicast addresses are never allowed;
//! * connections to loopback addresses are allowed only if the installer listed them;
//! * a redirect or token realm must not be further inside the network than the registry: a registry on
//!   a public address cannot redirect to a private one, unless the installer listed it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::future::BoxFuture;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

mod zone;

use zone::{Zone, unwrap_ipv4, zone_of};

/// Resolves host names. Tests replace it; all other code uses [`SystemNetwork`].
pub trait Network: Send + Sync {
    /// The addresses of a host name.
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>>;

    /// The address to connect to for an address that the guard allowed. Only tests change it.
    fn route(&self, address: IpAddr) -> IpAddr {
        address
    }
}

/// The resolver of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = llsd_blocking::NAMES.run(move || (host.as_str(), 0).to_socket_addrs());
            let found = found.await.map_err(std::io::Error::other)??;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// An address that the installer allows: a host name, or a network such as `127.0.0.0/8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedAddress {
    /// All addresses of this host name.
    Host(String),
    /// All addresses in this network.
    Net(IpNet),
}

impl FromStr for AllowedAddress {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let single = || {
            text.trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .map(IpNet::from)
        };
        Ok(match text.parse::<IpNet>().or_else(|_| single()) {
            Ok(net) => Self::Net(net),
            Err(_) => Self::Host(text.to_ascii_lowercase()),
        })
    }
}

/// A connection that the guard blocked, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("refused to connect to {host}{}: {why}; {fix}", .address.map(|a| format!(" ({a})")).unwrap_or_default())]
pub struct Blocked {
    /// The host.
    pub host: String,
    /// The address of the host, if it was resolved.
    pub address: Option<IpAddr>,
    why: &'static str,
    fix: &'static str,
}

/// Checks the requests of one registry, including its redirects and token requests.
pub(crate) struct AddressGuard {
    registry_host: String,
    allowed: Vec<AllowedAddress>,
    plain_http: Vec<String>,
    proxies: Vec<String>,
    network: Arc<dyn Network>,
    /// The [`Zone`] of the registry; 0 until its name is resolved.
    registry_zone: AtomicU8,
}

impl AddressGuard {
    pub(crate) fn new(
        registry_host: &str,
        allowed: Vec<AllowedAddress>,
        plain_http: Vec<String>,
        proxies: Vec<String>,
        network: Arc<dyn Network>,
    ) -> Self {
        let registry_host = normalize_host(registry_host);
        Self {
            registry_host,
            allowed,
            plain_http,
            proxies,
            network,
            registry_zone: 0.into(),
        }
    }

    /// Checks a URL before it is requested: its scheme, its user info, and IP literals, which never
    /// reach the resolver. Host names are checked by [`GuardedResolver`] when they are resolved.
    pub(crate) async fn check_url(&self, url: &Url) -> Result<(), Blocked> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let refuse = |why, fix| {
            Err(Blocked {
                host: host.clone(),
                address: None,
                why,
                fix,
            })
        };
        match url.scheme() {
            "https" => {}
            "http" if is_plain_http(&self.plain_http, url) => {}
            "http" => {
                return refuse(
                    "it uses plain HTTP",
                    "serve it over HTTPS, or add the host to the plain-HTTP registries",
                );
            }
            _ => {
                return refuse(
                    "the URL scheme is neither https nor http",
                    "correct the URL",
                );
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("the URL contains a credential", "use a pull secret instead");
        }
        if self.proxies.contains(&normalize_host(&host))
            && normalize_host(&host) != self.registry_host
        {
            return refuse(
                "it is the proxy",
                "correct the redirect or token realm of the registry",
            );
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check_addresses(&host, &[ip.into()]),
            Some(Host::Ipv6(ip)) => self.check_addresses(&host, &[ip.into()]),
            Some(Host::Domain(name)) if !self.proxies.is_empty() => {
                // The proxy resolves the name. Check the addresses if this process can resolve it
                // too. If it cannot, the proxy decides which hosts are reachable.
                match self.network.resolve(name).await {
                    Ok(addresses) => self.check_addresses(name, &addresses),
                    Err(_) => Ok(()),
                }
            }
            Some(Host::Domain(_)) => Ok(()),
            None => refuse("the URL has no host", "correct the URL"),
        }
    }

    /// Checks the addresses of a host. All of them must be allowed.
    fn check_addresses(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Blocked> {
        let host = normalize_host(host);
        if self.proxies.contains(&host) {
            return Ok(());
        }
        let is_registry = host == self.registry_host;
        for &address in addresses {
            let refuse = |why, fix| {
                Err(Blocked {
                    host: host.clone(),
                    address: Some(address),
                    why,
                    fix,
                })
            };
            let zone = match zone_of(address) {
                Ok(zone) => zone,
                Err(why) => return refuse(why, "no setting allows this; use another host"),
            };
            let is_listed = self.allowed.iter().any(|allowed| match allowed {
                AllowedAddress::Host(name) => *name == host,
                AllowedAddress::Net(net) => net.contains(&unwrap_ipv4(address)),
            });
            if is_registry && (is_listed || zone < Zone::Loopback) {
                self.registry_zone.fetch_max(zone as u8, Ordering::Relaxed);
            } else if zone == Zone::Loopback && !is_listed {
                return refuse(
                    "it is a loopback address",
                    "if this is intended, add the host to the allowed registry addresses",
                );
            } else if zone as u8 > self.registry_zone.load(Ordering::Relaxed).max(1) && !is_listed {
                return refuse(
                    "the registry redirects to an address further inside the network than its own",
                    "if this is intended, add the host to the allowed registry addresses",
                );
            }
        }
        Ok(())
    }
}

/// The resolver of the HTTP client. It returns only addresses that the guard allows, so a name cannot
/// change its address between the check and the connection.
#[derive(Clone)]
pub(crate) struct GuardedResolver(pub(crate) Arc<AddressGuard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = guard.network.resolve(name.as_str()).await?;
            guard.check_addresses(name.as_str(), &addresses)?;
            let routed = addresses
                .into_iter()
                .map(|a| SocketAddr::new(guard.network.route(a), 0));
            Ok(Box::new(routed.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

/// Whether the list of plain-HTTP registries contains the host, with or without its port.
pub(crate) fn is_plain_http(plain_http: &[String], url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let with_port = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
    plain_http
        .iter()
        .any(|listed| listed == host || *listed == with_port)
}

/// Normalizes a host for comparison: no brackets, no final dot, lower case.
fn normalize_host(host: &str) -> String {
    host.trim_matches(['[', ']'])
        .trim_end_matches('.')
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
