//! Whether the Secrets and ConfigMaps that a resource names are there, and the base in one of them.
//!
//! Only ever warnings: a set of files may be applied in any order. Of Secrets nothing but metadata is
//! asked for.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::Api;
use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource};
use llsd_api::{FieldPath, Notice};

/// Warnings are worth no longer wait.
const PATIENCE: Duration = Duration::from_secs(3);

/// An object of the resource's namespace, and where the resource names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    kind: Kind,
    name: String,
    field: FieldPath,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Secret,
    ConfigMap,
}

/// Looks for everything at once. What cannot be asked in time is taken to be there.
pub(crate) async fn survey(client: &Client, namespace: &str, checked: &Checked) -> Vec<Notice> {
    let named = names(checked);
    let ask = join_all(named.iter().map(|one| look(client, namespace, one)));
    let answers = tokio::time::timeout(PATIENCE, ask).await;
    answers.unwrap_or_default().into_iter().flatten().collect()
}

/// Every object that the resource names, each once.
fn names(checked: &Checked) -> Vec<Named> {
    let field = |path: &[&str]| FieldPath::spec().at(path);
    let secret = |name: &str, field| Named {
        kind: Kind::Secret,
        name: name.to_owned(),
        field,
    };
    let config_map = |name: &str, field| Named {
        kind: Kind::ConfigMap,
        name: name.to_owned(),
        field,
    };
    let mut named: Vec<Named> = checked
        .references()
        .into_iter()
        .map(|one| secret(&one.secret, one.path.clone()))
        .collect();
    match &checked.config_source {
        ConfigSource::Override {
            config_map: name,
            namespace: None,
        } => named.push(config_map(
            name,
            field(&["overrideConfig", "configMapName"]),
        )),
        ConfigSource::Generated {
            base: Some(BaseConfigMap { name, .. }),
        } => named.push(config_map(
            name,
            field(&["distribution", "baseConfig", "configMapName"]),
        )),
        _ => {}
    }
    let networking = &checked.networking;
    if let Some(name) = &networking.tls_secret {
        named.push(secret(name, field(&["networking", "tls", "secretName"])));
    }
    if let Some(bundle) = &networking.ca_bundle
        && bundle
            .config_map_namespace
            .as_deref()
            .unwrap_or_default()
            .is_empty()
    {
        let field = field(&["networking", "tls", "caBundle", "configMapName"]);
        named.push(config_map(&bundle.config_map_name, field));
    }
    let mut once: Vec<Named> = Vec::new();
    for one in named {
        if !once
            .iter()
            .any(|known| (known.kind, &known.name) == (one.kind, &one.name))
        {
            once.push(one);
        }
    }
    once
}

async fn look(client: &Client, namespace: &str, named: &Named) -> Option<Notice> {
    let Named { kind, name, field } = named;
    let is_there = match kind {
        Kind::Secret => {
            let api = Api::<Secret>::namespaced(client.clone(), namespace);
            api.get_metadata_opt(name)
                .await
                .map(|found| found.is_some())
        }
        Kind::ConfigMap => {
            let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
            api.get_metadata_opt(name)
                .await
                .map(|found| found.is_some())
        }
    };
    // Whoever may not look cannot say that it is missing.
    if is_there.unwrap_or(true) {
        return None;
    }
    Some(Notice {
        field: field.clone(),
        problem: format!("namespace {namespace:?} has no {kind:?} {name:?} yet"),
        fix: "create it, or correct the name; until then nothing changes".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named(spec: Value) -> Vec<String> {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "a"}, "spec": spec,
        });
        let checked = llsd_api::review(document).result.unwrap();
        let line = |one: &Named| format!("{:?} {} at {}", one.kind, one.name, one.field);
        names(&checked).iter().map(line).collect()
    }

    #[test]
    fn every_object_of_the_namespace_is_looked_for_once() {
        let reference = json!({"name": "creds", "key": "k"});
        assert_eq!(
            named(json!({
                "distribution": {"name": "starter", "baseConfig": {"configMapName": "base"}},
                "providers": {"inference": {"provider": "vllm", "apiKey": reference}},
                "storage": {"kv": {"type": "redis", "endpoint": "r:1", "password": reference}},
                "networking": {"tls": {"secretName": "tls", "caBundle": {"configMapName": "ca"}}},
            })),
            [
                "Secret creds at spec.providers.inference.apiKey",
                "ConfigMap base at spec.distribution.baseConfig.configMapName",
                "Secret tls at spec.networking.tls.secretName",
                "ConfigMap ca at spec.networking.tls.caBundle.configMapName",
            ]
        );
    }

    #[test]
    fn objects_of_other_namespaces_are_left_alone() {
        let elsewhere = json!({"configMapName": "a", "configMapNamespace": "b"});
        assert_eq!(
            named(json!({
                "distribution": {"name": "starter"},
                "overrideConfig": elsewhere,
                "networking": {"tls": {"caBundle": elsewhere}},
            })),
            [""; 0]
        );
    }
}
