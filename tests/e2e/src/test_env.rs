//! An operator of its own for each test: one namespace, one user whose requests can be counted.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{
    Endpoints, Metrics, Registries, Scope, Seen, Settings, install_definitions, run,
};
use llsd_plugin::{Compiler, Host, HostConfig, Origin, Plugin};
use llsd_registry::{Keyring, Registry};
use llsd_testbed::{AuditedRequest, Mark, Namespace, Testbed, eventually};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::task::JoinHandle;

use crate::phase;
use crate::rights::grant;

/// Longer than anything here takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Label of a `SchemaPlugin`: the namespace whose operator serves it.
pub const SERVED_BY: &str = "tests/namespace";

/// A namespace, and a user whose requests can be counted, before an operator runs.
///
/// The user has the rights of the shipped manifests. A request of it that is forbidden fails the
/// test, at its end.
pub struct Stage {
    /// The control plane.
    pub testbed: &'static Testbed,
    /// The namespace.
    pub namespace: Namespace,
    /// The administrator's client.
    pub client: Client,
    /// Who the operator is to the API server.
    pub user: String,
    /// The operator's own namespace, where that is another one.
    pub home: Option<Namespace>,
    scope: Scope,
    /// Where in the log of requests those begin that must not be forbidden.
    judged_from: Mutex<Mark>,
}

/// A running operator and the namespace that it serves.
pub struct Operator {
    stage: Stage,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), llsd_controller::Error>>,
}

impl std::ops::Deref for Operator {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Operator {
    /// Starts one for a namespace whose name begins with `prefix`.
    pub async fn start(prefix: &str) -> Self {
        Stage::set(prefix).await.operate().await
    }

    /// Starts one that reaches registries in its own way.
    pub async fn start_reaching(prefix: &str, registry: llsd_registry::Settings) -> Self {
        Stage::set(prefix).await.operate_reaching(registry).await
    }

    /// Stops the operator, waits for its end, and leaves everything else as it is.
    pub async fn stop(self) -> Stage {
        self.stop.send(()).unwrap();
        let ended = tokio::time::timeout(DEADLINE, self.task).await;
        ended.unwrap().unwrap().unwrap();
        self.stage
    }
}

impl Stage {
    /// A namespace of the control plane that all tests share, whose name begins with `prefix`.
    pub async fn set(prefix: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let testbed = Testbed::shared().await.unwrap();
        INSTALLED
            .get_or_init(async || {
                let client = testbed.client("admin").await.unwrap();
                install_definitions(&client, None).await.unwrap();
            })
            .await;
        Self::set_on(testbed, prefix).await
    }

    /// A namespace of a control plane that has the definitions.
    pub async fn set_on(testbed: &'static Testbed, prefix: &str) -> Self {
        let namespace = testbed.namespace(prefix).await.unwrap();
        let scope = Scope::Namespace(namespace.name().to_owned());
        Self::granted(testbed, namespace, None, scope).await
    }

    /// A namespace of a control plane that has the definitions, for an operator that is at home in
    /// another one.
    pub async fn set_apart(testbed: &'static Testbed, prefix: &str) -> Self {
        let namespace = testbed.namespace(prefix).await.unwrap();
        let home = testbed.namespace("home").await.unwrap();
        let scope = Scope::Namespace(namespace.name().to_owned());
        Self::granted(testbed, namespace, Some(home), scope).await
    }

    /// A namespace of a control plane that has the definitions, for an operator that serves all
    /// namespaces and is at home in another one.
    pub async fn set_across(testbed: &'static Testbed, prefix: &str) -> Self {
        let namespace = testbed.namespace(prefix).await.unwrap();
        let home = testbed.namespace("home").await.unwrap();
        Self::granted(testbed, namespace, Some(home), Scope::Cluster).await
    }

    async fn granted(
        testbed: &'static Testbed,
        namespace: Namespace,
        home: Option<Namespace>,
        scope: Scope,
    ) -> Self {
        let client = testbed.client("admin").await.unwrap();
        let user = format!("operator-{}", namespace.name());
        testbed.add_user(&user, None).unwrap();
        let judged_from = Mutex::new(testbed.audit().mark().unwrap());
        let at = home.as_ref().unwrap_or(&namespace).name();
        grant(&client, &user, at, &scope).await;
        Self {
            testbed,
            namespace,
            client,
            user,
            home,
            scope,
            judged_from,
        }
    }

    /// What an operator works with.
    pub async fn settings(&self) -> Settings {
        let namespace = self.namespace.name();
        let home = self.home.as_ref().unwrap_or(&self.namespace).name();
        Settings {
            client: self.testbed.client(&self.user).await.unwrap(),
            plugins: plugins(),
            plugins_in_use: watch::Sender::new(Arc::default()),
            distributions_in_use: watch::Sender::new(Arc::default()),
            seen: Seen::default(),
            scope: self.scope.clone(),
            home: home.to_owned(),
            host: host().clone(),
            // Definitions of plugins belong to no namespace; those of other tests are not ours.
            plugin_selector: Some(format!("{SERVED_BY}={namespace}")),
            registries: registries(llsd_registry::Settings::default()),
            keyring: Keyring::empty(),
            workers: 4,
            identity: None,
            endpoints: Endpoints::default(),
            polling: None,
            metrics: Metrics::new(),
        }
    }

    /// Starts an operator.
    pub async fn operate(self) -> Operator {
        let settings = self.settings().await;
        self.operate_with(settings)
    }

    /// Starts an operator that reaches registries in its own way.
    pub async fn operate_reaching(self, registry: llsd_registry::Settings) -> Operator {
        let settings = Settings {
            registries: registries(registry),
            ..self.settings().await
        };
        self.operate_with(settings)
    }

    /// Starts an operator with other settings.
    pub fn operate_with(self, settings: Settings) -> Operator {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        Operator {
            stage: self,
            stop,
            task: tokio::spawn(run(settings, shutdown)),
        }
    }

    /// Access to one kind in the namespace.
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

    /// Changes a resource.
    pub async fn edit(&self, name: &str, change: Value) -> Distribution {
        let api = self.api::<Distribution>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap()
    }

    /// Waits until a resource's status speaks of its newest spec and satisfies `condition`.
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

    /// Waits until there is no such object.
    pub async fn wait_until_gone<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Send
            + 'static,
    {
        let is_gone = |one: Option<&K>| one.is_none();
        eventually(&self.api::<K>(), name, DEADLINE, "gone", is_gone)
            .await
            .unwrap();
    }

    /// Where the log of requests is now.
    pub async fn mark(&self) -> Mark {
        self.testbed.audit().mark().unwrap()
    }

    /// What the operator asked of the API server since, apart from watches, as `verb resource name`.
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

    /// Every request of the operator since, as the API server saw it.
    pub fn audited(&self, since: Mark) -> Vec<AuditedRequest> {
        self.testbed.audit().requests(&self.user, since).unwrap()
    }

    /// Lets requests that were forbidden so far not count.
    pub fn forgive(&self) {
        *self.judged_from.lock().unwrap() = self.testbed.audit().mark().unwrap();
    }

    /// What the operator wrote since.
    pub async fn writes_since(&self, mark: Mark) -> Vec<String> {
        let is_write = |one: &String| !one.starts_with("get ") && !one.starts_with("list ");
        let requests = self.requests_since(mark).await;
        requests.into_iter().filter(is_write).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut refused = self.audited(*self.judged_from.lock().unwrap());
        refused.retain(|one| one.code == 403);
        assert!(
            refused.is_empty(),
            "the shipped roles lack something: {refused:#?}"
        );
    }
}

/// Loads plugins.
pub fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        // A test binary cannot compile as a child process of itself; the real one can.
        let compiler = std::env::var_os("LLSD_BIN")
            .map_or(Compiler::ThisProgram, |path| Compiler::Program(path.into()));
        Host::new(HostConfig {
            compiler,
            ..HostConfig::default()
        })
        .unwrap()
    })
}

/// The adapters inside the binary, loaded once.
pub fn plugins() -> Vec<Plugin> {
    static LOADED: OnceLock<Vec<Plugin>> = OnceLock::new();
    let load = || {
        let host = host();
        let load = |one: &llsd_builtin::Builtin| host.load(one.component, Origin::BuiltIn).unwrap();
        llsd_builtin::ADAPTERS.iter().map(load).collect()
    };
    LOADED.get_or_init(load).clone()
}

/// What an operator reads registries through.
pub fn registries(settings: llsd_registry::Settings) -> Arc<Registries> {
    Arc::new(Registries::new(Registry::new(settings).unwrap()))
}
