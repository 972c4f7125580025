//! Control planes for the API tests alone, because CRDs, admission policy and webhooks affect a whole
//! cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use axum::http::{Method, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Status;
use llsd_api::{DISTRIBUTION_CRD_NAME, distribution_crd};
use llsd_controller::{install_admission, install_definitions};
use llsd_e2e::serve_webhooks;
use llsd_testbed::{Release, Testbed, until};
use llsd_webhook::Periods;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longer than any step takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);

/// The namespace of the webhooks' certificate.
pub(crate) const SECRET_NAMESPACE: &str = "default";

/// Resources of llama-stack-k8s-operator in every cluster, as (namespace, name).
pub(crate) const LEGACY: [(&str, &str); 3] = [
    ("a-legacy-1", "first"),
    ("a-legacy-1", "second"),
    ("a-legacy-2", "third"),
];

/// Certificates that are valid for two minutes, so that a test sees several. `settle` and `overlap` are
/// long enough for API servers on a busy machine.
pub(crate) const SHORT_PERIODS: Periods = Periods {
    valid: Duration::from_secs(120),
    renew_before: Duration::from_secs(118),
    settle: Duration::from_secs(15),
    overlap: Duration::from_secs(15),
};

/// A control plane with our CRDs, admission policy and webhooks.
pub(crate) struct TestCluster {
    pub(crate) testbed: Testbed,
}

/// A namespace and API version to send requests to.
pub(crate) struct Target<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) version: &'a str,
}

impl TestCluster {
    /// A cluster of the newest release, with the default certificate periods.
    pub(crate) async fn newest() -> &'static Self {
        static NEWEST: OnceCell<TestCluster> = OnceCell::const_new();
        NEWEST
            .get_or_init(|| Self::start(Release::Newest, Periods::default()))
            .await
    }

    /// A cluster of the oldest release, with short certificate periods.
    pub(crate) async fn oldest() -> &'static Self {
        static OLDEST: OnceCell<TestCluster> = OnceCell::const_new();
        OLDEST
            .get_or_init(|| Self::start(Release::Oldest, SHORT_PERIODS))
            .await
    }

    pub(crate) async fn client(&self) -> Client {
        self.testbed.client("admin").await.unwrap()
    }

    async fn start(release: Release, periods: Periods) -> Self {
        let testbed = Testbed::start(release).await.unwrap();
        let client = testbed.client("admin").await.unwrap();
        create_legacy_resources(&client).await.unwrap();
        let webhook = serve_webhooks(
            testbed.kubeconfig("admin").unwrap(),
            SECRET_NAMESPACE,
            periods,
        )
        .await
        .unwrap();
        install_definitions(&client, Some(&webhook)).await.unwrap();
        install_admission(&client, &webhook).await.unwrap();
        wait_for_layers(&client).await.unwrap();
        Self { testbed }
    }
}

/// Creates what llama-stack-k8s-operator leaves in a cluster: the CRD with v1alpha1 as storage version and
/// no conversion webhook, and some resources.
pub(crate) async fn create_legacy_resources(client: &Client) -> Result<()> {
    let mut definition = distribution_crd(None);
    definition
        .spec
        .versions
        .retain(|one| one.name == "v1alpha1");
    for version in &mut definition.spec.versions {
        version.storage = true;
    }
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let parameters = PatchParams::apply("llama-stack-k8s-operator").force();
    api.patch(
        DISTRIBUTION_CRD_NAME,
        &parameters,
        &Patch::Apply(&definition),
    )
    .await?;
    for (namespace, name) in LEGACY {
        let target = Target {
            namespace,
            version: "v1alpha1",
        };
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let parameters = PatchParams::apply("tests").force();
        Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone())
            .patch(namespace, &parameters, &Patch::Apply(&body))
            .await?;
        let spec = json!({"replicas": 0, "server": {"distribution": {"name": "starter"}, "containerSpec": {"port": 0}}});
        until("the legacy resources are accepted", DEADLINE, || async {
            Ok(create(client, &target, &resource("v1alpha1", name, &spec)).await?)
        })
        .await?;
    }
    Ok(())
}

/// Waits until the admission policy and the webhook are in effect, which takes some seconds.
async fn wait_for_layers(client: &Client) -> Result<()> {
    let rejected_by = [
        (
            "ValidatingAdmissionPolicy",
            json!({"distribution": {"name": "starter"}, "resources": {"models": [7]}}),
        ),
        (
            "admission webhook",
            json!({"distribution": {"name": "no-such-distribution"}}),
        ),
    ];
    for (layer, spec) in rejected_by {
        until(layer, DEADLINE, || async {
            match dry_run(client, "default", &resource("v1alpha2", "probe", &spec)).await? {
                Err(status) => ensure!(status.message.contains(layer), "{}", status.message),
                Ok(_) => bail!("the resource was accepted"),
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// A resource with a spec.
pub(crate) fn resource(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("llamastack.io/{version}"),
        "kind": "LlamaStackDistribution",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Creates a v1alpha2 resource in a dry run, as strictly as `kubectl apply`.
pub(crate) async fn dry_run(
    client: &Client,
    namespace: &str,
    document: &Value,
) -> Result<std::result::Result<Value, Box<Status>>> {
    let path = path(&Target {
        namespace,
        version: "v1alpha2",
    });
    let uri = format!("{path}?dryRun=All&fieldValidation=Strict");
    match send(client, Method::POST, &uri, Some(document)).await {
        Ok(created) => Ok(Ok(created)),
        Err(kube::Error::Api(status)) => Ok(Err(status)),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn create(
    client: &Client,
    target: &Target<'_>,
    document: &Value,
) -> kube::Result<Value> {
    send(client, Method::POST, &path(target), Some(document)).await
}

pub(crate) async fn replace(
    client: &Client,
    target: &Target<'_>,
    document: &Value,
) -> kube::Result<Value> {
    let name = document["metadata"]["name"].as_str().unwrap();
    send(
        client,
        Method::PUT,
        &format!("{}/{name}", path(target)),
        Some(document),
    )
    .await
}

/// Every resource of a namespace in a version, by name.
pub(crate) async fn list(
    client: &Client,
    target: &Target<'_>,
) -> kube::Result<BTreeMap<String, Value>> {
    let mut listed = send(client, Method::GET, &path(target), None).await?;
    let items = listed["items"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    let named = |one: Value| {
        (
            one["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            one,
        )
    };
    Ok(items.into_iter().map(named).collect())
}

fn path(target: &Target<'_>) -> String {
    let Target { namespace, version } = target;
    format!("/apis/llamastack.io/{version}/namespaces/{namespace}/llamastackdistributions")
}

async fn send(
    client: &Client,
    method: Method,
    uri: &str,
    body: Option<&Value>,
) -> kube::Result<Value> {
    let body = body
        .map(|body| serde_json::to_vec(body).unwrap())
        .unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    client.request(request).await
}
