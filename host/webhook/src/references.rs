//! Checks whether the Secrets and ConfigMaps that a resource refers to exist.
//!
//! A missing object is only a warning, because manifests may be applied in any order. The check uses the
//! watches and sends no request, because requests during admission would add load to a busy API server.

use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource};
use llsd_api::{Diagnostic, FieldPath};
use llsd_render::objects::Kind;

/// The objects that the watches of this process know.
pub trait ObjectIndex: Send + Sync {
    /// Whether an object exists; `None` if objects of this kind or namespace are not watched.
    fn exists(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool>;
}

/// A reference to an object in the namespace of the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObjectReference {
    kind: Kind,
    name: String,
    field: FieldPath,
}

/// Warnings for the referenced objects that do not exist.
pub(crate) fn missing_references(
    objects: &dyn ObjectIndex,
    namespace: &str,
    checked: &Checked,
) -> Vec<Diagnostic> {
    let mut missing = references(checked);
    missing.retain(|reference| {
        objects.exists(reference.kind, namespace, &reference.name) == Some(false)
    });
    let warnings = missing
        .into_iter()
        .map(|reference| reference.warning(namespace));
    warnings.collect()
}

/// The objects that the resource refers to, without duplicates.
fn references(checked: &Checked) -> Vec<ObjectReference> {
    let field = |path: &[&str]| FieldPath::spec().at(path);
    let secret = |name: &str, field| ObjectReference {
        kind: Kind::Secret,
        name: name.to_owned(),
        field,
    };
    let config_map = |name: &str, field| ObjectReference {
        kind: Kind::ConfigMap,
        name: name.to_owned(),
        field,
    };
    let mut references: Vec<ObjectReference> = checked
        .references()
        .into_iter()
        .map(|reference| secret(&reference.secret, reference.path.clone()))
        .collect();
    let of_overrides = checked.workload.override_references().into_iter();
    references.extend(of_overrides.map(|one| secret(&one.secret, one.path)));
    let files = checked.secret_files().map(|one| &one.reference);
    references.extend(files.map(|one| secret(&one.secret, one.path.clone())));
    match &checked.config_source {
        ConfigSource::Override {
            config_map: name,
            namespace: None,
        } => references.push(config_map(
            name,
            field(&["overrideConfig", "configMapName"]),
        )),
        ConfigSource::Generated {
            base: Some(BaseConfigMap { name, .. }),
        } => references.push(config_map(
            name,
            field(&["distribution", "baseConfig", "configMapName"]),
        )),
        _ => {}
    }
    let networking = &checked.networking;
    if let Some(name) = &networking.tls_secret {
        references.push(secret(name, field(&["networking", "tls", "secretName"])));
    }
    let exposed = networking.expose.as_ref();
    if let Some(name) = exposed.and_then(|expose| expose.tls_secret_name.as_ref()) {
        let field = field(&["networking", "expose", "tlsSecretName"]);
        references.push(secret(name, field));
    }
    if let Some(bundle) = &networking.ca_bundle
        && bundle
            .config_map_namespace
            .as_deref()
            .unwrap_or_default()
            .is_empty()
    {
        let field = field(&["networking", "tls", "caBundle", "configMapName"]);
        references.push(config_map(&bundle.config_map_name, field));
    }
    let mut unique: Vec<ObjectReference> = Vec::new();
    for reference in references {
        let is_same = |other: &ObjectReference| {
            (other.kind, &other.name) == (reference.kind, &reference.name)
        };
        if !unique.iter().any(is_same) {
            unique.push(reference);
        }
    }
    unique
}

impl ObjectReference {
    fn warning(self, namespace: &str) -> Diagnostic {
        let Self { kind, name, field } = self;
        Diagnostic::warning(
            field,
            format!("{kind:?} {name:?} not found in namespace {namespace:?}"),
            "create it or correct the name; the operator changes nothing until then",
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
        let line = |one: &ObjectReference| format!("{:?} {} at {}", one.kind, one.name, one.field);
        references(&checked(spec)).iter().map(line).collect()
    }

    impl<F: Fn(Kind, &str) -> Option<bool> + Send + Sync> ObjectIndex for F {
        fn exists(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool> {
            assert_eq!(namespace, "n");
            self(kind, name)
        }
    }

    #[test]
    fn only_objects_that_are_known_to_be_missing_give_a_warning() {
        let known = |kind, _: &str| (kind == Kind::ConfigMap).then_some(false);
        let checked = checked(json!({
            "distribution": {"name": "starter"},
            "networking": {"tls": {"enabled": true, "secretName": "tls", "caBundle": {"configMapName": "ca"}}},
        }));
        let problems = |objects: &dyn ObjectIndex| {
            let warnings = missing_references(objects, "n", &checked).into_iter();
            warnings.map(|one| one.problem).collect::<Vec<_>>()
        };
        assert_eq!(
            problems(&known),
            ["ConfigMap \"ca\" not found in namespace \"n\""]
        );
        assert_eq!(problems(&|_, _: &str| Some(true)), [""; 0]);
    }

    #[test]
    fn every_object_in_the_namespace_is_checked_once() {
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
    fn secrets_of_variables_and_of_the_ingress_are_checked_unless_they_are_optional() {
        let variable = |name: &str, optional: bool| {
            let source = json!({"name": name, "key": "k", "optional": optional});
            json!({"name": name.to_uppercase(), "valueFrom": {"secretKeyRef": source}})
        };
        assert_eq!(
            named(json!({
                "distribution": {"name": "starter"},
                "networking": {"expose": {"hostname": "a.example.com", "tlsSecretName": "ingress"}},
                "workload": {"overrides": {"env": [variable("a", false), variable("b", true)]}},
            })),
            [
                "Secret a at spec.workload.overrides.env[0].valueFrom.secretKeyRef",
                "Secret ingress at spec.networking.expose.tlsSecretName",
            ]
        );
    }

    #[test]
    fn objects_in_other_namespaces_are_not_checked() {
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
