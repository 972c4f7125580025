//! Traces and metrics.

use super::*;

fn with_telemetry(schema: &str, telemetry: Value) -> Report {
    assemble(request(schema, json!({"telemetry": telemetry})))
}

fn collector(protocol: &str) -> Value {
    json!({
        "serviceName": "my-stack", "otlpEndpoint": "http://otel:4318", "otlpProtocol": protocol,
        "otlpHeaders": "LLSD_TELEMETRY_HEADERS",
    })
}

fn value(report: &Report, name: &str) -> Value {
    let variables = report.output["variables"].as_array().unwrap();
    let found = variables.iter().find(|one| one["env"] == name);
    found.map_or(Value::Null, |one| one["value"].clone())
}

#[test]
fn every_release_gets_the_variables_of_opentelemetry() {
    for schema in SCHEMAS {
        let report = with_telemetry(schema, collector("http/protobuf"));
        assert_eq!(report.errors(), Vec::<String>::new(), "{schema}");
        for (name, expected) in [
            ("OTEL_SERVICE_NAME", "my-stack"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ] {
            assert_eq!(value(&report, name), expected, "{schema}");
        }
        let headers = json!({
            "env": "OTEL_EXPORTER_OTLP_HEADERS", "reference": "LLSD_TELEMETRY_HEADERS", "readAs": "text",
        });
        let variables = report.output["variables"].as_array().unwrap();
        assert!(variables.contains(&headers), "{schema}");
    }
}

#[test]
fn a_release_with_a_telemetry_provider_gets_the_collector_in_its_settings() {
    let sinks = json!(["console", "sqlite", "otel_trace", "otel_metric"]);
    for schema in [V0_1_3, V0_2_13] {
        let report = with_telemetry(schema, collector("http/protobuf"));
        let provider = &report.config()["providers"]["telemetry"][0];
        assert_eq!(provider["provider_type"], "inline::meta-reference");
        assert_eq!(provider["config"]["sinks"], sinks, "{schema}");
        assert_eq!(provider["config"]["service_name"], "my-stack");
    }
    for (schema, release, key, expected) in [
        (
            V0_1_3,
            "0.2.12",
            "otel_trace_endpoint",
            "http://otel:4318/v1/traces",
        ),
        (
            V0_1_3,
            "0.2.12",
            "otel_metric_endpoint",
            "http://otel:4318/v1/metrics",
        ),
        (
            V0_2_13,
            "0.2.24",
            "otel_exporter_otlp_endpoint",
            "http://otel:4318",
        ),
    ] {
        let change = json!({"serverVersion": release, "telemetry": collector("http/protobuf")});
        let report = assemble(request(schema, change));
        let provider = &report.config()["providers"]["telemetry"][0];
        assert_eq!(provider["config"][key], expected, "{release}");
    }
}

#[test]
fn a_telemetry_provider_is_added_if_the_base_has_none() {
    let mut request = request(V0_2_13, json!({"telemetry": collector("http/protobuf")}));
    request["base"]["providers"]["telemetry"] = json!([]);
    let report = assemble(request);
    let provider = &report.config()["providers"]["telemetry"][0];
    assert_eq!(provider["provider_id"], "meta-reference");
    assert_eq!(provider["config"]["service_name"], "my-stack");
}

#[test]
fn telemetry_is_switched_on_where_the_release_has_a_switch() {
    let report = with_telemetry(V0_3, collector("http/protobuf"));
    assert_eq!(report.config()["telemetry"], json!({"enabled": true}));
    for schema in [V0_4, V0_5, V0_7, OGX_0_8, OGX_1_0] {
        let report = with_telemetry(schema, collector("http/protobuf"));
        assert_eq!(report.config().get("telemetry"), None, "{schema}");
    }
}

#[test]
fn a_disabled_telemetry_api_sends_nothing() {
    let disabled = json!([{"path": "spec.disabled[0]", "name": "telemetry"}]);
    let change = json!({"telemetry": collector("http/protobuf"), "disabled": disabled});
    let report = assemble(request(V0_2_13, change));
    assert_eq!(report.errors(), ["disabled-api spec.telemetry.otlp"]);
}

#[test]
fn releases_that_send_telemetry_themselves_use_http() {
    for schema in SCHEMAS {
        let report = with_telemetry(schema, collector("grpc"));
        let expected: &[&str] = match schema {
            V0_1_3 | V0_2_13 | V0_3 => &["unsupported-option spec.telemetry.otlp.protocol"],
            _ => &[],
        };
        assert_eq!(report.errors(), expected, "{schema}");
    }
}

#[test]
fn metrics_are_served_from_ogx_1_2_on_by_one_process() {
    let metrics = json!({"serviceName": "my-stack", "metricsPort": 9464});
    for schema in SCHEMAS {
        let report = with_telemetry(schema, metrics.clone());
        let expected: &[&str] = match schema {
            OGX_1_0 => &[],
            _ => &["unsupported-option spec.telemetry.metrics"],
        };
        assert_eq!(report.errors(), expected, "{schema}");
    }
    let report = with_telemetry(OGX_1_0, metrics.clone());
    assert_eq!(value(&report, "OGX_METRICS_ENDPOINT_ENABLED"), "1");
    assert_eq!(value(&report, "OGX_METRICS_HOST"), "0.0.0.0");
    assert_eq!(value(&report, "OGX_METRICS_PORT"), "9464");
    // The entry point of published images instruments a server as soon as one of these is set.
    assert_eq!(value(&report, "OTEL_SERVICE_NAME"), Value::Null);
    for change in [
        json!({"serverVersion": "1.1.0"}),
        json!({"server": {"configFile": "", "dataDir": "", "workers": 2}}),
    ] {
        let mut request = request(OGX_1_0, change);
        request["telemetry"] = metrics.clone();
        let report = assemble(request);
        assert_eq!(
            report.errors(),
            ["unsupported-option spec.telemetry.metrics"]
        );
    }
}
