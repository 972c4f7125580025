//! Checks `spec.networking.expose.gateway`: access through the Gateway API.

use serde_json::Value;

use crate::checked::untyped::{UntypedObject, read_string};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names;

/// The limits of the Gateway API.
const MAX_PARENTS: usize = 32;
const MAX_HOSTNAMES: usize = 16;

/// Access through the Gateway API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gateway {
    /// The Gateways that the route attaches to.
    pub parents: Vec<GatewayParent>,
    /// Host names. Empty: those of the Gateway.
    pub hostnames: Vec<String>,
    /// How the Gateway connects to a server with TLS. `None`: it passes the connections through.
    pub backend_tls: Option<BackendTls>,
}

/// A Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayParent {
    /// Its name.
    pub name: String,
    /// Its namespace. `None`: that of the resource.
    pub namespace: Option<String>,
    /// Name of a listener.
    pub section_name: Option<String>,
    /// Port of a listener.
    pub port: Option<u16>,
}

/// How the Gateway verifies the certificate of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendTls {
    /// Name in the certificate. `None`: that of the Service.
    pub hostname: Option<String>,
    /// ConfigMap with the CA certificates in its key `ca.crt`. `None`: those of the system.
    pub ca_config_map: Option<String>,
}

/// Checks the access through the Gateway API. `has_tls` tells whether the server uses TLS.
pub(super) fn check(
    value: &Value,
    path: &FieldPath,
    has_tls: bool,
    diagnostics: &mut Collector,
) -> Option<Gateway> {
    let known = ["parentRefs", "hostnames", "backendTLS"];
    let object = open(
        value,
        path,
        &known,
        "{parentRefs: [{name: public}]}",
        diagnostics,
    )?;
    let parents = object.field("parentRefs");
    let refs = list(&object, "parentRefs", MAX_PARENTS, diagnostics);
    if refs.is_empty() {
        let fix = "name a Gateway, for example [{name: public, namespace: gateways}]";
        diagnostics.error(&parents, "must name at least one Gateway", fix);
    }
    let names = list(&object, "hostnames", MAX_HOSTNAMES, diagnostics);
    let hostnames = names.iter().enumerate().filter_map(|(position, name)| {
        let path = object.field("hostnames").index(position);
        let fix = "use a host name such as llama.example.com";
        read_string(name, &path, names::hostname, fix, diagnostics)
    });
    let hostnames: Vec<String> = hostnames.collect();
    let path = object.field("backendTLS");
    let backend_tls = object
        .value("backendTLS")
        .and_then(|value| check_backend_tls(value, &path, diagnostics));
    if backend_tls.is_some() && !has_tls {
        diagnostics.error(
            &path,
            "needs a server with TLS",
            "set spec.networking.tls.secretName, or remove backendTLS",
        );
    }
    if has_tls && backend_tls.is_none() && names.is_empty() {
        diagnostics.error(
            &object.field("hostnames"),
            "is missing: a Gateway passes TLS connections through by their host name",
            "add the host names of the certificate, or backendTLS to let the Gateway terminate TLS",
        );
    }
    Some(Gateway {
        parents: refs
            .iter()
            .enumerate()
            .filter_map(|(position, value)| {
                check_parent(value, &parents.index(position), diagnostics)
            })
            .collect(),
        hostnames,
        backend_tls,
    })
}

fn check_parent(
    value: &Value,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<GatewayParent> {
    let known = ["name", "namespace", "sectionName", "port"];
    let object = open(value, path, &known, "{name: public}", diagnostics)?;
    let port = object.positive_integer("port", u64::from(u16::MAX), diagnostics);
    Some(GatewayParent {
        namespace: object.string(
            "namespace",
            names::label,
            "use the name of a namespace",
            diagnostics,
        ),
        section_name: object.string(
            "sectionName",
            names::subdomain,
            "use the name of a listener of the Gateway",
            diagnostics,
        ),
        port: port.and_then(|port| u16::try_from(port).ok()),
        name: object.required_string(
            "name",
            names::subdomain,
            "use the name of a Gateway",
            diagnostics,
        )?,
    })
}

fn check_backend_tls(
    value: &Value,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<BackendTls> {
    let known = ["hostname", "caConfigMapName"];
    let object = open(
        value,
        path,
        &known,
        "{caConfigMapName: llama-ca}",
        diagnostics,
    )?;
    Some(BackendTls {
        hostname: object.string(
            "hostname",
            names::subdomain,
            "use the name in the certificate of the server",
            diagnostics,
        ),
        ca_config_map: object.string(
            "caConfigMapName",
            names::subdomain,
            "use the name of a ConfigMap with the key ca.crt",
            diagnostics,
        ),
    })
}

fn open<'a>(
    value: &'a Value,
    path: &FieldPath,
    known: &[&str],
    example: &str,
    diagnostics: &mut Collector,
) -> Option<UntypedObject<'a>> {
    match value {
        Value::Object(map) => Some(UntypedObject::open(map, path.clone(), known, diagnostics)),
        other => {
            let problem = format!("must be an object, not {}", type_name(other));
            diagnostics.error(path, problem, format!("write {example}"));
            None
        }
    }
}

/// The entries of a list; none when it is absent.
fn list<'a>(
    object: &UntypedObject<'a>,
    key: &str,
    max: usize,
    diagnostics: &mut Collector,
) -> &'a [Value] {
    match object.value(key) {
        None => &[],
        Some(Value::Array(entries)) => {
            if entries.len() > max {
                let problem = format!("has {} entries, more than {max}", entries.len());
                let fix = "remove some entries";
                diagnostics.error(&object.field(key), problem, fix);
            }
            entries
        }
        Some(other) => {
            let problem = format!("must be a list, not {}", type_name(other));
            diagnostics.error(&object.field(key), problem, "write a list");
            &[]
        }
    }
}
