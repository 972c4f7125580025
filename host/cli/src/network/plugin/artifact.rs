//! Plugins in a registry: pulled by their terms, loaded as the operator loads them.

use llsd_controller::load_pulled;
use llsd_plugin::{Host, Limits, Plugin};
use llsd_registry::{PulledPlugin, Reference, Verdict as Signatures};
use serde_json::{Value, json};

use crate::network::registry::{Client, SignatureOptions};
use crate::talk::{self, Output};

/// A plugin as a registry has it, and as the sandbox runs it.
pub(super) struct Loaded {
    pub(super) pulled: PulledPlugin,
    pub(super) plugin: Plugin,
}

/// Pulls a plugin and loads it: every step that the operator takes.
pub(super) fn fetch(
    client: &Client,
    host: &Host,
    reference: &Reference,
    signatures: &SignatureOptions,
) -> anyhow::Result<Loaded> {
    let pulled = pull(client, reference, signatures)?;
    talk::remark("loading it");
    let plugin = load_pulled(host, reference, &pulled.bytes, &Limits::default())?;
    Ok(Loaded { pulled, plugin })
}

/// Pulls a plugin's bytes and checks its signatures.
pub(super) fn pull(
    client: &Client,
    reference: &Reference,
    signatures: &SignatureOptions,
) -> anyhow::Result<PulledPlugin> {
    let policy = signatures.policy(reference)?;
    talk::remark(&format!("pulling {reference}"));
    let pulling = client
        .registry
        .pull_plugin(reference, &client.keyring, &policy);
    Ok(client.wait(pulling)?)
}

/// Says what was pulled, and who answers for it.
pub(super) fn say(
    output: Output,
    reference: &Reference,
    pulled: &PulledPlugin,
) -> anyhow::Result<()> {
    match output {
        Output::Human => talk::data(&as_text(reference, pulled)),
        Output::Json => talk::data(&serde_json::to_string_pretty(&as_json(reference, pulled))?),
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
        match &pulled.verdict {
            Signatures::Signed(keys) => keys.iter().cloned().collect::<Vec<_>>().join(", "),
            Signatures::Audited(problem) => format!("nobody trusted: {problem}"),
            Signatures::Skipped => "not looked at".to_owned(),
        }
    )
}

fn as_json(reference: &Reference, pulled: &PulledPlugin) -> Value {
    let signed_by = match &pulled.verdict {
        Signatures::Signed(keys) => json!(keys),
        Signatures::Audited(_) | Signatures::Skipped => json!([]),
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
