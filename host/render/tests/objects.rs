//! Every object of a resource, as a whole: a change of one byte is a change of somebody's pods.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{Counts, Part, ReadAs, Startup};
use llsd_api::checked::{Checked, Reference, review};
use llsd_api::{FieldPath, Rejections};
use llsd_render::objects::{ConfigPlan, Desired, ObjectInputs, Owner, objects};
use llsd_render::{Generated, PodVariable, Reason, Receipt, ValueSource};
use serde_json::{Value, json};

const IMAGE: &str = "docker.io/llamastack/distribution-starter:0.7.1";

#[test]
fn the_objects_of_the_minimal_sample() {
    let sample = include_str!("../../../samples/minimal.yaml");
    let checked = checked(serde_saphyr::from_str(sample).unwrap());
    golden("minimal", &built(&checked, &generated(Vec::new())).unwrap());
}

#[test]
fn the_objects_of_a_resource_with_storage_secrets_and_several_pods() {
    let checked = checked(json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "minimal"},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
            "networking": {"port": 9000},
            "workload": {
                "replicas": 2,
                "workers": 4,
                "storage": {"size": "20Gi", "mountPath": "/data"},
                "resources": {"requests": {"memory": "4Gi"}},
                "overrides": {"env": [{"name": "HF_HOME", "value": "/models"}, {"name": "LOG", "value": "debug"}]},
            },
        },
    }));
    let variable = PodVariable {
        name: "LLSD_VLLM_API_KEY".to_owned(),
        source: ValueSource::Secret(reference()),
        read_as: ReadAs::Text,
    };
    golden(
        "storage",
        &built(&checked, &generated(vec![variable])).unwrap(),
    );
}

#[test]
fn a_resource_that_asks_for_nothing_gets_the_template_of_the_first_operator() {
    let checked = checked(json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "minimal"},
        "spec": {"distribution": {"name": "starter"}},
    }));
    golden(
        "default",
        &built(&checked, &ConfigPlan::DistributionDefault).unwrap(),
    );
}

#[test]
fn what_is_not_done_yet_is_refused_by_its_path() {
    let checked = checked(json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "minimal"},
        "spec": {
            "distribution": {"name": "starter"},
            "networking": {"expose": true},
            "workload": {"autoscaling": {"maxReplicas": 3}},
        },
    }));
    let part = PodVariable {
        name: "LLSD_SQL_HOST".to_owned(),
        source: ValueSource::Part(reference(), Part::Host),
        read_as: ReadAs::Text,
    };
    let refused = built(&checked, &generated(vec![part])).unwrap_err();
    let fields: Vec<_> = refused.iter().map(|one| one.field.to_string()).collect();
    assert_eq!(
        fields,
        [
            "spec.networking.expose",
            "spec.providers.inference.apiKey",
            "spec.workload.autoscaling"
        ]
    );
}

fn built(checked: &Checked, plan: &ConfigPlan) -> Result<Desired, Rejections> {
    objects(&ObjectInputs {
        checked,
        image: IMAGE,
        plan,
        secrets_digest: None,
        owner: &owner(),
    })
}

fn golden(name: &str, desired: &Desired) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let all: Vec<_> = desired.children().map(|child| &child.object).collect();
    settings.bind(|| insta::assert_json_snapshot!(name, all));
}

fn checked(document: Value) -> Checked {
    review(document).result.unwrap()
}

fn owner() -> Owner {
    Owner {
        namespace: "ml".to_owned(),
        name: "minimal".to_owned(),
        uid: "0b5a3bd1-6a47-4d5e-9f26-1d2f4d8f4b52".to_owned(),
    }
}

fn reference() -> Reference {
    Reference {
        path: FieldPath::spec().at(&["providers", "inference", "apiKey"]),
        secret: "vllm-key".to_owned(),
        key: "token".to_owned(),
        env: "LLSD_VLLM_API_KEY".to_owned(),
    }
}

/// A configuration as a plugin might make it: objects depend on its bytes, never on its meaning.
fn generated(variables: Vec<PodVariable>) -> ConfigPlan {
    let digest = "sha256:00".to_owned();
    ConfigPlan::Generated(Box::new(Generated {
        yaml: "version: 2\n".to_owned(),
        config: json!({"version": 2}),
        variables,
        startup: Startup {
            env: BTreeMap::from([(
                "RUN_CONFIG_PATH".to_owned(),
                "/etc/llama-stack/config.yaml".to_owned(),
            )]),
            command: Vec::new(),
            args: Vec::new(),
        },
        counts: Counts::default(),
        models: Vec::new(),
        warnings: Vec::new(),
        schema: "llama-stack/0.7".to_owned(),
        reason: Reason::Stated,
        receipt: Receipt {
            plugin: "llama-stack".to_owned(),
            version: "0.1.0".to_owned(),
            component: digest.clone(),
            input: digest.clone(),
            output: digest,
            fuel: 0,
        },
    }))
}
