//! Taking a plugin back: a removed key, a rollback, and a lower version.

use std::path::Path;
use std::process::Command;

use llsd_api::Distribution;
use llsd_api::schema_plugin::SchemaPluginStatus;
use llsd_e2e::{Operator, TestRegistry, acme_base, config_map, on_image};
use llsd_testbed::Access;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::UNUSED_KEY;
use crate::test_plugin::TestPlugin;

/// A string in the adapter's catalogue, and a replacement that changes its output.
const ORIGINAL: &str = "inference remote::vllm base_url:http:/v1";
const CHANGED: &str = "inference remote::vllm base_url:http:/v2";

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run the tests with `cargo xtask test`"))
}

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A key pair of cosign.
pub(crate) struct Signer(TempDir);

impl Signer {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        run(cosign(folder.path()).arg("generate-key-pair"));
        Self(folder)
    }

    pub(crate) fn public_key(&self) -> String {
        std::fs::read_to_string(self.0.path().join("cosign.pub")).unwrap()
    }

    pub(crate) fn sign(&self, reference: &str) {
        run(cosign(self.0.path())
            .args(["sign", "--key", "cosign.key", "-y"])
            .args(["--tlog-upload=false", "--use-signing-config=false"])
            .args(["--allow-http-registry", "--new-bundle-format=false"])
            .arg(reference));
    }

    /// Signs a statement about a plugin.
    pub(crate) fn attest(&self, reference: &str, kind: &str, predicate: &Path) {
        run(cosign(self.0.path())
            .args(["attest", "--key", "cosign.key", "-y", "--type", kind])
            .args(["--tlog-upload=false", "--use-signing-config=false"])
            .args(["--allow-http-registry", "--predicate"])
            .arg(predicate)
            .arg(reference));
    }
}

fn cosign(folder: &Path) -> Command {
    let mut command = Command::new(variable("LLSD_COSIGN_BIN"));
    command
        .current_dir(folder)
        .env("COSIGN_PASSWORD", "")
        .env("HOME", folder);
    command
}

pub(crate) fn condition<'a>(
    status: &'a SchemaPluginStatus,
    kind: &str,
) -> (&'a str, &'a str, &'a str) {
    let found = status.conditions.iter().find(|one| one.type_ == kind);
    let found = found.unwrap_or_else(|| panic!("no condition {kind}"));
    (&found.status, &found.reason, &found.message)
}

pub(crate) fn enforce(key: &str) -> Value {
    json!({ "level": "enforce", "keys": [key] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_whose_key_was_removed_is_reported_and_taken_out_of_use_only_on_request() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let signer = Signer::new();
    signer.sign(&plugin);
    let operator = Operator::start_with_registry("revoked", registry.settings()).await;
    let spec = json!({ "reference": plugin, "verify": enforce(&signer.public_key()) });
    let installed = TestPlugin::create(&operator, spec).await;
    let loaded = installed.wait_for("Ready", "True", "InUse").await;
    let status = loaded.status.unwrap();
    assert_eq!(condition(&status, "Verified").0, "True");
    let digest = status.current.unwrap().component_digest;

    let attested = json!({ "attestations": ["https://acme.example/tested/v1"] });
    installed.edit(json!({ "verify": attested })).await;
    let kept = installed
        .wait_for("Verified", "False", "SignatureInvalid")
        .await;
    let status = kept.status.unwrap();
    let (_, _, message) = condition(&status, "Verified");
    assert!(message.contains("has no attestation of type"), "{message}");
    let not_attested = json!({ "attestations": null });
    installed.edit(json!({ "verify": not_attested })).await;
    installed.wait_for("Verified", "True", "Succeeded").await;

    installed
        .edit(json!({ "verify": enforce(UNUSED_KEY) }))
        .await;
    let kept = installed
        .wait_for("Verified", "False", "SignatureInvalid")
        .await;
    let status = kept.status.unwrap();
    let (_, _, message) = condition(&status, "Verified");
    assert!(
        message.contains(&digest) && message.contains("stays in use"),
        "{message}"
    );
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(status.current.unwrap().component_digest, digest);

    let quarantine = json!({ "verify": { "onVerificationLoss": "Quarantine" } });
    installed.edit(quarantine).await;
    let taken = installed
        .wait_for("Verified", "False", "VerificationLost")
        .await;
    let status = taken.status.unwrap();
    assert_eq!(status.current, None);
    let (ready, reason, message) = condition(&status, "Ready");
    assert_eq!((ready, reason), ("False", "VerificationLost"));
    assert!(
        message.contains("onVerificationLoss is Quarantine"),
        "{message}"
    );
    installed.wait_for_event("VerificationLost").await;

    installed
        .edit(json!({ "verify": enforce(&signer.public_key()) }))
        .await;
    let restored = installed.wait_for("Ready", "True", "InUse").await;
    let current = restored.status.unwrap().current.unwrap();
    assert_eq!(current.component_digest, digest);
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_uses_the_previous_version_until_it_is_undone() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let first = registry.push_plugin("example-adapter", "acme/adapter:1");
    let second = registry.push_patched("example-adapter", "acme/adapter:2", ORIGINAL, CHANGED);
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("rollback", registry.settings()).await;
    // Existing resources take each version in turn, and so also the way back.
    let spec = json!({ "reference": first, "rollout": { "existing": "Follow" } });
    let installed = TestPlugin::create(&operator, spec).await;
    let loaded = installed.wait_for("Ready", "True", "InUse").await;
    let good = loaded.status.unwrap().current.unwrap().component_digest;
    operator.create(&on_image("stack", &image)).await;
    let before = config_map(&operator.wait_until_ready("stack").await);

    installed.edit(json!({ "reference": second })).await;
    let changed = |cr: &Distribution| config_map(cr) != before;
    operator.wait_for("stack", "changed", changed).await;

    let testbed = &operator.testbed;
    let roll_back = || {
        let mut command = Command::new(variable("LLSD_BIN"));
        command
            .args(["plugin", "rollback", &installed.name])
            .env("KUBECONFIG", testbed.kubeconfig("admin").unwrap());
        command
    };
    let printed = run(&mut roll_back());
    assert!(
        printed.contains("is rolled back") && printed.contains(&good),
        "{printed}"
    );
    let reverted = installed.wait_for("Promoted", "False", "RolledBack").await;
    let status = reverted.status.unwrap();
    assert_eq!(status.current.unwrap().component_digest, good);
    let bad = status.candidate.unwrap().component_digest;
    assert_ne!(bad, good);
    assert_eq!(
        installed
            .api
            .get(&installed.name)
            .await
            .unwrap()
            .spec
            .rollout
            .unwrap()
            .rollback_from,
        Some(bad.clone())
    );
    let is_back = |cr: &Distribution| config_map(cr) == before;
    operator.wait_for("stack", "as before", is_back).await;

    // There is no version before the first one, and the failed command changes nothing.
    let again = roll_back().output().unwrap();
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && stderr.contains("no previous version"),
        "{stderr}"
    );

    installed
        .edit(json!({ "rollout": { "rollbackFrom": null } }))
        .await;
    let used_again = installed.wait_for("Promoted", "True", "Succeeded").await;
    let current = used_again.status.unwrap().current.unwrap();
    assert_eq!(current.component_digest, bad);
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_plugin_version_is_held_back_until_the_spec_allows_it() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let newer = registry.push_plugin("example-adapter", "acme/adapter:2");
    let version = env!("CARGO_PKG_VERSION");
    let lower = "0.0.9";
    assert_eq!(
        version.len(),
        lower.len(),
        "choose a lower version of the same length"
    );
    let older = registry.push_patched("example-adapter", "acme/adapter:1", version, lower);
    let operator = Operator::start_with_registry("downgrade", registry.settings()).await;
    let installed = TestPlugin::create(&operator, json!({ "reference": newer })).await;
    installed.wait_for("Ready", "True", "InUse").await;

    installed.edit(json!({ "reference": older })).await;
    let held = installed.wait_for("Promoted", "False", "Downgrade").await;
    let status = held.status.unwrap();
    let (_, _, message) = condition(&status, "Promoted");
    assert!(
        message.contains("lower than") && message.contains("allowDowngrade"),
        "{message}"
    );
    assert_eq!(condition(&status, "Ready").1, "LastGoodInUse");
    assert_eq!(status.current.unwrap().version.as_deref(), Some(version));

    installed
        .edit(json!({ "rollout": { "allowDowngrade": true } }))
        .await;
    let allowed = installed.wait_for("Ready", "True", "InUse").await;
    let current = allowed.status.unwrap().current.unwrap();
    assert_eq!(current.version.as_deref(), Some(lower));
    installed.delete().await;
    operator.stop().await;
}
