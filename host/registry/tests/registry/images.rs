//! Base configurations of images in a real registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use llsd_registry::labelling::Error as LabelError;
use llsd_registry::{
    BaseConfig, BaseError, Digest, Error, Keyring, Labelling, Mirror, Mirrors, Registry, Scheme,
    labels,
};
use serde_json::json;

use crate::support::layout::{Compression, Image, Layer, Layout, push};
use crate::support::token_server::{REFRESH, TokenServer};
use crate::support::{Options, RegistryServer, USER, cache_folder, chain, keyring};

const YAML: &str = "version: 2\napis: [inference]\n";

fn base64_image() -> Image {
    let mut image = Image::labelled([
        (labels::BASE64, STANDARD.encode(YAML)),
        (labels::SCHEMA, "llama-stack/0.7".to_owned()),
        (labels::VERSION, "2".to_owned()),
        (labels::PLUGIN, "ghcr.io/acme/plugin:1".to_owned()),
    ]);
    image.user = "1001:0";
    image.env = vec!["PATH=/bin", "EMPTY=", "BROKEN", "URL=http://a?b=c"];
    image
}

fn layer_image(compression: Compression, path_in_tar: &str, path_label: &str) -> Image {
    let layer = Layer::with(
        &[("usr/bin/x", b"x"), (path_in_tar, YAML.as_bytes())],
        compression,
    );
    let mut image = Image::labelled([
        (labels::LAYER, layer.digest().to_string()),
        (labels::PATH, path_label.to_owned()),
    ]);
    image.layers.push(layer);
    image
}

#[tokio::test]
async fn every_label_scheme_is_read_and_reported() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let published = |prefix: &str| {
        let mut image = Image::labelled([]);
        image.labels = [
            (
                format!("{prefix}.distribution.default-config"),
                "config.yaml".to_owned(),
            ),
            (
                format!("{prefix}.config.config.yaml"),
                STANDARD.encode(YAML),
            ),
            (format!("{prefix}.distribution.version"), "0.7.3".to_owned()),
        ]
        .into();
        image
    };
    let mut docker = base64_image();
    docker.docker = true;
    for (name, image, scheme) in [
        ("base64", base64_image(), Scheme::Base64),
        ("docker", docker, Scheme::Base64),
        (
            "llamastack",
            published("com.llamastack"),
            Scheme::LlamaStack,
        ),
        ("ogx", published("com.ogx"), Scheme::Ogx),
    ] {
        let reference = push(&server, &image, &format!("stack/{name}:1"));
        let base = registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap();
        assert_eq!((base.yaml.as_str(), base.scheme), (YAML, scheme), "{name}");
        assert_eq!(base.config_digest, Digest::of(YAML.as_bytes()));
        let output = server.crane(&["digest", &reference.to_string()]);
        assert_eq!(
            base.image_digest.to_string(),
            String::from_utf8(output).unwrap().trim()
        );
    }
    let read = async |rest: &str| {
        registry
            .base_config(&server.reference(rest), &Keyring::empty())
            .await
            .unwrap()
    };
    let base = read("stack/base64:1").await;
    assert_eq!(base.schema.as_deref(), Some("llama-stack/0.7"));
    assert_eq!(base.config_version.as_deref(), Some("2"));
    assert_eq!(base.plugin.as_deref(), Some("ghcr.io/acme/plugin:1"));
    assert_eq!(base.user.as_deref(), Some("1001:0"));
    let variables: Vec<_> = base.variables.iter().map(String::as_str).collect();
    assert_eq!(variables, ["PATH", "URL"]);
    assert_eq!(
        read("stack/ogx:1").await.server_version.as_deref(),
        Some("0.7.3")
    );
}

#[tokio::test]
async fn a_file_in_a_layer_is_read_in_every_compression() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    for (name, compression) in [
        ("plain", Compression::Plain),
        ("gzip", Compression::Gzip),
        ("zstd", Compression::Zstd),
    ] {
        let image = layer_image(compression, "app/run.yaml", "/app/run.yaml");
        let reference = push(&server, &image, &format!("layers/{name}:1"));
        let base = registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap();
        assert_eq!(
            (base.yaml.as_str(), base.scheme),
            (YAML, Scheme::Layer),
            "{name}"
        );
    }
    // A mirror that recompresses layers changes their digests and keeps their diff_ids.
    let mut repacked = layer_image(Compression::Zstd, "app/run.yaml", "./app/run.yaml");
    let content = Digest::of(&repacked.layers[1].tar);
    repacked
        .labels
        .insert(labels::LAYER.to_owned(), content.to_string());
    let reference = push(&server, &repacked, "layers/repacked:1");
    assert!(
        registry
            .base_config(&reference, &Keyring::empty())
            .await
            .is_ok()
    );
}

/// Issue H, wanted 2.
#[tokio::test]
async fn the_release_is_read_from_the_package_folder_beside_the_file_unless_a_label_states_it() {
    let server = RegistryServer::plain();
    let (_folder, dir) = cache_folder();
    let packages = "opt/app/lib/python3.12/site-packages";
    let installed = format!("{packages}/llama_stack-0.3.5.dist-info");
    let metadata = format!("{installed}/METADATA");
    let client = format!("{packages}/llama_stack_client-0.4.0.dist-info/METADATA");
    let other = format!("{packages}/ogx-1.0.0.dist-info/METADATA");
    let config = format!("{packages}/llama_stack/run.yaml");
    let image = |folders: &[&str], version: Option<&str>| {
        let mut files: Vec<(&str, &[u8])> = vec![(&config, YAML.as_bytes())];
        files.extend(folders.iter().map(|path| (*path, &b"x"[..])));
        let layer = Layer::with(&files, Compression::Gzip);
        let mut image = Image::labelled([
            (labels::LAYER, layer.digest().to_string()),
            (labels::PATH, config.clone()),
        ]);
        if let Some(version) = version {
            let label = "com.llamastack.distribution.version".to_owned();
            image.labels.insert(label, version.to_owned());
        }
        image.layers.push(layer);
        image
    };
    let folder = format!("package folder /{installed}");
    let label = "label com.llamastack.distribution.version";
    let both = [&*client, &*metadata];
    for (name, image, version, source) in [
        ("package", image(&both, None), Some("0.3.5"), Some(&*folder)),
        (
            "label",
            image(&both, Some("0.6.1")),
            Some("0.6.1"),
            Some(label),
        ),
        (
            "tag",
            image(&both, Some("latest")),
            Some("0.3.5"),
            Some(&*folder),
        ),
        ("none", image(&[&client], None), None, None),
        ("two", image(&[&metadata, &other], None), None, None),
    ] {
        let reference = push(&server, &image, &format!("packages/{name}:1"));
        // The second client has only the disk cache of the first.
        for _ in 0..2 {
            let mut settings = server.settings();
            settings.cache_dir = Some(dir.clone());
            let registry = Registry::new(settings).unwrap();
            let base = registry
                .base_config(&reference, &Keyring::empty())
                .await
                .unwrap();
            let BaseConfig {
                server_version,
                server_version_source,
                ..
            } = &*base;
            let found = (server_version.as_deref(), server_version_source.as_deref());
            assert_eq!(found, (version, source), "{name}");
        }
    }
}

#[tokio::test]
async fn the_image_for_the_platform_is_read_from_an_index() {
    let server = RegistryServer::plain();
    let layout = Layout::new();
    let image = |text: &str| Image::labelled([(labels::BASE64, STANDARD.encode(text))]);
    let mut attestation = layout.image(&Image::labelled([]), "unknown");
    attestation["platform"] = json!({"os": "unknown", "architecture": "unknown"});
    let arm = layout.image(&image("arm: 1\n"), "arm64");
    let amd = layout.image(&image("amd: 1\n"), "amd64");
    let index = layout.index(vec![attestation, arm, amd]);
    let reference = layout.push(&server, &index, "multi/arch:1");
    for (architecture, text) in [
        ("amd64", "amd: 1\n"),
        ("arm64", "arm: 1\n"),
        ("s390x", "arm: 1\n"),
    ] {
        let mut settings = server.settings();
        settings.platform.architecture = architecture.to_owned();
        let registry = Registry::new(settings).unwrap();
        let base = registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap();
        assert_eq!(base.yaml, text, "{architecture}");
        assert_ne!(base.image_digest, base.manifest_digest);
    }
}

#[tokio::test]
async fn an_image_without_labels_is_rejected_with_the_message_of_the_specification() {
    let server = RegistryServer::plain();
    let reference = push(&server, &Image::labelled([]), "bare/image:1");
    let registry = Registry::new(server.settings()).unwrap();
    let error = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "MissingConfigLabels");
    assert_eq!(
        error.to_string(),
        format!(
            "Distribution image {reference} missing config labels. Add labels using `crane mutate` or use \
             `overrideConfig` to provide configuration manually. See docs/configuration.md for details."
        )
    );
    assert!(include_str!("../../../../docs/configuration.md").contains("crane mutate"));
}

#[tokio::test]
async fn errors_name_the_invalid_label() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let mut no_layer = layer_image(Compression::Gzip, "app/run.yaml", "/app/run.yaml");
    no_layer
        .labels
        .insert(labels::LAYER.to_owned(), Digest::of(b"gone").to_string());
    let no_file = layer_image(Compression::Gzip, "app/run.yaml", "/app/other.yaml");
    let not_text = Image::labelled([(labels::BASE64, STANDARD.encode([0xff, 0xfe]))]);
    for (name, image, label) in [
        ("no-layer", no_layer, labels::LAYER),
        ("no-file", no_file, labels::PATH),
        ("not-text", not_text, labels::BASE64),
    ] {
        let reference = push(&server, &image, &format!("bad/{name}:1"));
        let error = registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap_err();
        let BaseError::BadLabel { label: named, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(named, label);
        assert_eq!(error.reason(), "BadConfigLabel");
    }
}

#[tokio::test]
async fn tls_with_a_private_ca_needs_that_ca() {
    let server = RegistryServer::start(Options {
        tls: true,
        ..Options::default()
    });
    let reference = push(&server, &base64_image(), "tls/image:1");
    let registry = Registry::new(server.settings()).unwrap();
    let base = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();
    assert_eq!(base.yaml, YAML);

    let mut settings = server.settings();
    settings.extra_ca.clear();
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "CertificateUntrusted", "{}", chain(&error));
    assert!(
        chain(&error).contains("registry CA bundle"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn basic_auth_accepts_only_the_correct_credential() {
    let server = RegistryServer::start(Options {
        tls: true,
        basic_auth: true,
        ..Options::default()
    });
    let reference = push(&server, &base64_image(), "private/image:1");
    let registry = Registry::new(server.settings()).unwrap();
    let base = registry
        .base_config(&reference, &server.keyring())
        .await
        .unwrap();
    assert_eq!(base.yaml, YAML);

    // The digest is cached now, and is not returned for other credentials.
    for wrong in [Keyring::empty(), keyring(&server.address, USER, "wrong")] {
        let error = registry.base_config(&reference, &wrong).await.unwrap_err();
        assert_eq!(error.reason(), "AuthFailed");
        let pinned = reference.at(&base.image_digest);
        let error = registry.base_config(&pinned, &wrong).await.unwrap_err();
        assert_eq!(error.reason(), "AuthFailed");
    }
}

#[tokio::test]
async fn the_next_credential_is_tried_and_anonymous_access_is_not() {
    let server = RegistryServer::start(Options {
        basic_auth: true,
        ..Options::default()
    });
    let reference = push(&server, &base64_image(), "team/image:1");
    let registry = Registry::new(server.settings()).unwrap();
    let mut both = keyring(&format!("{}/team", server.address), USER, "wrong");
    let right = format!(
        r#"{{"auths": {{"{}": {{"username": "{USER}", "password": "{}"}}}}}}"#,
        server.address,
        crate::support::PASSWORD
    );
    both.add_docker_config("second", right.as_bytes()).unwrap();
    assert!(registry.base_config(&reference, &both).await.is_ok());

    // There is no fallback to anonymous access, even if the registry would allow it.
    let open = RegistryServer::plain();
    let reference = push(&open, &base64_image(), "open/image:1");
    let refusing = crate::support::proxy::Proxy::before(&open.address).await;
    let challenge = [("WWW-Authenticate", "Basic realm=\"x\"")];
    let refusal = crate::support::proxy::response("401 Unauthorized", &challenge, b"");
    refusing.fault("HEAD", "/manifests/", 2, refusal);
    let named = format!("{}/open/image:1", refusing.address)
        .parse()
        .unwrap();
    let registry = Registry::new(crate::support::settings_for(&refusing.address)).unwrap();
    let error = registry
        .base_config(&named, &keyring(&refusing.address, USER, "wrong"))
        .await;
    assert_eq!(error.unwrap_err().reason(), "AuthFailed");
    assert_eq!(
        refusing.seen().len(),
        2,
        "one request without and one with the credential"
    );
    assert!(
        registry
            .base_config(&reference, &Keyring::empty())
            .await
            .is_err(),
        "not in the list of plain-HTTP registries"
    );
}

#[tokio::test]
async fn tokens_are_requested_with_a_password_or_refresh_token_and_reused() {
    let tokens = TokenServer::start();
    let options = Options {
        token_auth: Some(tokens),
        ..Options::default()
    };
    let server = RegistryServer::start(options);
    let image = layer_image(Compression::Gzip, "run.yaml", "run.yaml");
    let reference = push(&server, &image, "tokens/image:1");
    let before = server.tokens.as_ref().unwrap().issued();
    let registry = Registry::new(server.settings()).unwrap();
    let base = registry
        .base_config(&reference, &server.keyring())
        .await
        .unwrap();
    assert_eq!(base.yaml, YAML);
    assert_eq!(
        server.tokens.as_ref().unwrap().issued() - before,
        1,
        "one token for four requests"
    );

    let json = format!(
        r#"{{"auths": {{"{}": {{"identitytoken": "{REFRESH}"}}}}}}"#,
        server.address
    );
    let mut refresh = Keyring::empty();
    refresh
        .add_docker_config("refresh", json.as_bytes())
        .unwrap();
    assert!(registry.base_config(&reference, &refresh).await.is_ok());
    for wrong in [Keyring::empty(), keyring(&server.address, USER, "wrong")] {
        let error = registry.base_config(&reference, &wrong).await.unwrap_err();
        assert_eq!(error.reason(), "AuthFailed");
    }
}

#[tokio::test]
async fn a_mirror_is_used_with_its_own_credentials() {
    let server = RegistryServer::start(Options {
        basic_auth: true,
        ..Options::default()
    });
    push(&server, &base64_image(), "mirror/stack/starter:1");
    let mut settings = server.settings();
    settings.mirrors = Mirrors::new([Mirror {
        from: "quay.example/llamastack".to_owned(),
        to: format!("{}/mirror/stack", server.address),
    }]);
    let registry = Registry::new(settings).unwrap();
    let written = "quay.example/llamastack/starter:1".parse().unwrap();
    let base = registry
        .base_config(&written, &server.keyring())
        .await
        .unwrap();
    assert_eq!(base.yaml, YAML);
    // The mirror does not receive the credentials of the original registry.
    let original = keyring("quay.example", USER, crate::support::PASSWORD);
    let error = registry.base_config(&written, &original).await.unwrap_err();
    assert_eq!(error.reason(), "AuthFailed");
    assert!(chain(&error).contains("no credential"), "{}", chain(&error));
}

#[tokio::test]
async fn a_small_configuration_goes_into_a_label_and_a_large_one_into_a_layer() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let large = format!("version: 2\n# {}\n", "x".repeat(60 << 10));
    let mut image = Image::labelled([("maintainer", "acme".to_owned())]);
    image.layers.push(Layer::with(
        &[("app/run.yaml", large.as_bytes())],
        Compression::Gzip,
    ));
    image
        .layers
        .push(Layer::with(&[("app/other", b"y")], Compression::Gzip));
    image.user = "1001";
    let reference = push(&server, &image, "label/me:build");
    let keyring = Keyring::empty();
    let labelling = |config: &str| Labelling {
        config: config.as_bytes().to_vec(),
        version: Some("2".to_owned()),
        schema: Some("llama-stack/0.7".to_owned()),
        plugin: None,
    };

    let small = registry
        .label_image(&reference, "small", &labelling(YAML), &keyring)
        .await
        .unwrap();
    assert_eq!(
        (small.scheme, small.base.yaml.as_str()),
        (Scheme::Base64, YAML)
    );
    let big = registry
        .label_image(&reference, "big", &labelling(&large), &keyring)
        .await
        .unwrap();
    assert_eq!(
        (big.scheme, big.base.yaml.as_str()),
        (Scheme::Layer, large.as_str())
    );
    assert_eq!(big.base.schema.as_deref(), Some("llama-stack/0.7"));
    assert_eq!(big.base.user.as_deref(), Some("1001"));

    // crane sees the same layers, and the old labels in addition to the new ones.
    let config = server.crane(&["config", &big.reference.to_string()]);
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["config"]["Labels"]["maintainer"], "acme");
    assert_eq!(config["config"]["Labels"][labels::PATH], "/app/run.yaml");
    let layers = |reference: &llsd_registry::Reference| {
        let manifest = server.crane(&["manifest", &reference.to_string()]);
        serde_json::from_slice::<serde_json::Value>(&manifest).unwrap()["layers"].clone()
    };
    assert_eq!(layers(&reference), layers(&big.reference));
    server.crane(&["validate", "--remote", &big.reference.to_string()]);

    // Labelling again replaces the scheme.
    let again = registry
        .label_image(&big.reference, "again", &labelling(YAML), &keyring)
        .await;
    let again = again.unwrap();
    assert_eq!(again.scheme, Scheme::Base64);
    assert!(!again.base.hints.contains_key(labels::LAYER));

    let elsewhere = format!("{large}# changed\n");
    let error = registry
        .label_image(&reference, "no", &labelling(&elsewhere), &keyring)
        .await;
    assert!(matches!(error, Err(LabelError::NotInAnyLayer { .. })));
}

#[tokio::test]
async fn labels_written_with_crane_as_documented_are_read() {
    let server = RegistryServer::plain();
    let mut image = Image::labelled([]);
    image.layers = vec![Layer::with(
        &[("app/config.yaml", YAML.as_bytes())],
        Compression::Gzip,
    )];
    let build = push(&server, &image, "guide/stack:build").to_string();
    let target = server.reference("guide/stack:1.4");
    let inline = format!("{}={}", labels::BASE64, STANDARD.encode(YAML));
    let schema = format!("{}=llama-stack/0.7", labels::SCHEMA);
    let labelled = target.to_string();
    server.crane(&[
        "mutate", &build, "--label", &inline, "--label", &schema, "-t", &labelled,
    ]);
    let registry = Registry::new(server.settings()).unwrap();
    let base = registry
        .base_config(&target, &Keyring::empty())
        .await
        .unwrap();
    assert_eq!(
        (base.yaml.as_str(), base.schema.as_deref()),
        (YAML, Some("llama-stack/0.7"))
    );
}

#[tokio::test]
async fn every_image_of_an_index_is_labelled() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let layout = Layout::new();
    let (a, b) = (
        Image::labelled([]),
        Image::labelled([("x", "y".to_owned())]),
    );
    let index = layout.index(vec![layout.image(&a, "amd64"), layout.image(&b, "arm64")]);
    let reference = layout.push(&server, &index, "label/index:1");
    let labelling = Labelling {
        config: YAML.into(),
        ..Labelling::default()
    };
    let keyring = Keyring::empty();
    let labelled = registry
        .label_image(&reference, "2", &labelling, &keyring)
        .await
        .unwrap();
    for architecture in ["amd64", "arm64"] {
        let mut settings = server.settings();
        settings.platform.architecture = architecture.to_owned();
        let registry = Registry::new(settings).unwrap();
        let report = registry
            .inspect_image(&labelled.reference, &keyring)
            .await
            .unwrap();
        assert_eq!(report.base.unwrap().yaml, YAML);
        assert_eq!(report.platforms.len(), 2);
        assert_eq!(report.image_digest, labelled.digest);
    }
    let bare = registry.inspect_image(&reference, &keyring).await.unwrap();
    assert!(matches!(
        bare.base,
        Err(BaseError::MissingConfigLabels { .. })
    ));
}

#[tokio::test]
async fn a_missing_reference_and_another_artifact_are_reported() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let missing = registry
        .base_config(&server.reference("no/such:1"), &Keyring::empty())
        .await;
    assert!(matches!(
        missing,
        Err(BaseError::Registry(Error::NotFound { .. }))
    ));
    let layout = Layout::new();
    let config = layout.blob("application/vnd.wasm.config.v0+json", b"{}");
    let layer = layout.blob("application/wasm", b"\0asm");
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = layout.json(
        kind,
        &json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]}),
    );
    let reference = layout.push(&server, &manifest, "not/an-image:1");
    let error = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "NotAnImage");
}
