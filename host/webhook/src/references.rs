//! Whether the Secrets and ConfigMaps that a resource names are there.
//!
//! Only ever warnings: a set of files may be applied in any order. The API server is not asked: an
//! admission that waits for requests of its own makes a busy API server busier.

use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource};
use llsd_api::{Diagnostic, FieldPath};
use llsd_render::objects::Kind;

/// What the process knows of the cluster without asking.
pub trait Objects: Send + Sync {
    /// Whether an object is there, as far as was heard, or nothing of what nobody watches.
    fn has(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool>;
}

/// An object of the resource's namespace, and where the resource names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    kind: Kind,
    name: String,
    field: FieldPath,
}

/// Warns of what is known to be missing.
pub(crate) fn survey(objects: &dyn Objects, namespace: &str, checked: &Checked) -> Vec<Diagnostic> {
    let mut missing = names(checked);
    missing.retain(|one| objects.has(one.kind, namespace, &one.name) == Some(false));
    let warnings = missing.into_iter().map(|one| one.warning(namespace));
    warnings.collect()
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

impl Named {
    fn warning(self, namespace: &str) -> Diagnostic {
        let Self { kind, name, field } = self;
        Diagnostic::warning(
            field,
            format!("namespace {namespace:?} has no {kind:?} {name:?} yet"),
            "create it, or correct the name; until then nothing changes",
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(spec: Value) -> Checked {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "a"}, "spec": spec,
        });
        llsd_api::check_document(document).result.unwrap()
    }

    fn named(spec: Value) -> Vec<String> {
        let line = |one: &Named| format!("{:?} {} at {}", one.kind, one.name, one.field);
        names(&checked(spec)).iter().map(line).collect()
    }

    impl<F: Fn(Kind, &str) -> Option<bool> + Send + Sync> Objects for F {
        fn has(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool> {
            assert_eq!(namespace, "n");
            self(kind, name)
        }
    }

    #[test]
    fn only_what_is_known_to_be_missing_is_warned_of() {
        let known = |kind, _: &str| (kind == Kind::ConfigMap).then_some(false);
        let checked = checked(json!({
            "distribution": {"name": "starter"},
            "networking": {"tls": {"enabled": true, "secretName": "tls", "caBundle": {"configMapName": "ca"}}},
        }));
        let problems = |objects: &dyn Objects| {
            let warnings = survey(objects, "n", &checked).into_iter();
            warnings.map(|one| one.problem).collect::<Vec<_>>()
        };
        assert_eq!(
            problems(&known),
            ["namespace \"n\" has no ConfigMap \"ca\" yet"]
        );
        assert_eq!(problems(&|_, _: &str| Some(true)), [""; 0]);
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
