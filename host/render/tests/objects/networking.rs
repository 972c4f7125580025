//! Services, routes, Gateways and network policies.

use llsd_api::Diagnostics;
use llsd_render::ServerFacts;
use llsd_render::objects::{
    Child, Cluster, DerivedValues, Desired, GatewayApi, Kind, Need, ObjectInputs, Retired,
    build_objects,
};
use serde_json::{Value, json};

use crate::{built, checked, child, generated, golden, inputs, with};

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
        has_pod_monitors: false,
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
fn the_objects_of_a_resource_with_metrics() {
    let checked = checked(with(json!({
        "telemetry": {"metrics": {"port": 9000}},
        "networking": {"allowedFrom": {"namespaces": ["web"]}},
    })));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let monitored = Cluster {
        has_pod_monitors: true,
        ..Cluster::default()
    };
    let desired = build_objects(&inputs(&checked, &plan, &monitored, &derived)).unwrap();
    golden("metrics", &desired);

    let desired = built(&checked, &plan).unwrap();
    let has_monitor = |child: &Child| child.kind == Kind::PodMonitor;
    assert!(!desired.children().any(has_monitor));
    assert!(
        !desired
            .retired
            .iter()
            .any(|one| one.kind == Kind::PodMonitor)
    );
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
    golden("gateway", &desired);
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
