//! The Prometheus metrics of the operator.
//!
//! Label values come from closed sets and from plugins, never from users.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use llsd_plugin::{CallReport, Observer};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tower::util::MapRequestLayer;

use super::request_verb::verb;
use super::write_pace::WritePace;

type Label = (&'static str, String);
type Counters<const N: usize> = Family<[Label; N], Counter>;

/// The metrics of one operator process.
pub struct Metrics {
    registry: Registry,
    reconciles: Counters<1>,
    reconcile_seconds: Histogram,
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
    release_mismatches: Gauge,
    rollout_resources: Family<[Label; 2], Gauge>,
    rollout_halted: Family<[Label; 2], Gauge>,
    cache_bytes: Family<[Label; 1], Gauge>,
    /// Namespace and name of the resources that `release_mismatches` counts.
    mismatched: Mutex<BTreeSet<(String, String)>>,
}

impl Metrics {
    /// Registers every metric.
    pub fn new() -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::with_prefix("llsd"),
            reconciles: Family::default(),
            reconcile_seconds: seconds(),
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
            release_mismatches: Gauge::default(),
            rollout_resources: Family::default(),
            rollout_halted: Family::default(),
            cache_bytes: Family::default(),
            mismatched: Mutex::default(),
        };
        let Self {
            registry,
            reconciles,
            reconcile_seconds,
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
            release_mismatches,
            rollout_resources,
            rollout_halted,
            cache_bytes,
            mismatched: _,
        } = &mut metrics;
        registry.register(
            "reconciles",
            "Reconciliations of resources, by outcome",
            reconciles.clone(),
        );
        registry.register_with_unit(
            "reconcile_duration",
            "Duration of reconciliations",
            Unit::Seconds,
            reconcile_seconds.clone(),
        );
        registry.register(
            "rejections",
            "Problems for which resources were rejected, by code",
            rejections.clone(),
        );
        registry.register(
            "image_reads",
            "Image reads by reconciliations, by outcome",
            image_reads.clone(),
        );
        registry.register(
            "kubernetes_requests",
            "Requests to the Kubernetes API server, by verb",
            requests.clone(),
        );
        registry.register(
            "plugin_calls",
            "Plugin calls, by outcome: ran, cache_hit or failed",
            calls.clone(),
        );
        registry.register(
            "plugin_fuel",
            "Fuel consumed by plugin calls that were not cache hits",
            call_fuel.clone(),
        );
        registry.register_with_unit(
            "plugin_call_duration",
            "Duration of plugin calls that were not cache hits",
            Unit::Seconds,
            call_seconds.clone(),
        );
        registry.register(
            "plugin_fetches",
            "Plugin fetches from registries, by outcome",
            plugin_fetches.clone(),
        );
        registry.register(
            "plugin_transitions",
            "SchemaPlugin transitions, by event reason",
            plugin_transitions.clone(),
        );
        registry.register(
            "configuration_problems",
            "Problems found in the operator's own ConfigMap",
            configuration_problems.clone(),
        );
        registry.register(
            "release_mismatches",
            "Resources whose server reports a release of another dialect than its configuration",
            release_mismatches.clone(),
        );
        registry.register(
            "rollout_resources",
            "Resources that a rollout concerns, by state: updated, unchanged or waiting",
            rollout_resources.clone(),
        );
        registry.register(
            "rollout_halted",
            "1 for each rollout that is halted, with the resource that failed",
            rollout_halted.clone(),
        );
        registry.register_with_unit(
            "cache",
            "Content in memory, by cache",
            Unit::Bytes,
            cache_bytes.clone(),
        );
        Arc::new(metrics)
    }

    /// All metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Creates a client whose requests are counted, and whose writes are slowed as `pace` says.
    pub fn client(
        self: Arc<Self>,
        config: Config,
        pace: &WritePace,
    ) -> Result<Client, kube::Error> {
        let count = move |request: Request<Body>| {
            self.count_request(&request);
            request
        };
        let builder = ClientBuilder::try_from(config)?;
        let builder = builder.with_layer(&MapRequestLayer::new(count));
        Ok(builder.with_layer(pace).build())
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

    /// Sets the number of problems in the operator's own ConfigMap.
    pub(crate) fn set_configuration_problems(&self, number: usize) {
        self.configuration_problems
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Records whether the server of a resource reports a release of another dialect.
    pub(crate) fn set_release_mismatch(&self, namespace: &str, name: &str, is_mismatch: bool) {
        let mut mismatched = self.mismatched.lock();
        let resource = (namespace.to_owned(), name.to_owned());
        if is_mismatch {
            mismatched.insert(resource);
        } else {
            mismatched.remove(&resource);
        }
        self.release_mismatches
            .set(i64::try_from(mismatched.len()).unwrap_or(i64::MAX));
    }

    /// Sets how far a rollout is: the numbers of updated, unchanged and waiting resources, and the
    /// resource that halts it. Resource names are labels here, because a halted rollout needs someone
    /// to look at that one resource.
    pub(crate) fn set_rollouts<'a>(
        &self,
        rollouts: impl Iterator<Item = (&'a str, [usize; 3], Option<&'a str>)>,
    ) {
        self.rollout_resources.clear();
        self.rollout_halted.clear();
        for (rollout, numbers, halted_at) in rollouts {
            let rollout = ("rollout", rollout.to_owned());
            for (state, number) in ["updated", "unchanged", "waiting"].into_iter().zip(numbers) {
                let labels = [rollout.clone(), ("state", state.to_owned())];
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                self.rollout_resources.get_or_create(&labels).set(number);
            }
            if let Some(resource) = halted_at {
                let labels = [rollout, ("resource", resource.to_owned())];
                self.rollout_halted.get_or_create(&labels).set(1);
            }
        }
    }

    /// Sets the bytes of a cache.
    pub(crate) fn set_cache_bytes(&self, cache: &'static str, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let labels = [("cache", cache.to_owned())];
        self.cache_bytes.get_or_create(&labels).set(bytes);
    }

    /// Counts a plugin fetch.
    pub(crate) fn count_plugin_fetch(&self, outcome: &'static str) {
        self.plugin_fetches
            .get_or_create(&[("outcome", outcome.to_owned())])
            .inc();
    }

    /// Counts a transition of a `SchemaPlugin`.
    pub(crate) fn count_plugin_transition(&self, reason: &str) {
        self.plugin_transitions
            .get_or_create(&[("reason", reason.to_owned())])
            .inc();
    }

    /// Counts a problem for which a resource was rejected. Plugins define the codes, so their number
    /// is limited: further codes are counted as `other`.
    pub(crate) fn count_rejection(&self, code: &str) {
        const MAX_CODES: usize = 100;
        let mut known = self.codes.lock();
        let has_label =
            known.contains(code) || known.len() < MAX_CODES && known.insert(code.to_owned());
        let code = if has_label { code } else { "other" };
        self.rejections
            .get_or_create(&[("code", code.to_owned())])
            .inc();
    }

    /// Counts an image read.
    pub(crate) fn count_image_read(&self, outcome: &'static str) {
        self.image_reads
            .get_or_create(&[("outcome", outcome.to_owned())])
            .inc();
    }

    /// Counts a reconciliation.
    pub(crate) fn count_reconcile(&self, outcome: &'static str, took: Duration) {
        self.reconciles
            .get_or_create(&[("outcome", outcome.to_owned())])
            .inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }
}

impl Observer for Metrics {
    fn called(&self, report: &CallReport<'_>) {
        let outcome = match (report.fault, report.cache_hit) {
            (Some(_), _) => "failed",
            (None, true) => "cache_hit",
            (None, false) => "ran",
        };
        let plugin = ("plugin", report.plugin.to_owned());
        let call = ("call", report.call.to_owned());
        let outcome_label = ("outcome", outcome.to_owned());
        self.calls
            .get_or_create(&[plugin.clone(), call.clone(), outcome_label])
            .inc();
        if !report.cache_hit {
            let labels = [plugin, call];
            self.call_fuel.get_or_create(&labels).inc_by(report.fuel);
            self.call_seconds
                .get_or_create(&labels)
                .observe(report.duration.as_secs_f64());
        }
    }
}

/// A histogram from 0.1 ms to a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 3.0, 13))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, PostParams};

    use super::*;

    /// Whether a client sends some writes at the same time, while someone else changes resources or not.
    async fn sends_at_once(is_changed: bool) -> bool {
        const WRITES: usize = 8;
        const TIME: Duration = Duration::from_millis(40);
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let answer = {
            let most = most.clone();
            move || async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(TIME).await;
                running.fetch_sub(1, Ordering::SeqCst);
                r#"{"metadata": {"name": "a"}}"#
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback(answer);
        let server = tokio::spawn(async { axum::serve(listener, router).await });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let pace = WritePace::default();
        let client = Metrics::new().client(config, &pace).unwrap();
        let api: Api<ConfigMap> = Api::namespaced(client, "team");
        let write = || async {
            if is_changed {
                pace.note_change("team");
            }
            let map = ConfigMap::default();
            api.create(&PostParams::default(), &map).await.unwrap();
        };
        // The pace depends on how long writes take.
        for _ in 0..WRITES {
            write().await;
        }
        join_all((0..WRITES).map(|_| write())).await;
        server.abort();
        most.load(Ordering::SeqCst) == WRITES
    }

    #[tokio::test]
    async fn writes_wait_for_each_other_while_someone_changes_resources() {
        assert!(sends_at_once(false).await);
        assert!(!sends_at_once(true).await);
    }

    #[test]
    fn codes_of_plugins_become_labels_up_to_a_limit() {
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
    fn a_resource_with_a_release_mismatch_is_counted_once_until_it_matches_or_is_deleted() {
        let metrics = Metrics::new();
        for _ in 0..2 {
            metrics.set_release_mismatch("ns", "demo", true);
            metrics.set_release_mismatch("ns", "other", false);
        }
        let text = metrics.text();
        assert!(text.contains("\nllsd_release_mismatches 1\n"), "{text}");
        metrics.set_release_mismatch("ns", "demo", false);
        let text = metrics.text();
        assert!(text.contains("\nllsd_release_mismatches 0\n"), "{text}");
    }

    #[test]
    fn metrics_are_encoded_with_their_labels() {
        let metrics = Metrics::new();
        metrics.count_reconcile("done", Duration::from_millis(2));
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
