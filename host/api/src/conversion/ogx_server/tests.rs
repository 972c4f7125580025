use serde_json::{Value, json};

use super::*;
use crate::check_document;

/// The examples of the reference, and shapes that published resources have.
fn examples() -> Vec<(&'static str, Value)> {
    vec![
        (
            "defaults",
            json!({
                "distribution": {"name": "starter"},
                "workload": {"storage": {"size": "20Gi"}, "overrides": {"env": [{"name": "OLLAMA_URL", "value": "http://ollama.models.svc:11434"}]}},
            }),
        ),
        (
            "override",
            json!({
                "distribution": {"image": "registry.example/ogx:1.3.0"},
                "overrideConfig": {"name": "full-config", "key": "server.yaml"},
                "network": {"port": 9000, "policy": {"enabled": false}},
            }),
        ),
        (
            "providers",
            json!({
                "distribution": {"name": "starter"},
                "providers": {
                    "inference": {
                        "remote": {"vllm": [{"endpoint": "http://vllm:8000/v1", "apiToken": {"name": "vllm", "key": "token"}, "maxTokens": 4096, "network": {"timeout": {"read": 120}, "headers": {"X-Team": "a"}}}]},
                        "inline": {"custom": [{"id": "st", "type": "inline::sentence-transformers", "settings": {"trust_remote_code": false}}]},
                    },
                    "vectorIo": {"remote": {"pgvector": [{"id": "pg", "host": "pg.data.svc", "db": "vec", "user": "app", "password": {"name": "pg", "key": "pw"}, "vectorIndex": {"hnsw": {"m": 16, "efConstruction": 64}}}]}},
                },
                "resources": {"models": [{"name": "llama-3", "contextLength": 8192}]},
            }),
        ),
        (
            "storage",
            json!({
                "distribution": {"name": "postgres-demo"}, "disabledAPIs": ["batches", "tool_runtime"],
                "storage": {"sql": {"type": "postgres", "connectionString": {"name": "db", "key": "url"}}},
                "network": {
                    "externalAccess": {"enabled": true, "hostname": "ogx.example.com"},
                    "policy": {"ingress": [{
                        "from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "web"}}}],
                        "ports": [{"protocol": "TCP", "port": 8321}],
                    }]},
                },
            }),
        ),
        (
            "workload",
            json!({
                "distribution": {"name": "remote-vllm"}, "monitoring": {"enabled": false}, "registryRefreshIntervalSeconds": 60,
                "tls": {"trust": {"caCertificates": [{"name": "ca", "key": "a.crt"}, {"name": "ca", "key": "b.crt"}]}},
                "workload": {
                    "replicas": 2, "workers": 2, "autoscaling": {"maxReplicas": 6, "targetCPUUtilizationPercentage": 70},
                    "podDisruptionBudget": {"maxUnavailable": 1}, "resources": {"claims": [{"name": "gpu"}]},
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                },
            }),
        ),
        (
            "typed",
            json!({
                "distribution": {"image": "registry.example/ogx:1.3.0"},
                "providers": {
                    "inference": {"remote": {
                        "bedrock": [{"region": "us-east-1", "awsAccessKeyId": {"name": "aws", "key": "id"}, "awsSecretAccessKey": {"name": "aws", "key": "secret"}}],
                        "azure": [{"id": "az", "endpoint": "https://a.example.com", "apiKey": {"name": "az", "key": "k"}, "apiVersion": "1"}],
                    }},
                    "toolRuntime": {"remote": {"braveSearch": [{"apiKey": {"name": "b", "key": "k"}, "maxResults": 3}], "modelContextProtocol": [{"id": "mcp"}]}, "inline": {"fileSearch": [{}]}},
                    "files": {"remote": {"s3": {"bucketName": "b", "region": "r", "endpointUrl": "https://s3.example.com", "awsAccessKeyId": {"name": "aws", "key": "id"}}}},
                    "batches": {"inline": {"reference": {"maxConcurrentBatches": 2}}},
                    "responses": {"inline": {"builtin": {"vectorStoresConfig": {"rewriteQueryParams": {"temperature": "0.3"}}}}},
                    "fileProcessors": {"inline": {"pypdf": {"defaultChunkSizeTokens": 800}}},
                },
            }),
        ),
        (
            "lossy",
            json!({
                "distribution": {"name": "starter"}, "praxisMode": {"enabled": true},
                "tls": {"identity": {"cert": {"name": "a", "key": "b"}}, "trust": {"caCertificates": [{"name": "ca", "key": "a"}, {"name": "cb", "key": "b"}]}},
                "monitoring": {"metricsPort": 9999},
                "storage": {"kv": {"type": "redis", "endpoint": "redis:6379", "password": {"name": "r", "key": "p"}}},
                "network": {"tls": {"secretName": "cert"}, "policy": {
                    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 9464}]}],
                    "egress": [{"to": [{"podSelector": {}}]}], "policyTypes": ["Ingress"],
                }},
            }),
        ),
    ]
}

fn server(spec: &Value) -> Value {
    json!({
        "apiVersion": OGX_API_VERSION, "kind": OGX_KIND,
        "metadata": {"name": "chat", "namespace": "ml", "uid": "u", "resourceVersion": "7"}, "spec": spec,
    })
}

fn converted(name: &str) -> Foreign {
    let examples = examples();
    let (_, spec) = examples.iter().find(|(other, _)| *other == name).unwrap();
    from_ogx_server(server(spec)).unwrap()
}

fn fields(warnings: &[Diagnostic]) -> Vec<&str> {
    warnings.iter().map(|one| one.field.as_str()).collect()
}

#[test]
fn every_example_converts_to_a_valid_resource() {
    for (name, spec) in examples() {
        let Foreign { document, .. } = from_ogx_server(server(&spec)).unwrap();
        assert_eq!(document["metadata"]["uid"], Value::Null, "{name}");
        let report = check_document(document.clone());
        assert!(
            report.result.is_ok(),
            "{name}: {:?}\n{document:#}",
            report.result.err()
        );
    }
}

#[test]
fn every_example_survives_a_round_trip() {
    for (name, spec) in examples() {
        let ours = from_ogx_server(server(&spec)).unwrap();
        let back = to_ogx_server(ours.document.clone()).unwrap();
        assert_eq!(back.document["spec"], spec, "{name}");
        assert_eq!(back.warnings, [], "{name}: nothing is lost on the way back");
        let again = from_ogx_server(back.document).unwrap();
        assert_eq!(again.document["spec"], ours.document["spec"], "{name}");
    }
}

#[test]
fn without_the_annotation_only_what_was_reported_changes() {
    for (name, spec) in examples() {
        let Foreign {
            mut document,
            warnings,
        } = from_ogx_server(server(&spec)).unwrap();
        document["metadata"] = json!({"name": "chat"});
        let back = to_ogx_server(document).unwrap().document["spec"].clone();
        for (key, value) in spec.as_object().unwrap() {
            let path = FieldPath::spec().field(key);
            let is_reported = warnings
                .iter()
                .any(|one| path.contains(&one.field) || path == one.field);
            assert!(
                back[key] == *value || is_reported,
                "{name}.{key}: {} became {}",
                value,
                back[key]
            );
        }
    }
}

#[test]
fn an_edit_keeps_what_only_the_origin_could_say() {
    let mut ours = converted("workload").document;
    ours["spec"]["workload"]["replicas"] = json!(3);
    let back = to_ogx_server(ours).unwrap().document;
    assert_eq!(back["spec"]["workload"]["replicas"], 3);
    assert_eq!(back["spec"]["distribution"], json!({"name": "remote-vllm"}));
    assert_eq!(back["spec"]["monitoring"], json!({"enabled": false}));
    let mut ours = converted("lossy").document;
    ours["spec"]["networking"]["port"] = json!(9000);
    let back = to_ogx_server(ours).unwrap().document;
    assert_eq!(back["spec"]["network"]["port"], 9000);
    assert_eq!(back["spec"]["praxisMode"], json!({"enabled": true}));
}

#[test]
fn the_distribution_alone_keeps_its_image_volume_and_metrics() {
    let expected = json!({
        "distribution": {"image": "docker.io/ogxai/distribution-starter:1.3.0"},
        "networking": {"allowedFrom": {}},
        "workload": {
            "storage": {"size": "20Gi", "mountPath": "/.ogx"},
            "overrides": {"env": [
                {"name": "OLLAMA_URL", "value": "http://ollama.models.svc:11434"},
                {"name": "OGX_METRICS_ENDPOINT_ENABLED", "value": "1"},
                {"name": "OGX_METRICS_HOST", "value": "0.0.0.0"},
            ]},
        },
    });
    assert_eq!(converted("defaults").document["spec"], expected);
}

#[test]
fn another_key_of_the_override_needs_a_copy() {
    let Foreign { document, warnings } = converted("override");
    assert_eq!(
        document["spec"]["overrideConfig"],
        json!({"configMapName": "full-config-copy"})
    );
    assert_eq!(document["spec"]["networking"], json!({"port": 9000}));
    let env = &document["spec"]["workload"]["overrides"]["env"];
    assert_eq!(
        env[0],
        json!({"name": "OGX_CONFIG", "value": "/etc/llama-stack/config.yaml"})
    );
    assert_eq!(env[1], json!({"name": "OGX_PORT", "value": "9000"}));
    assert_eq!(fields(&warnings), ["spec.overrideConfig.key"]);
}

#[test]
fn typed_providers_become_entries_with_explicit_ids() {
    let spec = converted("providers").document["spec"].clone();
    assert_eq!(spec["distribution"]["schema"], "ogx/1.0");
    assert_eq!(
        spec["providers"]["inference"],
        json!([
            {
                "id": "remote-vllm", "provider": "remote::vllm", "endpoint": "http://vllm:8000/v1", "apiKey": {"name": "vllm", "key": "token"},
                "settings": {"max_tokens": 4096, "network": {"timeout": {"read": 120}, "headers": {"X-Team": "a"}}},
            },
            {"id": "st", "provider": "inline::sentence-transformers", "settings": {"trust_remote_code": false}},
        ])
    );
    assert_eq!(
        spec["providers"]["vectorIo"][0]["settings"],
        json!({
            "db": "vec", "user": "app", "vector_index": {"type": "HNSW", "m": 16, "ef_construction": 64},
        })
    );
    assert_eq!(
        spec["resources"]["models"],
        json!([
            {"name": "llama-3", "provider": "remote-vllm", "modelType": "llm", "contextLength": 8192},
        ])
    );
    let typed = converted("typed").document["spec"].clone();
    assert_eq!(
        typed["providers"]["inference"][0]["provider"],
        "remote::azure"
    );
    let bedrock = &typed["providers"]["inference"][1];
    assert_eq!(bedrock["settings"], json!({"region_name": "us-east-1"}));
    assert_eq!(
        bedrock["secretRefs"]["aws_access_key_id"],
        json!({"name": "aws", "key": "id"})
    );
    assert_eq!(
        typed["providers"]["files"][0]["endpoint"],
        "https://s3.example.com"
    );
    let temperature = &typed["providers"]["responses"][0]["settings"]["vector_stores_config"]["rewrite_query_params"]
        ["temperature"];
    assert_eq!(*temperature, json!(0.3));
}

#[test]
fn storage_has_both_halves_and_access_is_translated() {
    let spec = converted("storage").document["spec"].clone();
    assert_eq!(spec["storage"]["kv"], json!({"type": "sqlite"}));
    assert_eq!(spec["disabled"], json!(["batches", "toolRuntime"]));
    assert_eq!(
        spec["networking"],
        json!({"expose": {"hostname": "ogx.example.com"}, "allowedFrom": {"namespaces": ["web"]}})
    );
}

#[test]
fn what_cannot_be_said_is_reported_by_its_field() {
    let Foreign { document, warnings } = converted("lossy");
    let found = fields(&warnings);
    for field in [
        "spec.praxisMode",
        "spec.tls.identity",
        "spec.tls.trust.caCertificates[1]",
        "spec.monitoring",
        "spec.network.tls.secretName",
        "spec.network.policy.egress",
        "spec.network.policy.policyTypes",
        "spec.network.policy.ingress[0].ports",
    ] {
        assert!(found.contains(&field), "{field}: {found:?}");
    }
    // A selector of pods is said as it is.
    let peers = &document["spec"]["networking"]["allowedFrom"]["peers"];
    assert_eq!(
        *peers,
        json!([{"podSelector": {"matchLabels": {"app": "web"}}}])
    );
}

#[test]
fn a_resource_of_ours_reports_what_the_other_operator_cannot_do() {
    let ours = json!({
        "apiVersion": API_VERSION_V1ALPHA2, "kind": KIND, "metadata": {"name": "a"},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000", "apiKey": {"secretKeyRef": {"name": "v", "key": "k"}}}, "safety": {"provider": "llama-guard"}},
            "resources": {"models": ["a", {"name": "b", "embeddingDimension": 3, "modelType": "embedding"}], "shields": ["x"]},
            "disabled": ["eval", "vectorIo", "inference/ollama"],
            "workload": {"storage": {"size": "1Gi"}},
            "configPatch": {"server": {"auth": {}}},
        },
    });
    let Foreign { document, warnings } = to_ogx_server(ours.clone()).unwrap();
    let spec = &document["spec"];
    assert_eq!(
        spec["providers"]["inference"]["remote"]["vllm"],
        json!([{"id": "vllm", "endpoint": "http://vllm:8000", "apiToken": {"name": "v", "key": "k"}}])
    );
    assert_eq!(spec["disabledAPIs"], json!(["vector_io"]));
    assert_eq!(spec["network"]["policy"], json!({"enabled": false}));
    assert_eq!(spec["workload"]["storage"]["mountPath"], "/.llama");
    let found = fields(&warnings);
    for field in [
        "spec.distribution.name",
        "spec.providers.safety",
        "spec.resources.shields",
        "spec.resources.models[1].embeddingDimension",
        "spec.disabled[0]",
        "spec.disabled[2]",
        "spec.configPatch",
    ] {
        assert!(found.contains(&field), "{field}: {found:?}");
    }
    // And back: nothing was edited.
    assert_eq!(
        from_ogx_server(document).unwrap().document["spec"],
        ours["spec"]
    );
}

#[test]
fn other_kinds_are_refused() {
    let error = from_ogx_server(json!({"apiVersion": "v1", "kind": "Pod"})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kind: v1 Pod cannot be converted; pass a resource of kind OGXServer and apiVersion ogx.io/v1beta1"
    );
}

#[test]
fn names_change_their_case_there_and_back() {
    for (camel, snake) in [
        ("vectorIo", "vector_io"),
        ("awsAccessKeyId", "aws_access_key_id"),
        ("sessionTTL", "session_ttl"),
        ("eval", "eval"),
    ] {
        assert_eq!(snake_case(camel), snake);
    }
    assert_eq!(camel_case("file_processors"), "fileProcessors");
}
