//! Documents about a published plugin: in-toto statements and an SBOM.
//!
//! They are attached without a signature, for readers. Whoever must rely on them demands them as
//! attestations, which the vendor makes from the same predicates with `cosign attest`.

use std::path::Path;

use anyhow::Context;
use llsd_conformance::Report;
use llsd_registry::{Attachment, Digest};
use llsd_render::ENGINE;
use serde_json::{Value, json};

use crate::files;

const STATEMENT: &str = "application/vnd.in-toto+json";
const SBOM: &str = "application/vnd.cyclonedx+json";
const CONFORMANCE: &str = "https://llamastack.io/attestations/conformance/v1";
const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// How a component is built, as the provenance names it.
const BUILD_TYPE: &str = "https://llamastack.io/builds/plugin/v1";

/// What is said about a plugin.
pub(super) struct Documents<'a> {
    pub(super) report: &'a Report,
    /// Where the source is.
    pub(super) source: Option<&'a str>,
    /// Who built the component.
    pub(super) builder: Option<&'a str>,
    pub(super) sbom: Option<Vec<u8>>,
}

impl Documents<'_> {
    /// The documents, about the manifest `digest` in the repository `name`.
    pub(super) fn attachments(
        &self,
        name: &str,
        digest: &Digest,
    ) -> anyhow::Result<Vec<Attachment>> {
        let mut all = Vec::new();
        for (_, predicate_type, predicate) in self.predicates() {
            let statement = json!({
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [{ "name": name, "digest": { "sha256": digest.hex() } }],
                "predicateType": predicate_type,
                "predicate": predicate,
            });
            all.push(Attachment {
                media_type: STATEMENT.to_owned(),
                content: serde_json::to_vec(&statement)?,
            });
        }
        all.extend(self.sbom.clone().map(|content| Attachment {
            media_type: SBOM.to_owned(),
            content,
        }));
        Ok(all)
    }

    /// Writes `conformance.json` and, if the source is known, `provenance.json`.
    pub(super) fn write_predicates(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("failed to create {}", folder.display()))?;
        for (name, _, predicate) in self.predicates() {
            let file = folder.join(format!("{name}.json"));
            files::write(&file, serde_json::to_vec_pretty(&predicate)?)?;
        }
        Ok(())
    }

    /// Name, type and content of each predicate.
    fn predicates(&self) -> Vec<(&'static str, &'static str, Value)> {
        let conformance = json!({
            "suite": ENGINE,
            "passed": self.report.passed(),
            "report": self.report,
        });
        let mut all = vec![("conformance", CONFORMANCE, conformance)];
        all.extend(
            self.source
                .map(|source| ("provenance", PROVENANCE, self.provenance(source))),
        );
        all
    }

    fn provenance(&self, source: &str) -> Value {
        let commit = source.rsplit_once('@').map(|(_, commit)| commit);
        let commit = commit.map(|commit| json!({ "gitCommit": commit }));
        let sbom = self.sbom.as_ref().map(|content| {
            let digest = Digest::of(content);
            json!({ "name": "sbom", "digest": { "sha256": digest.hex() } })
        });
        json!({
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": { "source": source },
                "resolvedDependencies": [{ "uri": source, "digest": commit.unwrap_or(json!({})) }],
            },
            "runDetails": {
                "builder": { "id": self.builder.unwrap_or_default() },
                "byproducts": Vec::from_iter(sbom),
            },
        })
    }
}
