//! Exposes the server through the Gateway API.
//!
//! A server without TLS gets an HTTPRoute. A server with TLS gets a TLSRoute, whose Gateway passes the
//! connections through, or an HTTPRoute and a BackendTLSPolicy, if the Gateway terminates TLS and
//! connects to the server with TLS again.

use kube::core::{ApiResource, GroupVersionKind};
use llsd_api::checked::{Expose, Gateway, GatewayParent};
use llsd_api::{Diagnostic, FieldPath};
use serde_json::{Value, json};

use super::metadata::metadata;
use super::{Child, Cluster, Kind, Need, ObjectInputs, Write, service};

/// Suffix of HTTPRoutes and TLSRoutes.
pub(super) const ROUTE_SUFFIX: &str = "-route";
pub(super) const POLICY_SUFFIX: &str = "-backend-tls";
const API_VERSION: &str = "gateway.networking.k8s.io/v1";
const GROUP: &str = "gateway.networking.k8s.io";

/// What the Gateway API of a cluster has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GatewayApi {
    /// Whether it serves HTTPRoutes.
    pub has_http_routes: bool,
    /// Whether it serves TLSRoutes.
    pub has_tls_routes: bool,
    /// Whether it serves BackendTLSPolicies.
    pub has_backend_tls: bool,
}

impl GatewayApi {
    /// Everything that the operator uses of it.
    pub const COMPLETE: Self = Self {
        has_http_routes: true,
        has_tls_routes: true,
        has_backend_tls: true,
    };
}

/// The kinds of objects that expose the server.
fn kinds(inputs: &ObjectInputs<'_>, gateway: &Gateway) -> &'static [Kind] {
    let server_has_tls = inputs.checked.networking.tls_secret.is_some();
    match (server_has_tls, &gateway.backend_tls) {
        (false, _) => &[Kind::HTTPRoute],
        (true, None) => &[Kind::TLSRoute],
        (true, Some(_)) => &[Kind::HTTPRoute, Kind::BackendTLSPolicy],
    }
}

/// The objects that expose the server.
pub(super) fn objects(inputs: &ObjectInputs<'_>, expose: &Expose, gateway: &Gateway) -> Vec<Child> {
    let kinds = kinds(inputs, gateway).iter();
    kinds
        .map(|kind| {
            let (suffix, object) = match kind {
                Kind::BackendTLSPolicy => (POLICY_SUFFIX, policy(inputs, gateway)),
                kind => (ROUTE_SUFFIX, route(inputs, *kind, expose, gateway)),
            };
            let name = format!("{}{suffix}", inputs.owner.name);
            Child::from_json(*kind, Write::Converge, Need::Optional, name, object)
        })
        .collect()
}

fn route(inputs: &ObjectInputs<'_>, kind: Kind, expose: &Expose, gateway: &Gateway) -> Value {
    let mut metadata = metadata(inputs.owner, ROUTE_SUFFIX);
    metadata.annotations = (!expose.annotations.is_empty()).then(|| expose.annotations.clone());
    let parents: Vec<Value> = gateway.parents.iter().map(parent).collect();
    let backend = json!({
        "group": "", "kind": "Service", "name": service::name(inputs.owner),
        "port": inputs.checked.networking.port(), "weight": 1,
    });
    let mut rule = json!({"backendRefs": [backend]});
    if kind == Kind::HTTPRoute {
        rule["matches"] = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    }
    let mut spec = json!({"parentRefs": parents, "rules": [rule]});
    if !gateway.hostnames.is_empty() {
        spec["hostnames"] = json!(gateway.hostnames);
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": format!("{kind:?}"),
        "metadata": metadata,
        "spec": spec,
    })
}

/// A reference to a Gateway. The defaults are set, so that the live object equals the desired one.
fn parent(parent: &GatewayParent) -> Value {
    let GatewayParent {
        name,
        namespace,
        section_name,
        port,
    } = parent;
    let mut reference = json!({"group": GROUP, "kind": "Gateway", "name": name});
    let optional = [
        ("namespace", json!(namespace)),
        ("sectionName", json!(section_name)),
        ("port", json!(port)),
    ];
    for (key, value) in optional.into_iter().filter(|(_, value)| !value.is_null()) {
        reference[key] = value;
    }
    reference
}

fn policy(inputs: &ObjectInputs<'_>, gateway: &Gateway) -> Value {
    let tls = gateway.backend_tls.clone().unwrap_or_default();
    let service = service::name(inputs.owner);
    let in_cluster = || format!("{service}.{}.svc", inputs.owner.namespace);
    let mut validation = json!({"hostname": tls.hostname.unwrap_or_else(in_cluster)});
    match tls.ca_config_map {
        Some(name) => {
            let reference = json!({"group": "", "kind": "ConfigMap", "name": name});
            validation["caCertificateRefs"] = json!([reference]);
        }
        None => validation["wellKnownCACertificates"] = json!("System"),
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "BackendTLSPolicy",
        "metadata": metadata(inputs.owner, POLICY_SUFFIX),
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": service}],
            "validation": validation,
        },
    })
}

/// Rejects a Gateway on a cluster without the API that it needs.
pub(super) fn check(inputs: &ObjectInputs<'_>) -> Option<Diagnostic> {
    let gateway = inputs
        .checked
        .networking
        .expose
        .as_ref()?
        .gateway
        .as_ref()?;
    let kinds = kinds(inputs, gateway).iter();
    let missing: Vec<String> = kinds
        .filter(|kind| !kind.is_served(inputs.cluster))
        .map(|kind| format!("{kind:?}"))
        .collect();
    (!missing.is_empty()).then(|| {
        Diagnostic::error(
            FieldPath::spec().at(&["networking", "expose", "gateway"]),
            format!(
                "the cluster does not serve {} of {API_VERSION}, or the operator may not use it",
                missing.join(" and ")
            ),
            "install the Gateway API and restart the operator, or remove gateway to get an Ingress or Route",
        )
    })
}

/// What a Gateway says about a live HTTPRoute or TLSRoute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteAcceptance {
    /// Whether a Gateway accepts the route.
    pub is_accepted: bool,
    /// The URLs of the host names, if a Gateway accepts the route.
    pub urls: Vec<String>,
    /// Why Gateways do not accept it, one line each.
    pub problems: Vec<String>,
}

/// Reads the acceptance of a live HTTPRoute or TLSRoute; `None` for another object. A route that no
/// controller has looked at has neither URLs nor problems.
pub fn route_acceptance(live: &Value) -> Option<RouteAcceptance> {
    let spec = &live["spec"];
    spec["parentRefs"].as_array()?;
    let mut found = RouteAcceptance {
        is_accepted: false,
        urls: Vec::new(),
        problems: Vec::new(),
    };
    for status in live["status"]["parents"].as_array().into_iter().flatten() {
        let parent = &status["parentRef"];
        let condition = |kind: &str| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.find(|one| one["type"] == kind)
        };
        let is_true = |kind: &str| condition(kind).map(|one| one["status"] == "True");
        let is_routed = is_true("Accepted") == Some(true) && is_true("ResolvedRefs") != Some(false);
        found.is_accepted |= is_routed;
        if is_routed {
            found.urls.extend(urls_at(parent, spec));
        }
        let failed = ["Accepted", "ResolvedRefs"]
            .into_iter()
            .filter(|kind| is_true(kind) == Some(false));
        for one in failed.filter_map(condition) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            found.problems.push(format!(
                "Gateway {:?}: {}: {}",
                text(&parent["name"]),
                text(&one["reason"]),
                text(&one["message"])
            ));
        }
    }
    Some(found)
}

/// The URLs of a route at one parent. A route does not know the protocol of its listener, so it is plain
/// HTTP only if the reference names port 80 or the listener `http`.
fn urls_at(parent: &Value, spec: &Value) -> Vec<String> {
    // Only HTTPRoutes have matches.
    let is_http_route = !spec["rules"][0]["matches"].is_null();
    let is_plain = parent["port"] == 80 || parent["sectionName"] == "http";
    let scheme = match is_http_route && is_plain {
        true => "http",
        false => "https",
    };
    let port = parent["port"]
        .as_u64()
        .filter(|port| ![80, 443].contains(port));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let hostnames = spec["hostnames"].as_array().into_iter().flatten();
    let hostnames = hostnames.filter_map(Value::as_str);
    hostnames
        .map(|host| format!("{scheme}://{host}{port}"))
        .collect()
}

/// The API resource of a kind of the Gateway API.
pub(super) fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", kind), plural)
}

/// Whether the cluster serves a kind of the Gateway API.
pub(super) fn is_served(kind: Kind, cluster: &Cluster) -> bool {
    let GatewayApi {
        has_http_routes,
        has_tls_routes,
        has_backend_tls,
    } = cluster.gateway_api;
    match kind {
        Kind::HTTPRoute => has_http_routes,
        Kind::TLSRoute => has_tls_routes,
        Kind::BackendTLSPolicy => has_backend_tls,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(parent: Value, conditions: Value) -> Option<RouteAcceptance> {
        let rules = json!([{"matches": [{"path": {"value": "/"}}]}]);
        let hostnames = json!(["a.example.com", "b.example.com"]);
        route_acceptance(&json!({
            "spec": {"parentRefs": [parent], "hostnames": hostnames, "rules": rules},
            "status": {"parents": [{"parentRef": parent, "conditions": conditions}]},
        }))
    }

    #[test]
    fn an_accepted_route_has_the_urls_of_its_host_names() {
        let accepted = json!([{"type": "Accepted", "status": "True"}]);
        for (parent, first) in [
            (json!({"name": "g"}), "https://a.example.com"),
            (json!({"name": "g", "port": 80}), "http://a.example.com"),
            (
                json!({"name": "g", "port": 8443}),
                "https://a.example.com:8443",
            ),
            (
                json!({"name": "g", "sectionName": "http"}),
                "http://a.example.com",
            ),
        ] {
            let found = live(parent, accepted.clone()).expect("a route");
            assert_eq!((found.urls[0].as_str(), found.urls.len()), (first, 2));
            assert!(found.is_accepted && found.problems.is_empty());
        }
    }

    #[test]
    fn a_rejected_route_has_no_url_and_the_words_of_the_gateway() {
        let rejected = json!([
            {"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "message": "no"},
        ]);
        let found = live(json!({"name": "g"}), rejected).expect("a route");
        assert_eq!(found.urls, Vec::<String>::new());
        assert_eq!(
            found.problems,
            [r#"Gateway "g": NotAllowedByListeners: no"#]
        );
        let unseen = json!({"spec": {"parentRefs": [{"name": "g"}], "rules": [{}]}});
        let unseen = route_acceptance(&unseen).expect("a route");
        assert!(!unseen.is_accepted && unseen.problems.is_empty());
        assert_eq!(route_acceptance(&json!({"spec": {"rules": [{}]}})), None);
    }
}
