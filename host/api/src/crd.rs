//! The CustomResourceDefinitions, generated from the types and the table of rules.
//!
//! The output is deterministic. The derived schemas are post-processed: parts that only describe Rust
//! types (`nullable`, defaults of empty lists) are removed, and CEL rules and list keys are added. The
//! result is small enough for `kubectl apply` without `--server-side`.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use serde_json::{Map, Value, json};

use crate::manifest::{Manifest, yaml};
use crate::rules::{Expression, Rule, rules};
use crate::schema_plugin::SchemaPlugin;
use crate::webhook::{CONVERSION_PATH, Webhook};
use crate::{v1alpha1, v1alpha2};

/// Name of the CustomResourceDefinition of `LlamaStackDistribution`.
pub const DISTRIBUTION_CRD_NAME: &str = "llamastackdistributions.llamastack.io";

/// The CustomResourceDefinition of `LlamaStackDistribution`: v1alpha1 is served, v1alpha2 is served and
/// stored.
///
/// Without a conversion webhook, v1alpha1 and v1alpha2 clients see different resources. Omit it only
/// if it is added later.
pub fn distribution_crd(conversion: Option<&Webhook>) -> CustomResourceDefinition {
    typed(distribution(conversion))
}

/// The CustomResourceDefinition of `SchemaPlugin`.
pub fn schema_plugin_crd() -> CustomResourceDefinition {
    typed(schema_plugin())
}

/// Both CustomResourceDefinitions as YAML, with file names in `deploy/kustomize/crd`.
pub fn crd_manifests(conversion: Option<&Webhook>) -> Vec<Manifest> {
    vec![
        Manifest {
            file: "llamastack.io_llamastackdistributions.yaml",
            yaml: yaml(&distribution(conversion)),
        },
        Manifest {
            file: "llamastack.io_schemaplugins.yaml",
            yaml: yaml(&schema_plugin()),
        },
    ]
}

/// The structural schema of v1alpha2, as the API server stores it.
pub(crate) static V1ALPHA2_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let crd = v1alpha2::Distribution::crd();
    let mut crd = serde_json::to_value(crd).expect("a CustomResourceDefinition serializes to JSON");
    let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    finish_v1alpha2(&mut schema);
    schema
});

/// The structural schema of v1alpha1, as the API server stores it.
pub(crate) static V1ALPHA1_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut crd = distribution(None);
    let versions = crd["spec"]["versions"].as_array_mut().into_iter().flatten();
    versions
        .into_iter()
        .find(|version| version["name"] == "v1alpha1")
        .map(|version| version["schema"]["openAPIV3Schema"].take())
        .unwrap_or_default()
});

fn typed(crd: Value) -> CustomResourceDefinition {
    serde_json::from_value(crd).expect("the JSON was serialized from this type")
}

fn distribution(conversion: Option<&Webhook>) -> Value {
    let versions = vec![v1alpha2::Distribution::crd(), v1alpha1::Distribution::crd()];
    let crd = merge_crds(versions, "v1alpha2").expect("both versions have the same kind");
    let mut crd = serde_json::to_value(crd).expect("a CustomResourceDefinition serializes to JSON");
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let is_current = version["name"] == "v1alpha2";
        let schema = &mut version["schema"]["openAPIV3Schema"];
        if is_current {
            finish_v1alpha2(schema);
        } else {
            remove_rust_artifacts(schema);
            add_v1alpha1_rules(schema);
        }
        // Without a status, kstatus calls a resource current. This one was observed by nobody.
        schema["properties"]["status"]["default"] = json!({ "observedGeneration": -1 });
    }
    keep_on_uninstall(&mut crd);
    if let Some(webhook) = conversion {
        crd["spec"]["conversion"] = webhook_conversion(webhook);
    }
    crd
}

fn finish_v1alpha2(schema: &mut Value) {
    remove_rust_artifacts(schema);
    remove_defaults(schema);
    add_list_types(schema);
    rules().for_each(|rule| add_rule(schema, rule));
}

fn schema_plugin() -> Value {
    let mut crd = serde_json::to_value(SchemaPlugin::crd())
        .expect("a CustomResourceDefinition serializes to JSON");
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    remove_rust_artifacts(schema);
    remove_defaults(schema);
    let spec = &mut schema["properties"]["spec"];
    spec["x-kubernetes-validations"] = json!([{
        "rule": "has(self.reference) != has(self.proposalPrefix)",
        "message": "must have exactly one of reference and proposalPrefix; set reference for one plugin, or proposalPrefix for plugins that images propose",
    }]);
    spec["properties"]["verify"]["x-kubernetes-validations"] = json!([
        {
            "rule": "self.level == 'skip' || (has(self.keys) && self.keys.size() > 0) || (has(self.identities) && self.identities.size() > 0)",
            "message": "is missing, but required to verify signatures; add public keys or identities, or set level: skip",
            "fieldPath": ".keys",
        },
        {
            "rule": "!has(self.threshold) || !(has(self.keys) || has(self.identities)) || self.threshold <= (has(self.keys) ? self.keys.size() : 0) + (has(self.identities) ? self.identities.size() : 0)",
            "message": "is greater than the number of keys and identities; lower it, or add keys or identities",
            "fieldPath": ".threshold",
        },
        {
            "rule": "!has(self.identities) || self.identities.size() == 0 || has(self.trustedRootRef)",
            "message": "is missing, but required to verify identities; name a ConfigMap with a trusted_root.json",
            "fieldPath": ".trustedRootRef",
        },
    ]);
    let identity = &mut spec["properties"]["verify"]["properties"]["identities"]["items"];
    identity["x-kubernetes-validations"] = json!([{
        "rule": "has(self.subject) != has(self.subjectRegExp)",
        "message": "must have exactly one of subject and subjectRegExp; set subject, or subjectRegExp for several subjects",
    }]);
    keep_on_uninstall(&mut crd);
    crd
}

/// Deleting a CustomResourceDefinition deletes every resource, so Helm must not do it when it uninstalls
/// the operator.
fn keep_on_uninstall(crd: &mut Value) {
    crd["metadata"]["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
}

fn webhook_conversion(webhook: &Webhook) -> Value {
    let client = webhook.client_config(CONVERSION_PATH);
    json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client } })
}

/// Removes what the derived schema contains only because of Rust types.
///
/// An `Option` is `nullable`. With that, `has(self.a)` is true for `a: null`, and rules about absent
/// fields fail. Bounds are derived as `1.0` instead of `1`.
fn remove_rust_artifacts(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("nullable") == Some(&Value::Bool(true)) {
                map.shift_remove("nullable");
            }
            if map.get("title").is_some_and(Value::is_string) {
                map.shift_remove("title");
            }
            for bound in ["minimum", "maximum"] {
                if let Some(integer) = map
                    .get(bound)
                    .and_then(Value::as_f64)
                    .filter(|bound| bound.fract() == 0.0)
                {
                    map.insert(bound.to_owned(), json!(integer as i64));
                }
            }
            map.values_mut().for_each(remove_rust_artifacts);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_rust_artifacts),
        _ => {}
    }
}

/// Removes defaults, so that the API server does not set them. An absent field stays absent: it follows
/// the default of the operator, and conversion stays lossless.
fn remove_defaults(schema: &mut Value) {
    match schema {
        // Below `properties` the keys are field names, and a field may be called `default`.
        Value::Object(map) => {
            if map
                .get("default")
                .is_none_or(|default| default.get("type").is_none())
            {
                map.shift_remove("default");
            }
            map.values_mut().for_each(remove_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_defaults),
        _ => {}
    }
}

fn add_list_types(schema: &mut Value) {
    let spec = &mut schema["properties"]["spec"]["properties"];
    spec["disabled"]["x-kubernetes-list-type"] = json!("set");
    for list in spec["externalProviders"]["properties"]
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut)
    {
        list["x-kubernetes-list-type"] = json!("map");
        list["x-kubernetes-list-map-keys"] = json!(["providerId"]);
    }
}

fn add_rule(schema: &mut Value, rule: &Rule) {
    let Some(Expression::Crd {
        at,
        rule: expression,
        field_path,
    }) = rule.expression
    else {
        return;
    };
    let mut validation =
        json!({ "rule": expression, "message": format!("{}; {}", rule.problem, rule.fix) });
    if let Some(field_path) = field_path {
        validation["fieldPath"] = json!(field_path);
    }
    for path in at {
        let node =
            path.split('.')
                .fold(&mut *schema, |node, field| match field.strip_suffix("[]") {
                    Some(list) => &mut node["properties"][list]["items"],
                    None => &mut node["properties"][field],
                });
        match &mut node["x-kubernetes-validations"] {
            Value::Array(validations) => validations.push(validation.clone()),
            empty => *empty = json!([validation]),
        }
    }
}

/// Adds the rule that v1alpha1 has always had, and a rule that rejects `providers` and `resources`.
/// They were planned for v1alpha1 but never implemented; the message points to v1alpha2.
fn add_v1alpha1_rules(schema: &mut Value) {
    let server = &mut schema["properties"]["spec"]["properties"]["server"];
    server["properties"]["distribution"]["x-kubernetes-validations"] = json!([{
        "rule": "!(has(self.name) && has(self.image))",
        "message": "Only one of name or image can be specified",
    }]);
    server["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.providers) && !has(self.resources)",
        "message": "providers and resources are not fields of v1alpha1; use spec.providers and spec.resources of llamastack.io/v1alpha2",
    }]);
}

#[cfg(test)]
mod tests;
