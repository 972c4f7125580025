//! Exposes the server outside the cluster: through a Gateway if the resource names one, otherwise with a
//! Route if the cluster serves that API, and with an Ingress if not.
//!
//! Only fields from the resource are set, so that annotations and labels of others are preserved.

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};
use llsd_api::checked::Expose;
use serde_json::{Value, json};

use super::metadata::metadata;
use super::{Child, Kind, Need, ObjectInputs, Write, gateway, service};

pub(super) const INGRESS_SUFFIX: &str = "-ingress";
pub(super) const ROUTE_SUFFIX: &str = "-route";
/// Annotation that makes ingress-nginx connect to the server with TLS.
const BACKEND_PROTOCOL: (&str, &str) = ("nginx.ingress.kubernetes.io/backend-protocol", "HTTPS");

/// The objects that expose the server, if the resource requests it.
pub(super) fn exposure(inputs: &ObjectInputs<'_>) -> Vec<Child> {
    let Some(expose) = &inputs.checked.networking.expose else {
        return Vec::new();
    };
    if let Some(gateway) = &expose.gateway {
        return gateway::objects(inputs, expose, gateway);
    }
    vec![if inputs.cluster.has_routes {
        let name = format!("{}{ROUTE_SUFFIX}", inputs.owner.name);
        let route = route(inputs, expose);
        Child::from_json(Kind::Route, Write::Converge, Need::Optional, name, route)
    } else {
        let ingress = ingress(inputs, expose);
        Child::new(Kind::Ingress, Write::Converge, Need::Optional, &ingress)
    }]
}

/// The URL of a live Ingress or Route, or of a route to a Gateway. `None` if it has no address yet.
pub fn exposed_url(live: &Value) -> Option<String> {
    if let Some(route) = gateway::route_acceptance(live) {
        return route.urls.into_iter().next();
    }
    let spec = &live["spec"];
    let balancer = &live["status"]["loadBalancer"]["ingress"][0];
    let candidates = [
        // Also set if the cluster chose the host of a Route.
        &spec["host"],
        &live["status"]["ingress"][0]["host"],
        &spec["rules"][0]["host"],
        &balancer["hostname"],
        &balancer["ip"],
    ];
    let host = candidates
        .into_iter()
        .filter_map(Value::as_str)
        .find(|host| !host.is_empty())?;
    let scheme = if spec["tls"].is_null() {
        "http"
    } else {
        "https"
    };
    Some(format!("{scheme}://{host}"))
}

fn ingress(inputs: &ObjectInputs<'_>, expose: &Expose) -> Ingress {
    let Expose {
        hostname,
        ingress_class_name,
        tls_secret_name,
        annotations,
        gateway: _,
    } = expose;
    let networking = &inputs.checked.networking;
    let mut metadata = metadata(inputs.owner, INGRESS_SUFFIX);
    let mut annotations = annotations.clone();
    if networking.tls_secret.is_some() {
        let (key, value) = BACKEND_PROTOCOL;
        annotations
            .entry(key.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: service::name(inputs.owner),
            port: Some(ServiceBackendPort {
                number: Some(i32::from(networking.port())),
                name: None,
            }),
        }),
        resource: None,
    };
    Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: ingress_class_name.clone(),
            tls: tls_secret_name.as_ref().map(|secret| {
                vec![IngressTLS {
                    hosts: hostname.clone().map(|host| vec![host]),
                    secret_name: Some(secret.clone()),
                }]
            }),
            rules: Some(vec![IngressRule {
                host: hostname.clone(),
                http: Some(HTTPIngressRuleValue {
                    paths: vec![HTTPIngressPath {
                        path: Some("/".to_owned()),
                        path_type: "Prefix".to_owned(),
                        backend,
                    }],
                }),
            }]),
            ..IngressSpec::default()
        }),
        ..Ingress::default()
    }
}

/// The Route. TLS of the server is passed through, or re-encrypted if the router has its own
/// certificate. For a server without TLS, the router terminates TLS, so that the Route is never plain
/// HTTP.
fn route(inputs: &ObjectInputs<'_>, expose: &Expose) -> Value {
    let Expose {
        hostname,
        ingress_class_name: _,
        tls_secret_name,
        annotations,
        gateway: _,
    } = expose;
    let server_has_tls = inputs.checked.networking.tls_secret.is_some();
    let termination = match (server_has_tls, tls_secret_name) {
        (true, None) => "passthrough",
        (true, Some(_)) => "reencrypt",
        (false, _) => "edge",
    };
    let mut tls = json!({
        "termination": termination,
        "insecureEdgeTerminationPolicy": "Redirect",
    });
    if let Some(secret) = tls_secret_name {
        tls["externalCertificate"] = json!({ "name": secret });
    }
    let mut metadata = metadata(inputs.owner, ROUTE_SUFFIX);
    metadata.annotations = (!annotations.is_empty()).then(|| annotations.clone());
    let mut route = json!({
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": metadata,
        "spec": {
            "to": {"kind": "Service", "name": service::name(inputs.owner)},
            "port": {"targetPort": service::port_name(inputs.checked)},
            "tls": tls,
        },
    });
    if let Some(host) = hostname {
        route["spec"]["host"] = json!(host);
    }
    route
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_has_the_host_of_the_spec_or_of_the_load_balancer() {
        let balanced = json!({"spec": {"rules": [{}]}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
        assert_eq!(exposed_url(&balanced).as_deref(), Some("http://192.0.2.1"));
        let named = json!({"spec": {"tls": [{}], "rules": [{"host": "a.example.com"}]}});
        assert_eq!(
            exposed_url(&named).as_deref(),
            Some("https://a.example.com")
        );
        assert_eq!(exposed_url(&json!({"spec": {"rules": [{}]}})), None);
    }
}
