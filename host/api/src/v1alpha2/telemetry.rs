//! Traces and metrics of v1alpha2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::storage::SecretReference;

/// Where the server sends traces and metrics, and whether its metrics can be scraped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// Sends traces and metrics to an OpenTelemetry collector, for example {endpoint:
    /// "http://otel-collector:4318"}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<Otlp>,
    /// Serves metrics for Prometheus on a port of their own. {} is enough. From ogx 1.2 on. Where the cluster
    /// has the Prometheus operator, a PodMonitor is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
}

/// An OpenTelemetry collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Otlp {
    /// URL of the collector, without the path of a signal.
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: String,
    /// Protocol of the collector. Defaults to http/protobuf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<OtlpProtocol>,
    /// Headers of each request, for example a token, in a Secret. The value has the form
    /// name=value,name=value, with values that are URL-encoded, for example
    /// authorization=Bearer%20secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<SecretReference>,
}

/// Protocol of an OpenTelemetry collector: http/protobuf, or grpc from llama-stack 0.4 on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OtlpProtocol {
    /// Protocol buffers over HTTP.
    #[default]
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// Protocol buffers over gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

impl OtlpProtocol {
    /// The name that OpenTelemetry uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }
}

/// Metrics for Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Port of the metrics. Defaults to 9464.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 65535))]
    pub port: Option<i32>,
}
