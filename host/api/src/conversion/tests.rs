use proptest::prelude::*;
use serde_json::json;

use super::*;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn resource(version: Version, spec: Value) -> Value {
    json!({ "apiVersion": version.api_version(), "kind": KIND, "metadata": { "name": "my-llsd" }, "spec": spec })
}

fn v1alpha1(spec: &str) -> Value {
    resource(Version::V1Alpha1, yaml(spec))
}

fn v1alpha2(spec: &str) -> Value {
    resource(Version::V1Alpha2, yaml(spec))
}

fn up(document: &Value) -> Value {
    convert(document.clone(), Version::V1Alpha2).unwrap()
}

fn down(document: &Value) -> Value {
    convert(document.clone(), Version::V1Alpha1).unwrap()
}

fn annotation<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document["metadata"]["annotations"][name].as_str()
}

#[test]
fn absent_empty_and_zero_come_back_as_they_were() {
    let specs = [
        "{server: {distribution: {name: starter}}}",
        "{replicas: 0, server: {distribution: {name: starter}}}",
        "{server: {distribution: {}}}",
        "{server: {distribution: {name: ''}}}",
        "{server: {distribution: {name: s}, containerSpec: {}}}",
        "{server: {distribution: {name: s}, containerSpec: {name: llama-stack}}}",
        "{server: {distribution: {name: s}, containerSpec: {name: other, port: 0, env: [], command: [], args: []}}}",
        "{server: {distribution: {name: s}, containerSpec: {resources: {claims: [{name: a}]}}}}",
        "{server: {distribution: {name: s}, containerSpec: {resources: {}}}}",
        "{server: {distribution: {name: s}, podOverrides: {}}}",
        "{server: {distribution: {name: s}, podOverrides: {terminationGracePeriodSeconds: 0, serviceAccountName: ''}}}",
        "{server: {distribution: {name: s}, podDisruptionBudget: {}}}",
        "{server: {distribution: {name: s}, podDisruptionBudget: {minAvailable: 0}}}",
        "{server: {distribution: {name: s}, autoscaling: {minReplicas: 0, maxReplicas: 0}}}",
        "{server: {distribution: {name: s}, storage: {}}}",
        "{server: {distribution: {name: s}, storage: {size: 20Gi, mountPath: ''}}}",
        "{server: {distribution: {name: s}, userConfig: {configMapName: '', configMapNamespace: other}}}",
        "{server: {distribution: {name: s}, userConfig: {configMapName: c, configMapNamespace: other}}}",
        "{server: {distribution: {name: s}, tlsConfig: {}}}",
        "{server: {distribution: {name: s}, tlsConfig: {caBundle: {configMapName: c, configMapNamespace: n, configMapKeys: []}}}}",
        "{server: {distribution: {name: s}}, network: {}}",
        "{server: {distribution: {name: s}}, network: {exposeRoute: false}}",
        "{server: {distribution: {name: s}}, network: {allowedFrom: {}}}",
        "{server: {distribution: {name: s}}, network: {exposeRoute: true, allowedFrom: {namespaces: [], labels: [a]}}}",
        "{server: {distribution: {name: s}, topologySpreadConstraints: [], workers: 4}}",
    ];
    for spec in specs {
        let document = v1alpha1(spec);
        let there = up(&document);
        assert_eq!(there["apiVersion"], API_VERSION_V1ALPHA2);
        assert_eq!(down(&there), document, "{spec}\n{there:#}");
    }
}

#[test]
fn what_means_something_in_both_versions_is_a_field_and_not_an_annotation() {
    let there = up(&v1alpha1(
        "{replicas: 0, server: {distribution: {name: s}, containerSpec: {port: 9000, name: other}, storage: {}, podOverrides: {terminationGracePeriodSeconds: 0}, userConfig: {configMapName: c, configMapNamespace: n}, tlsConfig: {caBundle: {configMapName: ca, configMapNamespace: n, configMapKeys: [k]}}}, network: {exposeRoute: false}}",
    ));
    assert_eq!(annotation(&there, CARRIED_V1ALPHA1), Some("{}"));
    assert_eq!(
        there["spec"],
        yaml(
            "{distribution: {name: s}, overrideConfig: {configMapName: c, configMapNamespace: n}, networking: {port: 9000, expose: false, tls: {caBundle: {configMapName: ca, configMapNamespace: n, configMapKeys: [k]}}}, workload: {replicas: 0, storage: {}, overrides: {containerName: other, terminationGracePeriodSeconds: 0}}}"
        )
    );
}

#[test]
fn a_resource_remembers_the_version_that_it_was_made_in_whatever_is_edited() {
    let is_older = |document: &Value| {
        let annotations = document["metadata"]["annotations"].clone();
        was_made_in_v1alpha1(&serde_json::from_value(annotations).unwrap_or_default())
    };
    let mut older = v1alpha1("{server: {distribution: {name: s}}}");
    for _ in 0..2 {
        let mut there = up(&older);
        assert!(is_older(&there));
        there["spec"]["providers"] = json!({ "inference": { "provider": "vllm" } });
        older = down(&there);
        older["spec"]["server"]["podOverrides"] = json!({});
    }
    let mut newer = v1alpha2("{distribution: {name: s}}");
    for _ in 0..2 {
        assert!(!is_older(&newer));
        let mut there = down(&newer);
        there["spec"]["server"]["podOverrides"] = json!({});
        newer = up(&there);
        assert!(annotation(&newer, CARRIED_V1ALPHA1).is_some());
    }
    assert!(!is_older(&lift_env(up(&older)).document));
}

#[test]
fn zero_and_empty_that_mean_absent_do_not_reach_the_newer_version() {
    let there = up(&v1alpha1(
        "{server: {distribution: {name: s}, containerSpec: {port: 0, name: llama-stack}, autoscaling: {minReplicas: 0, maxReplicas: 3}, userConfig: {configMapName: '', configMapNamespace: n}}}",
    ));
    assert_eq!(
        there["spec"],
        yaml("{distribution: {name: s}, workload: {autoscaling: {maxReplicas: 3}}}")
    );
    assert!(crate::review(there).result.is_ok());
}

#[test]
fn everything_that_only_v1alpha2_can_say_comes_back() {
    let specs = [
        "{distribution: {name: starter, schema: llama-stack/0.7, baseConfig: {configMapName: b}}, providers: {inference: {provider: vllm}}, resources: {models: [m]}, storage: {kv: {}}, disabled: []}",
        "{distribution: {name: starter}, networking: {expose: {}}}",
        "{distribution: {name: starter}, networking: {expose: {enabled: false, hostname: h}}}",
        "{distribution: {name: starter}, networking: {expose: 'a text'}}",
        "{distribution: {name: starter}, networking: {}}",
        "{distribution: {name: starter}, networking: {allowedFrom: {}, tls: {enabled: false, caBundle: {}}}}",
        "{distribution: {name: starter}, workload: {}}",
        "{distribution: {name: starter}, workload: {overrides: {imagePullSecrets: []}, storage: {}}}",
        "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
        "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80, targetCPUUtilizationPercentage: 70}}}",
        "{distribution: {name: starter}, overrideConfig: {}}",
        "{distribution: {name: starter}, externalProviders: {inference: [{providerId: a, image: b}]}}",
        "{}",
    ];
    for spec in specs {
        let document = v1alpha2(spec);
        let there = down(&document);
        assert_eq!(there["apiVersion"], API_VERSION_V1ALPHA1);
        assert_eq!(up(&there), document, "{spec}\n{there:#}");
    }
}

#[test]
fn status_of_both_versions_comes_back() {
    let mut old = v1alpha1("{server: {distribution: {name: s}}}");
    old["status"] = json!({
        "phase": "Ready", "availableReplicas": 0, "routeURL": "", "version": {},
        "conditions": [{ "type": "DeploymentReady" }], "distributionConfig": { "providers": [] },
    });
    let there = up(&old);
    assert_eq!(there["status"], old["status"]);
    assert_eq!(down(&there), old);

    let mut new = v1alpha2("{distribution: {name: s}}");
    new["status"] = json!({
        "phase": "Ready", "observedGeneration": 3, "configGeneration": { "providerCount": 0 },
        "resolvedDistribution": {}, "externalProviders": [],
    });
    let there = down(&new);
    assert_eq!(there["status"], json!({ "phase": "Ready" }));
    assert_eq!(up(&there), new);
}

#[test]
fn an_edit_through_v1alpha1_keeps_what_only_v1alpha2_can_say() {
    let document = v1alpha2(
        "{distribution: {name: starter, schema: llama-stack/0.7}, providers: {inference: {provider: vllm}}, networking: {port: 9000, expose: {hostname: h}}, workload: {overrides: {imagePullSecrets: [{name: p}]}}}",
    );
    let mut old = down(&document);
    old["spec"]["server"]["distribution"]["name"] = json!("remote-vllm");
    old["spec"]["server"]["containerSpec"] =
        json!({ "port": 9001, "env": [{ "name": "A", "value": "b" }] });
    let edited = up(&old);
    assert_eq!(
        edited["spec"],
        yaml(
            "{distribution: {name: remote-vllm, schema: llama-stack/0.7}, providers: {inference: {provider: vllm}}, networking: {port: 9001, expose: {hostname: h}}, workload: {overrides: {imagePullSecrets: [{name: p}], env: [{name: A, value: b}]}}}"
        )
    );
    assert_eq!(annotation(&edited, CONFLICTS), None);
}

#[test]
fn an_edit_of_the_very_place_wins_and_is_reported() {
    let document = v1alpha2(
        "{distribution: {name: starter}, networking: {expose: {hostname: h}}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
    );
    let mut old = down(&document);
    assert_eq!(
        old["spec"]["server"]["autoscaling"]["targetCPUUtilizationPercentage"],
        80
    );
    old["spec"]["network"]["exposeRoute"] = json!(false);
    old["spec"]["server"]["autoscaling"]["targetCPUUtilizationPercentage"] = json!(90);
    let edited = up(&old);
    assert_eq!(
        edited["spec"],
        yaml(
            "{distribution: {name: starter}, networking: {expose: false}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 90}}}"
        )
    );
    let conflicts: Value = serde_json::from_str(annotation(&edited, CONFLICTS).unwrap()).unwrap();
    assert_eq!(
        conflicts["/spec/networking/expose"],
        json!({ "hostname": "h" })
    );
    // The older version still reads, and still comes back.
    assert_eq!(down(&edited)["spec"], old["spec"]);
}

#[test]
fn a_field_does_not_come_back_without_the_sibling_that_gave_it_meaning() {
    let document = v1alpha2(
        "{distribution: {name: s}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
    );
    let mut old = down(&document);
    old["spec"]["server"]
        .as_object_mut()
        .unwrap()
        .remove("autoscaling");
    assert_eq!(
        up(&old)["spec"],
        yaml("{distribution: {name: s}, workload: {}}")
    );

    let document = v1alpha1(
        "{server: {distribution: {name: s}, autoscaling: {minReplicas: 0, maxReplicas: 2}}}",
    );
    let mut new = up(&document);
    new["spec"].as_object_mut().unwrap().remove("workload");
    assert_eq!(
        down(&new)["spec"],
        yaml("{server: {distribution: {name: s}}}")
    );
}

#[test]
fn a_removed_field_stays_removed_even_without_its_parents() {
    let mut old = down(&v1alpha2(
        "{distribution: {name: s}, networking: {tls: {secretName: a}}}",
    ));
    let carried =
        json!({ "/spec/providers/inference": { "was": { "provider": "a" } }, "/spec/x/y": {} })
            .to_string();
    old["metadata"]["annotations"][CARRIED_V1ALPHA2] = json!(carried);
    assert_eq!(
        up(&old)["spec"],
        yaml("{distribution: {name: s}, workload: {replicas: 1}}")
    );
}

#[test]
fn an_edit_through_v1alpha2_keeps_what_only_v1alpha1_can_say() {
    let document = v1alpha1(
        "{server: {distribution: {name: s}, containerSpec: {name: llama-stack, port: 0}, podOverrides: {}}}",
    );
    let mut new = up(&document);
    new["spec"]["networking"] = json!({ "port": 9000 });
    new["spec"]["workload"] = json!({ "overrides": { "serviceAccountName": "sa" } });
    assert_eq!(
        down(&new)["spec"],
        yaml(
            "{server: {distribution: {name: s}, containerSpec: {name: llama-stack, port: 9000}, podOverrides: {serviceAccountName: sa}}}"
        )
    );
}

#[test]
fn a_contradiction_elsewhere_is_left_to_the_rules() {
    let mut old = down(&v1alpha2(
        "{distribution: {name: starter}, providers: {inference: {provider: vllm}}}",
    ));
    old["spec"]["server"]["userConfig"] = json!({ "configMapName": "c" });
    let refused = crate::review(up(&old)).result.unwrap_err();
    assert_eq!(
        refused.iter().next().unwrap().field.as_str(),
        "spec.providers"
    );
}

#[test]
fn annotations_of_others_are_left_alone() {
    let mut document = v1alpha1("{server: {distribution: {name: s}, podOverrides: {}}}");
    for annotations in [
        json!({}),
        json!({ "a": "b" }),
        json!({ CARRIED_V1ALPHA2: "no JSON" }),
        json!({ CARRIED_V1ALPHA2: "[]" }),
    ] {
        document["metadata"]["annotations"] = annotations;
        let there = up(&document);
        assert!(annotation(&there, CARRIED_V1ALPHA1).is_some());
        assert_eq!(down(&there), document);
    }
    document["metadata"]["annotations"] = json!("no object");
    assert_eq!(up(&document)["metadata"]["annotations"], "no object");
    document["metadata"] = json!("no object");
    assert_eq!(up(&document)["metadata"], "no object");
}

#[test]
fn what_is_in_the_way_of_a_carried_field_stays() {
    let mut old = down(&v1alpha2(
        "{distribution: {name: s}, networking: {tls: {secretName: a}}}",
    ));
    let carried = json!({ "/spec/networking/port/x": { "is": 1 }, "/spec/gone": { "was": 1 }, "": { "is": 1 } }).to_string();
    old["metadata"]["annotations"][CARRIED_V1ALPHA2] = json!(carried);
    old["spec"]["server"]["containerSpec"] = json!({ "port": 80 });
    let there = up(&old);
    assert_eq!(
        there["spec"],
        yaml("{distribution: {name: s}, networking: {port: 80}, workload: {replicas: 1}}")
    );
    let conflicts: Value = serde_json::from_str(annotation(&there, CONFLICTS).unwrap()).unwrap();
    assert_eq!(
        conflicts.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["", "/spec/networking/port/x"]
    );
}

#[test]
fn keys_with_slashes_and_tildes_survive() {
    let document = v1alpha1("{server: {distribution: {name: s}, 'a/b~c': 1}, 'x/~y': {}}");
    assert_eq!(down(&up(&document)), document);
}

#[test]
fn other_documents_are_refused_with_the_reason() {
    let refused = |document: Value| {
        convert(document, Version::V1Alpha2)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(json!([])),
        "resource: must be an object; send a LlamaStackDistribution"
    );
    assert_eq!(
        refused(json!({ "kind": "Pod" })),
        "kind: \"Pod\" is not converted here; send a LlamaStackDistribution"
    );
    let wrong = json!({ "kind": KIND, "apiVersion": "llamastack.io/v1" });
    assert_eq!(
        refused(wrong),
        "apiVersion: \"llamastack.io/v1\" is no version of LlamaStackDistribution; use llamastack.io/v1alpha1 or llamastack.io/v1alpha2"
    );
    let same = v1alpha2("{distribution: {name: s}}");
    assert_eq!(up(&same), same);
}

/// Before and after, as the migration guide shows them.
const GUIDE: &[(&str, &str)] = &[
    (
        "{replicas: 1, server: {distribution: {name: starter}, containerSpec: {port: 8321, env: [{name: OLLAMA_INFERENCE_MODEL, value: 'llama3.2:1b'}, {name: OLLAMA_URL, value: 'http://ollama-server-service.ollama-dist.svc.cluster.local:11434'}]}, storage: {size: 20Gi, mountPath: /home/lls/.lls}}}",
        "{distribution: {name: starter}, providers: {inference: {provider: ollama, endpoint: 'http://ollama-server-service.ollama-dist.svc.cluster.local:11434'}}, resources: {models: [{name: 'llama3.2:1b'}]}, networking: {port: 8321}, workload: {replicas: 1, storage: {size: 20Gi, mountPath: /home/lls/.lls}}}",
    ),
    (
        "{replicas: 1, server: {distribution: {name: starter}, containerSpec: {env: [{name: OLLAMA_INFERENCE_MODEL, value: 'llama3.2:1b'}, {name: OLLAMA_URL, value: 'http://ollama:11434'}]}}}",
        "{distribution: {name: starter}, providers: {inference: {provider: ollama, endpoint: 'http://ollama:11434'}}, resources: {models: [{name: 'llama3.2:1b'}]}, workload: {replicas: 1}}",
    ),
    (
        "{replicas: 1, server: {distribution: {name: starter}, containerSpec: {env: [{name: INFERENCE_MODEL, value: meta-llama/Llama-3.2-1B}, {name: VLLM_URL, value: 'http://vllm-service.vllm-ns.svc:8000/v1'}, {name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: vllm-secret, key: api-key}}}]}}}",
        "{distribution: {name: starter}, providers: {inference: {provider: vllm, endpoint: 'http://vllm-service.vllm-ns.svc:8000/v1', apiKey: {name: vllm-secret, key: api-key}}}, resources: {models: [{name: meta-llama/Llama-3.2-1B}]}, workload: {replicas: 1}}",
    ),
    (
        "{replicas: 1, server: {distribution: {name: starter}, userConfig: {configMapName: llama-stack-config}}}",
        "{distribution: {name: starter}, overrideConfig: {configMapName: llama-stack-config}, workload: {replicas: 1}}",
    ),
    (
        "{replicas: 1, server: {distribution: {name: starter}, containerSpec: {port: 9000}, tlsConfig: {caBundle: {configMapName: custom-ca-bundle}}}, network: {exposeRoute: true, allowedFrom: {namespaces: [monitoring]}}}",
        "{distribution: {name: starter}, networking: {port: 9000, expose: true, tls: {caBundle: {configMapName: custom-ca-bundle}}, allowedFrom: {namespaces: [monitoring]}}, workload: {replicas: 1}}",
    ),
    (
        "{replicas: 2, server: {distribution: {name: starter}, workers: 4, containerSpec: {port: 8321, env: [{name: OLLAMA_INFERENCE_MODEL, value: 'llama3.2:1b'}, {name: OLLAMA_URL, value: 'http://ollama.default.svc:11434'}]}, storage: {size: 20Gi}, podOverrides: {serviceAccountName: custom-sa}, autoscaling: {minReplicas: 2, maxReplicas: 10, targetCPUUtilizationPercentage: 75}, podDisruptionBudget: {minAvailable: 1}}}",
        "{distribution: {name: starter}, providers: {inference: {provider: ollama, endpoint: 'http://ollama.default.svc:11434'}}, resources: {models: [{name: 'llama3.2:1b'}]}, networking: {port: 8321}, workload: {replicas: 2, workers: 4, storage: {size: 20Gi}, overrides: {serviceAccountName: custom-sa}, autoscaling: {minReplicas: 2, maxReplicas: 10, targetCPUUtilizationPercentage: 75}, podDisruptionBudget: {minAvailable: 1}}}",
    ),
];

#[test]
fn the_pairs_of_the_migration_guide_convert_as_it_shows() {
    for (before, after) in GUIDE {
        let converted = up(&v1alpha1(before));
        let lifted = lift_env(converted);
        assert_eq!(lifted.document, v1alpha2(after));
        assert!(lifted.notices.is_empty());
        assert!(crate::review(lifted.document).result.is_ok());
    }
}

#[test]
fn several_providers_become_a_list_with_ids() {
    let lifted = lift_env(v1alpha2(
        "{distribution: {name: starter}, resources: {models: [own]}, workload: {overrides: {env: [{name: KEEP, value: a}, {name: OLLAMA_URL, value: 'http://o'}, {name: VLLM_URL, value: 'http://v'}, {name: OLLAMA_INFERENCE_MODEL, value: a}, {name: VLLM_INFERENCE_MODEL, value: b}, {name: INFERENCE_MODEL, value: c}, {name: TAVILY_SEARCH_API_KEY, valueFrom: {secretKeyRef: {name: t, key: k}}}, {name: OPENAI_API_KEY, valueFrom: {secretKeyRef: {name: o, key: k}}}]}}}",
    ));
    assert_eq!(
        lifted.document["spec"],
        yaml(
            "{distribution: {name: starter}, providers: {inference: [{id: ollama, provider: ollama, endpoint: 'http://o'}, {id: vllm, provider: vllm, endpoint: 'http://v'}, {id: openai, provider: openai, apiKey: {name: o, key: k}}], toolRuntime: {provider: tavily-search, apiKey: {name: t, key: k}}}, resources: {models: [own, {name: a, provider: ollama}, {name: b, provider: vllm}, {name: c}]}, workload: {overrides: {env: [{name: KEEP, value: a}]}}}"
        )
    );
    assert_eq!(lifted.lifted.len(), 7);
    assert!(crate::review(lifted.document).result.is_ok());
}

#[test]
fn a_variable_that_cannot_be_lifted_stays_with_the_reason() {
    let stays = "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, valueFrom: {configMapKeyRef: {name: c, key: k}}}, {name: OPENAI_API_KEY, value: hunter2}, {name: INFERENCE_MODEL, value: m}]}}}";
    let lifted = lift_env(v1alpha2(stays));
    assert_eq!(lifted.document, v1alpha2(stays));
    let said: Vec<_> = lifted.notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "spec.workload.overrides.env[0]: VLLM_URL stays a variable: its value is not in the resource; give the address as providers.<api>.endpoint",
            "spec.workload.overrides.env[1]: OPENAI_API_KEY stays a variable: it is no reference to a Secret; put the key into a Secret and refer to it as apiKey",
        ]
    );

    let twice = "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}, {name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: a, key: k}}}, {name: VLLM_API_TOKEN, valueFrom: {secretKeyRef: {name: b, key: k}}}]}}}";
    assert_eq!(lift_env(v1alpha2(twice)).notices.len(), 1);
    let own = "{distribution: {name: starter}, overrideConfig: {configMapName: c}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}]}}}";
    assert_eq!(lift_env(v1alpha2(own)).document, v1alpha2(own));
    let given = "{distribution: {name: starter}, providers: {inference: {provider: ollama}}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}]}}}";
    assert_eq!(lift_env(v1alpha2(given)).document, v1alpha2(given));
    assert_eq!(lift_env(json!([])).document, json!([]));
    assert_eq!(
        lift_env(v1alpha2("{distribution: {name: s}}")).lifted,
        [""; 0]
    );
}

/// A value that a field might hold: of its own type, empty, or something else altogether.
fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-1_i64..5).prop_map(Value::from),
        prop_oneof![Just(""), Just("llama-stack"), Just("a"), Just("a/b~c")].prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{ "name": "a", "value": "" }])),
        Just(json!({ "hostname": "h", "enabled": false })),
    ]
}

/// An object that has each of these fields or not.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| {
            proptest::option::weighted(0.4, value).prop_map(move |value| (name, value))
        })
        .collect();
    let object = fields.prop_map(|fields| {
        Value::Object(
            fields
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
        )
    });
    prop_oneof![12 => object, 1 => leaf()].boxed()
}

fn leaves(names: &[&'static str]) -> Vec<(&'static str, BoxedStrategy<Value>)> {
    names.iter().map(|name| (*name, leaf().boxed())).collect()
}

fn with(
    names: &[&'static str],
    more: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let mut fields = leaves(names);
    fields.extend(more);
    object(fields)
}

fn v1alpha1_spec() -> BoxedStrategy<Value> {
    let server = with(
        &["workers", "topologySpreadConstraints", "unknown"],
        vec![
            ("distribution", with(&["name", "image"], vec![])),
            (
                "containerSpec",
                with(
                    &["name", "port", "resources", "env", "command", "args"],
                    vec![],
                ),
            ),
            (
                "podOverrides",
                with(
                    &[
                        "serviceAccountName",
                        "terminationGracePeriodSeconds",
                        "volumes",
                        "volumeMounts",
                    ],
                    vec![],
                ),
            ),
            (
                "podDisruptionBudget",
                with(&["minAvailable", "maxUnavailable"], vec![]),
            ),
            (
                "autoscaling",
                with(
                    &[
                        "minReplicas",
                        "maxReplicas",
                        "targetCPUUtilizationPercentage",
                    ],
                    vec![],
                ),
            ),
            ("storage", with(&["size", "mountPath"], vec![])),
            (
                "userConfig",
                with(&["configMapName", "configMapNamespace"], vec![]),
            ),
            (
                "tlsConfig",
                object(vec![(
                    "caBundle",
                    with(
                        &["configMapName", "configMapNamespace", "configMapKeys"],
                        vec![],
                    ),
                )]),
            ),
        ],
    );
    let network = with(
        &["exposeRoute"],
        vec![("allowedFrom", with(&["namespaces", "labels"], vec![]))],
    );
    with(
        &["replicas"],
        vec![("server", server), ("network", network)],
    )
}

fn v1alpha2_spec() -> BoxedStrategy<Value> {
    let networking = with(
        &["port", "expose"],
        vec![
            (
                "tls",
                with(
                    &["enabled", "secretName"],
                    vec![(
                        "caBundle",
                        with(&["configMapName", "configMapKeys"], vec![]),
                    )],
                ),
            ),
            ("allowedFrom", with(&["namespaces", "labels"], vec![])),
        ],
    );
    let autoscaling = with(
        &[
            "minReplicas",
            "maxReplicas",
            "targetCPUUtilization",
            "targetCPUUtilizationPercentage",
        ],
        vec![],
    );
    let workload = with(
        &[
            "replicas",
            "workers",
            "resources",
            "topologySpreadConstraints",
        ],
        vec![
            ("autoscaling", autoscaling),
            ("storage", with(&["size", "mountPath"], vec![])),
            (
                "podDisruptionBudget",
                with(&["minAvailable", "maxUnavailable"], vec![]),
            ),
            (
                "overrides",
                with(
                    &[
                        "serviceAccountName",
                        "containerName",
                        "env",
                        "imagePullSecrets",
                        "volumes",
                    ],
                    vec![],
                ),
            ),
        ],
    );
    with(
        &[
            "providers",
            "resources",
            "storage",
            "disabled",
            "externalProviders",
            "unknown",
        ],
        vec![
            (
                "distribution",
                with(&["name", "image", "schema", "baseConfig"], vec![]),
            ),
            (
                "overrideConfig",
                with(&["configMapName", "configMapNamespace"], vec![]),
            ),
            ("networking", networking),
            ("workload", workload),
        ],
    )
}

fn document(version: Version, spec: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let status = with(
        &[
            "phase",
            "conditions",
            "observedGeneration",
            "configGeneration",
            "routeURL",
        ],
        vec![],
    );
    let annotations = prop_oneof![
        Just(None),
        Just(Some(json!({}))),
        Just(Some(json!({ "a": "b" })))
    ];
    (proptest::option::weighted(0.95, spec), proptest::option::of(status), annotations).prop_map(
        move |(spec, status, annotations)| {
            let mut document = json!({ "apiVersion": version.api_version(), "kind": KIND, "metadata": { "name": "n" } });
            let parts = [("spec", spec), ("status", status)];
            for (name, part) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
                document[name] = part;
            }
            if let Some(annotations) = annotations {
                document["metadata"]["annotations"] = annotations;
            }
            document
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn v1alpha1_comes_back_the_same(document in document(Version::V1Alpha1, v1alpha1_spec())) {
        let there = up(&document);
        prop_assert_eq!(&down(&there), &document);
        // And again: what is carried has one form.
        prop_assert_eq!(&up(&down(&there)), &there);
    }

    #[test]
    fn v1alpha2_comes_back_the_same(document in document(Version::V1Alpha2, v1alpha2_spec())) {
        let there = down(&document);
        prop_assert_eq!(&up(&there), &document);
        prop_assert_eq!(&down(&up(&there)), &there);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_through_v1alpha1_is_what_v1alpha1_then_shows(
        document in document(Version::V1Alpha2, v1alpha2_spec()),
        edited in v1alpha1_spec(),
    ) {
        let mut old = down(&document);
        old["spec"] = edited.clone();
        let shown = down(&up(&old));
        prop_assert_eq!(&shown["spec"], &edited);
    }
}

#[test]
fn a_field_of_v1alpha2_has_its_place_in_v1alpha1_or_none() {
    let places = [
        (
            "spec.networking.port",
            Some("spec.server.containerSpec.port"),
        ),
        (
            "spec.networking.expose.hostname",
            Some("spec.network.exposeRoute.hostname"),
        ),
        (
            "spec.workload.overrides.env[1].name",
            Some("spec.server.containerSpec.env[1].name"),
        ),
        (
            "spec.distribution.name",
            Some("spec.server.distribution.name"),
        ),
        ("spec.distribution", Some("spec.server.distribution")),
        (
            "spec.workload.storage.size",
            Some("spec.server.storage.size"),
        ),
        ("spec.providers.inference", None),
        ("spec.networking.portal", None),
    ];
    for (new, old) in places {
        assert_eq!(v1alpha1_path(new).as_deref(), old, "{new}");
    }
}

#[test]
fn what_the_api_server_fills_in_for_v1alpha1_is_nobodys_word() {
    let document =
        v1alpha2("{distribution: {name: s}, networking: {allowedFrom: {namespaces: [a]}}}");
    let shown = down(&document);
    assert_eq!(shown["spec"]["replicas"], 1);
    assert_eq!(shown["spec"]["network"]["exposeRoute"], false);
    assert_eq!(up(&shown), document);
    let mut scaled = shown.clone();
    scaled["spec"]["replicas"] = json!(2);
    assert_eq!(up(&scaled)["spec"]["workload"], json!({"replicas": 2}));
    let mut busy = shown;
    busy["spec"]["server"]["workers"] = json!(4);
    let edited = up(&busy);
    assert_eq!(edited["spec"]["workload"], json!({"workers": 4}));
    assert_eq!(annotation(&edited, CONFLICTS), None);
}
