//! Traces and metrics.
//!
//! Every release that sends them uses OpenTelemetry, which reads its variables. Before 0.3 a provider must have
//! the address, too, and 0.3 has a switch. Traces from 0.4 on, and metrics of 0.4 and 0.5, come from
//! `opentelemetry-instrument`, with which the entry point of published images starts the server as soon as
//! one of the variables is set.

use llsd_adapter_sdk::documents::{Object, ReadAs, Variable};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use super::entry::Origin;
use super::{providers, take_text};
use crate::layout::Telemetry;

const API: &str = "telemetry";
const PROVIDER: &str = "meta-reference";
const PROVIDER_TYPE: &str = "inline::meta-reference";

/// Applies `spec.telemetry` to a server with this number of processes.
pub(super) fn apply(stack: &mut Stack, mut telemetry: Object, workers: Option<u16>) {
    let mut take = |key: &str| take_text(&mut telemetry, key);
    let service_name = take("serviceName").unwrap_or_default();
    let endpoint = take("otlpEndpoint");
    let protocol = take("otlpProtocol").unwrap_or_default();
    let headers = take("otlpHeaders");
    if let Some(endpoint) = endpoint {
        send(stack, &endpoint, &protocol, &service_name);
        set(stack, "OTEL_SERVICE_NAME", service_name);
        set(stack, "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        set(stack, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    }
    if let Some(headers) = headers {
        stack.variables.push(Variable {
            env: "OTEL_EXPORTER_OTLP_HEADERS".to_owned(),
            reference: Some(headers),
            part: None,
            value: None,
            read_as: ReadAs::Text,
        });
    }
    if let Some(port) = telemetry.remove("metricsPort") {
        serve(stack, port.to_string(), workers);
    }
}

/// Makes the server send traces and metrics.
fn send(stack: &mut Stack, endpoint: &str, protocol: &str, service_name: &str) {
    if protocol == "grpc" && stack.dialect.telemetry != Telemetry::Variables {
        stack.diagnostics.error(
            "unsupported-option",
            "spec.telemetry.otlp.protocol",
            format!("{} sends telemetry only over HTTP", stack.dialect.id),
            "remove it, and use the HTTP port of the collector, usually 4318",
        );
    }
    stack.switch_telemetry(true);
    let Some(provider) = stack.catalog.find(API, PROVIDER_TYPE) else {
        return;
    };
    let path = "spec.telemetry.otlp";
    if stack.disabled_at(API).is_some() {
        stack.diagnostics.error(
            "disabled-api",
            path,
            "the server sends telemetry with the telemetry API, which spec.disabled disables",
            "remove otlp, or remove telemetry from spec.disabled",
        );
        return;
    }
    if stack.ids(API).is_empty() {
        let value = providers::entry(stack, path, PROVIDER, PROVIDER_TYPE, Object::new(), None);
        stack.put(API, PROVIDER, value, Origin::Brought(path.to_owned()));
    }
    let settings = [
        ("otel_exporter_otlp_endpoint", endpoint.to_owned()),
        ("otel_trace_endpoint", format!("{endpoint}/v1/traces")),
        ("otel_metric_endpoint", format!("{endpoint}/v1/metrics")),
        ("service_name", service_name.to_owned()),
    ];
    let entries = stack.all_entries_mut();
    let own = entries.filter(|(api, entry)| *api == API && entry.provider_type() == PROVIDER_TYPE);
    for (_, entry) in own {
        let Some(config) = entry.config_mut() else {
            continue;
        };
        // The first two are the defaults. The server queries its own traces in the second.
        let sinks = json!(["console", "sqlite", "otel_trace", "otel_metric"]);
        config.insert("sinks".to_owned(), sinks);
        for (key, value) in &settings {
            if provider.field(key).is_some() {
                config.insert((*key).to_owned(), Value::String(value.clone()));
            }
        }
    }
}

/// Makes the server serve metrics on a port.
fn serve(stack: &mut Stack, port: String, workers: Option<u16>) {
    let first = stack.dialect.metrics_from;
    if !first.is_some_and(|first| stack.has(first)) {
        stack.diagnostics.error(
            "unsupported-option",
            "spec.telemetry.metrics",
            format!("{} does not serve metrics", stack.dialect.id),
            "remove it, or use ogx 1.2.0 or newer",
        );
        return;
    }
    if workers.is_some_and(|workers| workers > 1) {
        stack.diagnostics.error(
            "unsupported-option",
            "spec.telemetry.metrics",
            "each worker process opens the port of the metrics, so only the first one starts",
            "remove spec.workload.workers, and increase spec.workload.replicas instead",
        );
    }
    set(stack, "OGX_METRICS_ENDPOINT_ENABLED", "1".to_owned());
    // By default only the pod itself can read them.
    set(stack, "OGX_METRICS_HOST", "0.0.0.0".to_owned());
    set(stack, "OGX_METRICS_PORT", port);
}

fn set(stack: &mut Stack, name: &str, value: String) {
    stack.variables.push(Variable {
        env: name.to_owned(),
        reference: None,
        part: None,
        value: Some(value),
        read_as: ReadAs::Text,
    });
}
