use super::*;

const CANARY: &str = "hunter2-canary";

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

fn config_secret(json: &str) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([(".dockerconfigjson".to_owned(), json.as_bytes().to_vec())])
}

fn keyring(configs: &[&str]) -> Keyring {
    let mut keyring = Keyring::empty();
    for (at, json) in configs.iter().enumerate() {
        let data = config_secret(json);
        keyring
            .add_secret(&format!("s{at}"), "kubernetes.io/dockerconfigjson", &data)
            .unwrap();
    }
    keyring
}

fn basic(username: &str, password: &str) -> Credential {
    Credential::Basic {
        username: username.into(),
        password: password.into(),
    }
}

fn found(keyring: &Keyring, image: &str) -> Vec<(String, Credential)> {
    let candidates = keyring.lookup(&reference(image)).unwrap();
    candidates
        .into_iter()
        .map(|c| (c.source, c.credential))
        .collect()
}

#[test]
fn secrets_are_tried_in_order_and_only_where_their_key_matches() {
    let keyring = keyring(&[
        r#"{"auths": {"ghcr.io": {"auth": "YTpi"}}}"#,
        r#"{"auths": {"ghcr.io/acme": {"username": "c", "password": "d"}, "quay.io": {"auth": "eDp5"}}}"#,
    ]);
    assert_eq!(
        found(&keyring, "ghcr.io/acme/x"),
        [
            ("secret \"s0\"".into(), basic("a", "b")),
            ("secret \"s1\"".into(), basic("c", "d"))
        ]
    );
    assert_eq!(
        found(&keyring, "ghcr.io/other/x"),
        [("secret \"s0\"".into(), basic("a", "b"))]
    );
}

#[test]
fn anonymous_is_used_only_if_no_key_matches() {
    let keyring = keyring(&[r#"{"auths": {"ghcr.io": {"auth": "YTpi"}}}"#]);
    assert_eq!(
        found(&keyring, "quay.io/x"),
        [("no credential".to_owned(), Credential::Anonymous)]
    );
}

#[test]
fn the_legacy_format_and_the_historical_key_of_docker_hub_are_read() {
    let mut keyring = Keyring::empty();
    let data = BTreeMap::from([(
        ".dockercfg".to_owned(),
        br#"{"https://index.docker.io/v1/": {"auth": "YTpi", "email": "x@example.com"}}"#.to_vec(),
    )]);
    keyring
        .add_secret("old", "kubernetes.io/dockercfg", &data)
        .unwrap();
    assert_eq!(
        found(&keyring, "nginx"),
        [("secret \"old\"".into(), basic("a", "b"))]
    );
}

#[test]
fn tokens_are_distinguished_from_passwords() {
    let keyring = keyring(&[
        r#"{"auths": {"a.example": {"identitytoken": "refresh", "auth": "MDA6"}, "b.example": {"registrytoken": "access"}}}"#,
    ]);
    assert_eq!(
        found(&keyring, "a.example/x")[0].1,
        Credential::IdentityToken("refresh".into())
    );
    assert_eq!(
        found(&keyring, "b.example/x")[0].1,
        Credential::RegistryToken("access".into())
    );
}

#[test]
fn a_registry_with_a_credential_helper_is_an_error_that_names_the_helper() {
    let json = r#"{"credHelpers": {"123.dkr.ecr.eu-west-1.amazonaws.com": "ecr-login"},
                   "credsStore": "desktop", "auths": {"ghcr.io": {}}}"#;
    let mut keyring = Keyring::empty();
    keyring
        .add_docker_config("the docker config", json.as_bytes())
        .unwrap();
    let error = |image: &str| keyring.lookup(&reference(image)).unwrap_err().to_string();
    assert_eq!(
        error("123.dkr.ecr.eu-west-1.amazonaws.com/x"),
        "the docker config: credentials for 123.dkr.ecr.eu-west-1.amazonaws.com are managed by the \
         credential helper \"ecr-login\", which is not supported; put a user name and password, or a token, for \
         123.dkr.ecr.eu-west-1.amazonaws.com into a pull secret"
    );
    assert!(error("ghcr.io/x").contains("\"desktop\""));
    // A credential store applies only to registries with an entry.
    assert!(keyring.lookup(&reference("quay.io/x")).is_ok());
}

#[test]
fn errors_of_invalid_secrets_contain_the_position_and_no_value() {
    let mut keyring = Keyring::empty();
    let mut add = |secret_type: &str, json: String| {
        keyring
            .add_secret("pull", secret_type, &config_secret(&json))
            .unwrap_err()
            .to_string()
    };
    let json_type = "kubernetes.io/dockerconfigjson";
    let errors = [
        add("Opaque", "{}".into()),
        add("kubernetes.io/dockercfg", "{}".into()),
        add(
            json_type,
            format!(r#"{{"auths": {{"r": {{"password": "{CANARY}" "#),
        ),
        add(
            json_type,
            format!(r#"{{"auths": {{"r": {{"password": ["{CANARY}"]}}}}}}"#),
        ),
        add(json_type, format!(r#"{{"auths": "{CANARY}"}}"#)),
        add(
            json_type,
            format!(r#"{{"auths": {{"r": {{"auth": "{CANARY}!!"}}}}}}"#),
        ),
    ];
    for error in &errors {
        assert!(error.starts_with("secret \"pull\": "), "{error}");
        assert!(!error.contains(CANARY), "{error}");
    }
}

#[test]
fn debug_output_contains_no_value() {
    let json = format!(
        r#"{{"auths": {{"a": {{"username": "u", "password": "{CANARY}"}},
                       "b": {{"identitytoken": "{CANARY}"}}, "c": {{"registrytoken": "{CANARY}"}}}}}}"#
    );
    let text = format!("{:?}", keyring(&[&json]));
    assert!(!text.contains(CANARY), "{text}");
    assert!(text.contains("Basic(…)"));
}

#[test]
fn a_credential_that_is_too_long_is_refused_and_the_number_of_candidates_is_limited() {
    let config = |password: &str| {
        let auths = json_auths(&[("quay.io".to_owned(), password.to_owned())]);
        Keyring::empty().add_docker_config("docker", auths.as_bytes())
    };
    assert!(config(&"x".repeat(MAX_CREDENTIAL_BYTES - 1)).is_ok());
    let error = config(&"x".repeat(MAX_CREDENTIAL_BYTES)).unwrap_err();
    assert!(error.to_string().contains("16 KiB"), "{error}");
    assert!(error.to_string().len() < 500);

    let mut keyring = Keyring::empty();
    for number in 0..100 {
        let auths = json_auths(&[("quay.io".to_owned(), number.to_string())]);
        keyring
            .add_docker_config("docker", auths.as_bytes())
            .unwrap();
    }
    let found = keyring.lookup(&"quay.io/acme/x".parse().unwrap()).unwrap();
    assert_eq!(found.len(), MAX_CANDIDATES);
}

fn json_auths(entries: &[(String, String)]) -> String {
    let auths: serde_json::Map<String, serde_json::Value> = entries
        .iter()
        .map(|(host, password)| {
            (
                host.clone(),
                serde_json::json!({ "username": "u", "password": password }),
            )
        })
        .collect();
    serde_json::json!({ "auths": auths }).to_string()
}
