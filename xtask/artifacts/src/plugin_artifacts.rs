//! The plugins of this repository as OCI artifacts, with what is said about them.
//!
//! In: components, and an `llsd` that packs them. Out: one artifact for each plugin in an OCI layout, after it
//! passed the conformance suite. The report, the SBOM and the provenance are its referrers.

use std::path::Path;
use std::process::Command;

use llsd_oci_layout::{Descriptor, ImageLayout};
use serde_json::Value;

use crate::image::provenance::{self, Provenance, Subject};
use crate::image::source::Source;
use crate::image::{SBOM, add_referrer};
use crate::package::{output, sbom};
use crate::plugins::Plugin;

/// What all plugins have in common.
pub(crate) struct PluginArtifacts<'a> {
    /// An `llsd` that this machine can run.
    pub(crate) llsd: &'a Path,
    /// The folder of the components.
    pub(crate) components: &'a Path,
    /// The registry that statements name.
    pub(crate) registry: &'a str,
    /// The version, which is the tag.
    pub(crate) version: &'a str,
    /// The metadata of the workspace.
    pub(crate) metadata: &'a Value,
    pub(crate) source: &'a Source,
    /// The task, as provenance names it.
    pub(crate) task: &'a str,
}

impl PluginArtifacts<'_> {
    /// Writes the artifact that `llsd plugin push` would push, and its documents.
    pub(crate) fn write(
        &self,
        layout: &mut ImageLayout,
        plugin: &Plugin,
    ) -> anyhow::Result<Descriptor> {
        let Self {
            llsd,
            components,
            registry,
            version,
            metadata,
            source,
            task,
        } = *self;
        let folder = tempfile::tempdir()?;
        let repository = plugin.repository();
        let name = format!("{repository}:{version}");
        let fixtures = plugin.folder().join("tests/golden");
        let mut push = Command::new(llsd);
        push.args(["plugin", "push"])
            .arg(format!("{registry}/{name}"))
            .arg(components.join(format!("{}.wasm", plugin.name)))
            .arg("--layout")
            .arg(folder.path())
            .env("SOURCE_DATE_EPOCH", source.time.to_string());
        if fixtures.is_dir() {
            push.arg("--fixtures").arg(fixtures);
        }
        output(&mut push)?;
        let written = layout.import(folder.path(), &name)?;
        let sbom = sbom::cyclonedx(metadata, &plugin.package())?;
        add_referrer(layout, &written, SBOM, &sbom, source)?;
        let provenance = Provenance {
            task,
            target: None,
            source,
        };
        let subject = Subject::new(&format!("{registry}/{repository}"), &written.digest);
        let statement = provenance.statement(&[subject])?;
        add_referrer(layout, &written, provenance::MEDIA_TYPE, &statement, source)?;
        Ok(written)
    }
}
