//! The NetworkPolicy, which restricts connections to the pods.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::v1alpha2::AllowedFrom;

use super::ObjectInputs;
use super::metadata::{metadata, selector, string_map};

pub(super) const SUFFIX: &str = "-network-policy";
/// Label with the name of a namespace, which every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Label of the namespace of the OpenShift routers.
const ROUTER: (&str, &str) = ("network.openshift.io/policy-group", "ingress");
/// Label of the namespaces of the OpenShift monitoring.
const MONITORING: (&str, &str) = ("network.openshift.io/policy-group", "monitoring");
const EVERY_NAMESPACE: &str = "*";
const DNS_PORT: i32 = 53;

/// The NetworkPolicy, if the resource sets `allowedFrom` or `egress`. For a resource that was created as v1alpha1
/// the operator's settings decide, as in llama-stack-k8s-operator: a policy that appears unexpectedly
/// blocks traffic.
pub(super) fn network_policy(inputs: &ObjectInputs<'_>) -> Option<NetworkPolicy> {
    let networking = &inputs.checked.networking;
    let allows_some = networking.allowed_from.is_some();
    let limits_ingress = inputs.network_policy.unwrap_or(allows_some);
    let limits_egress = networking.egress.is_some();
    let is_enabled = limits_ingress || limits_egress;
    is_enabled.then(|| NetworkPolicy {
        metadata: metadata(inputs.owner, SUFFIX),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(selector(inputs.owner)),
                ..LabelSelector::default()
            }),
            policy_types: Some(
                [("Ingress", limits_ingress), ("Egress", limits_egress)]
                    .into_iter()
                    .filter(|(_, is_limited)| *is_limited)
                    .map(|(kind, _)| kind.to_owned())
                    .collect(),
            ),
            ingress: limits_ingress.then(|| ingress(inputs)),
            egress: networking.egress.as_deref().map(egress),
        }),
    })
}

/// Clients may connect to the server. Whoever may do so may read its metrics, and so may the monitoring of
/// OpenShift.
fn ingress(inputs: &ObjectInputs<'_>) -> Vec<NetworkPolicyIngressRule> {
    let rule = |port: u16, from: Vec<NetworkPolicyPeer>| NetworkPolicyIngressRule {
        from: Some(from),
        ports: Some(vec![NetworkPolicyPort {
            port: Some(IntOrString::Int(i32::from(port))),
            protocol: Some("TCP".to_owned()),
            end_port: None,
        }]),
    };
    let server = rule(inputs.checked.networking.port(), peers(inputs));
    let metrics = inputs.checked.telemetry.metrics_port.map(|port| {
        let mut from = peers(inputs);
        from.push(labelled(MONITORING.0, MONITORING.1));
        rule(port, from)
    });
    std::iter::once(server).chain(metrics).collect()
}

/// The rules of the resource, and DNS: without it no name of a service resolves.
fn egress(rules: &[NetworkPolicyEgressRule]) -> Vec<NetworkPolicyEgressRule> {
    let dns = ["UDP", "TCP"].map(|protocol| NetworkPolicyPort {
        port: Some(IntOrString::Int(DNS_PORT)),
        protocol: Some(protocol.to_owned()),
        end_port: None,
    });
    let dns = NetworkPolicyEgressRule {
        ports: Some(dns.to_vec()),
        to: None,
    };
    std::iter::once(dns).chain(rules.iter().cloned()).collect()
}

fn peers(inputs: &ObjectInputs<'_>) -> Vec<NetworkPolicyPeer> {
    let networking = &inputs.checked.networking;
    let none = AllowedFrom::default();
    let AllowedFrom {
        namespaces,
        labels,
        peers,
    } = networking.allowed_from.as_ref().unwrap_or(&none);
    let namespaces = || namespaces.iter().flatten();
    if namespaces().any(|name| name == EVERY_NAMESPACE) {
        return vec![namespaces_with(LabelSelector::default())];
    }
    let own = peers.is_none().then(|| NetworkPolicyPeer {
        pod_selector: Some(LabelSelector::default()),
        ..NetworkPolicyPeer::default()
    });
    let operator = inputs.cluster.operator_namespace.iter();
    let expose = networking.expose.as_ref();
    let gateway = expose.and_then(|expose| expose.gateway.as_ref());
    let gateways = gateway.into_iter().flat_map(|gateway| &gateway.parents);
    let gateways = gateways.filter_map(|parent| parent.namespace.as_ref());
    let named = operator
        .chain(namespaces())
        .chain(gateways)
        .map(|name| labelled(NAMESPACE_NAME, name));
    let marked = labels.iter().flatten().map(|key| {
        namespaces_with(LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.clone(),
                operator: "Exists".to_owned(),
                values: None,
            }]),
            ..LabelSelector::default()
        })
    });
    let router = networking
        .mentions_access
        .then(|| labelled(ROUTER.0, ROUTER.1));
    own.into_iter()
        .chain(peers.iter().flatten().cloned())
        .chain(named)
        .chain(marked)
        .chain(router)
        .collect()
}

fn labelled(key: &str, value: &str) -> NetworkPolicyPeer {
    namespaces_with(LabelSelector {
        match_labels: Some(string_map([(key, value)])),
        ..LabelSelector::default()
    })
}

fn namespaces_with(selector: LabelSelector) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(selector),
        ..NetworkPolicyPeer::default()
    }
}
