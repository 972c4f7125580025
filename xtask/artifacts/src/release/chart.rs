//! The Helm chart as an OCI artifact, as `helm push` writes it.
//!
//! `helm package` is not used, because its archives contain the time.

use std::collections::BTreeMap;

use anyhow::ensure;
use llsd_oci_layout::{Artifact, Descriptor, ImageLayout};
use serde_json::Value;

use xtask::shell;

use super::{annotations, read};
use crate::image::REPOSITORY;
use crate::image::source::Source;
use crate::package::add_folder;
use crate::package::archive::{self, Entry};

const FOLDER: &str = "deploy/helm/llsd";
const CONFIG_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// The archive of the chart, whose image is `repository`@`digest`.
pub fn archive(repository: &str, digest: &str) -> anyhow::Result<Vec<u8>> {
    let mut entries = BTreeMap::new();
    add_folder(&mut entries, &shell::root().join(FOLDER), "llsd")?;
    entries.insert(
        "llsd/LICENSE".to_owned(),
        Entry::file(read("LICENSE")?.as_bytes()),
    );
    let values = with_image(&read(format!("{FOLDER}/values.yaml"))?, repository, digest)?;
    entries.insert(
        "llsd/values.yaml".to_owned(),
        Entry::file(values.as_bytes()),
    );
    archive::write(&entries)
}

/// The default values with the image in another repository, pinned by its digest.
fn with_image(values: &str, repository: &str, digest: &str) -> anyhow::Result<String> {
    let mut changed = values.to_owned();
    for (present, wanted) in [
        (
            format!("  repository: {REPOSITORY}\n"),
            format!("  repository: {repository}\n"),
        ),
        (
            "  digest: \"\"\n".to_owned(),
            format!("  digest: {digest}\n"),
        ),
    ] {
        ensure!(
            values.matches(&present).count() == 1,
            "{FOLDER}/values.yaml must contain the line {present:?} once"
        );
        changed = changed.replace(&present, &wanted);
    }
    Ok(changed)
}

/// Writes the artifact of the chart.
pub fn write(
    layout: &mut ImageLayout,
    name: &str,
    archive: &[u8],
    source: &Source,
) -> anyhow::Result<Descriptor> {
    let chart: Value = serde_saphyr::from_str(&read(format!("{FOLDER}/Chart.yaml"))?)?;
    let text = |key: &str| chart[key].as_str().unwrap_or_default();
    let annotations = annotations(
        source,
        &[
            ("title", text("name")),
            ("version", text("version")),
            ("description", text("description")),
            ("url", text("home")),
        ],
    );
    let config = chart.to_string();
    let artifact = Artifact {
        config_type: CONFIG_TYPE,
        config: config.as_bytes(),
        content_type: CONTENT_TYPE,
        content: archive,
        annotations,
    };
    layout.artifact(name, &artifact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_refers_to_the_image_of_the_release_by_digest() {
        let values = read(format!("{FOLDER}/values.yaml")).unwrap();
        let changed = with_image(&values, "registry.test/a/llsd", "sha256:12").unwrap();
        let changed: Value = serde_saphyr::from_str(&changed).unwrap();
        assert_eq!(changed["image"]["repository"], "registry.test/a/llsd");
        assert_eq!(changed["image"]["digest"], "sha256:12");
        assert!(with_image("image: {}\n", "registry.test/a", "sha256:12").is_err());
    }

    #[test]
    fn artifact_hub_shows_the_definitions_and_the_samples() {
        let yaml = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        let file = |path: &str| yaml(&read(path).unwrap());
        let chart = file(&format!("{FOLDER}/Chart.yaml"));
        let shown = |key: &str| {
            let text = chart["annotations"][format!("artifacthub.io/{key}")].as_str();
            yaml(text.unwrap_or_else(|| panic!("no annotation {key}")))
        };
        let crds = shown("crds");
        let definitions = ["llamastackdistributions", "schemaplugins"];
        assert_eq!(crds.as_array().unwrap().len(), definitions.len());
        for (shown, name) in crds.as_array().unwrap().iter().zip(definitions) {
            let crd = file(&format!("deploy/kustomize/crd/llamastack.io_{name}.yaml"));
            assert_eq!(shown["name"], crd["metadata"]["name"]);
            assert_eq!(shown["kind"], crd["spec"]["names"]["kind"]);
            let versions = crd["spec"]["versions"].as_array().unwrap();
            let stored = versions.iter().find(|one| one["storage"] == true);
            assert_eq!(shown["version"], stored.unwrap()["name"]);
        }
        let samples = ["samples/minimal.yaml", "samples/plugins/keyless.yaml"].map(file);
        assert_eq!(shown("crdsExamples"), Value::from(samples.to_vec()));
        assert_eq!(shown("links")[0]["name"], "Documentation");
    }
}
