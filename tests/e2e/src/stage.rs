//! An operator of its own for each test: one namespace, one user whose requests can be counted.

use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Endpoints, Metrics, Scope, Settings, install_definitions, run};
use llsd_plugin::{Compiler, Host, HostConfig, Origin, Plugin};
use llsd_registry::{Keyring, Registry};
use llsd_testbed::{AuditedRequest, Mark, Namespace, Testbed, eventually};
use serde_json::Value;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

use crate::{phase, rights};

/// Longer than anything here takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Label of a `SchemaPlugin`: the namespace whose operator serves it.
pub const SERVED_BY: &str = "tests/namespace";

/// A namespace, and a user whose requests can be counted, before an operator runs.
pub struct Stage {
    /// The namespace.
    pub namespace: Namespace,
    /// The administrator's client.
    pub client: Client,
    /// Who the operator is to the API server.
    pub user: String,
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
    /// A namespace whose name begins with `prefix`, without an operator.
    pub async fn set(prefix: &str) -> Self {
        let testbed = Testbed::shared().await.unwrap();
        let client = testbed.client("admin").await.unwrap();
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        INSTALLED
            .get_or_init(async || install_definitions(&client, None).await.unwrap())
            .await;
        let namespace = testbed.namespace(prefix).await.unwrap();
        let user = format!("operator-{}", namespace.name());
        testbed.add_user(&user, None).unwrap();
        rights::grant(&client, namespace.name(), &user).await;
        Self {
            namespace,
            client,
            user,
        }
    }

    /// What an operator for this namespace alone works with.
    pub async fn settings(&self) -> Settings {
        let testbed = Testbed::shared().await.unwrap();
        Settings {
            client: testbed.client(&self.user).await.unwrap(),
            plugins: plugins(),
            scope: Scope::Namespace(self.namespace.name().to_owned()),
            home: self.namespace.name().to_owned(),
            host: host().clone(),
            // Definitions of plugins belong to no namespace; those of other tests are not ours.
            plugin_selector: Some(format!("{SERVED_BY}={}", self.namespace.name())),
            registry: Registry::new(llsd_registry::Settings::default()).unwrap(),
            keyring: Keyring::empty(),
            workers: 4,
            identity: None,
            endpoints: Endpoints::default(),
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
            registry: Registry::new(registry).unwrap(),
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

    /// Where the log of requests is now.
    pub async fn mark(&self) -> Mark {
        Testbed::shared().await.unwrap().audit().mark().unwrap()
    }

    /// What the operator asked of the API server since, apart from watches, as `verb resource name`.
    pub async fn requests_since(&self, mark: Mark) -> Vec<String> {
        let testbed = Testbed::shared().await.unwrap();
        let requests = testbed.audit().requests(&self.user, mark).unwrap();
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

    /// What the operator wrote since.
    pub async fn writes_since(&self, mark: Mark) -> Vec<String> {
        let is_write = |one: &String| !one.starts_with("get ") && !one.starts_with("list ");
        let requests = self.requests_since(mark).await;
        requests.into_iter().filter(is_write).collect()
    }
}

fn host() -> &'static Host {
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

fn plugins() -> Vec<Plugin> {
    static LOADED: OnceLock<Vec<Plugin>> = OnceLock::new();
    let load = || {
        let host = host();
        let load = |one: &llsd_builtin::Builtin| host.load(one.component, Origin::BuiltIn).unwrap();
        llsd_builtin::ADAPTERS.iter().map(load).collect()
    };
    LOADED.get_or_init(load).clone()
}
