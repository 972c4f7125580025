//! Reads the metrics of an operator, and of the API server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, GetParams, PostParams};
use kube::core::Request;
use llsd_testbed::Namespace;
use serde_json::json;

const NAME: &str = "scraper";

/// A user that may read metrics.
pub(crate) struct Scraper {
    token: String,
    address: SocketAddr,
}

impl Scraper {
    /// Creates a user, and chooses a port for the metrics.
    pub(crate) async fn create(client: &Client, namespace: &Namespace) -> anyhow::Result<Self> {
        let accounts: Api<ServiceAccount> = namespace.api(client);
        let account = serde_json::from_value(json!({"metadata": {"name": NAME}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        let binding = serde_json::from_value(json!({
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace.name()}],
        }))?;
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        bindings.create(&PostParams::default(), &binding).await?;
        let request = serde_json::from_value(json!({"metadata": {}, "spec": {"audiences": []}}))?;
        let parameters = PostParams::default();
        let issued = accounts
            .create_token_request(NAME, &parameters, &request)
            .await?;
        let token = issued.status.context("no token was issued")?.token;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Self {
            token,
            address: listener.local_addr()?,
        })
    }

    /// The address for the metrics of an operator.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The number of plugin calls that ran in a sandbox.
    pub(crate) async fn guest_calls(&self) -> anyhow::Result<f64> {
        Ok(calls(&self.metrics().await?))
    }

    /// The number of reconciliations.
    pub(crate) async fn reconciles(&self) -> anyhow::Result<f64> {
        Ok(sum(&self.metrics().await?, "llsd_reconciles_total{", ""))
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .build()?;
        let url = format!("https://{}/metrics", self.address);
        let response = client.get(url).bearer_auth(&self.token).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }
}

/// The number of conversions that the API server asked an operator for, and got.
pub(crate) async fn conversions(client: &Client) -> anyhow::Result<f64> {
    let request = Request::new("").get("metrics", &GetParams::default())?;
    let metrics = client.request_text(request).await?;
    let metric = "apiserver_crd_conversion_webhook_duration_seconds_count{";
    Ok(sum(&metrics, metric, "succeeded=\"true\""))
}

fn calls(metrics: &str) -> f64 {
    sum(metrics, "llsd_plugin_calls_total{", "outcome=\"ran\"")
}

/// The sum of a metric over all labels that contain a text.
fn sum(metrics: &str, metric: &str, label: &str) -> f64 {
    let lines = metrics.lines();
    let lines = lines.filter(|line| line.starts_with(metric) && line.contains(label));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    // The sum of no floating-point numbers is -0.
    values.fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_ran_count() {
        let metrics = "llsd_plugin_calls_total{plugin=\"a\",call=\"detect\",outcome=\"ran\"} 2\n\
            llsd_plugin_calls_total{plugin=\"a\",call=\"detect\",outcome=\"cache_hit\"} 5\n\
            llsd_plugin_calls_total{plugin=\"b\",call=\"expand\",outcome=\"ran\"} 1\n\
            llsd_reconciles_total{outcome=\"done\"} 7\n";
        assert!((calls(metrics) - 3.0).abs() < f64::EPSILON);
        let reconciles = sum(metrics, "llsd_reconciles_total{", "");
        assert!((reconciles - 7.0).abs() < f64::EPSILON);
    }
}
