//! Pulls plugins from a registry and loads them, with the operator's code.

use llsd_controller::load_pulled;
use llsd_plugin::{Host, Limits, Plugin};
use llsd_registry::{PulledPlugin, Reference, SignatureStatus};
use serde_json::{Value, json};

use crate::network::registry::{Client, SignatureOptions};
use crate::output::{self, OutputFormat};
use crate::progress::Progress;

/// A pulled plugin, loaded into the sandbox.
pub(super) struct Loaded {
    pub(super) pulled: PulledPlugin,
    pub(super) plugin: Plugin,
}

/// Pulls a plugin, checks its signatures and loads it.
pub(super) fn pull_and_load(
    client: &Client,
    host: &Host,
    reference: &Reference,
    signatures: &SignatureOptions,
    limits: &Limits,
) -> anyhow::Result<Loaded> {
    let pulled = pull(client, reference, signatures, limits)?;
    let _progress = Progress::new("loading the plugin");
    let plugin = load_pulled(host, reference, &pulled.bytes, limits)?;
    Ok(Loaded { pulled, plugin })
}

/// Pulls a plugin and checks its signatures.
pub(super) fn pull(
    client: &Client,
    reference: &Reference,
    signatures: &SignatureOptions,
    limits: &Limits,
) -> anyhow::Result<PulledPlugin> {
    let policy = signatures.policy(reference, limits.component_bytes as u64)?;
    let _progress = Progress::new(&format!("pulling {reference}"));
    let pulling = client
        .registry
        .pull_plugin(reference, &client.keyring, &policy);
    Ok(client.block_on(pulling)?)
}

/// Prints what was pulled, and who signed it.
pub(super) fn print(
    output: OutputFormat,
    reference: &Reference,
    pulled: &PulledPlugin,
) -> anyhow::Result<()> {
    match output {
        OutputFormat::Human => output::print(&as_text(reference, pulled)),
        OutputFormat::Json => {
            output::print(&serde_json::to_string_pretty(&as_json(reference, pulled))?)
        }
    }
    Ok(())
}

fn as_text(reference: &Reference, pulled: &PulledPlugin) -> String {
    format!(
        "reference {}\nmanifest  {}\ncomponent {}, {} bytes\nsigned by {}",
        reference.at(&pulled.manifest_digest),
        pulled.manifest_digest,
        pulled.layer_digest,
        pulled.bytes.len(),
        match &pulled.signature_status {
            SignatureStatus::Signed(signers) => Vec::from_iter(signers.clone()).join(", "),
            SignatureStatus::Audited(problem) => format!("no trusted signer: {problem}"),
            SignatureStatus::Skipped => "not checked".to_owned(),
        }
    )
}

fn as_json(reference: &Reference, pulled: &PulledPlugin) -> Value {
    let signed_by = match &pulled.signature_status {
        SignatureStatus::Signed(signers) => json!(signers),
        SignatureStatus::Audited(_) | SignatureStatus::Skipped => json!([]),
    };
    json!({
        "reference": reference.at(&pulled.manifest_digest).to_string(),
        "manifestDigest": pulled.manifest_digest.to_string(),
        "componentDigest": pulled.layer_digest.to_string(),
        "size": pulled.bytes.len(),
        "annotations": pulled.annotations,
        "signedBy": signed_by,
    })
}
