//! Snapshots of all objects of a resource: a change of one byte would replace pods.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use llsd_adapter_sdk::documents::{Counts, Part, ReadAs, Startup};
use llsd_api::checked::{Checked, Reference, check_document};
use llsd_api::{Diagnostics, FieldPath};
use llsd_render::ca_bundle::{CaBundle, CaSource, TrustedCa};
use llsd_render::objects::{
    Cluster, ConfigPlan, DESIRED_DIGEST, DerivedValues, Desired, FrozenObjects, GatewayApi, Kind,
    Need, ObjectInputs, Owner, Privileges, Retired, build_objects,
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
fn the_objects_of_a_server_with_tls_an_ingress_and_a_network_policy() {
    let checked = checked(with(json!({
        "networking": {
            "port": 8443,
            "tls": {"secretName": "llama-tls"},
            "expose": {
                "hostname": "llama.example.com",
                "ingressClassName": "public",
                "tlsSecretName": "edge-tls",
                "annotations": {"example.com/team": "ml"},
            },
            "allowedFrom": {"namespaces": ["app"], "labels": ["example.com/llama"]},
        },
    })));
    let (cluster, derived) = (Cluster::default(), DerivedValues::default());
    let plan = generated(Vec::new());
    let server = ServerFacts {
        user: Some("1001:0".to_owned()),
        ..ServerFacts::default()
    };
    let inputs = ObjectInputs {
        server: &server,
        ..inputs(&checked, &plan, &cluster, &derived)
    };
    golden("exposed", &build_objects(&inputs).unwrap());

    let openshift = Cluster {
        has_routes: true,
        gateway_api: GatewayApi::default(),
        has_any_uid: true,
        operator_namespace: Some("llsd-system".to_owned()),
    };
    let inputs = ObjectInputs {
        cluster: &openshift,
        allows_any_uid: true,
        ..inputs
    };
    golden("openshift", &build_objects(&inputs).unwrap());
}

/// Issue I, row 16.
#[test]
fn on_openshift_the_pods_may_not_run_as_any_user_unless_the_installer_allows_it() {
    let checked = checked(with(json!({})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let openshift = Cluster {
        has_routes: true,
        gateway_api: GatewayApi::default(),
        has_any_uid: true,
        operator_namespace: None,
    };
    for allows_any_uid in [false, true] {
        let desired = build_objects(&ObjectInputs {
            allows_any_uid,
            ..inputs(&checked, &plan, &openshift, &derived)
        })
        .unwrap();
        let is_bound = desired
            .children()
            .any(|child| child.kind == Kind::RoleBinding);
        let is_retired = desired
            .retired
            .iter()
            .any(|one| one.kind == Kind::RoleBinding && one.name == "minimal-rb");
        let pod = &desired.deployment.object["spec"]["template"]["spec"];
        let group = &pod["securityContext"]["fsGroup"];
        assert_eq!(is_bound, allows_any_uid);
        assert_eq!(is_retired, !allows_any_uid);
        assert_eq!(*group == 1001, allows_any_uid, "{group}");
    }
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
    let text = include_str!("ca.pem");
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
    let sample = include_str!("../../../samples/external-provider.yaml");
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
fn the_operator_setting_overrides_the_resource_for_the_network_policy() {
    let checked = checked(with(
        json!({"networking": {"allowedFrom": {"namespaces": ["*"]}}}),
    ));
    let (cluster, derived) = (Cluster::default(), DerivedValues::default());
    let plan = generated(Vec::new());
    for (setting, expected) in [(None, true), (Some(true), true), (Some(false), false)] {
        let inputs = ObjectInputs {
            network_policy: setting,
            ..inputs(&checked, &plan, &cluster, &derived)
        };
        let desired = build_objects(&inputs).unwrap();
        let has_policy = desired
            .children()
            .any(|child| child.kind == Kind::NetworkPolicy);
        assert_eq!(has_policy, expected, "{setting:?}");
    }
}

/// Issue I, row 18.
#[test]
fn the_network_policy_is_applied_before_the_pods_and_its_failure_stops_the_pass() {
    let checked = checked(with(
        json!({"networking": {"allowedFrom": {"namespaces": ["app"]}}}),
    ));
    let desired = built(&checked, &generated(Vec::new())).unwrap();
    let policy = desired
        .before
        .iter()
        .find(|child| child.kind == Kind::NetworkPolicy);
    assert_eq!(policy.map(|policy| policy.need), Some(Need::Essential));
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
fn volumes_and_mounts_of_the_user_that_collide_with_the_operators_are_errors() {
    let overrides = |volumes: Value, mounts: Value| {
        let overrides = json!({"volumes": volumes, "volumeMounts": mounts});
        checked(with(json!({"workload": {"overrides": overrides}})))
    };
    let fields = |checked: &Checked, plan: &ConfigPlan| -> Vec<String> {
        let errors = built(checked, plan).err().into_iter().flatten();
        errors.map(|one| one.field.to_string()).collect()
    };
    let clash = overrides(
        json!([{"name": "mine", "emptyDir": {}}, {"name": "user-config", "emptyDir": {}}]),
        json!([{"name": "mine", "mountPath": "/mine"}, {"name": "mine", "mountPath": "/etc/llama-stack/"}]),
    );
    assert_eq!(
        fields(&clash, &generated(Vec::new())),
        [
            "spec.workload.overrides.volumeMounts[1].mountPath",
            "spec.workload.overrides.volumes[1].name",
        ]
    );
    // Without a generated configuration, the operator uses neither the name nor the path.
    assert_eq!(fields(&clash, &ConfigPlan::DistributionDefault), [""; 0]);
    // The API server accepts another mount of the operator's volume, and a path in another spelling.
    let again = overrides(
        json!([]),
        json!([{"name": "lls-storage", "mountPath": "/elsewhere"}, {"name": "lls-storage", "mountPath": "/.llama/"}]),
    );
    assert_eq!(fields(&again, &generated(Vec::new())), [""; 0]);
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

fn with_storage(storage: Value) -> Desired {
    let checked = checked(with(json!({"workload": {"storage": storage}})));
    built(&checked, &generated(Vec::new())).unwrap()
}

#[test]
fn a_volume_has_the_class_and_the_modes_of_the_resource() {
    let desired = with_storage(json!({
        "storageClassName": "fast", "accessModes": ["ReadWriteMany"], "retainPolicy": "Retain",
    }));
    let claim = child(&desired, Kind::PersistentVolumeClaim).unwrap();
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    // Without an owner it survives the resource.
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
    let strategy = &desired.deployment.object["spec"]["strategy"]["type"];
    assert_eq!(strategy, "RollingUpdate", "pods can share the volume");

    let desired = with_storage(json!({"retainPolicy": "Delete"}));
    let claim = child(&desired, Kind::PersistentVolumeClaim).unwrap();
    assert_eq!(
        claim["metadata"]["ownerReferences"][0]["name"],
        owner().name
    );
    assert_eq!(claim["spec"]["storageClassName"], Value::Null);
}

#[test]
fn the_objects_of_a_resource_with_a_retained_volume_peers_and_egress() {
    let resource = with(json!({
        "workload": {"storage": {
            "size": "20Gi", "storageClassName": "fast", "accessModes": ["ReadWriteMany"], "retainPolicy": "Retain",
        }},
        "networking": {
            "allowedFrom": {"namespaces": ["web"], "peers": [{"podSelector": {"matchLabels": {"app": "web"}}}]},
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443, "protocol": "TCP"}]}],
        },
    }));
    let desired = built(&checked(resource), &generated(Vec::new())).unwrap();
    golden("retained_and_limited", &desired);
}

#[test]
fn the_objects_of_a_server_that_accepts_tokens_of_the_cluster() {
    let sample = include_str!("../../../samples/access.yaml");
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

/// Objects with a pod template, built with or without the consent of the installer.
fn with_template(template: Value, allows_privileged_pods: bool) -> Result<Desired, Vec<String>> {
    let checked = checked(with(json!({"workload": {"podTemplate": template}})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let cluster = Cluster::default();
    let built = build_objects(&ObjectInputs {
        allows_privileged_pods,
        ..inputs(&checked, &plan, &cluster, &derived)
    });
    built.map_err(|problems| problems.iter().map(|one| one.field.to_string()).collect())
}

#[test]
fn the_objects_of_a_resource_with_a_pod_template() {
    let desired = with_template(
        json!({
            "metadata": {"labels": {"team": "ml"}, "annotations": {"prometheus.io/scrape": "true"}},
            "spec": {
                "nodeSelector": {"gpu": "true"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "runtimeClassName": "nvidia",
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                "securityContext": {"runAsUser": 1001},
                "volumes": [{"name": "models", "emptyDir": {}}],
                "initContainers": [{"name": "download", "image": "fetch:1"}],
                "containers": [
                    {
                        "name": "llama-stack",
                        "envFrom": [{"secretRef": {"name": "more"}}],
                        "resources": {"claims": [{"name": "gpu"}]},
                        "readinessProbe": {"tcpSocket": {"port": 8321}, "periodSeconds": 3},
                        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
                    },
                    {"name": "proxy", "image": "proxy:1"},
                ],
            },
        }),
        false,
    );
    let desired = desired.unwrap();
    let template = &desired.deployment.object["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["app"], "llama-stack");
    let server = &template["spec"]["containers"][0];
    assert_eq!(server["image"], IMAGE);
    let probe = &server["readinessProbe"];
    assert_eq!(
        (&probe["httpGet"], &probe["periodSeconds"]),
        (&Value::Null, &json!(3))
    );
    golden("pod_template", &desired);
}

#[test]
fn a_pod_template_is_rejected_where_the_operator_uses_the_name_or_the_path() {
    let colliding = json!({"spec": {
        "volumes": [{"name": "lls-storage", "emptyDir": {}}],
        "containers": [{"name": "llama-stack", "volumeMounts": [
            {"name": "a", "mountPath": "/etc/../etc//llama-stack/config.yaml"},
            {"name": "a", "mountPath": "/.llama"},
            {"name": "a", "mountPath": "/.llama/models"},
        ]}],
    }});
    let expected = [
        "volumes[0].name",
        "containers[0].volumeMounts[0].mountPath",
        "containers[0].volumeMounts[1].mountPath",
    ];
    let mut expected = expected.map(|field| format!("spec.workload.podTemplate.spec.{field}"));
    expected.sort();
    let mut found = with_template(colliding, true).unwrap_err();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn pods_have_privileges_only_with_the_consent_of_the_installer() {
    let template = json!({"spec": {
        "hostNetwork": true, "serviceAccountName": "admin",
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        "containers": [{"name": "llama-stack", "securityContext": {"privileged": true}}],
    }});
    let fields = [
        "containers[0].securityContext.privileged",
        "hostNetwork",
        "serviceAccountName",
        "volumes[0].hostPath",
    ];
    let mut found = with_template(template.clone(), false).unwrap_err();
    found.sort();
    assert_eq!(
        found,
        fields.map(|field| format!("spec.workload.podTemplate.spec.{field}"))
    );
    let pod = with_template(template, true).unwrap().deployment.object["spec"]["template"]["spec"]
        .clone();
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["containers"][0]["securityContext"]["privileged"], true);
}

#[test]
fn a_secret_file_is_mounted_and_its_path_is_a_setting_and_a_variable() {
    let checked = checked(with(json!({
        "providers": {"inference": [
            {"id": "vllm", "provider": "vllm", "endpoint": "http://vllm:8000", "secretFiles": [
                {"name": "ca", "key": "ca.crt", "setting": "network.tls.verify"},
                {"name": "client", "key": "tls.key", "path": "/certs/key.pem"},
            ]},
            {"id": "vertex", "provider": "vertexai", "settings": {"project": "p"}, "secretFiles": [
                {"name": "gcp", "key": "key.json", "env": "GOOGLE_APPLICATION_CREDENTIALS"},
            ]},
        ]},
    })));
    let default = "/etc/llama-stack-files/vllm/ca/ca.crt";
    assert_eq!(
        checked.providers[0].settings["network"]["tls"]["verify"],
        default
    );
    let desired = built(&checked, &generated(Vec::new())).unwrap();
    let server = &desired.deployment.object["spec"]["template"]["spec"]["containers"][0];
    let variables = server["env"].as_array().unwrap();
    let variable = json!({
        "name": "GOOGLE_APPLICATION_CREDENTIALS",
        "value": "/etc/llama-stack-files/vertex/gcp/key.json",
    });
    assert!(variables.contains(&variable), "{variables:?}");
    let mounts = server["volumeMounts"].as_array().unwrap();
    let own = json!({
        "name": "secret-files", "mountPath": "/certs/key.pem", "subPath": "vllm/client/tls.key",
        "readOnly": true,
    });
    assert!(mounts.contains(&own), "{mounts:?}");
    let folder = json!({
        "name": "secret-files", "mountPath": "/etc/llama-stack-files", "readOnly": true,
    });
    assert!(mounts.contains(&folder), "{mounts:?}");
    let source = |secret: &str, key: &str, path: &str| json!({"secret": {"name": secret, "items": [{"key": key, "path": path}]}});
    let volume = json!({"name": "secret-files", "projected": {"sources": [
        source("gcp", "key.json", "vertex/gcp/key.json"),
        source("ca", "ca.crt", "vllm/ca/ca.crt"),
        source("client", "tls.key", "vllm/client/tls.key"),
    ]}});
    let volumes = &desired.deployment.object["spec"]["template"]["spec"]["volumes"];
    assert!(volumes.as_array().unwrap().contains(&volume), "{volumes}");
}

#[test]
fn a_secret_file_cannot_be_in_a_directory_that_the_operator_mounts() {
    let file = json!({"name": "s", "key": "k", "path": "/etc/llama-stack/key"});
    let checked = checked(with(json!({"providers": {"inference": {
        "provider": "vllm", "endpoint": "http://vllm:8000", "secretFiles": [file],
    }}})));
    let problems = built(&checked, &generated(Vec::new())).unwrap_err();
    let fields: Vec<String> = problems.iter().map(|one| one.field.to_string()).collect();
    assert_eq!(fields, ["spec.providers.inference.secretFiles[0].path"]);
}

/// The objects of a resource with a Gateway, on a cluster with a part of the Gateway API.
fn with_gateway(networking: Value, gateway_api: GatewayApi) -> Result<Desired, Diagnostics> {
    let checked = checked(with(json!({"networking": networking})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let cluster = Cluster {
        gateway_api,
        // A Gateway has precedence over Routes.
        has_routes: true,
        ..Cluster::default()
    };
    build_objects(&inputs(&checked, &plan, &cluster, &derived))
}

#[test]
fn the_objects_of_a_resource_behind_a_gateway() {
    let gateway = json!({
        "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https", "port": 443}],
        "hostnames": ["llama.example.com"],
    });
    let plain = json!({
        "expose": {"gateway": gateway, "annotations": {"example.com/team": "ml"}},
        "allowedFrom": {"namespaces": ["app"]},
    });
    let desired = with_gateway(plain, GatewayApi::COMPLETE).unwrap();
    let kinds = |desired: &Desired| -> Vec<Kind> {
        let after = desired.after.iter().map(|child| child.kind);
        after.filter(|kind| *kind != Kind::Service).collect()
    };
    assert_eq!(kinds(&desired), [Kind::HTTPRoute]);
    let object = |desired: &Desired, kind: Kind| -> Value {
        let mut after = desired.after.iter();
        after
            .find(|child| child.kind == kind)
            .unwrap()
            .object
            .clone()
    };
    let backend = json!({
        "group": "", "kind": "Service", "name": "minimal-service", "port": 8321, "weight": 1,
    });
    let parent = json!({
        "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public",
        "namespace": "gateways", "sectionName": "https", "port": 443,
    });
    let route = object(&desired, Kind::HTTPRoute);
    assert_eq!(
        route["spec"],
        json!({
            "parentRefs": [parent],
            "hostnames": ["llama.example.com"],
            "rules": [{
                "backendRefs": [backend],
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            }],
        })
    );
    let metadata = &route["metadata"];
    assert_eq!(metadata["name"], "minimal-route");
    assert_eq!(metadata["annotations"]["example.com/team"], "ml");
    // The proxies of the Gateway may connect.
    let policy = desired.before.iter();
    let mut policy = policy.filter(|child| child.kind == Kind::NetworkPolicy);
    let policy = policy.next().unwrap().object["spec"]["ingress"].to_string();
    assert!(policy.contains("\"gateways\""), "{policy}");
    let is_retired = |one: &Retired| one.kind == Kind::TLSRoute && one.name == "minimal-route";
    assert!(desired.retired.iter().any(is_retired));

    let tls = json!({"secretName": "llama-tls"});
    let passed = json!({"tls": tls, "expose": {"gateway": gateway}});
    let desired = with_gateway(passed, GatewayApi::COMPLETE).unwrap();
    assert_eq!(kinds(&desired), [Kind::TLSRoute]);
    let mut again = gateway;
    again["backendTLS"] = json!({"caConfigMapName": "llama-ca"});
    let again = json!({"tls": tls, "expose": {"gateway": again}});
    let desired = with_gateway(again, GatewayApi::COMPLETE).unwrap();
    assert_eq!(kinds(&desired), [Kind::HTTPRoute, Kind::BackendTLSPolicy]);
    assert_eq!(
        object(&desired, Kind::BackendTLSPolicy)["spec"],
        json!({
            "targetRefs": [{"group": "", "kind": "Service", "name": "minimal-service"}],
            "validation": {
                "hostname": "minimal-service.ml.svc",
                "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "llama-ca"}],
            },
        })
    );
}

#[test]
fn a_gateway_needs_a_cluster_with_the_kinds_that_it_uses() {
    let gateway = json!({"parentRefs": [{"name": "public"}], "hostnames": ["llama.example.com"]});
    let passed = json!({"tls": {"secretName": "t"}, "expose": {"gateway": gateway}});
    let without = GatewayApi {
        has_tls_routes: false,
        ..GatewayApi::COMPLETE
    };
    let problems = with_gateway(passed, without).unwrap_err();
    let problem = problems.iter().next().unwrap().to_string();
    let expected = "spec.networking.expose.gateway: the cluster does not serve TLSRoute";
    assert!(problem.starts_with(expected), "{problem}");
    let plain = json!({"expose": {"gateway": gateway}});
    assert!(with_gateway(plain.clone(), without).is_ok());
    assert!(with_gateway(plain, GatewayApi::default()).is_err());
}

/// The fields of overrides that are rejected in a namespace that the installer did not list.
fn denied_overrides(overrides: Value, kept: &Privileges, is_listed: bool) -> Vec<String> {
    let checked = checked(with(json!({"workload": {"overrides": overrides}})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let cluster = Cluster::default();
    let built = build_objects(&ObjectInputs {
        allows_privileged_pods: is_listed,
        kept_privileges: kept,
        ..inputs(&checked, &plan, &cluster, &derived)
    });
    let problems = built.err();
    let problems = problems.iter().flat_map(|all| all.iter());
    problems.map(|one| one.field.to_string()).collect()
}

#[test]
fn host_paths_and_accounts_in_overrides_need_the_consent_of_the_installer_or_ran_before() {
    let overrides = json!({
        "serviceAccountName": "runner",
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "models", "hostPath": {"path": "/models"}},
            {"name": "root", "hostPath": {"path": "/"}},
        ],
    });
    let fields = |names: &[&str]| -> Vec<String> {
        let names = names.iter();
        names
            .map(|name| format!("spec.workload.overrides.{name}"))
            .collect()
    };
    let denied = |kept: &Privileges| denied_overrides(overrides.clone(), kept, false);
    let all = [
        "serviceAccountName",
        "volumes[1].hostPath",
        "volumes[2].hostPath",
    ];
    assert_eq!(denied(&Privileges::default()), fields(&all));
    assert_eq!(
        denied_overrides(overrides.clone(), &Privileges::default(), true),
        fields(&[])
    );
    let of_pods = |account: &str| {
        Privileges::of_template(&json!({"spec": {
            "serviceAccountName": account,
            "volumes": [{"name": "other", "hostPath": {"path": "/models"}}],
        }}))
    };
    assert_eq!(denied(&of_pods("runner")), fields(&all[2..]));
    assert_eq!(denied(&of_pods("other")), fields(&[all[0], all[2]]));
    for name in ["", "minimal-sa"] {
        let own = json!({"serviceAccountName": name});
        assert_eq!(
            denied_overrides(own, &Privileges::default(), false),
            fields(&[])
        );
    }
}

#[test]
fn an_existing_claim_is_mounted_and_none_is_created() {
    let desired = with_storage(json!({"existingClaim": "models", "mountPath": "/models"}));
    assert!(child(&desired, Kind::PersistentVolumeClaim).is_none());
    let pod = &desired.deployment.object["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let names = volumes
        .iter()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["models"]);
    let strategy = &desired.deployment.object["spec"]["strategy"]["type"];
    assert_eq!(strategy, "Recreate");
}

#[test]
fn a_network_policy_has_pod_selectors_and_egress_rules() {
    let policy = |networking: Value| {
        let checked = checked(with(json!({"networking": networking})));
        let desired = built(&checked, &generated(Vec::new())).unwrap();
        child(&desired, Kind::NetworkPolicy).unwrap()["spec"].clone()
    };
    let web = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    let spec = policy(json!({"allowedFrom": {"peers": [web]}}));
    assert_eq!(spec["policyTypes"], json!(["Ingress"]));
    let from = spec["ingress"][0]["from"].as_array().unwrap();
    assert!(from.contains(&web));
    assert!(
        !from.contains(&json!({"podSelector": {}})),
        "only selected pods: {from:?}"
    );
    assert_eq!(spec["egress"], Value::Null);

    let vllm = json!({"to": [{"podSelector": {"matchLabels": {"app": "vllm"}}}]});
    let spec = policy(json!({"egress": [vllm]}));
    assert_eq!(
        spec["policyTypes"],
        json!(["Egress"]),
        "clients stay unrestricted"
    );
    assert_eq!(spec["ingress"], Value::Null);
    let dns = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]});
    assert_eq!(spec["egress"], json!([dns, vllm]));
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
    settings.set_snapshot_path("golden");
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
