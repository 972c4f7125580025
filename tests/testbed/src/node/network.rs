//! The addresses of a node, and the link that connects it to this machine.
//!
//! A node is in a network namespace of its own, with one link to this machine and no default route. So
//! its pods reach each other, Services and nothing else. Links, routes and rules disappear with the
//! namespace.

use std::fmt;
use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::command;

/// The networks of all nodes: 198.18.0.0/15, which RFC 2544 reserves for tests of network devices. A
/// node gets 256 addresses of it.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const COUNT: u32 = 512;

/// The routing table for packets from the node itself to Services.
const SERVICES_TABLE: &str = "100";
/// The name of the link inside the node.
pub(super) const NODE_LINK: &str = "node0";

/// The 256 addresses of one node: Services, the link to this machine, pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// Which 256 addresses.
    index: u32,
}

impl Network {
    /// The network that the name of a node selects, or the first one after it that is free.
    pub(super) fn choose(id: &str, is_taken: impl Fn(Self) -> Result<bool>) -> Result<Self> {
        let hash = id.bytes().fold(0_u32, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        for offset in 0..COUNT {
            let network = Self {
                index: (hash.wrapping_add(offset)) % COUNT,
            };
            if !is_taken(network)? {
                return Ok(network);
            }
        }
        anyhow::bail!(
            "every network of {} is in use; stop nodes with `cargo xtask node down`",
            Ipv4Addr::from(FIRST)
        )
    }

    /// The range of Services, 64 addresses.
    pub(crate) fn services(self) -> String {
        format!("{}/26", self.address(0))
    }

    /// The address of the Service `kubernetes`.
    pub(crate) fn api_service(self) -> Ipv4Addr {
        self.address(1)
    }

    /// The address of the cluster DNS.
    pub(crate) fn dns(self) -> Ipv4Addr {
        self.address(10)
    }

    /// This machine's end of the link.
    pub(crate) fn machine(self) -> Ipv4Addr {
        self.address(126)
    }

    /// The node's end of the link, which is the node's address.
    pub(crate) fn node(self) -> Ipv4Addr {
        self.address(127)
    }

    /// The range of pods, 128 addresses.
    pub(crate) fn pods(self) -> String {
        format!("{}/25", self.address(128))
    }

    fn address(self, last: u8) -> Ipv4Addr {
        Ipv4Addr::from(FIRST + self.index * 256 + u32::from(last))
    }

    /// Whether this machine has a route into the network.
    pub(super) fn is_routed(self) -> Result<bool> {
        let range = self.to_string();
        let routes = command::output("ip", &["-4", "route", "show", "root", &range])?;
        Ok(!routes.trim().is_empty())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/24", self.address(0))
    }
}

/// Creates the link between this machine and the namespace of process `pid`, and routes to the node's
/// Services and pods.
pub(super) fn connect(link: &str, network: Network, pid: u32) -> Result<()> {
    ensure!(link.len() < 16, "the link name {link:?} is too long");
    let ip = |arguments: &[&str]| {
        command::run("ip", arguments).context("failed to connect the node to this machine")
    };
    let pid = pid.to_string();
    ip(&[
        "link", "add", link, "type", "veth", "peer", "name", NODE_LINK, "netns", &pid,
    ])?;
    let address = format!("{}/31", network.machine());
    ip(&["address", "add", &address, "dev", link])?;
    ip(&["link", "set", link, "up"])?;
    let node = network.node().to_string();
    for range in [network.services(), network.pods()] {
        ip(&["route", "add", &range, "via", &node])?;
    }
    Ok(())
}

/// Gives the node its address. Runs inside the namespace, and waits until [`connect`] created the link.
pub(super) async fn configure_node(network: Network) -> Result<()> {
    command::run("ip", &["link", "set", "lo", "up"])?;
    let deadline = std::time::Duration::from_secs(120);
    crate::wait::until("the node's link exists", deadline, || async {
        command::output("ip", &["link", "show", NODE_LINK])
    })
    .await?;
    let address = format!("{}/31", network.node());
    command::run("ip", &["address", "add", &address, "dev", NODE_LINK])?;
    command::run("ip", &["link", "set", NODE_LINK, "up"])?;
    // Processes of the node, such as the API server, need a route to an address before the rules of
    // kube-proxy replace it. Packets from pods and from this machine need none: without a rule, they are
    // to be rejected.
    let services = network.services();
    let table = ["table", SERVICES_TABLE];
    let rule = ["rule", "add", "iif", "lo", "to", &services];
    command::run("ip", &[&rule[..], &table].concat())?;
    let route = ["route", "add", &services, "dev", NODE_LINK];
    command::run("ip", &[&route[..], &table].concat())?;
    // The setting belongs to the namespace, not to this machine.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("failed to enable forwarding")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_256_addresses_of_the_test_range() {
        let network = Network { index: 263 };
        assert_eq!(network.to_string(), "198.19.7.0/24");
        assert_eq!(network.services(), "198.19.7.0/26");
        assert_eq!(network.dns().to_string(), "198.19.7.10");
        assert_eq!(network.machine().to_string(), "198.19.7.126");
        assert_eq!(network.node().to_string(), "198.19.7.127");
        assert_eq!(network.pods(), "198.19.7.128/25");
    }

    #[test]
    fn nodes_with_the_same_choice_get_different_networks() {
        let first = Network::choose("1a2b3c4d", |_| Ok(false)).unwrap();
        let second = Network::choose("1a2b3c4d", |network| Ok(network == first)).unwrap();
        assert_ne!(first, second);
        let error = Network::choose("1a2b3c4d", |_| Ok(true)).unwrap_err();
        assert!(error.to_string().contains("is in use"), "{error}");
    }
}
