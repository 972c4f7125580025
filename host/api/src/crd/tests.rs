use super::*;
use crate::webhook::WebhookEndpoint;

/// Calls `visit` with every node of a schema, its path, and whether it is part of a Kubernetes type.
fn walk(schema: &Value, path: &str, external: bool, visit: &mut impl FnMut(&Value, &str, bool)) {
    visit(schema, path, external);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(
            property,
            &format!("{path}.{name}"),
            external || is_external(path, name),
            visit,
        );
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            walk(&schema[below], &format!("{path}.{below}"), external, visit);
        }
    }
}

/// Whether a field has a Kubernetes type, whose bounds are not ours.
fn is_external(path: &str, name: &str) -> bool {
    let workload = [
        "resources",
        "topologySpreadConstraints",
        "env",
        "volumes",
        "volumeMounts",
        "imagePullSecrets",
    ];
    let networking = ["peers", "egress"];
    (path.contains(".workload") && workload.contains(&name))
        || (path.contains(".networking") && networking.contains(&name))
        || name == "conditions"
}

fn schemas() -> Vec<(String, Value)> {
    let crds = [distribution(None), schema_plugin()];
    let versions = crds.iter().flat_map(|crd| {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let versions = crd["spec"]["versions"].as_array().unwrap().clone();
        versions.into_iter().map(move |version| {
            let name = format!("{kind}/{}", version["name"].as_str().unwrap());
            (name, version["schema"]["openAPIV3Schema"].clone())
        })
    });
    versions.collect()
}

#[test]
fn every_node_is_structural() {
    for (name, schema) in schemas() {
        walk(&schema, &name, false, &mut |node, path, _| {
            let untyped = node.get("type").is_none();
            let preserves = node["x-kubernetes-preserve-unknown-fields"] == true
                || node["x-kubernetes-int-or-string"] == true;
            assert!(
                !untyped || preserves,
                "{path} has no type and does not preserve unknown fields"
            );
            assert!(
                node["additionalProperties"] != true,
                "{path} would lose nested fields"
            );
            assert!(node.get("nullable").is_none(), "{path} is nullable");
            assert!(
                node.get("$ref").is_none() && node.get("title").is_none(),
                "{path}"
            );
            if let Some(format) = node["format"].as_str() {
                assert!(
                    ["int32", "int64", "date-time", "double"].contains(&format),
                    "{path} has the format {format}"
                );
            }
            if node["type"] == "object"
                && node.get("properties").is_none()
                && node.get("additionalProperties").is_none()
            {
                assert!(
                    preserves || path.contains("Distribution/v1alpha1"),
                    "{path} would lose its content"
                );
            }
            for combination in ["anyOf", "oneOf", "allOf", "not"] {
                assert!(node.get(combination).is_none(), "{path} combines schemas");
            }
        });
    }
}

#[test]
fn every_field_of_our_types_has_bounds_and_a_description() {
    for (name, schema) in schemas()
        .into_iter()
        .filter(|(name, _)| name != "LlamaStackDistribution/v1alpha1")
    {
        walk(&schema, &name, false, &mut |node, path, external| {
            if node["type"] == "array" {
                assert!(
                    external || node.get("maxItems").is_some(),
                    "{path} has no bound"
                );
            }
            if !external && path.contains(".spec.") {
                if node["type"] == "string" && node.get("enum").is_none() {
                    assert!(node.get("maxLength").is_some(), "{path} has no bound");
                }
                if node["type"] == "integer" {
                    assert!(
                        node.get("minimum").is_some() && node.get("maximum").is_some(),
                        "{path} has no range"
                    );
                }
                let is_field =
                    !path.ends_with(".items") && !path.ends_with(".additionalProperties");
                assert!(
                    !is_field || node.get("description").is_some(),
                    "{path} has no description"
                );
            }
        });
    }
}

#[test]
fn only_the_spec_of_v1alpha1_has_defaults_and_they_are_those_of_upstream() {
    let mut found = Vec::new();
    for (name, schema) in schemas() {
        walk(&schema, &name, false, &mut |node, path, _| {
            if let Some(default) = node.get("default") {
                found.push((path.to_owned(), default.clone()));
            }
        });
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let (of_status, of_spec): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|(path, _)| path.ends_with(".status"));
    let unobserved = json!({"observedGeneration": -1});
    assert_eq!(
        of_status,
        ["v1alpha1", "v1alpha2"].map(|version| {
            let path = format!("LlamaStackDistribution/{version}.status");
            (path, unobserved.clone())
        })
    );
    let prefix = "LlamaStackDistribution/v1alpha1.spec";
    assert_eq!(
        of_spec,
        [
            (format!("{prefix}.network.exposeRoute"), json!(false)),
            (format!("{prefix}.replicas"), json!(1)),
            (
                format!("{prefix}.server.containerSpec.name"),
                json!("llama-stack")
            ),
        ]
    );
}

/// The field paths after `self` in an expression: `a.b` for `self.a.b`.
fn field_paths(expression: &str) -> Vec<Vec<&str>> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let after = expression
        .match_indices("self.")
        .map(|(start, _)| &expression[start + 5..]);
    after
        .map(|rest| {
            rest.split(|c| !is_path(c))
                .next()
                .unwrap()
                .split('.')
                .collect()
        })
        .collect()
}

#[test]
fn rules_use_only_typed_fields() {
    let mut count = 0;
    for (name, schema) in schemas() {
        walk(&schema, &name, false, &mut |node, path, _| {
            for validation in node["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                count += 1;
                let message = validation["message"].as_str().unwrap();
                assert!(!message.contains('\n'), "{message}");
                for names in field_paths(validation["rule"].as_str().unwrap()) {
                    let mut at = node;
                    for field in names
                        .iter()
                        .take_while(|name| !["size", "matches", "startsWith"].contains(*name))
                    {
                        at = &at["properties"][field];
                        let visible =
                            at.get("type").is_some() || at["x-kubernetes-int-or-string"] == true;
                        assert!(visible, "{path}: a rule uses {field}, which has no type");
                    }
                }
                if let Some(field) = validation["fieldPath"].as_str() {
                    let target = field[1..]
                        .split('.')
                        .fold(node, |at, field| &at["properties"][field]);
                    assert!(target.is_object(), "{path}: there is no {field}");
                }
            }
        });
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn the_schema_has_every_field_of_the_specification() {
    let spec = &V1ALPHA2_SCHEMA["properties"]["spec"];
    let fields = [
        "distribution.name",
        "distribution.image",
        "distribution.schema",
        "distribution.baseConfig.configMapName",
        "providers.inference",
        "providers.vectorIo",
        "resources.models",
        "resources.tools",
        "resources.shields",
        "storage.kv.type",
        "storage.kv.endpoint",
        "storage.kv.password",
        "storage.sql.type",
        "storage.sql.connectionString",
        "storage.sql.host",
        "disabled",
        "networking.port",
        "networking.tls.enabled",
        "networking.tls.secretName",
        "networking.tls.caBundle.configMapName",
        "networking.tls.caBundle.configMapKeys",
        "networking.expose",
        "networking.allowedFrom.namespaces",
        "networking.allowedFrom.labels",
        "workload.replicas",
        "workload.workers",
        "workload.resources",
        "workload.autoscaling.minReplicas",
        "workload.autoscaling.targetCPUUtilization",
        "workload.autoscaling.targetCPUUtilizationPercentage",
        "workload.storage.size",
        "workload.storage.mountPath",
        "workload.podDisruptionBudget.minAvailable",
        "workload.topologySpreadConstraints",
        "workload.overrides.serviceAccountName",
        "workload.overrides.env",
        "workload.overrides.command",
        "workload.overrides.args",
        "workload.overrides.volumes",
        "workload.overrides.volumeMounts",
        "externalProviders.inference",
        "overrideConfig.configMapName",
    ];
    for field in fields {
        let node = field
            .split('.')
            .fold(spec, |node, name| &node["properties"][name]);
        assert!(node.is_object(), "there is no spec.{field}");
    }
}

#[test]
fn the_definitions_fit_into_the_last_applied_annotation() {
    for manifest in crd_manifests(None) {
        let crd: Value = serde_saphyr::from_str(&manifest.yaml).unwrap();
        let bytes = serde_json::to_vec(&crd).unwrap().len();
        // `kubectl apply` stores the object in an annotation of at most 256 KiB. Half leaves room to grow.
        assert!(bytes < 262_144 / 2, "{} has {bytes} bytes", manifest.file);
    }
}

#[test]
fn the_definition_has_names_versions_and_conversion() {
    let webhook = Webhook {
        endpoint: WebhookEndpoint::Service {
            namespace: "llsd".into(),
            name: "llsd-webhook".into(),
            port: 443,
        },
        ca_bundle: Some("pem".into()),
    };
    let crd = distribution_crd(Some(&webhook));
    assert_eq!(
        crd.metadata.name.as_deref(),
        Some("llamastackdistributions.llamastack.io")
    );
    assert_eq!(crd.spec.names.short_names, Some(vec!["llsd".to_owned()]));
    assert_eq!(crd.spec.scope, "Namespaced");
    let versions: Vec<_> = crd
        .spec
        .versions
        .iter()
        .map(|v| (v.name.as_str(), v.served, v.storage))
        .collect();
    assert_eq!(
        versions,
        [("v1alpha2", true, true), ("v1alpha1", true, false)]
    );
    assert!(
        crd.spec
            .versions
            .iter()
            .all(|v| v.subresources.as_ref().unwrap().status.is_some())
    );
    let client = crd
        .spec
        .conversion
        .unwrap()
        .webhook
        .unwrap()
        .client_config
        .unwrap();
    assert_eq!(client.service.unwrap().path.as_deref(), Some("/convert"));
    assert_eq!(client.ca_bundle.unwrap().0, b"pem");

    let external = Webhook {
        endpoint: WebhookEndpoint::Url("https://127.0.0.1:1".into()),
        ca_bundle: None,
    };
    let conversion = distribution_crd(Some(&external)).spec.conversion.unwrap();
    assert_eq!(
        conversion
            .webhook
            .unwrap()
            .client_config
            .unwrap()
            .url
            .as_deref(),
        Some("https://127.0.0.1:1/convert")
    );
    assert_eq!(schema_plugin_crd().spec.scope, "Cluster");
}

#[test]
fn columns_and_selectable_fields_of_v1alpha1_are_those_of_upstream() {
    let crd = distribution_crd(None);
    let version = crd
        .spec
        .versions
        .iter()
        .find(|version| version.name == "v1alpha1")
        .unwrap();
    let columns: Vec<_> = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(
        columns,
        [
            "Phase",
            "Operator Version",
            "Server Version",
            "Available",
            "Age"
        ]
    );
    let selectable: Vec<_> = version
        .selectable_fields
        .iter()
        .flatten()
        .map(|field| field.json_path.as_str())
        .collect();
    assert_eq!(
        selectable,
        [
            ".spec.server.userConfig.configMapName",
            ".spec.server.userConfig.configMapNamespace",
            ".spec.server.tlsConfig.caBundle.configMapName",
            ".spec.server.tlsConfig.caBundle.configMapNamespace",
        ]
    );
}

#[test]
fn committed_manifests_are_up_to_date() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kustomize");
    let crds = crd_manifests(None)
        .into_iter()
        .map(|manifest| ("crd", manifest));
    let policy = crate::admission_policy::policy_manifests()
        .into_iter()
        .map(|manifest| ("policy", manifest));
    for (part, manifest) in crds.chain(policy) {
        let path = format!("{directory}/{part}/{}", manifest.file);
        if std::env::var_os("LLSD_GENERATE").is_some() {
            std::fs::create_dir_all(format!("{directory}/{part}")).unwrap();
            std::fs::write(&path, &manifest.yaml).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == manifest.yaml,
            "{path} is out of date; run cargo xtask generate"
        );
    }
}
