//! The CustomResourceDefinitions, built from the types and the table of rules.
//!
//! Out: definitions as values and as YAML, the same bytes every time. What the derived schema says
//! only because of Rust (null, defaults of empty lists) is taken out; what it cannot say (rules,
//! list keys) is put in. Small enough for `kubectl apply` without `--server-side`.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use serde_json::{Map, Value, json};

use crate::rules::{Expression, Rule, rules};
use crate::schema_plugin::SchemaPlugin;
use crate::webhook::{CONVERSION_PATH, Webhook};
use crate::{v1alpha1, v1alpha2};

/// Name of the definition of `LlamaStackDistribution`.
pub const DISTRIBUTION_CRD_NAME: &str = "llamastackdistributions.llamastack.io";

/// The definition of `LlamaStackDistribution`: v1alpha1 served, v1alpha2 served and stored.
///
/// Without a webhook the two versions would show different things of one resource, so leave it out
/// only where it is added afterwards.
pub fn distribution_crd(conversion: Option<&Webhook>) -> CustomResourceDefinition {
    typed(distribution(conversion))
}

/// The definition of `SchemaPlugin`.
pub fn schema_plugin_crd() -> CustomResourceDefinition {
    typed(schema_plugin())
}

/// A generated file: its name below `deploy/kustomize/crd`, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its name.
    pub file: &'static str,
    /// Its text.
    pub yaml: String,
}

/// Both definitions as YAML, as `kubectl apply` takes them.
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

/// YAML of a JSON value, in the order of its keys.
pub(crate) fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("JSON is YAML")
}

/// The structural schema of v1alpha2, as the API server will hold it.
pub(crate) static V1ALPHA2_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let crd = v1alpha2::Distribution::crd();
    let mut crd = serde_json::to_value(crd).expect("definitions are JSON");
    let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    finish_v1alpha2(&mut schema);
    schema
});

fn typed(crd: Value) -> CustomResourceDefinition {
    serde_json::from_value(crd).expect("it was made from one")
}

fn distribution(conversion: Option<&Webhook>) -> Value {
    let versions = vec![v1alpha2::Distribution::crd(), v1alpha1::Distribution::crd()];
    let crd = merge_crds(versions, "v1alpha2").expect("both versions are of one kind");
    let mut crd = serde_json::to_value(crd).expect("definitions are JSON");
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let is_current = version["name"] == "v1alpha2";
        let schema = &mut version["schema"]["openAPIV3Schema"];
        if is_current {
            finish_v1alpha2(schema);
        } else {
            tidy(schema);
            add_v1alpha1_rules(schema);
        }
    }
    if let Some(webhook) = conversion {
        crd["spec"]["conversion"] = conversion_stanza(webhook);
    }
    crd
}

fn finish_v1alpha2(schema: &mut Value) {
    tidy(schema);
    remove_defaults(schema);
    add_list_types(schema);
    rules().for_each(|rule| add_rule(schema, rule));
}

fn schema_plugin() -> Value {
    let mut crd = serde_json::to_value(SchemaPlugin::crd()).expect("definitions are JSON");
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    tidy(schema);
    remove_defaults(schema);
    let spec = &mut schema["properties"]["spec"];
    spec["x-kubernetes-validations"] = json!([{
        "rule": "has(self.reference) != has(self.proposalPrefix)",
        "message": "must have either reference or proposalPrefix; name one plugin, or a prefix that images may propose plugins from",
    }]);
    spec["properties"]["verify"]["x-kubernetes-validations"] = json!([
        {
            "rule": "self.level == 'skip' || (has(self.keys) && self.keys.size() > 0)",
            "message": "is missing, and signatures cannot be checked without keys; add public keys, or write level: skip",
            "fieldPath": ".keys",
        },
        {
            "rule": "!has(self.threshold) || !has(self.keys) || self.threshold <= self.keys.size()",
            "message": "is more than there are keys; lower it, or add keys",
            "fieldPath": ".threshold",
        },
    ]);
    crd
}

fn conversion_stanza(webhook: &Webhook) -> Value {
    let client = webhook.client_config(CONVERSION_PATH);
    json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client } })
}

/// Takes out what Rust says and the API does not mean.
///
/// An optional field says `nullable`; with it, `has(self.a)` is true of `a: null`, and a rule about
/// absence fails. Bounds come as `1.0`, which is `1`.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("nullable") == Some(&Value::Bool(true)) {
                map.shift_remove("nullable");
            }
            if map.get("title").is_some_and(Value::is_string) {
                map.shift_remove("title");
            }
            for bound in ["minimum", "maximum"] {
                if let Some(whole) = map
                    .get(bound)
                    .and_then(Value::as_f64)
                    .filter(|bound| bound.fract() == 0.0)
                {
                    map.insert(bound.to_owned(), json!(whole as i64));
                }
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// The server fills in no defaults: an absent field stays absent, so that it can follow the
/// operator's default, and so that versions convert without loss.
fn remove_defaults(schema: &mut Value) {
    match schema {
        // Below `properties` the keys are names of fields, and one may be called `default`.
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
    for place in at {
        let node = place
            .split('.')
            .fold(&mut *schema, |node, field| &mut node["properties"][field]);
        match &mut node["x-kubernetes-validations"] {
            Value::Array(validations) => validations.push(validation.clone()),
            empty => *empty = json!([validation]),
        }
    }
}

/// The one rule that v1alpha1 always had, and a signpost for a form that was planned for it and
/// never came.
fn add_v1alpha1_rules(schema: &mut Value) {
    let server = &mut schema["properties"]["spec"]["properties"]["server"];
    server["properties"]["distribution"]["x-kubernetes-validations"] = json!([{
        "rule": "!(has(self.name) && has(self.image))",
        "message": "Only one of name or image can be specified",
    }]);
    server["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.providers) && !has(self.resources)",
        "message": "providers and resources are no fields of v1alpha1; write spec.providers and spec.resources in a llamastack.io/v1alpha2 resource",
    }]);
}

#[cfg(test)]
mod tests;
