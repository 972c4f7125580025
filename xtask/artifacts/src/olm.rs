//! The bundle with which the Operator Lifecycle Manager (OLM) installs the operator.
//!
//! In: the manifests in `deploy/kustomize`, the description of the chart, and the image of the operator.
//! Out: the files of the bundle. OLM creates the ServiceAccount, the roles and the webhooks from the
//! ClusterServiceVersion, and gives the operator the certificate of the webhooks as files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use data_encoding::BASE64;
use llsd_oci_layout::{Compression, Descriptor, ImageConfig, ImageLayout, Platform};
use serde_json::{Value, json};

use xtask::shell;

use crate::image::source::{self, Source};

/// The folder of the bundle in the checkout.
pub const FOLDER: &str = "deploy/olm";
/// The name of the package in a catalogue.
const PACKAGE: &str = "llsd";
/// What is installed by default. Nothing is stable before 1.0.
const CHANNEL: &str = "candidate";
/// The folder of the certificate in each container of the Deployment.
const CERTIFICATE: &str = "/tmp/k8s-webhook-server/serving-certs";
const BUNDLE: &str = "operators.operatorframework.io.bundle";

/// Path below [`FOLDER`] and content of each file, with this image of the operator. A source in `generated` is
/// read from there, because the file may be out of date.
pub fn files(
    image: &str,
    generated: &BTreeMap<PathBuf, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let sources = Sources::read(generated)?;
    let mut files = BTreeMap::new();
    let mut add = |path: String, object: &Value| {
        let yaml = serde_saphyr::to_string(object)?;
        files.insert(path, format!("{}\n", yaml.trim_end()));
        anyhow::Ok(())
    };
    let version = sources.chart["version"].as_str().unwrap_or_default();
    add(
        format!("manifests/{PACKAGE}.clusterserviceversion.yaml"),
        &sources.service_version(version, image)?,
    )?;
    for definition in &sources.definitions {
        let name = text(&definition["metadata"]["name"]);
        add(format!("manifests/{name}.crd.yaml"), definition)?;
    }
    for object in &sources.objects {
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        add(
            format!("manifests/{name}.{}.yaml", kind.to_lowercase()),
            object,
        )?;
    }
    add(
        "metadata/annotations.yaml".to_owned(),
        &json!({ "annotations": annotations() }),
    )?;
    Ok(files)
}

/// Writes the image of the bundle.
pub fn write(
    layout: &mut ImageLayout,
    name: &str,
    operator: &str,
    source: &Source,
) -> anyhow::Result<Descriptor> {
    let files = files(operator, &BTreeMap::new())?;
    let layer = layout.layer(Compression::Gzip, |layer| {
        files
            .iter()
            .try_for_each(|(path, content)| layer.file(path, content.as_bytes(), 0o644))
    })?;
    // It has no program, so one image is for every platform.
    let platforms = ["x86_64", "aarch64"].map(Platform::of_rust);
    let mut config = ImageConfig::new(platforms[0].clone(), &[]);
    config.labels = annotations();
    config.created = Some(source.created());
    let image = layout.image_manifest(&config, &[layer])?;
    let images = platforms.map(|platform| (platform, image.clone()));
    layout.image_index(name, &images, &annotations())
}

/// What a catalogue reads first, from a file and from the labels of the image.
fn annotations() -> BTreeMap<String, String> {
    [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", PACKAGE),
        ("channels.v1", CHANNEL),
        ("channel.default.v1", CHANNEL),
    ]
    .map(|(key, value)| (format!("{BUNDLE}.{key}"), value.to_owned()))
    .into()
}

/// What the bundle is made from.
struct Sources {
    chart: Value,
    definitions: Vec<Value>,
    deployment: Value,
    webhook: Value,
    /// The rules in all namespaces.
    cluster_rules: Vec<Value>,
    /// The rules in the operator's own namespace.
    own_rules: Vec<Value>,
    /// Objects that OLM installs unchanged.
    objects: Vec<Value>,
    description: String,
    icon: Vec<u8>,
    /// A resource in the older version of the API.
    old_example: Value,
}

impl Sources {
    fn read(generated: &BTreeMap<PathBuf, String>) -> anyhow::Result<Self> {
        let roles = |file: &str, kind: &str| -> anyhow::Result<Vec<Value>> {
            let all = documents(&format!("deploy/kustomize/rbac/{file}.yaml"))?;
            Ok(all.into_iter().filter(|one| one["kind"] == kind).collect())
        };
        let rules = |roles: &[Value]| -> Vec<Value> {
            let rules = roles.iter().filter_map(|role| role["rules"].as_array());
            rules.flatten().cloned().collect()
        };
        let mut cluster = roles("cluster", "ClusterRole")?;
        cluster.extend(roles("resources", "ClusterRole")?);
        let services = documents("deploy/kustomize/operator/services.yaml")?;
        // OLM creates the Service of the webhooks.
        let metrics = services
            .into_iter()
            .filter(|one| one["metadata"]["name"] == "llsd-metrics");
        let mut objects = roles("users", "ClusterRole")?;
        objects.extend(documents(
            "deploy/kustomize/operator/poddisruptionbudget.yaml",
        )?);
        objects.extend(metrics);
        for object in &mut objects {
            // OLM installs into the namespace of the subscription.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("namespace");
            }
        }
        let definition = |name: &str| {
            let path = format!("deploy/kustomize/crd/llamastack.io_{name}.yaml");
            match generated.get(Path::new(&path)) {
                Some(text) => Ok(serde_saphyr::from_str(text)?),
                None => document(&path),
            }
        };
        Ok(Self {
            chart: document("deploy/helm/llsd/Chart.yaml")?,
            definitions: vec![
                definition("llamastackdistributions")?,
                definition("schemaplugins")?,
            ],
            deployment: document("deploy/kustomize/operator/deployment.yaml")?,
            webhook: document("deploy/kustomize/webhook/validatingwebhookconfiguration.yaml")?,
            cluster_rules: rules(&cluster).into_iter().filter_map(under_olm).collect(),
            own_rules: rules(&roles("own-namespace", "Role")?),
            objects,
            description: read(&format!("{FOLDER}/description.md"))?,
            icon: read("host/cli/src/explore/assets/icon.svg")?.into_bytes(),
            old_example: document("samples/v1alpha1/vllm.yaml")?,
        })
    }

    fn service_version(&self, version: &str, image: &str) -> anyhow::Result<Value> {
        let chart = &self.chart;
        let shown = |key: &str| text(&chart["annotations"][format!("artifacthub.io/{key}")]);
        let mut examples: Vec<Value> = serde_saphyr::from_str(shown("crdsExamples"))?;
        examples.push(self.old_example.clone());
        let account = &self.deployment["spec"]["template"]["spec"]["serviceAccountName"];
        let permissions =
            |rules: &[Value]| json!([{ "serviceAccountName": account, "rules": rules }]);
        let home = text(&chart["home"]);
        let kubernetes = text(&chart["kubeVersion"]);
        let oldest = kubernetes.trim_start_matches(">=").trim_end_matches("-0");
        Ok(json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": format!("{PACKAGE}.v{version}"),
                "annotations": {
                    "alm-examples": serde_json::to_string_pretty(&examples)?,
                    "capabilities": shown("operatorCapabilities"),
                    "categories": "AI/Machine Learning",
                    "containerImage": image,
                    "description": chart["description"],
                    "operatorframework.io/suggested-namespace": "llsd-system",
                    "repository": source::URL,
                    "support": "llsd-project",
                },
            },
            "spec": {
                "displayName": "llsd",
                "description": self.description,
                "version": version,
                "minKubeVersion": oldest,
                "maturity": "alpha",
                "keywords": chart["keywords"],
                "links": [{ "name": "Documentation", "url": format!("{home}/tree/main/docs") }],
                "provider": { "name": "llsd-project", "url": home },
                "icon": [{ "base64data": BASE64.encode(&self.icon), "mediatype": "image/svg+xml" }],
                "relatedImages": [{ "name": "operator", "image": image }],
                // The conversion of resources is needed in every namespace.
                "installModes": [
                    { "type": "OwnNamespace", "supported": false },
                    { "type": "SingleNamespace", "supported": false },
                    { "type": "MultiNamespace", "supported": false },
                    { "type": "AllNamespaces", "supported": true },
                ],
                "customresourcedefinitions": { "owned": self.owned(shown("crds"))? },
                "install": {
                    "strategy": "deployment",
                    "spec": {
                        "clusterPermissions": permissions(&self.cluster_rules),
                        "permissions": permissions(&self.own_rules),
                        "deployments": [self.deployment(image)?],
                    },
                },
                "webhookdefinitions": self.webhooks()?,
            },
        }))
    }

    /// Every version of the definitions, as the chart describes them.
    fn owned(&self, shown: &str) -> anyhow::Result<Vec<Value>> {
        let shown: Vec<Value> = serde_saphyr::from_str(shown)?;
        let mut owned = Vec::new();
        for definition in &self.definitions {
            let name = &definition["metadata"]["name"];
            let shown = shown.iter().find(|one| one["name"] == *name);
            let shown = shown.with_context(|| format!("Chart.yaml does not describe {name}"))?;
            let versions = definition["spec"]["versions"].as_array();
            for version in versions.into_iter().flatten() {
                owned.push(json!({
                    "name": name,
                    "kind": shown["kind"],
                    "version": version["name"],
                    "displayName": shown["displayName"],
                    "description": shown["description"],
                }));
            }
        }
        Ok(owned)
    }

    /// The Deployment with the image, and with the certificate of OLM.
    fn deployment(&self, image: &str) -> anyhow::Result<Value> {
        let mut spec = self.deployment["spec"].clone();
        let container = &mut spec["template"]["spec"]["containers"][0];
        container["image"] = json!(image);
        let arguments = container["args"].as_array_mut();
        let arguments = arguments.context("the operator's container has no arguments")?;
        arguments.push(json!(format!("--webhook-cert-dir={CERTIFICATE}")));
        Ok(json!({
            "name": self.deployment["metadata"]["name"],
            "label": self.deployment["metadata"]["labels"],
            "spec": spec,
        }))
    }

    /// The webhooks, which OLM gives a Service and a certificate.
    fn webhooks(&self) -> anyhow::Result<Vec<Value>> {
        let admission = &self.webhook["webhooks"][0];
        let path = &admission["clientConfig"]["service"]["path"];
        let definition = &self.definitions[0]["metadata"]["name"];
        let port = |name: &str| -> anyhow::Result<Value> {
            let ports = &self.deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
            let mut ports = ports.as_array().into_iter().flatten();
            let port = ports.find(|port| port["name"] == name);
            let port = port.with_context(|| format!("the operator has no port {name}"))?;
            Ok(port["containerPort"].clone())
        };
        let common = |kind: &str, name: String, path: &Value| -> anyhow::Result<Value> {
            Ok(json!({
                "type": kind,
                "generateName": name,
                "deploymentName": self.deployment["metadata"]["name"],
                "containerPort": 443,
                "targetPort": port("webhook")?,
                "webhookPath": path,
                "admissionReviewVersions": admission["admissionReviewVersions"],
                "sideEffects": admission["sideEffects"],
            }))
        };
        let name = text(&admission["name"]);
        let mut validating = common("ValidatingAdmissionWebhook", name.to_owned(), path)?;
        for key in ["failurePolicy", "matchPolicy", "timeoutSeconds", "rules"] {
            validating[key] = admission[key].clone();
        }
        let name = format!("convert.{name}");
        let mut conversion = common("ConversionWebhook", name, &json!("/convert"))?;
        conversion["conversionCRDs"] = json!([definition]);
        Ok(vec![validating, conversion])
    }
}

/// A rule as the operator needs it under OLM, which publishes the certificate of the webhooks.
fn under_olm(mut rule: Value) -> Option<Value> {
    let resource = rule["resources"][0].clone();
    if resource == "validatingwebhookconfigurations" {
        return None;
    }
    if resource == "customresourcedefinitions" {
        let verbs = rule["verbs"].as_array_mut()?;
        verbs.retain(|verb| verb != "patch");
    }
    Some(rule)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(shell::root().join(path))
        .with_context(|| format!("failed to read {path}"))
}

fn documents(path: &str) -> anyhow::Result<Vec<Value>> {
    serde_saphyr::from_multiple(&read(path)?)
        .map_err(|error| anyhow::anyhow!("{path} is not valid YAML: {error}"))
}

fn document(path: &str) -> anyhow::Result<Value> {
    let first = documents(path)?.into_iter().next();
    first.with_context(|| format!("{path} is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_names_the_image_and_serves_webhooks_with_the_certificate_of_olm() {
        let image = "registry.test/llsd@sha256:12";
        let files = files(image, &BTreeMap::new()).unwrap();
        let csv = &files["manifests/llsd.clusterserviceversion.yaml"];
        let csv: Value = serde_saphyr::from_str(csv).unwrap();
        let deployment = &csv["spec"]["install"]["spec"]["deployments"][0];
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image);
        assert_eq!(csv["spec"]["relatedImages"][0]["image"], image);
        let arguments = container["args"].to_string();
        assert!(arguments.contains("--webhook-cert-dir="), "{arguments}");
        let webhooks = &csv["spec"]["webhookdefinitions"];
        assert_eq!(webhooks[0]["webhookPath"], "/validate");
        assert_eq!(webhooks[1]["targetPort"], 9443);
        assert!(
            files.values().all(|text| !text.contains("llsd-system\n")
                || text.contains("suggested-namespace")),
            "OLM decides the namespace"
        );
    }
}
