//! Networking, with the defaults filled in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names;
use super::object::{self, Object};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules;
use crate::structure::found;
use crate::v1alpha2::{AllowedFrom, CaBundle, Networking, Tls};

/// The port of a server that asks for none.
pub const DEFAULT_PORT: u16 = 8321;

/// How the server is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedNetworking {
    /// The port that was asked for; [`CheckedNetworking::port`] has the default.
    pub asked_port: Option<u16>,
    /// Secret of the serving certificate, when the server speaks TLS.
    pub tls_secret: Option<String>,
    /// Authorities that the server trusts.
    pub ca_bundle: Option<CaBundle>,
    /// How clients outside the cluster connect; absent: they do not.
    pub expose: Option<Expose>,
    /// Who may connect from other namespaces; absent: nothing is said about it.
    pub allowed_from: Option<AllowedFrom>,
    /// Whether exposure or access was mentioned at all, even to deny it: the network policy then
    /// also lets the cluster's router in, as it always has.
    pub mentions_access: bool,
}

impl CheckedNetworking {
    /// The port to listen on.
    pub fn port(&self) -> u16 {
        self.asked_port.unwrap_or(DEFAULT_PORT)
    }
}

/// How clients outside the cluster connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expose {
    /// Host name; absent: the cluster chooses.
    pub hostname: Option<String>,
    /// Ingress class; absent: the cluster's default.
    pub ingress_class_name: Option<String>,
    /// Secret of the certificate that the ingress presents.
    pub tls_secret_name: Option<String>,
    /// Annotations of the Ingress or Route.
    pub annotations: BTreeMap<String, String>,
}

/// Reads networking. The schema has checked the port's range.
pub(super) fn check(networking: &Networking, diagnostics: &mut Collector) -> CheckedNetworking {
    let Networking {
        port,
        tls,
        expose,
        allowed_from,
    } = networking;
    let path = FieldPath::spec().field("networking");
    let tls = tls.as_ref();
    CheckedNetworking {
        asked_port: port.and_then(|port| u16::try_from(port).ok()),
        tls_secret: tls.and_then(|tls| check_tls(tls, &path.field("tls"), diagnostics)),
        ca_bundle: tls.and_then(|tls| tls.ca_bundle.clone()),
        expose: expose
            .as_ref()
            .and_then(|expose| check_expose(expose, &path.field("expose"), diagnostics)),
        allowed_from: allowed_from.clone(),
        mentions_access: expose.is_some() || allowed_from.is_some(),
    }
    .with_names_checked(&path, diagnostics)
}

impl CheckedNetworking {
    fn with_names_checked(self, path: &FieldPath, diagnostics: &mut Collector) -> Self {
        if let Some(CaBundle {
            config_map_name,
            config_map_namespace,
            config_map_keys,
        }) = &self.ca_bundle
        {
            let path = path.at(&["tls", "caBundle"]);
            let fix = "give the name of a ConfigMap";
            object::typed_text(
                config_map_name,
                &path.field("configMapName"),
                names::subdomain(config_map_name),
                fix,
                diagnostics,
            );
            check_namespace(
                config_map_namespace.as_deref(),
                &path.field("configMapNamespace"),
                diagnostics,
            );
            for (position, key) in config_map_keys.iter().flatten().enumerate() {
                let path = path.field("configMapKeys").index(position);
                object::typed_text(
                    key,
                    &path,
                    names::data_key(key),
                    "give a key of the ConfigMap",
                    diagnostics,
                );
            }
        }
        let none = AllowedFrom::default();
        let AllowedFrom { namespaces, labels } = self.allowed_from.as_ref().unwrap_or(&none);
        let path = path.field("allowedFrom");
        for (position, name) in namespaces
            .iter()
            .flatten()
            .enumerate()
            .filter(|(_, name)| *name != "*")
        {
            let fix = "give the name of a namespace, or \"*\" for all";
            let place = path.field("namespaces").index(position);
            object::typed_text(name, &place, names::label_value(name), fix, diagnostics);
            // Policies with such names were always taken; they let nobody in.
            if names::label_value(name).is_none() && names::label(name).is_some() {
                diagnostics.warning(&place, format!("no namespace can be called {name:?}"), fix);
            }
        }
        for (position, key) in labels.iter().flatten().enumerate() {
            let fix = match key.split_once('=') {
                Some((key, _)) => format!("give the key alone: {key}"),
                None => "give a label key such as team or example.com/team".to_owned(),
            };
            object::typed_text(
                key,
                &path.field("labels").index(position),
                names::label_key(key),
                &fix,
                diagnostics,
            );
        }
        self
    }
}

/// An empty namespace is the resource's own, as it was in v1alpha1.
pub(super) fn check_namespace(
    namespace: Option<&str>,
    path: &FieldPath,
    diagnostics: &mut Collector,
) {
    if let Some(name) = namespace.filter(|name| !name.is_empty()) {
        object::typed_text(
            name,
            path,
            names::label(name),
            "give the name of a namespace",
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
            object::typed_text(
                name,
                &secret,
                names::subdomain(name),
                "give the name of a Secret",
                diagnostics,
            );
            Some(name.to_owned())
        }
        (Some(false), Some(_)) => {
            diagnostics.warning(
                &secret,
                "has no effect: tls.enabled is false",
                "remove it, or write enabled: true",
            );
            None
        }
        (_, None) => None,
    }
}

fn check_expose(value: &Value, path: &FieldPath, diagnostics: &mut Collector) -> Option<Expose> {
    let map = match value {
        Value::Bool(enabled) => return enabled.then(Expose::default),
        Value::Object(map) => map,
        other => {
            let problem = format!("must be true, false or an object, not {}", found(other));
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
    ];
    let object = Object::open(map, path.clone(), &known, diagnostics);
    let enabled = object.flag("enabled", diagnostics);
    let expose = Expose {
        hostname: object.text(
            "hostname",
            hostname,
            "give a host name such as llama.example.com",
            diagnostics,
        ),
        ingress_class_name: object.text(
            "ingressClassName",
            names::subdomain,
            "give the name of an IngressClass",
            diagnostics,
        ),
        tls_secret_name: object.text(
            "tlsSecretName",
            names::subdomain,
            "give the name of a Secret",
            diagnostics,
        ),
        annotations: annotations(&object, diagnostics),
    };
    if enabled == Some(false) && expose != Expose::default() {
        diagnostics.warning(
            path,
            "has no effect: enabled is false",
            "write enabled: true, or remove the rest",
        );
    }
    (enabled != Some(false)).then_some(expose)
}

fn hostname(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("*.").unwrap_or(name);
    // DNS limits each part; names within the cluster need not be looked up.
    let too_long = || name.split('.').any(|part| part.len() > 63);
    names::subdomain(name).or_else(|| too_long().then_some("has a part longer than 63 characters"))
}

fn annotations(object: &Object<'_>, diagnostics: &mut Collector) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    for (key, value) in object.free("annotations", diagnostics) {
        let path = object.field("annotations").field(&key);
        if names::label_key(&key).is_some() {
            diagnostics.error(
                &path,
                format!("{key:?} is no annotation key"),
                "use a key such as example.com/name",
            );
        }
        if let Some(text) = object::text(&value, &path, |_| None, "write a text", diagnostics) {
            annotations.insert(key, text);
        }
    }
    annotations
}
