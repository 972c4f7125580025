//! Keyless signatures: an identity instead of a key.

use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use llsd_e2e::{Operator, TestRegistry, acme_base, on_image};
use llsd_registry::{Attachment, Keyring, Reference};
use llsd_testbed::{Access, BUNDLE, KeylessSignature, Sigstore};
use serde_json::{Value, json};

use crate::generated_by;
use crate::revocation::{condition, variable};
use crate::test_plugin::TestPlugin;

const ISSUER: &str = "https://token.example.com";
const SUBJECT: &str = "https://git.example.com/acme/adapter/ci@refs/tags/v1.0.0";

/// Signs a plugin as `cosign sign` does without a key, an hour ago, so that the certificate has expired.
async fn sign(sigstore: &Sigstore, registry: &TestRegistry, plugin: &str, subject: &str) {
    let client = llsd_registry::Registry::new(registry.settings()).unwrap();
    let reference: Reference = plugin.parse().unwrap();
    let keyring = Keyring::empty();
    let digest = client.tagged_digest(&reference, &keyring).await.unwrap();
    let digest = digest.unwrap();
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "subject": [{ "digest": { "sha256": digest.hex() } }],
        "predicate": {},
    });
    let certified_at = Timestamp::now() - SignedDuration::from_hours(1);
    let bundle = sigstore.sign(&KeylessSignature {
        issuer: ISSUER,
        subject,
        certified_at,
        logged_at: Some(certified_at + SignedDuration::from_secs(5)),
        statement: statement.to_string().as_bytes(),
    });
    let bundle = Attachment {
        media_type: BUNDLE.to_owned(),
        content: bundle.unwrap().to_string().into_bytes(),
    };
    let signed = reference.at(&digest);
    client.attach(&signed, &bundle, &keyring).await.unwrap();
}

/// Stores the trusted root in a ConfigMap of the operator's namespace, and returns `spec.verify`.
async fn trust(operator: &Operator, sigstore: &Sigstore) -> Value {
    let content = sigstore.trusted_root().to_string();
    let map = json!({
        "metadata": { "name": "sigstore" },
        "data": { "trusted_root.json": content },
    });
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    let maps = operator.api::<ConfigMap>();
    maps.create(&PostParams::default(), &map).await.unwrap();
    json!({
        "level": "enforce",
        "identities": [{ "issuer": ISSUER, "subject": SUBJECT }],
        "trustedRootRef": { "name": "sigstore", "namespace": operator.namespace.name() },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_used_if_a_trusted_identity_signed_it() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let sigstore = Sigstore::generate().unwrap();
    let stranger = "https://git.example.com/mallory/adapter/ci@refs/tags/v1.0.0";
    sign(&sigstore, &registry, &plugin, stranger).await;
    let operator = Operator::start_with_registry("keyless", registry.settings()).await;
    let verify = trust(&operator, &sigstore).await;
    let spec = json!({ "reference": plugin, "verify": verify });
    let installed = TestPlugin::create(&operator, spec).await;
    let refused = installed
        .wait_for("Verified", "False", "SignatureInvalid")
        .await;
    let status = refused.status.unwrap();
    let (_, _, message) = condition(&status, "Verified");
    assert!(message.contains(stranger), "{message}");
    assert_eq!(status.current, None);

    sign(&sigstore, &registry, &plugin, SUBJECT).await;
    installed
        .edit(json!({ "verify": { "threshold": 1 } }))
        .await;
    let used = installed.wait_for("Ready", "True", "InUse").await;
    let signed_by = used.status.unwrap().current.unwrap().signed_by;
    assert_eq!(signed_by, [format!("{SUBJECT} ({ISSUER})")]);
    operator.create(&on_image("stack", &image)).await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(generated_by(&cr), "example-adapter");

    // A certificate of another authority is not enough, and what is in use stays.
    let other = Sigstore::generate().unwrap().trusted_root().to_string();
    let change = Patch::Merge(json!({ "data": { "trusted_root.json": other } }));
    let maps = operator.api::<ConfigMap>();
    let parameters = PatchParams::default();
    maps.patch("sigstore", &parameters, &change).await.unwrap();
    installed.edit(json!({ "requireDigest": false })).await;
    let kept = installed
        .wait_for("Verified", "False", "SignatureInvalid")
        .await;
    let status = kept.status.unwrap();
    assert_eq!(condition(&status, "Ready").1, "LastGoodInUse");

    let without_root = Patch::Merge(json!({ "spec": { "verify": { "trustedRootRef": null } } }));
    let refused = installed
        .api
        .patch(&installed.name, &parameters, &without_root)
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("required to verify identities"),
        "{refused}"
    );
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_verifies_the_identity_that_signed_a_plugin() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let sigstore = Sigstore::generate().unwrap();
    sign(&sigstore, &registry, &plugin, SUBJECT).await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("trusted_root.json");
    std::fs::write(&root, sigstore.trusted_root().to_string()).unwrap();
    let verify = |identity: &[&str]| {
        let output = Command::new(variable("LLSD_BIN"))
            .args(["plugin", "verify", &plugin])
            .args(["--plain-http", registry.server.host()])
            .args(["--certificate-oidc-issuer", ISSUER])
            .args(identity)
            .arg("--trusted-root")
            .arg(&root)
            .env("XDG_CACHE_HOME", folder.path())
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&printed).into_owned(),
        )
    };
    let pattern = "https://git\\.example\\.com/acme/.*@refs/tags/v.+";
    for identity in [
        ["--certificate-identity", SUBJECT],
        ["--certificate-identity-regexp", pattern],
    ] {
        let (status, printed) = verify(&identity);
        assert_eq!(status, Some(0), "{printed}");
        assert!(printed.contains(SUBJECT), "{printed}");
    }
    let (status, printed) = verify(&["--certificate-identity", "someone@example.com"]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(
        printed.contains("which is not a trusted identity"),
        "{printed}"
    );
    let (status, printed) = verify(&[]);
    assert_eq!(status, Some(2), "{printed}");
}
