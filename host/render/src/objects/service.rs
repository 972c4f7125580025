//! The Service. Every resource has one, also where llama-stack-k8s-operator created none.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;

use super::Owner;
use super::metadata::{metadata, selector};

/// Suffix of the name of the Service.
pub const SUFFIX: &str = "-service";

/// Name of the Service.
pub(super) fn name(owner: &Owner) -> String {
    format!("{}{SUFFIX}", owner.name)
}

/// Name of its port, which is the protocol.
pub(super) fn port_name(checked: &Checked) -> &'static str {
    if checked.networking.tls_secret.is_some() {
        "https"
    } else {
        "http"
    }
}

/// The URL for clients inside the cluster.
pub fn service_url(checked: &Checked, owner: &Owner) -> String {
    format!(
        "{}://{}.{}.svc.cluster.local:{}",
        port_name(checked),
        name(owner),
        owner.namespace,
        checked.networking.port()
    )
}

pub(super) fn service(checked: &Checked, owner: &Owner) -> Service {
    let port = i32::from(checked.networking.port());
    Service {
        metadata: metadata(owner, SUFFIX),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(owner)),
            ports: Some(vec![ServicePort {
                name: Some(port_name(checked).to_owned()),
                port,
                target_port: Some(IntOrString::Int(port)),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
