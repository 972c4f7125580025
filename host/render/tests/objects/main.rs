//! Snapshots of all objects of a resource: a change of one byte would replace pods.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod networking;
mod privileges;
mod volumes;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use llsd_adapter_sdk::documents::{Counts, Part, ReadAs, Startup};
use llsd_api::checked::{Checked, Reference, check_document};
use llsd_api::{Diagnostics, FieldPath};
use llsd_render::ca_bundle::{CaBundle, CaSource, TrustedCa};
use llsd_render::objects::{
    Cluster, ConfigPlan, DESIRED_DIGEST, DerivedValues, Desired, FrozenObjects, Kind, ObjectInputs,
    Owner, Privileges, build_objects,
};
use llsd_render::{
    Generated, PodVariable, Receipt, ReleaseRange, SchemaChoice, SchemaSource, ServerFacts,
    ValueSource,
};
use serde_json::{Value, json};

static NO_PRIVILEGES: LazyLock<Privileges> = LazyLock::new(Privileges::default);
const IMAGE: &str = "docker.io/llamastack/distribution-starter:0.7.1";

#[test]
fn the_objects_of_the_minimal_sample() {
    let sample = include_str!("../../../../samples/minimal.yaml");
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
fn a_minimal_resource_gets_the_pods_of_llama_stack_k8s_operator_with_a_longer_startup_probe() {
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
fn the_objects_of_a_server_with_an_autoscaler() {
    let checked = checked(with(json!({
        "workload": {
            "replicas": 2,
            "autoscaling": {"minReplicas": 1, "maxReplicas": 5, "targetMemoryUtilizationPercentage": 70},
            "podDisruptionBudget": {"minAvailable": "50%"},
        },
    })));
    golden(
        "autoscaled",
        &built(&checked, &generated(Vec::new())).unwrap(),
    );
}

#[test]
fn the_objects_of_a_server_with_a_ca_bundle_and_a_derived_secret() {
    let checked = checked(with(json!({})));
    let part = PodVariable {
        name: "LLSD_SQL_HOST".to_owned(),
        source: ValueSource::Part(reference(), Part::Host),
        read_as: ReadAs::Text,
    };
    let plan = generated(vec![part]);
    let derived = DerivedValues([("LLSD_SQL_HOST".to_owned(), "db".to_owned())].into());
    let text = include_str!("../ca.pem");
    let source = CaSource {
        config_map: "cas",
        key: "ca.crt",
        text,
    };
    let trusted = CaBundle::new(&[source], &[]).unwrap().map(TrustedCa::from);
    let cluster = Cluster::default();
    let inputs = ObjectInputs {
        ca_bundle: trusted.as_ref(),
        ..inputs(&checked, &plan, &cluster, &derived)
    };
    golden("ca_bundle", &build_objects(&inputs).unwrap());
}

#[test]
fn the_objects_of_a_server_with_an_external_provider() {
    let sample = include_str!("../../../../samples/external-provider.yaml");
    let checked = checked(serde_saphyr::from_str(sample).unwrap());
    golden(
        "external",
        &built(&checked, &generated(Vec::new())).unwrap(),
    );
}

#[test]
fn the_digest_on_a_secret_does_not_depend_on_its_values() {
    let checked = checked(with(json!({})));
    let (cluster, plan) = (Cluster::default(), generated(Vec::new()));
    let digest = |value: &str| {
        let derived = DerivedValues([("A".to_owned(), value.to_owned())].into());
        let desired = build_objects(&inputs(&checked, &plan, &cluster, &derived)).unwrap();
        let secret = desired.children().find(|one| one.kind == Kind::Secret);
        let metadata = &secret.unwrap().object["metadata"];
        metadata["labels"][DESIRED_DIGEST].clone()
    };
    assert!(digest("one").is_string());
    assert_eq!(digest("one"), digest("two"));
    let debug = DerivedValues([("A".to_owned(), "canary".to_owned())].into());
    assert!(!format!("{debug:?}").contains("canary"));
}

#[test]
fn certificates_that_change_are_merged_into_objects_of_another_release() {
    let checked = checked(with(json!({})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let cluster = Cluster::default();
    let build = |digest: Option<&str>, image: &'static str| {
        let trusted = digest.map(|digest| TrustedCa {
            digest: digest.to_owned(),
            bundle: None,
        });
        let inputs = ObjectInputs {
            ca_bundle: trusted.as_ref(),
            image,
            ..inputs(&checked, &plan, &cluster, &derived)
        };
        FrozenObjects::of(&build_objects(&inputs).unwrap())
    };
    let theirs = build(None, "acme/older:0.6");
    let merged = theirs.merge(&build(None, IMAGE), &build(Some("sha256:1"), IMAGE));
    assert_eq!(
        merged.template(),
        build(Some("sha256:1"), "acme/older:0.6").template()
    );
    assert_eq!(
        theirs.merge(&build(None, IMAGE), &build(None, IMAGE)),
        theirs
    );
    assert_eq!(merged.differences(&theirs), ["Deployment minimal"]);
    let built = build(Some("sha256:1"), "acme/older:0.6");
    assert_eq!(merged.differences(&built), [""; 0]);
    assert_ne!(merged.deployment_digest(), theirs.deployment_digest());
}

#[test]
fn optional_objects_that_are_not_requested_are_retired_except_for_the_volume_claim() {
    let retired = |checked: &Checked| -> Vec<String> {
        let desired = built(checked, &generated(Vec::new())).unwrap();
        desired.retired.into_iter().map(|one| one.name).collect()
    };
    let all = [
        "minimal-network-policy",
        "minimal-hpa",
        "minimal-pdb",
        "minimal-ingress",
        "minimal-ca-bundle",
        "minimal-ca-bundle-previous",
        "minimal-derived",
    ];
    assert_eq!(retired(&checked(with(json!({})))), all);
    let scaled = with(json!({"workload": {"autoscaling": {"maxReplicas": 3}}}));
    assert!(!retired(&checked(scaled)).contains(&"minimal-hpa".to_owned()));
}

#[test]
fn a_config_map_in_another_namespace_is_an_error() {
    let checked = checked(json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "minimal"},
        "spec": {
            "distribution": {"name": "starter"},
            "overrideConfig": {"configMapName": "mine", "configMapNamespace": "other"},
        },
    }));
    let errors = built(&checked, &ConfigPlan::DistributionDefault).unwrap_err();
    let fields: Vec<_> = errors.iter().map(|one| one.field.to_string()).collect();
    assert_eq!(fields, ["spec.overrideConfig.configMapNamespace"]);
}

#[test]
fn a_limit_below_the_default_request_lowers_it() {
    let requests = |resources: Value| {
        let checked = checked(with(json!({"workload": {"resources": resources}})));
        let desired = built(&checked, &generated(Vec::new())).unwrap();
        let pod = &desired.deployment.object["spec"]["template"]["spec"];
        pod["containers"][0]["resources"]["requests"].clone()
    };
    assert_eq!(
        requests(json!({"limits": {"cpu": "500m", "memory": "512Mi"}})),
        json!({"cpu": "500m", "memory": "512Mi"})
    );
    assert_eq!(
        requests(json!({"limits": {"cpu": "2", "memory": "4Gi"}})),
        json!({"cpu": "1", "memory": "1Gi"})
    );
    assert_eq!(
        requests(json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "512Mi"}})),
        json!({"cpu": "1", "memory": "2Gi"})
    );
}

#[test]
fn the_longest_id_of_an_external_provider_fits_in_a_container_name() {
    let id = "a".repeat(46);
    let checked = checked(with(
        json!({"externalProviders": {"inference": [{"providerId": id, "image": "quay.io/a/b:1"}]}}),
    ));
    let desired = built(&checked, &generated(Vec::new())).unwrap();
    let pod = &desired.deployment.object["spec"]["template"]["spec"];
    let name = pod["initContainers"][0]["name"].as_str().unwrap();
    assert_eq!(name.len(), 63);
}

fn child(desired: &Desired, kind: Kind) -> Option<&Value> {
    let mut children = desired.children();
    children
        .find(|child| child.kind == kind)
        .map(|child| &child.object)
}

#[test]
fn the_objects_of_a_server_that_accepts_tokens_of_the_cluster() {
    let sample = include_str!("../../../../samples/access.yaml");
    let document: Value = serde_saphyr::from_str(sample).unwrap();
    let desired = built(&checked(document.clone()), &generated(Vec::new())).unwrap();
    let pod = &desired.deployment.object["spec"]["template"]["spec"];
    let by_name = |list: &Value| {
        let mut items = list.as_array().unwrap().iter();
        let found = items.find(|one| one["name"] == "kubernetes-ca");
        found.cloned().unwrap()
    };
    assert_eq!(
        by_name(&pod["volumes"]),
        json!({"name": "kubernetes-ca", "configMap": {"name": "kube-root-ca.crt"}})
    );
    assert_eq!(
        by_name(&pod["containers"][0]["volumeMounts"]),
        json!({"name": "kubernetes-ca", "mountPath": "/etc/kubernetes-ca", "readOnly": true})
    );
    assert_eq!(pod["automountServiceAccountToken"], false);

    let mut other = document;
    other["spec"]["access"]["kubernetes"]["apiServerUrl"] = json!("https://other:6443");
    let desired = built(&checked(other), &generated(Vec::new())).unwrap();
    let pod = &desired.deployment.object["spec"]["template"]["spec"];
    assert!(!pod["volumes"].to_string().contains("kube-root-ca.crt"));
}

/// A resource with one provider and the given fields.
fn with(spec: Value) -> Value {
    let mut document = json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "minimal"},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        },
    });
    let more = spec.as_object().unwrap().clone();
    document["spec"].as_object_mut().unwrap().extend(more);
    document
}

fn built(checked: &Checked, plan: &ConfigPlan) -> Result<Desired, Diagnostics> {
    let (cluster, derived) = (Cluster::default(), DerivedValues::default());
    build_objects(&inputs(checked, plan, &cluster, &derived))
}

fn inputs<'a>(
    checked: &'a Checked,
    plan: &'a ConfigPlan,
    cluster: &'a Cluster,
    derived: &'a DerivedValues,
) -> ObjectInputs<'a> {
    static OWNER: LazyLock<Owner> = LazyLock::new(owner);
    static SERVER: LazyLock<ServerFacts> = LazyLock::new(ServerFacts::default);
    ObjectInputs {
        checked,
        image: IMAGE,
        server: &SERVER,
        plan,
        secrets_digest: None,
        owner: &OWNER,
        cluster,
        ca_bundle: None,
        derived,
        network_policy: None,
        allows_any_uid: false,
        allows_privileged_pods: false,
        kept_privileges: &NO_PRIVILEGES,
    }
}

fn golden(name: &str, desired: &Desired) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let all: Vec<_> = desired.children().map(|child| &child.object).collect();
    settings.bind(|| insta::assert_json_snapshot!(name, all));
}

fn checked(document: Value) -> Checked {
    check_document(document).result.unwrap()
}

fn owner() -> Owner {
    Owner {
        namespace: "ml".to_owned(),
        name: "minimal".to_owned(),
        uid: "0b5a3bd1-6a47-4d5e-9f26-1d2f4d8f4b52".to_owned(),
        pod_app: llsd_api::labels::PRODUCT,
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

/// A generated configuration. The objects depend on its bytes, not on its meaning.
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
        skipped: Vec::new(),
        warnings: Vec::new(),
        schema: SchemaChoice {
            id: "llama-stack/0.7".to_owned(),
            source: SchemaSource::Stated,
        },
        releases: ReleaseRange {
            from: "0.7.0".to_owned(),
            before: None,
        },
        packs: Default::default(),
        receipt: Receipt {
            plugin: "llama-stack".to_owned(),
            version: "0.1.0".to_owned(),
            component: digest.clone(),
            input: digest.clone(),
            output: digest,
            fuel: 0,
            engine: String::new(),
        },
    }))
}
