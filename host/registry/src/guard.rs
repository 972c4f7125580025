//! Which addresses a registry client may talk to.
//!
//! Image references come from users, and redirects and token realms come from whatever answers them;
//! the operator, however, stands inside the cluster network. So every hop is judged by the address it
//! *resolves* to, at the moment the connection is made:
//!
//! * link-local, metadata, unspecified and multicast addresses are never dialled;
//! * loopback is dialled only when the installer listed it;
//! * a redirect or token realm never leads deeper into the network than the registry itself stands: a
//!   registry on a public address cannot send us to a private one, unless the installer listed it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::future::BoxFuture;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Turns names into addresses. Tests put their own in; everything else uses [`SystemNetwork`].
pub trait Network: Send + Sync {
    /// The addresses of a name.
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>>;

    /// Where an address that passed the guard is really dialled; itself, outside tests.
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
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// An address the installer vouches for: a host name, or a network such as `127.0.0.0/8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Any address that this name resolves to.
    Host(String),
    /// Any address inside this network.
    Net(IpNet),
}

impl FromStr for Allowed {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let one = || {
            text.trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .map(IpNet::from)
        };
        Ok(match text.parse::<IpNet>().or_else(|_| one()) {
            Ok(net) => Self::Net(net),
            Err(_) => Self::Host(text.to_ascii_lowercase()),
        })
    }
}

/// A hop that was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("refused to connect to {host}{}: {why}; {fix}", .address.map(|a| format!(" ({a})")).unwrap_or_default())]
pub struct Blocked {
    /// The host of the hop.
    pub host: String,
    /// The address it resolved to, when it got that far.
    pub address: Option<IpAddr>,
    why: &'static str,
    fix: &'static str,
}

/// How far inside the network an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    Public = 1,
    Private = 2,
    Loopback = 3,
}

/// The judge of one registry's hops.
pub(crate) struct HopGuard {
    registry_host: String,
    allowed: Vec<Allowed>,
    plain_http: Vec<String>,
    proxies: Vec<String>,
    network: Arc<dyn Network>,
    /// [`Depth`] of the registry itself, 0 until it was resolved.
    registry_depth: AtomicU8,
}

impl HopGuard {
    pub(crate) fn new(
        registry_host: &str,
        allowed: Vec<Allowed>,
        plain_http: Vec<String>,
        proxies: Vec<String>,
        network: Arc<dyn Network>,
    ) -> Self {
        let registry_host = bare(registry_host);
        Self {
            registry_host,
            allowed,
            plain_http,
            proxies,
            network,
            registry_depth: 0.into(),
        }
    }

    /// Judges a URL before it is requested: scheme, credentials in it, and literal addresses, which
    /// never reach a resolver. Names are judged when they are resolved, by [`HopGuard::resolve`].
    pub(crate) async fn check(&self, url: &Url) -> Result<(), Blocked> {
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
            "http" if is_plain(&self.plain_http, url) => {}
            "http" => {
                return refuse(
                    "it speaks plain HTTP",
                    "serve it over HTTPS, or list the host among the plain-HTTP registries",
                );
            }
            _ => {
                return refuse(
                    "its scheme is neither https nor http",
                    "correct the address",
                );
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse(
                "its address carries a credential",
                "use a pull secret instead",
            );
        }
        if self.proxies.contains(&bare(&host)) && bare(&host) != self.registry_host {
            return refuse("it is the proxy itself", "correct the registry's answer");
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.judge(&host, &[ip.into()]),
            Some(Host::Ipv6(ip)) => self.judge(&host, &[ip.into()]),
            Some(Host::Domain(name)) if !self.proxies.is_empty() => {
                // A proxy resolves names itself. Where this process can resolve the name too, it
                // judges it; where it cannot, the proxy is the network's own gate.
                match self.network.resolve(name).await {
                    Ok(addresses) => self.judge(name, &addresses),
                    Err(_) => Ok(()),
                }
            }
            Some(Host::Domain(_)) => Ok(()),
            None => refuse("its address has no host", "correct the address"),
        }
    }

    /// Judges the addresses of a host; all of them must pass.
    fn judge(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Blocked> {
        let host = bare(host);
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
            let depth = match depth_of(address) {
                Ok(depth) => depth,
                Err(why) => return refuse(why, "no setting allows this; correct the address"),
            };
            let listed = self.allowed.iter().any(|allowed| match allowed {
                Allowed::Host(name) => *name == host,
                Allowed::Net(net) => net.contains(&unwrap_mapped(address)),
            });
            if is_registry && (listed || depth < Depth::Loopback) {
                self.registry_depth
                    .fetch_max(depth as u8, Ordering::Relaxed);
            } else if depth == Depth::Loopback && !listed {
                return refuse(
                    "it is this machine itself",
                    "add the host to the allowed registry addresses if that is meant",
                );
            } else if depth as u8 > self.registry_depth.load(Ordering::Relaxed).max(1) && !listed {
                return refuse(
                    "the registry sent us to an address further inside the network than its own",
                    "add the host to the allowed registry addresses if that is meant",
                );
            }
        }
        Ok(())
    }
}

/// The resolver handed to the HTTP client: no name is dialled that was not judged here.
#[derive(Clone)]
pub(crate) struct GuardedResolver(pub(crate) Arc<HopGuard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = guard.network.resolve(name.as_str()).await?;
            guard.judge(name.as_str(), &addresses)?;
            let routed = addresses
                .into_iter()
                .map(|a| SocketAddr::new(guard.network.route(a), 0));
            Ok(Box::new(routed.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

/// Whether the host, with or without its port, stands in the list of plain-HTTP registries.
pub(crate) fn is_plain(plain_http: &[String], url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let with_port = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
    plain_http
        .iter()
        .any(|listed| listed == host || *listed == with_port)
}

/// A host without brackets, final dot or upper case, so that two spellings compare equal.
fn bare(host: &str) -> String {
    host.trim_matches(['[', ']'])
        .trim_end_matches('.')
        .to_ascii_lowercase()
}

/// IPv4 written as IPv6 is judged as what it is.
fn unwrap_mapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let s = v6.segments();
    let low = |a: u16, b: u16| {
        let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => low(a, b),
        [0, 0, 0, 0, 0, 0, a, b] if (a, b) != (0, 0) && (a, b) != (0, 1) => low(a, b),
        [0x2002, a, b, ..] => low(a, b),
        _ => address,
    }
}

/// How deep an address lies, or why it is never dialled.
fn depth_of(address: IpAddr) -> Result<Depth, &'static str> {
    const METADATA: &str = "it is a cloud metadata address";
    const LINK_LOCAL: &str = "it is a link-local address";
    const NO_HOST: &str = "it is not the address of one host";
    match unwrap_mapped(address) {
        IpAddr::V4(ip) => match ip.octets() {
            [169, 254, 169, 254] | [168, 63, 129, 16] | [100, 100, 100, 200] | [192, 0, 0, 192] => {
                Err(METADATA)
            }
            [169, 254, ..] => Err(LINK_LOCAL),
            [0 | 224..=255, ..] => Err(NO_HOST),
            [127, ..] => Ok(Depth::Loopback),
            [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => {
                Ok(Depth::Private)
            }
            _ => Ok(Depth::Public),
        },
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ok(Depth::Loopback),
        IpAddr::V6(ip) => match ip.segments() {
            [0xfd00, 0xec2, .., 0x254] | [0xfd20, 0xce, .., 0x254] => Err(METADATA),
            [0xfe80..=0xfebf, ..] => Err(LINK_LOCAL),
            [0xff00..=0xffff, ..] => Err(NO_HOST),
            [0, 0, 0, 0, 0, 0, 0, 0] => Err(NO_HOST),
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Ok(Depth::Private),
            _ => Ok(Depth::Public),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(registry: &str, allowed: &[&str]) -> HopGuard {
        let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
        HopGuard::new(registry, allowed, vec![], vec![], Arc::new(SystemNetwork))
    }

    fn judged(guard: &HopGuard, host: &str, address: &str) -> Result<(), &'static str> {
        guard
            .judge(host, &[address.parse().unwrap()])
            .map_err(|blocked| blocked.why)
    }

    #[test]
    fn link_local_and_metadata_addresses_are_refused_in_every_spelling_even_when_listed() {
        let guard = guard("r.example", &["r.example", "0.0.0.0/0", "::/0"]);
        for address in [
            "169.254.169.254",
            "169.254.1.1",
            "168.63.129.16",
            "100.100.100.200",
            "fd00:ec2::254",
            "fe80::1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "0.0.0.0",
            "::",
            "255.255.255.255",
            "ff02::1",
        ] {
            assert!(judged(&guard, "r.example", address).is_err(), "{address}");
        }
    }

    #[test]
    fn loopback_is_dialled_only_when_listed_by_name_or_network() {
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(judged(&guard("r.example", &[]), "r.example", address).is_err());
            assert!(judged(&guard("r.example", &["r.example"]), "r.example", address).is_ok());
            assert!(judged(&guard("r.example", &["10.0.0.0/8"]), "r.example", address).is_err());
        }
        assert!(judged(&guard("x", &["127.0.0.0/8"]), "x", "127.0.0.1").is_ok());
        assert!(judged(&guard("x", &["127.0.0.1"]), "x", "127.0.0.2").is_err());
    }

    #[test]
    fn a_hop_never_leads_further_inside_than_the_registry_stands() {
        let public = guard("r.example", &[]);
        assert!(judged(&public, "r.example", "203.0.113.5").is_ok());
        assert!(judged(&public, "auth.example", "203.0.113.6").is_ok());
        assert!(judged(&public, "auth.example", "10.0.0.1").is_err());
        assert!(judged(&public, "auth.example", "fd12::1").is_err());
        assert!(judged(&public, "auth.example", "100.64.1.1").is_err());

        let private = guard("r.local", &[]);
        assert!(judged(&private, "r.local", "10.0.0.9").is_ok());
        assert!(judged(&private, "auth.local", "192.168.0.1").is_ok());
        assert!(judged(&private, "auth.local", "127.0.0.1").is_err());

        let listed = guard("r.example", &["auth.example"]);
        assert!(judged(&listed, "auth.example", "10.0.0.1").is_ok());
    }

    #[test]
    fn one_bad_address_among_good_ones_refuses_the_name() {
        let addresses = ["203.0.113.5", "169.254.169.254"].map(|a| a.parse().unwrap());
        assert!(
            guard("r.example", &[])
                .judge("r.example", &addresses)
                .is_err()
        );
    }

    #[tokio::test]
    async fn a_hop_to_the_proxy_itself_is_refused() {
        let proxies = vec!["10.0.0.3".to_owned()];
        let network = Arc::new(SystemNetwork);
        let guard = HopGuard::new("203.0.113.5", vec![], vec![], proxies, network);
        let check = async |url: &str| guard.check(&url.parse().unwrap()).await.map_err(|b| b.why);
        assert!(check("https://203.0.113.5/v2/").await.is_ok());
        assert_eq!(
            check("https://10.0.0.3/").await,
            Err("it is the proxy itself")
        );
    }

    #[tokio::test]
    async fn schemes_literals_and_credentials_are_judged_before_the_request() {
        let guard = guard("r.example", &[]);
        let check = async |url: &str| guard.check(&url.parse().unwrap()).await.map_err(|b| b.why);
        assert!(check("https://r.example/v2/").await.is_ok());
        assert_eq!(
            check("http://r.example/v2/").await,
            Err("it speaks plain HTTP")
        );
        assert!(check("https://user:pw@r.example/").await.is_err());
        assert!(check("file:///etc/passwd").await.is_err());
        // Decimal, octal and hexadecimal spellings are addresses too.
        for literal in [
            "169.254.169.254",
            "2852039166",
            "0251.0376.0251.0376",
            "0xa9fea9fe",
        ] {
            let refused = check(&format!("https://{literal}/")).await;
            assert_eq!(refused, Err("it is a cloud metadata address"), "{literal}");
        }
        assert!(check("https://[fe80::1]/").await.is_err());
        assert!(check("https://127.0.0.1/").await.is_err());
    }
}
