//! Checks `spec.networking`.

mod gateway;

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyPeer};
use serde_json::Value;

use super::untyped::{self, UntypedObject};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names;
use crate::rules;
use crate::v1alpha2::{AllowedFrom, CaBundle, Networking, Tls};

pub use gateway::{BackendTls, Gateway, GatewayParent};

/// The default port of the server.
pub const DEFAULT_PORT: u16 = 8321;

/// Port, TLS and access.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedNetworking {
    /// The port in the resource. [`CheckedNetworking::port`] includes the default.
    pub requested_port: Option<u16>,
    /// Secret of the serving certificate, if the server uses TLS.
    pub tls_secret: Option<String>,
    /// CA certificates that the server trusts.
    pub ca_bundle: Option<CaBundle>,
    /// Access from outside the cluster. `None`: not exposed.
    pub expose: Option<Expose>,
    /// Namespaces that may connect. `None`: not set.
    pub allowed_from: Option<AllowedFrom>,
    /// Where the server may connect to. `None`: everywhere.
    pub egress: Option<Vec<NetworkPolicyEgressRule>>,
    /// Whether `expose` or `allowedFrom` is set, even to a value that denies access. The network
    /// policy then also admits the router of the cluster, as llama-stack-k8s-operator does.
    pub mentions_access: bool,
}

impl CheckedNetworking {
    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.requested_port.unwrap_or(DEFAULT_PORT)
    }
}

/// Access from outside the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expose {
    /// Host name. `None`: assigned by the cluster.
    pub hostname: Option<String>,
    /// Ingress class. `None`: the default of the cluster.
    pub ingress_class_name: Option<String>,
    /// Secret of the TLS certificate of the Ingress.
    pub tls_secret_name: Option<String>,
    /// Annotations of the Ingress, Route, HTTPRoute or TLSRoute.
    pub annotations: BTreeMap<String, String>,
    /// Access through the Gateway API, instead of an Ingress or Route.
    pub gateway: Option<Gateway>,
}

/// Checks networking. The schema has checked the range of the port.
pub(super) fn check(networking: &Networking, diagnostics: &mut Collector) -> CheckedNetworking {
    let Networking {
        port,
        tls,
        expose,
        allowed_from,
        egress,
    } = networking;
    let path = FieldPath::spec().field("networking");
    let tls = tls.as_ref();
    if let Some(bundle) = tls.and_then(|tls| tls.ca_bundle.as_ref()) {
        check_ca_bundle(bundle, &path.at(&["tls", "caBundle"]), diagnostics);
    }
    for (position, rule) in egress.iter().flatten().enumerate() {
        let path = path.field("egress").index(position).field("to");
        for (position, peer) in rule.to.iter().flatten().enumerate() {
            check_peer(peer, &path.index(position), diagnostics);
        }
    }
    if let Some(allowed) = allowed_from {
        check_allowed_from(allowed, &path.field("allowedFrom"), diagnostics);
    }
    let tls_secret = tls.and_then(|tls| check_tls(tls, &path.field("tls"), diagnostics));
    let has_tls = tls_secret.is_some();
    CheckedNetworking {
        requested_port: port.and_then(|port| u16::try_from(port).ok()),
        tls_secret,
        ca_bundle: tls.and_then(|tls| tls.ca_bundle.clone()),
        expose: expose
            .as_ref()
            .and_then(|expose| check_expose(expose, &path.field("expose"), has_tls, diagnostics)),
        allowed_from: allowed_from.clone(),
        egress: egress.clone(),
        mentions_access: expose.is_some() || allowed_from.is_some(),
    }
}

fn check_ca_bundle(bundle: &CaBundle, path: &FieldPath, diagnostics: &mut Collector) {
    let CaBundle {
        config_map_name,
        config_map_namespace,
        config_map_keys,
    } = bundle;
    untyped::check_string(
        config_map_name,
        &path.field("configMapName"),
        names::subdomain(config_map_name),
        "use the name of a ConfigMap",
        diagnostics,
    );
    check_namespace(
        config_map_namespace.as_deref(),
        &path.field("configMapNamespace"),
        diagnostics,
    );
    for (position, key) in config_map_keys.iter().flatten().enumerate() {
        untyped::check_string(
            key,
            &path.field("configMapKeys").index(position),
            names::data_key(key),
            "use a key of the ConfigMap",
            diagnostics,
        );
    }
}

/// An address excludes selectors, and an entry without any of them would be rejected by the API server.
fn check_peer(peer: &NetworkPolicyPeer, path: &FieldPath, diagnostics: &mut Collector) {
    let has_selector = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
    match (peer.ip_block.is_some(), has_selector) {
        (true, true) => diagnostics.error(
            &path.field("ipBlock"),
            "cannot be combined with podSelector or namespaceSelector",
            "use two entries",
        ),
        (false, false) => diagnostics.error(
            path,
            "selects nothing",
            "add podSelector, namespaceSelector or ipBlock",
        ),
        _ => {}
    }
}

fn check_allowed_from(allowed: &AllowedFrom, path: &FieldPath, diagnostics: &mut Collector) {
    let AllowedFrom {
        namespaces,
        labels,
        peers,
    } = allowed;
    for (position, peer) in peers.iter().flatten().enumerate() {
        check_peer(peer, &path.field("peers").index(position), diagnostics);
    }
    for (position, name) in namespaces
        .iter()
        .flatten()
        .enumerate()
        .filter(|(_, name)| *name != "*")
    {
        let fix = "use the name of a namespace, or \"*\" for all namespaces";
        let field = path.field("namespaces").index(position);
        untyped::check_string(name, &field, names::label_value(name), fix, diagnostics);
        // Earlier versions accept a label value that is not a namespace name; it matches no namespace.
        if names::label_value(name).is_ok() && names::label(name).is_err() {
            let problem = format!("{name:?} is not a valid namespace name, so it matches none");
            diagnostics.warning(&field, problem, fix);
        }
    }
    for (position, key) in labels.iter().flatten().enumerate() {
        let fix = match key.split_once('=') {
            Some((key, _)) => format!("use only the key: {key}"),
            None => "use a label key such as team or example.com/team".to_owned(),
        };
        untyped::check_string(
            key,
            &path.field("labels").index(position),
            names::label_key(key),
            &fix,
            diagnostics,
        );
    }
}

/// Checks a namespace. An empty string means the namespace of the resource, as in v1alpha1.
pub(super) fn check_namespace(
    namespace: Option<&str>,
    path: &FieldPath,
    diagnostics: &mut Collector,
) {
    if let Some(name) = namespace.filter(|name| !name.is_empty()) {
        untyped::check_string(
            name,
            path,
            names::label(name),
            "use the name of a namespace",
            diagnostics,
        );
    }
}

fn check_tls(tls: &Tls, path: &FieldPath, diagnostics: &mut Collector) -> Option<String> {
    let secret = path.field("secretName");
    match (tls.enabled, tls.secret_name.as_deref()) {
        (Some(true), None) => {
            diagnostics.violation(&rules::TLS_NEEDS_SECRET, &secret);
            None
        }
        (None | Some(true), Some(name)) => {
            untyped::check_string(
                name,
                &secret,
                names::subdomain(name),
                "use the name of a Secret",
                diagnostics,
            );
            Some(name.to_owned())
        }
        (Some(false), Some(_)) => {
            diagnostics.warning(
                &secret,
                "has no effect: tls.enabled is false",
                "remove it, or set enabled: true",
            );
            None
        }
        (_, None) => None,
    }
}

fn check_expose(
    value: &Value,
    path: &FieldPath,
    has_tls: bool,
    diagnostics: &mut Collector,
) -> Option<Expose> {
    let map = match value {
        Value::Bool(enabled) => return enabled.then(Expose::default),
        Value::Object(map) => map,
        other => {
            let problem = format!("must be a boolean or an object, not {}", type_name(other));
            diagnostics.error(
                path,
                problem,
                "write true, or {hostname: llama.example.com}",
            );
            return None;
        }
    };
    let known = [
        "enabled",
        "hostname",
        "ingressClassName",
        "tlsSecretName",
        "annotations",
        "gateway",
    ];
    let object = UntypedObject::open(map, path.clone(), &known, diagnostics);
    let enabled = object.boolean("enabled", diagnostics);
    let expose = Expose {
        hostname: object.string(
            "hostname",
            names::hostname,
            "use a host name such as llama.example.com",
            diagnostics,
        ),
        ingress_class_name: object.string(
            "ingressClassName",
            names::subdomain,
            "use the name of an IngressClass",
            diagnostics,
        ),
        tls_secret_name: object.string(
            "tlsSecretName",
            names::subdomain,
            "use the name of a Secret",
            diagnostics,
        ),
        annotations: annotations(&object, diagnostics),
        gateway: object
            .value("gateway")
            .and_then(|value| gateway::check(value, &path.field("gateway"), has_tls, diagnostics)),
    };
    if expose.gateway.is_some() {
        let others = ["hostname", "ingressClassName", "tlsSecretName"];
        for field in others.into_iter().filter(|one| object.value(one).is_some()) {
            diagnostics.error(
                &path.field(field),
                "cannot be combined with gateway",
                "remove it; the host names are in gateway.hostnames, and certificates are in the Gateway",
            );
        }
    }
    if enabled == Some(false) && expose != Expose::default() {
        diagnostics.warning(
            path,
            "has no effect: enabled is false",
            "set enabled: true, or remove the other fields",
        );
    }
    (enabled != Some(false)).then_some(expose)
}

fn annotations(
    object: &UntypedObject<'_>,
    diagnostics: &mut Collector,
) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    for (key, value) in object.free_object("annotations", diagnostics) {
        let path = object.field("annotations").field(&key);
        if let Err(error) = names::annotation_key(&key) {
            diagnostics.error(
                &path,
                format!("{key:?} {error}"),
                "use a key such as example.com/name",
            );
        }
        if let Some(text) =
            untyped::read_string(&value, &path, |_| Ok(()), "use a string", diagnostics)
        {
            annotations.insert(key, text);
        }
    }
    annotations
}
