//! Plugins that are pushed, pulled and signed by this crate and by other tools.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use llsd_registry::signature::{Level, PublicKey, Verification};
use llsd_registry::{
    Cause, Denied, Description, Digest, Keyring, Policy, Reference, Registry, Rule, Settings,
    SignatureStatus, Stage, TransferObserver,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::layout::Layout;
use crate::support::proxy::{Proxy, response};
use crate::support::{Options, RegistryServer, cache_folder, chain, files_in, settings_for};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0 not much of a component";

fn description() -> Description {
    Description {
        title: "adapter.wasm".to_owned(),
        exports: vec!["llamastack:config-adapter/identity@1.0.0".to_owned()],
        annotations: [(
            "org.opencontainers.image.version".to_owned(),
            "1.0.0".to_owned(),
        )]
        .into(),
        ..Description::default()
    }
}

fn allowing(server: &RegistryServer, verification: Verification) -> Policy {
    Policy {
        rules: vec![Rule::new(server.address.clone(), verification)],
    }
}

async fn pushed(server: &RegistryServer, registry: &Registry, rest: &str) -> Reference {
    let target = server.reference(rest);
    let keyring = server.keyring();
    let pushed = registry
        .push_plugin(&target, COMPONENT, &description(), &keyring)
        .await;
    pushed.unwrap().reference
}

/// The transfers that were reported: blob, bytes done, bytes in all.
#[derive(Default)]
struct Transfers(Mutex<Vec<(String, u64, u64)>>);

impl TransferObserver for Transfers {
    fn transferred(&self, at: &str, done: u64, total: u64) {
        let mut all = self.0.lock().unwrap();
        all.push((at.to_owned(), done, total));
    }
}

#[tokio::test]
async fn the_transfers_of_a_component_are_reported_to_their_last_byte() {
    let server = RegistryServer::start(Options::default());
    let transfers = Arc::new(Transfers::default());
    let registry = Registry::new(Settings {
        observer: Some(transfers.clone()),
        ..server.settings()
    })
    .unwrap();
    let digest = Digest::of(COMPONENT).to_string();
    let reported = || {
        let all = std::mem::take(&mut *transfers.0.lock().unwrap());
        let mut all = all.into_iter().filter(|(at, _, _)| at.contains(&digest));
        let (_, first, total) = all.next().unwrap();
        (first, all.next_back().map(|(_, done, _)| done), total)
    };
    let size = COMPONENT.len() as u64;
    let target = pushed(&server, &registry, "acme/adapter:1.0.0").await;
    assert_eq!(reported(), (0, Some(size), size));
    let policy = allowing(&server, Verification::skip());
    let keyring = server.keyring();
    let pulled = registry.pull_plugin(&target, &keyring, &policy).await;
    assert_eq!(pulled.unwrap().bytes, COMPONENT);
    let (first, last, total) = reported();
    assert_eq!((last.unwrap_or(first), total), (size, size));
}

#[tokio::test]
async fn a_pushed_plugin_can_be_pulled_and_read_by_crane_and_has_a_stable_digest() {
    let server = RegistryServer::start(Options {
        tls: true,
        basic_auth: true,
        ..Options::default()
    });
    let registry = Registry::new(server.settings()).unwrap();
    let target = server.reference("acme/adapter:1.0.0");
    let keyring = server.keyring();
    let first = registry
        .push_plugin(&target, COMPONENT, &description(), &keyring)
        .await
        .unwrap();
    let second = registry
        .push_plugin(&target, COMPONENT, &description(), &keyring)
        .await
        .unwrap();
    assert_eq!(first, second);
    assert_eq!(first.layer_digest, Digest::of(COMPONENT));

    let policy = allowing(&server, Verification::skip());
    for reference in [&target, &first.reference] {
        let pulled = registry
            .pull_plugin(reference, &keyring, &policy)
            .await
            .unwrap();
        assert_eq!(pulled.bytes, COMPONENT);
        assert_eq!(pulled.layer_digest, first.layer_digest);
        assert_eq!(pulled.manifest_digest, first.manifest_digest);
        assert_eq!(
            pulled.annotations["org.opencontainers.image.version"],
            "1.0.0"
        );
        assert_eq!(pulled.signature_status, SignatureStatus::Skipped);
    }
    let digest = server.crane(&["digest", &target.to_string()]);
    assert_eq!(
        String::from_utf8(digest).unwrap().trim(),
        first.manifest_digest.to_string()
    );
    let layer = target.at(&first.layer_digest).to_string();
    assert_eq!(server.crane(&["blob", &layer]), COMPONENT);
    let manifest: Value =
        serde_json::from_slice(&server.crane(&["manifest", &target.to_string()])).unwrap();
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
}

/// Pushes a plugin as another client does: with another date and annotations and the same layer.
fn push_with_crane(server: &RegistryServer, rest: &str, layers: &[&[u8]]) -> Reference {
    let layout = Layout::new();
    let config = json!({"created": "2026-01-01T00:00:00Z", "author": "them", "architecture": "wasm",
        "os": "wasip2", "layerDigests": layers.iter().map(|l| Digest::of(l)).collect::<Vec<_>>(),
        "component": {"exports": [], "imports": [], "target": null}});
    let config = layout.json("application/vnd.wasm.config.v0+json", &config);
    let layers: Vec<_> = layers
        .iter()
        .map(|l| layout.blob("application/wasm", l))
        .collect();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers,
        "annotations": {"org.opencontainers.image.authors": "them"}});
    let manifest = layout.json(kind, &manifest);
    layout.push(server, &manifest, rest)
}

#[tokio::test]
async fn a_plugin_pushed_by_another_client_has_the_same_identity() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let theirs = push_with_crane(&server, "them/adapter:1", &[COMPONENT]);
    let ours = pushed(&server, &registry, "us/adapter:1").await;
    let policy = allowing(&server, Verification::skip());
    let theirs = registry
        .pull_plugin(&theirs, &Keyring::empty(), &policy)
        .await
        .unwrap();
    let ours = registry
        .pull_plugin(&ours, &Keyring::empty(), &policy)
        .await
        .unwrap();
    assert_eq!(theirs.layer_digest, ours.layer_digest);
    assert_ne!(theirs.manifest_digest, ours.manifest_digest);

    let two = push_with_crane(&server, "them/two:1", &[COMPONENT, b"extra"]);
    let error = registry
        .pull_plugin(&two, &Keyring::empty(), &policy)
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, error.reason()),
        (Stage::Inspect, "Incompatible")
    );
    assert!(chain(&error).contains("2 layers"), "{}", chain(&error));
}

#[tokio::test]
async fn a_plugin_that_no_rule_allows_is_not_requested() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let reference = pushed(&server, &registry, "acme/adapter:1").await;
    let before = server.requests().await.len();
    let none = Policy::default();
    let error = registry
        .pull_plugin(&reference, &Keyring::empty(), &none)
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, error.reason()),
        (Stage::Admit, "PolicyDenied")
    );
    assert_eq!(server.requests().await.len(), before);

    let mut small = allowing(&server, Verification::skip());
    small.rules[0].max_bytes = 10;
    let error = registry
        .pull_plugin(&reference, &Keyring::empty(), &small)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TooLarge");
    assert!(matches!(
        *error.cause,
        Cause::Denied(Denied::TooLarge { limit: 10, .. })
    ));
    let requests = server.requests().await;
    assert!(
        !requests
            .iter()
            .any(|r| r.starts_with("GET") && r.contains("/blobs/")),
        "{requests:?}"
    );
}

#[tokio::test]
async fn errors_name_the_stage_that_failed() {
    let server = RegistryServer::start(Options {
        basic_auth: true,
        ..Options::default()
    });
    let registry = Registry::new(server.settings()).unwrap();
    let pinned = pushed(&server, &registry, "acme/adapter:1").await;
    let policy = allowing(&server, Verification::skip());
    let missing = server.reference("acme/adapter:2");
    let error = registry
        .pull_plugin(&missing, &server.keyring(), &policy)
        .await
        .unwrap_err();
    assert_eq!((error.stage, error.reason()), (Stage::Resolve, "NotFound"));
    let error = registry
        .pull_plugin(&pinned, &Keyring::empty(), &policy)
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, error.reason()),
        (Stage::Authenticate, "AuthFailed")
    );
    for (stage, reason) in [
        (Stage::Inspect, "Incompatible"),
        (Stage::Compile, "CompileFailed"),
        (Stage::DryInstantiate, "SelfTestFailed"),
    ] {
        let error = llsd_registry::PullError::rejected(&pinned, stage, "it imports wasi");
        assert_eq!(error.reason(), reason);
        assert_eq!(
            chain(&error),
            format!("plugin {pinned}: {stage} failed: it imports wasi")
        );
    }
}

#[tokio::test]
async fn an_altered_manifest_or_layer_is_refused_and_not_cached() {
    let server = RegistryServer::plain();
    let direct = Registry::new(server.settings()).unwrap();
    let pinned = pushed(&server, &direct, "acme/adapter:1").await;
    let proxy = Proxy::before(&server.address).await;
    let (cache, dir) = cache_folder();
    let mut settings = settings_for(&proxy.address);
    settings.cache_dir = Some(dir);
    let registry = Registry::new(settings).unwrap();
    let reference: Reference = format!(
        "{}/acme/adapter@{}",
        proxy.address,
        pinned.digest().unwrap()
    )
    .parse()
    .unwrap();
    let policy = Policy {
        rules: vec![Rule::new(proxy.address.clone(), Verification::skip())],
    };
    let keyring = Keyring::empty();

    let manifest = server.crane(&["manifest", &pinned.to_string()]);
    let altered = String::from_utf8(manifest)
        .unwrap()
        .replace("1.0.0", "6.6.6");
    proxy.fault(
        "GET",
        "/manifests/",
        1,
        response("200 OK", &[], altered.as_bytes()),
    );
    let error = registry
        .pull_plugin(&reference, &keyring, &policy)
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, error.reason()),
        (Stage::Fetch, "DigestMismatch")
    );

    let mut layer = COMPONENT.to_vec();
    layer[9] ^= 1;
    let path = format!("/blobs/{}", Digest::of(COMPONENT));
    proxy.fault("GET", &path, 1, response("200 OK", &[], &layer));
    let error = registry
        .pull_plugin(&reference, &keyring, &policy)
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, error.reason()),
        (Stage::Fetch, "DigestMismatch")
    );
    let hex = Digest::of(COMPONENT).hex().to_owned();
    let is_cached = || {
        let files = files_in(&cache.path().join("blobs"));
        files
            .iter()
            .any(|file| file.to_string_lossy().ends_with(&hex))
    };
    assert!(!is_cached());

    assert_eq!(
        registry
            .pull_plugin(&reference, &keyring, &policy)
            .await
            .unwrap()
            .bytes,
        COMPONENT
    );
    assert!(is_cached());
}

/// A signer with a key pair of cosign.
struct Signer {
    folder: TempDir,
}

impl Signer {
    fn new(server: &RegistryServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        server.cosign(folder.path(), &["generate-key-pair"]);
        Self { folder }
    }

    fn key(&self) -> PublicKey {
        let pem = std::fs::read_to_string(self.folder.path().join("cosign.pub")).unwrap();
        PublicKey::from_pem(&pem).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sign(&self, server: &RegistryServer, reference: &Reference, bundle: bool) {
        self.sign_with(server, reference, bundle, &[]);
    }

    fn sign_with(
        &self,
        server: &RegistryServer,
        reference: &Reference,
        bundle: bool,
        more: &[&str],
    ) {
        let key = self.path("cosign.key").display().to_string();
        let (form, reference) = (
            format!("--new-bundle-format={bundle}"),
            reference.to_string(),
        );
        let mut arguments = vec![
            "sign",
            "--key",
            &key,
            "--tlog-upload=false",
            "--use-signing-config=false",
            "--allow-http-registry",
            "-y",
            &form,
        ];
        arguments.extend(more);
        arguments.push(&reference);
        server.cosign(self.folder.path(), &arguments);
    }
}

#[tokio::test]
async fn signatures_by_cosign_are_verified_in_both_formats() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let (alice, bob) = (Signer::new(&server), Signer::new(&server));
    let keyring = Keyring::empty();
    let pull = async |reference: &Reference, verification: Verification| {
        registry
            .pull_plugin(reference, &keyring, &allowing(&server, verification))
            .await
    };
    let by = |signers: &[&Signer]| Verification::enforce(signers.iter().map(|s| s.key()).collect());

    for bundle in [false, true] {
        let reference = pushed(&server, &registry, &format!("signed/{bundle}:1")).await;
        let error = pull(&reference, by(&[&alice])).await.unwrap_err();
        assert_eq!(
            (error.stage, error.reason()),
            (Stage::Verify, "SignatureInvalid")
        );
        assert!(chain(&error).contains("is not signed"), "{}", chain(&error));

        alice.sign(&server, &reference, bundle);
        let pulled = pull(&reference, by(&[&alice])).await.unwrap();
        let signers = [alice.key().fingerprint()].into();
        assert_eq!(pulled.signature_status, SignatureStatus::Signed(signers));

        let error = pull(&reference, by(&[&bob])).await.unwrap_err();
        assert!(
            chain(&error).contains("not by a trusted key"),
            "{}",
            chain(&error)
        );

        // Both keys must sign if two are required.
        let two = Verification {
            threshold: 2,
            ..by(&[&alice, &bob])
        };
        assert!(pull(&reference, two.clone()).await.is_err());
        bob.sign(&server, &reference, bundle);
        assert!(
            matches!(pull(&reference, two).await.unwrap().signature_status, SignatureStatus::Signed(s) if s.len() == 2)
        );
        let same_key_twice = Verification {
            threshold: 2,
            ..by(&[&alice, &alice])
        };
        assert!(pull(&reference, same_key_twice).await.is_err());
    }
}

#[tokio::test]
async fn the_signature_of_another_artifact_does_not_count() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let alice = Signer::new(&server);
    let signed = pushed(&server, &registry, "signed/one:1").await;
    alice.sign(&server, &signed, false);
    alice.sign(&server, &signed, true);
    let target = server.reference("signed/one:2");
    let (what, keyring) = (description(), Keyring::empty());
    let other = registry
        .push_plugin(&target, b"\0asm other", &what, &keyring)
        .await;
    let other = other.unwrap().reference;
    let hex = |reference: &Reference| reference.digest().unwrap().hex().to_owned();
    for suffix in ["", ".sig"] {
        let from = server.reference(&format!("signed/one:sha256-{}{suffix}", hex(&signed)));
        server.crane(&[
            "tag",
            &from.to_string(),
            &format!("sha256-{}{suffix}", hex(&other)),
        ]);
    }
    let policy = allowing(&server, Verification::enforce(vec![alice.key()]));
    assert!(
        registry
            .pull_plugin(&signed, &Keyring::empty(), &policy)
            .await
            .is_ok()
    );
    let error = registry
        .pull_plugin(&other, &Keyring::empty(), &policy)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SignatureInvalid");
    let message = chain(&error);
    let replayed = format!("signs {}", signed.digest().unwrap());
    assert_eq!(message.matches(&replayed).count(), 2, "{message}");

    // With the level audit it is used, and the reason is reported.
    let audit = Verification {
        level: Level::Audit,
        ..Verification::enforce(vec![alice.key()])
    };
    let pulled = registry
        .pull_plugin(&other, &Keyring::empty(), &allowing(&server, audit))
        .await;
    let SignatureStatus::Audited(why) = pulled.unwrap().signature_status else {
        panic!()
    };
    assert!(why.contains(" signs sha256:"), "{why}");
}

#[tokio::test]
async fn the_signature_of_the_same_artifact_in_another_repository_does_not_count() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let alice = Signer::new(&server);
    let signed = pushed(&server, &registry, "acme/one:1").await;
    alice.sign(&server, &signed, false);
    let (from, to) = (server.reference("acme/one"), server.reference("acme/two"));
    let hex = signed.digest().unwrap().hex();
    // What everyone who controls a registry can do: serve the artifact under another name.
    for tag in ["1".to_owned(), format!("sha256-{hex}.sig")] {
        let [from, to] = [&from, &to].map(|one| format!("{}:{tag}", one.name()));
        server.crane(&["copy", &from, &to]);
    }
    let policy = allowing(&server, Verification::enforce(vec![alice.key()]));
    let pull = async |rest: &str| {
        let reference = server.reference(rest);
        registry
            .pull_plugin(&reference, &Keyring::empty(), &policy)
            .await
    };
    assert!(pull("acme/one:1").await.is_ok());
    let error = pull("acme/two:1").await.unwrap_err();
    assert_eq!(error.reason(), "SignatureInvalid");
    let expected = format!("is for repository {:?}", from.name());
    assert!(chain(&error).contains(&expected), "{}", chain(&error));
}

#[tokio::test]
async fn a_bundle_that_names_the_repository_satisfies_a_rule_that_requires_it() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let alice = Signer::new(&server);
    let verification = Verification {
        require_repository: true,
        ..Verification::enforce(vec![alice.key()])
    };
    let policy = allowing(&server, verification);
    let reference = pushed(&server, &registry, "acme/one:1").await;
    alice.sign(&server, &reference, true);
    let pull = async || {
        registry
            .pull_plugin(&reference, &Keyring::empty(), &policy)
            .await
    };
    let error = pull().await.unwrap_err();
    assert!(
        chain(&error).contains("names no repository"),
        "{}",
        chain(&error)
    );
    let named = format!("docker-reference={}", reference.name());
    alice.sign_with(&server, &reference, true, &["-a", &named]);
    pull().await.unwrap();
}

// On several threads, because cosign blocks one of them while it uses the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn a_valid_sig_tag_is_enough_if_the_referrers_cannot_be_read() {
    let server = RegistryServer::plain();
    let direct = Registry::new(server.settings()).unwrap();
    let alice = Signer::new(&server);
    let proxy = Proxy::before(&server.address).await;
    let pinned = pushed(&server, &direct, "acme/adapter:1").await;
    // Signed through the proxy, which is the name that is requested below.
    let digest = pinned.digest().unwrap().clone();
    let reference: Reference = format!("{}/acme/adapter@{digest}", proxy.address)
        .parse()
        .unwrap();
    alice.sign(&server, &reference, false);
    let policy = Policy {
        rules: vec![Rule::new(
            proxy.address.clone(),
            Verification::enforce(vec![alice.key()]),
        )],
    };
    let dangling = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 7,
            "digest": Digest::of(b"deleted"),
            "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json"}]});
    for answer in [
        response("200 OK", &[], dangling.to_string().as_bytes()),
        response("401 Unauthorized", &[], b""),
        response("403 Forbidden", &[], b""),
        response("500 Internal Server Error", &[], b""),
    ] {
        proxy.fault("GET", "/referrers/", 3, answer);
        let registry = Registry::new(settings_for(&proxy.address)).unwrap();
        let pulled = registry
            .pull_plugin(&reference, &Keyring::empty(), &policy)
            .await
            .unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert!(matches!(
            pulled.signature_status,
            SignatureStatus::Signed(_)
        ));
        proxy.clear_faults();
    }
}

#[tokio::test]
async fn a_bundle_on_the_second_page_of_the_referrers_is_found() {
    let server = RegistryServer::plain();
    let direct = Registry::new(server.settings()).unwrap();
    let alice = Signer::new(&server);
    let pinned = pushed(&server, &direct, "acme/adapter:1").await;
    alice.sign(&server, &pinned, true);
    let digest = pinned.digest().unwrap().clone();
    let fallback = server.reference(&format!("acme/adapter:sha256-{}", digest.hex()));
    let second_page = server.crane(&["manifest", &fallback.to_string()]);
    let proxy = Proxy::before(&server.address).await;
    let empty = json!({"schemaVersion": 2, "manifests": []}).to_string();
    let next = format!("</v2/acme/adapter/referrers/{digest}?last=1>; rel=\"next\"");
    proxy.fault("GET", "?last=1", 1, response("200 OK", &[], &second_page));
    proxy.fault(
        "GET",
        "/referrers/",
        1,
        response("200 OK", &[("Link", &next)], empty.as_bytes()),
    );
    // Without the page, nothing else has the signature.
    proxy.fault(
        "GET",
        &format!("/manifests/sha256-{}", digest.hex()),
        9,
        response("404 Not Found", &[], b""),
    );
    let reference: Reference = format!("{}/acme/adapter@{digest}", proxy.address)
        .parse()
        .unwrap();
    let rule = Rule::new(
        proxy.address.clone(),
        Verification::enforce(vec![alice.key()]),
    );
    let registry = Registry::new(settings_for(&proxy.address)).unwrap();
    let policy = Policy { rules: vec![rule] };
    let pulled = registry
        .pull_plugin(&reference, &Keyring::empty(), &policy)
        .await
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(matches!(
        pulled.signature_status,
        SignatureStatus::Signed(_)
    ));
}

#[tokio::test]
async fn a_rule_that_requires_signatures_without_keys_refuses_everything() {
    let server = RegistryServer::plain();
    let registry = Registry::new(server.settings()).unwrap();
    let reference = pushed(&server, &registry, "acme/adapter:1").await;
    let policy = allowing(&server, Verification::enforce(Vec::new()));
    let error = registry
        .pull_plugin(&reference, &Keyring::empty(), &policy)
        .await
        .unwrap_err();
    assert!(
        chain(&error).contains("has 0 different key(s)"),
        "{}",
        chain(&error)
    );
}
