//! Variables that become providers and models.

use super::*;

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
fn the_examples_of_the_migration_guide_convert_as_documented() {
    for (before, after) in GUIDE {
        let converted = up(&v1alpha1(before));
        let lifted = lift_env(converted);
        assert_eq!(lifted.document, v1alpha2(after));
        assert!(lifted.warnings.is_empty());
        assert!(crate::check_document(lifted.document).result.is_ok());
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
    assert!(crate::check_document(lifted.document).result.is_ok());
}

#[test]
fn a_variable_that_cannot_be_lifted_stays_with_the_reason() {
    let stays = "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, valueFrom: {configMapKeyRef: {name: c, key: k}}}, {name: OPENAI_API_KEY, value: hunter2}, {name: INFERENCE_MODEL, value: m}]}}}";
    let lifted = lift_env(v1alpha2(stays));
    assert_eq!(lifted.document, v1alpha2(stays));
    let warnings: Vec<_> = lifted.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "spec.workload.overrides.env[0]: VLLM_URL is not converted: its value is not a literal; set the address in providers.<api>.endpoint",
            "spec.workload.overrides.env[1]: OPENAI_API_KEY is not converted: it does not refer to a Secret; store the key in a Secret and refer to it in apiKey",
        ]
    );

    let twice = "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}, {name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: a, key: k}}}, {name: VLLM_API_TOKEN, valueFrom: {secretKeyRef: {name: b, key: k}}}]}}}";
    assert_eq!(lift_env(v1alpha2(twice)).warnings.len(), 1);
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

#[test]
fn a_model_of_two_variables_is_registered_once() {
    let lifted = lift_env(v1alpha2(
        "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}, {name: VLLM_INFERENCE_MODEL, value: m}, {name: INFERENCE_MODEL, value: m}]}}}",
    ));
    assert_eq!(
        lifted.document["spec"]["resources"]["models"],
        json!([{ "name": "m" }])
    );
    assert_eq!(lifted.lifted.len(), 3);
    assert!(crate::check_document(lifted.document).result.is_ok());

    let lifted = lift_env(v1alpha2(
        "{distribution: {name: starter}, resources: {models: [m]}, workload: {overrides: {env: [{name: OLLAMA_URL, value: 'http://o'}, {name: VLLM_URL, value: 'http://v'}, {name: VLLM_INFERENCE_MODEL, value: m}, {name: INFERENCE_MODEL, value: m}]}}}",
    ));
    assert_eq!(
        lifted.document["spec"]["resources"]["models"],
        json!(["m", { "name": "m", "provider": "vllm" }])
    );
}

#[test]
fn a_value_with_other_variables_stays_and_the_last_of_repeated_variables_counts() {
    let stays = "{distribution: {name: starter}, workload: {overrides: {env: [{name: HOST, value: v}, {name: VLLM_URL, value: 'http://$(HOST):8000'}]}}}";
    let lifted = lift_env(v1alpha2(stays));
    assert_eq!(lifted.document, v1alpha2(stays));
    assert_eq!(
        lifted.warnings[0].field.as_str(),
        "spec.workload.overrides.env[1]"
    );

    let lifted = lift_env(v1alpha2(
        "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://first'}, {name: VLLM_URL, value: 'http://last'}]}}}",
    ));
    assert_eq!(
        lifted.document["spec"],
        yaml(
            "{distribution: {name: starter}, providers: {inference: {provider: vllm, endpoint: 'http://last'}}}"
        )
    );
}
