//! Checks `spec.telemetry`: the collector, and the port of the metrics.

use super::secrets::{self, Reference};
use super::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::v1alpha2::{Metrics, Otlp, OtlpProtocol, Telemetry};

/// Owner of the environment variables of secrets.
const OWNER: &str = "telemetry";
/// The default port of metrics: that of OpenTelemetry.
const DEFAULT_METRICS_PORT: u16 = 9464;

/// Traces and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedTelemetry {
    /// The collector that gets traces and metrics.
    pub otlp: Option<CheckedOtlp>,
    /// The port on which metrics are served.
    pub metrics_port: Option<u16>,
}

/// An OpenTelemetry collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedOtlp {
    /// Its URL, without a slash at the end: servers append the path of a signal.
    pub endpoint: String,
    /// Its protocol.
    pub protocol: OtlpProtocol,
    /// Headers of each request.
    pub headers: Option<Reference>,
}

impl CheckedTelemetry {
    /// Its secret references.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.otlp.iter().flat_map(|otlp| &otlp.headers)
    }
}

/// Checks telemetry of a server that listens on `server_port`. The schema has checked the range of the port.
pub(super) fn check(
    telemetry: &Telemetry,
    server_port: u16,
    diagnostics: &mut Collector,
) -> CheckedTelemetry {
    let Telemetry { otlp, metrics } = telemetry;
    let path = FieldPath::spec().field("telemetry");
    let otlp = otlp
        .as_ref()
        .map(|otlp| check_otlp(otlp, &path.field("otlp"), diagnostics));
    let metrics_port = metrics.as_ref().map(|Metrics { port }| {
        let port = port.and_then(|port| u16::try_from(port).ok());
        port.unwrap_or(DEFAULT_METRICS_PORT)
    });
    if metrics_port == Some(server_port) {
        diagnostics.error(
            &path.at(&["metrics", "port"]),
            format!("the server listens on port {server_port} already"),
            "use another port, for example 9464",
        );
    }
    CheckedTelemetry { otlp, metrics_port }
}

fn check_otlp(otlp: &Otlp, path: &FieldPath, diagnostics: &mut Collector) -> CheckedOtlp {
    let Otlp {
        endpoint,
        protocol,
        headers,
    } = otlp;
    untyped::check_string(
        endpoint,
        &path.field("endpoint"),
        names::http_url(endpoint),
        "use the URL of a collector, for example http://otel-collector:4318",
        diagnostics,
    );
    let headers = headers.as_ref().and_then(|headers| {
        let variable = secrets::variable(OWNER, "headers");
        secrets::read_typed(headers, &path.field("headers"), variable, diagnostics)
    });
    CheckedOtlp {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
        protocol: protocol.unwrap_or_default(),
        headers,
    }
}
