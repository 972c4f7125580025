//! Classifies IP addresses by how far inside the network they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address is. A larger value is further inside the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Zone {
    Public = 1,
    Private = 2,
    Loopback = 3,
}

/// The IPv4 address that an IPv6 address embeds (mapped, compatible, NAT64 or 6to4), or the address
/// itself.
pub(super) fn unwrap_ipv4(address: IpAddr) -> IpAddr {
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

/// The zone of an address, or why a connection to it is never allowed.
pub(super) fn zone_of(address: IpAddr) -> Result<Zone, &'static str> {
    const METADATA: &str = "it is a cloud metadata address";
    const LINK_LOCAL: &str = "it is a link-local address";
    const NO_HOST: &str = "it is not a unicast address";
    match unwrap_ipv4(address) {
        IpAddr::V4(ip) => match ip.octets() {
            [169, 254, 169, 254] | [168, 63, 129, 16] | [100, 100, 100, 200] | [192, 0, 0, 192] => {
                Err(METADATA)
            }
            [169, 254, ..] => Err(LINK_LOCAL),
            [0 | 224..=255, ..] => Err(NO_HOST),
            [127, ..] => Ok(Zone::Loopback),
            [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => {
                Ok(Zone::Private)
            }
            _ => Ok(Zone::Public),
        },
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ok(Zone::Loopback),
        IpAddr::V6(ip) => match ip.segments() {
            [0xfd00, 0xec2, .., 0x254] | [0xfd20, 0xce, .., 0x254] => Err(METADATA),
            [0xfe80..=0xfebf, ..] => Err(LINK_LOCAL),
            [0xff00..=0xffff, ..] => Err(NO_HOST),
            [0, 0, 0, 0, 0, 0, 0, 0] => Err(NO_HOST),
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Ok(Zone::Private),
            _ => Ok(Zone::Public),
        },
    }
}
