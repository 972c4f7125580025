//! What the operator counts, for Prometheus.
//!
//! Labels come from closed sets and from plugins; nothing that a user writes becomes one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use llsd_plugin::{CallReport, Observer};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tower::util::MapRequestLayer;

type Label = (&'static str, String);
type Counters<const N: usize> = Family<[Label; N], Counter>;

/// What is counted.
pub struct Metrics {
    registry: Registry,
    passes: Counters<1>,
    pass_seconds: Histogram,
    rejections: Counters<1>,
    codes: Mutex<BTreeSet<String>>,
    image_reads: Counters<1>,
    requests: Counters<1>,
    calls: Counters<3>,
    call_fuel: Counters<2>,
    call_seconds: Family<[Label; 2], Histogram, fn() -> Histogram>,
    plugin_fetches: Counters<1>,
    plugin_transitions: Counters<1>,
    configuration_problems: Gauge,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::with_prefix("llsd"),
            passes: Family::default(),
            pass_seconds: seconds(),
            rejections: Family::default(),
            codes: Mutex::default(),
            image_reads: Family::default(),
            requests: Family::default(),
            calls: Family::default(),
            call_fuel: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            plugin_fetches: Family::default(),
            plugin_transitions: Family::default(),
            configuration_problems: Gauge::default(),
        };
        let Self {
            registry,
            passes,
            pass_seconds,
            rejections,
            codes: _,
            image_reads,
            requests,
            calls,
            call_fuel,
            call_seconds,
            plugin_fetches,
            plugin_transitions,
            configuration_problems,
        } = &mut metrics;
        registry.register(
            "reconciles",
            "Passes over resources, by how they ended",
            passes.clone(),
        );
        registry.register_with_unit(
            "reconcile_duration",
            "How long passes took",
            Unit::Seconds,
            pass_seconds.clone(),
        );
        registry.register(
            "rejections",
            "What was refused of resources, by code",
            rejections.clone(),
        );
        registry.register(
            "image_reads",
            "Images that passes asked for: read, or why not",
            image_reads.clone(),
        );
        registry.register(
            "kubernetes_requests",
            "Requests to the API server, by verb",
            requests.clone(),
        );
        registry.register(
            "plugin_calls",
            "Calls of plugins: ran, remembered, or failed",
            calls.clone(),
        );
        registry.register(
            "plugin_fuel",
            "Fuel that plugins burned, where a guest ran",
            call_fuel.clone(),
        );
        registry.register_with_unit(
            "plugin_call_duration",
            "How long calls of plugins took, where a guest ran",
            Unit::Seconds,
            call_seconds.clone(),
        );
        registry.register(
            "plugin_fetches",
            "Plugins asked for at registries: succeeded, or why not",
            plugin_fetches.clone(),
        );
        registry.register(
            "plugin_transitions",
            "What SchemaPlugins went through, by the reason of the event",
            plugin_transitions.clone(),
        );
        registry.register(
            "configuration_problems",
            "What is wrong with the operator's own ConfigMap",
            configuration_problems.clone(),
        );
        Arc::new(metrics)
    }

    /// Everything, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// A client whose requests are counted.
    pub fn client(self: Arc<Self>, config: Config) -> Result<Client, kube::Error> {
        let count = move |request: Request<Body>| {
            self.count_request(&request);
            request
        };
        let builder = ClientBuilder::try_from(config)?;
        Ok(builder.with_layer(&MapRequestLayer::new(count)).build())
    }

    fn count_request<B>(&self, request: &Request<B>) {
        let verb = verb(
            request.method(),
            request.uri().path(),
            request.uri().query(),
        );
        self.requests
            .get_or_create(&[("verb", verb.to_owned())])
            .inc();
    }

    /// Shows how much is wrong with the operator's own ConfigMap.
    pub(crate) fn set_configuration_problems(&self, number: usize) {
        self.configuration_problems
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Counts a plugin that was asked for at a registry.
    pub(crate) fn count_plugin_fetch(&self, outcome: &'static str) {
        self.plugin_fetches
            .get_or_create(&[("outcome", outcome.to_owned())])
            .inc();
    }

    /// Counts something that a `SchemaPlugin` went through.
    pub(crate) fn count_plugin_transition(&self, reason: &str) {
        self.plugin_transitions
            .get_or_create(&[("reason", reason.to_owned())])
            .inc();
    }

    /// Counts something that was refused of a resource. Codes are the plugins' own, so that after a
    /// number of them the others are counted together.
    pub(crate) fn count_rejection(&self, code: &str) {
        const MOST: usize = 100;
        let mut known = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shown = known.contains(code) || known.len() < MOST && known.insert(code.to_owned());
        let code = if is_shown { code } else { "other" };
        self.rejections
            .get_or_create(&[("code", code.to_owned())])
            .inc();
    }

    /// Counts an image that a pass asked for.
    pub(crate) fn count_image_read(&self, outcome: &'static str) {
        self.image_reads
            .get_or_create(&[("outcome", outcome.to_owned())])
            .inc();
    }

    /// Counts a pass over a resource.
    pub(crate) fn count_pass(&self, outcome: &'static str, took: Duration) {
        self.passes
            .get_or_create(&[("outcome", outcome.to_owned())])
            .inc();
        self.pass_seconds.observe(took.as_secs_f64());
    }
}

impl Observer for Metrics {
    fn called(&self, report: &CallReport<'_>) {
        let outcome = match (report.fault, report.is_remembered) {
            (Some(_), _) => "failed",
            (None, true) => "remembered",
            (None, false) => "ran",
        };
        let plugin = ("plugin", report.plugin.to_owned());
        let call = ("call", report.call.to_owned());
        let outcome_label = ("outcome", outcome.to_owned());
        self.calls
            .get_or_create(&[plugin.clone(), call.clone(), outcome_label])
            .inc();
        if !report.is_remembered {
            let labels = [plugin, call];
            self.call_fuel.get_or_create(&labels).inc_by(report.fuel);
            self.call_seconds
                .get_or_create(&labels)
                .observe(report.duration.as_secs_f64());
        }
    }
}

/// From 0.1 ms to a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 3.0, 13))
}

/// The verb that the API server sees in a request.
fn verb(method: &Method, path: &str, query: Option<&str>) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ if query.is_some_and(|query| query.split('&').any(|one| one.starts_with("watch="))) => {
            "watch"
        }
        _ if names_one(path) => "get",
        _ => "list",
    }
}

/// Whether a path leads to one object: `/api/v1/namespaces/ns/pods/p` does, `/api/v1/pods` does not.
fn names_one(path: &str) -> bool {
    let mut steps = path.trim_matches('/').split('/');
    let above = match steps.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return true,
    };
    let rest: Vec<_> = steps.skip(above).collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, below @ ..] if !below.is_empty() => below,
        all => all,
    };
    rest.len() != 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_the_verbs_of_kubernetes() {
        for (method, path, query, expected) in [
            (Method::GET, "/api/v1/pods", None, "list"),
            (
                Method::GET,
                "/api/v1/pods",
                Some("watch=true&limit=1"),
                "watch",
            ),
            (Method::GET, "/api/v1/namespaces/a/secrets/b", None, "get"),
            (
                Method::GET,
                "/apis/apps/v1/namespaces/a/deployments",
                None,
                "list",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b",
                None,
                "patch",
            ),
            (Method::GET, "/version", None, "get"),
        ] {
            assert_eq!(verb(&method, path, query), expected, "{path}");
        }
    }

    #[test]
    fn codes_of_plugins_become_labels_up_to_a_number() {
        let metrics = Metrics::new();
        for code in 0..150 {
            metrics.count_rejection(&format!("code-{code}"));
        }
        metrics.count_rejection("code-0");
        let text = metrics.text();
        assert!(
            text.contains("llsd_rejections_total{code=\"code-0\"} 2"),
            "{text}"
        );
        assert!(
            text.contains("llsd_rejections_total{code=\"other\"} 50"),
            "{text}"
        );
    }

    #[test]
    fn what_is_counted_is_shown_with_its_labels() {
        let metrics = Metrics::new();
        metrics.count_pass("done", Duration::from_millis(2));
        let text = metrics.text();
        assert!(
            text.contains("llsd_reconciles_total{outcome=\"done\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("llsd_reconcile_duration_seconds_count 1"),
            "{text}"
        );
    }
}
