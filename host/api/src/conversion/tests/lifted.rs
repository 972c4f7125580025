//! Variables that become providers and models.

use super::*;

/// A base configuration whose providers have conditions, as the distribution `starter`.
const BASE: &str = "{providers: {inference: [{provider_id: '${env.VLLM_URL:+vllm}', config: {base_url: '${env.VLLM_URL:=}', api_token: '${env.VLLM_API_TOKEN:=fake}', max_tokens: '${env.VLLM_MAX_TOKENS:=4096}'}}, {provider_id: '${env.OLLAMA_URL:+ollama}', config: {base_url: '${env.OLLAMA_URL:=http://localhost:11434/v1}'}}, {provider_id: '${env.OPENAI_API_KEY:+openai}', config: {api_key: '${env.OPENAI_API_KEY:=}'}}], tool_runtime: [{provider_id: '${env.TAVILY_SEARCH_API_KEY:+tavily-search}', config: {api_key: '${env.TAVILY_SEARCH_API_KEY:=}'}}]}}";

/// The base of a vendor: another provider id, and variables without defaults.
const VENDOR_BASE: &str = "{providers: {inference: [{provider_id: vllm-inference, config: {url: '${env.VLLM_URL:=http://localhost:8000/v1}', max_tokens: '${env.VLLM_MAX_TOKENS:=4096}', tls_verify: '${env.VLLM_TLS_VERIFY:=true}'}}]}, models: [{model_id: '${env.INFERENCE_MODEL}', provider_id: vllm-inference}]}";

fn lift_env(document: Value) -> Lifted {
    super::super::lift_env(document, Some(&yaml(BASE)))
}

fn warnings(lifted: &Lifted) -> Vec<String> {
    lifted.warnings.iter().map(ToString::to_string).collect()
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
fn the_examples_of_the_migration_guide_convert_as_documented() {
    for (before, after) in GUIDE {
        let converted = up(&v1alpha1(before));
        let lifted = lift_env(converted);
        assert_eq!(lifted.document, v1alpha2(after));
        assert!(lifted.warnings.iter().all(|one| one.code == "lifted"));
        assert_eq!(lifted.warnings.len(), lifted.lifted.len());
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
    assert_eq!(
        warnings(&lifted),
        [
            "spec.workload.overrides.env[0]: VLLM_URL is not converted: its value is not a literal; set the address in providers.<api>.endpoint",
            "spec.workload.overrides.env[1]: OPENAI_API_KEY is not converted: it does not refer to a Secret; store the key in a Secret and refer to it in apiKey",
            "spec.workload.overrides.env[2]: INFERENCE_MODEL is not converted: the resource has no inference provider for the model; add the provider to spec.providers.inference and the model to spec.resources.models",
        ]
    );

    let twice = "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}, {name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: a, key: k}}}, {name: VLLM_API_TOKEN, valueFrom: {secretKeyRef: {name: b, key: k}}}]}}}";
    let lifted = lift_env(v1alpha2(twice));
    assert_eq!(lifted.document, v1alpha2(twice));
    assert_eq!(lifted.warnings.len(), 3);
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

/// D2: the base still read the variables that were lifted, and the server stopped.
#[test]
fn a_variable_that_the_base_reads_elsewhere_stays_with_the_variables_of_its_provider() {
    let stays = "{distribution: {name: vendor}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}, {name: INFERENCE_MODEL, value: m}, {name: VLLM_TLS_VERIFY, value: 'false'}, {name: VLLM_MAX_TOKENS, value: '1'}]}}}";
    let lifted = super::super::lift_env(v1alpha2(stays), Some(&yaml(VENDOR_BASE)));
    assert_eq!(lifted.document, v1alpha2(stays));
    assert_eq!(lifted.lifted, [""; 0]);
    assert_eq!(lifted.warnings.len(), 4);
    let model = "spec.workload.overrides.env[1]: INFERENCE_MODEL is not converted: models[0].model_id of the base configuration reads it; keep the variable, or change the base configuration";
    assert!(warnings(&lifted).iter().any(|one| one == model));

    let one = "{distribution: {name: vendor}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}]}}}";
    let lifted = super::super::lift_env(v1alpha2(one), Some(&yaml(VENDOR_BASE)));
    assert_eq!(lifted.document, v1alpha2(one));
    assert_eq!(
        warnings(&lifted),
        [
            "spec.workload.overrides.env[0]: VLLM_URL is not converted: providers.inference[0].config.url of the base configuration reads it; keep the variables, or change the base configuration so that only provider \"vllm\" reads them"
        ]
    );
}

/// D2: variables of the same provider lost their effect.
#[test]
fn a_variable_without_a_field_keeps_the_other_variables_of_its_provider() {
    let env = "[{name: VLLM_URL, value: 'http://v'}, {name: VLLM_MAX_TOKENS, value: '1'}, {name: OLLAMA_URL, value: 'http://o'}]";
    let spec =
        format!("{{distribution: {{name: starter}}, workload: {{overrides: {{env: {env}}}}}}}");
    let lifted = lift_env(v1alpha2(&spec));
    assert_eq!(lifted.lifted, ["OLLAMA_URL"]);
    let all = warnings(&lifted);
    assert_eq!(all.len(), 3, "{all:#?}");
    assert!(all[0].starts_with("spec.workload.overrides.env[0]: VLLM_URL is not converted: VLLM_MAX_TOKENS, a variable of the same provider, stays: no field replaces it; "), "{all:#?}");
    assert!(all[1].starts_with("spec.workload.overrides.env[1]: VLLM_MAX_TOKENS is not converted: no field replaces it; "), "{all:#?}");
    assert_eq!(
        all[2],
        "spec.workload.overrides.env[2]: OLLAMA_URL is replaced by spec.providers.inference.endpoint; check the new field; the variable is no longer set in the pod"
    );
}

/// D2: another variable may contain the value.
#[test]
fn a_variable_that_another_variable_refers_to_stays() {
    let stays = "{distribution: {name: starter}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}, {name: MINE, value: '$(VLLM_URL)/v1'}]}}}";
    let lifted = lift_env(v1alpha2(stays));
    assert_eq!(lifted.document, v1alpha2(stays));
    assert!(warnings(&lifted)[0].contains("the variable MINE reads it"));
}

/// D5: a resource that starts its own file by argument lost the variables that the file reads.
#[test]
fn nothing_is_lifted_if_command_or_args_start_the_server() {
    for start in [
        "args: [--yaml-config, /etc/own.yaml]",
        "command: [/start.sh]",
    ] {
        let stays = format!(
            "{{distribution: {{name: starter}}, workload: {{overrides: {{{start}, env: [{{name: VLLM_URL, value: 'http://v'}}]}}}}}}"
        );
        let lifted = lift_env(v1alpha2(&stays));
        assert_eq!(lifted.document, v1alpha2(&stays));
        assert_eq!(
            warnings(&lifted),
            [
                "spec.workload.overrides.env: is not converted: command or args starts the server, maybe with a file that reads it; remove command and args to let the operator generate the configuration"
            ]
        );
    }
}

#[test]
fn nothing_is_lifted_without_a_base_configuration() {
    let stays = "{distribution: {name: vendor}, workload: {overrides: {env: [{name: VLLM_URL, value: 'http://v'}]}}}";
    let lifted = super::super::lift_env(v1alpha2(stays), None);
    assert_eq!(lifted.document, v1alpha2(stays));
    assert_eq!(lifted.warnings[0].code, "not-lifted");
    let other =
        "{distribution: {name: vendor}, workload: {overrides: {env: [{name: MINE, value: a}]}}}";
    assert_eq!(super::super::lift_env(v1alpha2(other), None).warnings, []);
}
