//! The environment of one test: a namespace, and a user for the operator whose requests are audited.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Scope, install_definitions};
use llsd_testbed::{AuditedRequest, Mark, Namespace, Testbed, eventually};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::permissions::grant;
use crate::phase;

/// Longer than any step takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(240);

/// Label of a `SchemaPlugin`: the namespace whose operator loads it.
pub const SERVED_BY: &str = "tests/namespace";

/// A namespace, and a user for the operator.
///
/// The user has the permissions of the shipped roles. When this is dropped, the test fails if the API
/// server denied a request of that user.
pub struct TestEnv {
    /// The control plane.
    pub testbed: &'static Testbed,
    /// The namespace.
    pub namespace: Namespace,
    /// The administrator's client.
    pub client: Client,
    /// The user name of the operator.
    pub user: String,
    /// The operator's own namespace, if it is not `namespace`.
    pub home: Option<Namespace>,
    pub(crate) scope: Scope,
    /// The position in the audit log after which no request may be denied.
    checked_from: Mutex<Mark>,
}

impl TestEnv {
    /// Creates a namespace whose name starts with `prefix` on the shared control plane.
    pub async fn new(prefix: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let testbed = Testbed::shared().await.unwrap();
        INSTALLED
            .get_or_init(async || {
                let client = testbed.client("admin").await.unwrap();
                install_definitions(&client, None).await.unwrap();
            })
            .await;
        Self::on(testbed, prefix).await
    }

    /// Creates a namespace on a control plane that has our CRDs.
    pub async fn on(testbed: &'static Testbed, prefix: &str) -> Self {
        let namespace = testbed.namespace(prefix).await.unwrap();
        let scope = Scope::Namespace(namespace.name().to_owned());
        Self::with_permissions(testbed, namespace, None, scope).await
    }

    /// The same, for an operator that runs in another namespace than the one that it serves.
    pub async fn with_separate_home(testbed: &'static Testbed, prefix: &str) -> Self {
        let namespace = testbed.namespace(prefix).await.unwrap();
        let home = testbed.namespace("home").await.unwrap();
        let scope = Scope::Namespace(namespace.name().to_owned());
        Self::with_permissions(testbed, namespace, Some(home), scope).await
    }

    /// The same, for an operator that runs in another namespace and serves all namespaces.
    pub async fn cluster_wide(testbed: &'static Testbed, prefix: &str) -> Self {
        let namespace = testbed.namespace(prefix).await.unwrap();
        let home = testbed.namespace("home").await.unwrap();
        Self::with_permissions(testbed, namespace, Some(home), Scope::Cluster).await
    }

    async fn with_permissions(
        testbed: &'static Testbed,
        namespace: Namespace,
        home: Option<Namespace>,
        scope: Scope,
    ) -> Self {
        let client = testbed.client("admin").await.unwrap();
        let user = format!("operator-{}", namespace.name());
        testbed.add_user(&user, None).unwrap();
        let checked_from = Mutex::new(testbed.audit().mark().unwrap());
        let at = home.as_ref().unwrap_or(&namespace).name();
        grant(&client, &user, at, &scope).await;
        Self {
            testbed,
            namespace,
            client,
            user,
            home,
            scope,
            checked_from,
        }
    }

    /// An `Api` for one kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        self.namespace.api(&self.client)
    }

    /// Creates a resource.
    pub async fn create(&self, resource: &Value) -> Distribution {
        let resource = serde_json::from_value(resource.clone()).unwrap();
        self.api()
            .create(&PostParams::default(), &resource)
            .await
            .unwrap()
    }

    /// Changes a resource with a merge patch.
    pub async fn edit(&self, name: &str, change: Value) -> Distribution {
        let api = self.api::<Distribution>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap()
    }

    /// Waits until the status of a resource is about its newest spec and satisfies `condition`.
    pub async fn wait_for(
        &self,
        name: &str,
        state: &str,
        condition: impl Fn(&Distribution) -> bool,
    ) -> Distribution {
        let api = self.api::<Distribution>();
        let holds = |cr: Option<&Distribution>| {
            cr.is_some_and(|cr| {
                let observed = cr
                    .status
                    .as_ref()
                    .and_then(|status| status.observed_generation);
                observed == cr.metadata.generation && condition(cr)
            })
        };
        eventually(&api, name, DEADLINE, state, holds)
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits until a resource is ready.
    pub async fn wait_until_ready(&self, name: &str) -> Distribution {
        self.wait_for(name, "ready", |cr| phase(cr) == Some(Phase::Ready))
            .await
    }

    /// Waits until a Deployment satisfies `condition`.
    pub async fn wait_for_deployment(
        &self,
        name: &str,
        state: &str,
        condition: impl Fn(&Deployment) -> bool,
    ) -> Deployment {
        let holds = |one: Option<&Deployment>| one.is_some_and(&condition);
        eventually(&self.api(), name, DEADLINE, state, holds)
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits until an object is deleted.
    pub async fn wait_until_deleted<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Send
            + 'static,
    {
        let is_deleted = |one: Option<&K>| one.is_none();
        eventually(&self.api::<K>(), name, DEADLINE, "deleted", is_deleted)
            .await
            .unwrap();
    }

    /// The current position in the audit log.
    pub async fn mark(&self) -> Mark {
        self.testbed.audit().mark().unwrap()
    }

    /// The requests of the operator since a mark, except watches, as `verb resource name`.
    pub async fn requests_since(&self, mark: Mark) -> Vec<String> {
        let requests = self.audited(mark);
        let is_request = |one: &&AuditedRequest| one.verb != "watch";
        let text = |one: &AuditedRequest| {
            let resource = match one.subresource.as_str() {
                "" => one.resource.clone(),
                subresource => format!("{}/{subresource}", one.resource),
            };
            format!("{} {resource} {}", one.verb, one.name)
        };
        requests.iter().filter(is_request).map(text).collect()
    }

    /// Every request of the operator since a mark.
    pub fn audited(&self, since: Mark) -> Vec<AuditedRequest> {
        self.testbed.audit().requests(&self.user, since).unwrap()
    }

    /// Ignores the requests that were denied so far.
    pub fn ignore_earlier_denials(&self) {
        *self.checked_from.lock().unwrap() = self.testbed.audit().mark().unwrap();
    }

    /// The write requests of the operator since a mark.
    pub async fn writes_since(&self, mark: Mark) -> Vec<String> {
        let is_write = |one: &String| !one.starts_with("get ") && !one.starts_with("list ");
        let requests = self.requests_since(mark).await;
        requests.into_iter().filter(is_write).collect()
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut denied = self.audited(*self.checked_from.lock().unwrap());
        denied.retain(|one| one.code == 403);
        assert!(
            denied.is_empty(),
            "the shipped roles lack permissions; denied requests: {denied:#?}"
        );
    }
}
