use super::*;

fn guard(registry: &str, allowed: &[&str]) -> AddressGuard {
    let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
    AddressGuard::new(registry, allowed, vec![], vec![], Arc::new(SystemNetwork))
}

fn check(guard: &AddressGuard, host: &str, address: &str) -> Result<(), &'static str> {
    guard
        .check_addresses(host, &[address.parse().unwrap()])
        .map_err(|blocked| blocked.why)
}

#[test]
fn link_local_and_metadata_addresses_are_blocked_in_every_spelling_even_when_listed() {
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
        assert!(check(&guard, "r.example", address).is_err(), "{address}");
    }
}

#[test]
fn loopback_is_allowed_only_when_listed_by_name_or_network() {
    for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert!(check(&guard("r.example", &[]), "r.example", address).is_err());
        assert!(check(&guard("r.example", &["r.example"]), "r.example", address).is_ok());
        assert!(check(&guard("r.example", &["10.0.0.0/8"]), "r.example", address).is_err());
    }
    assert!(check(&guard("x", &["127.0.0.0/8"]), "x", "127.0.0.1").is_ok());
    assert!(check(&guard("x", &["127.0.0.1"]), "x", "127.0.0.2").is_err());
}

#[test]
fn redirects_further_inside_the_network_than_the_registry_are_blocked() {
    let public = guard("r.example", &[]);
    assert!(check(&public, "r.example", "203.0.113.5").is_ok());
    assert!(check(&public, "auth.example", "203.0.113.6").is_ok());
    assert!(check(&public, "auth.example", "10.0.0.1").is_err());
    assert!(check(&public, "auth.example", "fd12::1").is_err());
    assert!(check(&public, "auth.example", "100.64.1.1").is_err());

    let private = guard("r.local", &[]);
    assert!(check(&private, "r.local", "10.0.0.9").is_ok());
    assert!(check(&private, "auth.local", "192.168.0.1").is_ok());
    assert!(check(&private, "auth.local", "127.0.0.1").is_err());

    let listed = guard("r.example", &["auth.example"]);
    assert!(check(&listed, "auth.example", "10.0.0.1").is_ok());
}

#[test]
fn one_forbidden_address_among_allowed_ones_blocks_the_name() {
    let addresses = ["203.0.113.5", "169.254.169.254"].map(|a| a.parse().unwrap());
    assert!(
        guard("r.example", &[])
            .check_addresses("r.example", &addresses)
            .is_err()
    );
}

#[tokio::test]
async fn a_redirect_to_the_proxy_is_blocked() {
    let proxies = vec!["10.0.0.3".to_owned()];
    let network = Arc::new(SystemNetwork);
    let guard = AddressGuard::new("203.0.113.5", vec![], vec![], proxies, network);
    let check = async |url: &str| {
        guard
            .check_url(&url.parse().unwrap())
            .await
            .map_err(|b| b.why)
    };
    assert!(check("https://203.0.113.5/v2/").await.is_ok());
    assert_eq!(check("https://10.0.0.3/").await, Err("it is the proxy"));
}

#[tokio::test]
async fn schemes_literals_and_credentials_are_checked_before_the_request() {
    let guard = guard("r.example", &[]);
    let check = async |url: &str| {
        guard
            .check_url(&url.parse().unwrap())
            .await
            .map_err(|b| b.why)
    };
    assert!(check("https://r.example/v2/").await.is_ok());
    assert_eq!(
        check("http://r.example/v2/").await,
        Err("it uses plain HTTP")
    );
    assert!(check("https://user:pw@r.example/").await.is_err());
    assert!(check("file:///etc/passwd").await.is_err());
    // The URL parser reads decimal, octal and hexadecimal numbers as addresses.
    for literal in [
        "169.254.169.254",
        "2852039166",
        "0251.0376.0251.0376",
        "0xa9fea9fe",
    ] {
        let result = check(&format!("https://{literal}/")).await;
        assert_eq!(result, Err("it is a cloud metadata address"), "{literal}");
    }
    assert!(check("https://[fe80::1]/").await.is_err());
    assert!(check("https://127.0.0.1/").await.is_err());
}
