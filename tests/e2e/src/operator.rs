//! An operator that runs inside the test process.

use std::sync::{Arc, OnceLock};

use llsd_controller::{
    Endpoints, ImageLookup, Metrics, ObjectLookup, Options, Registries, WritePace, run,
};
use llsd_plugin::{CompileCache, Compiler, Host, HostConfig, Plugin};
use llsd_registry::{Keyring, Registry};
use llsd_testbed::toolchain::cache_dir;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::test_env::{DEADLINE, SERVED_BY, TestEnv};

/// A running operator in the environment of a test.
pub struct Operator {
    env: TestEnv,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), llsd_controller::Error>>,
}

impl std::ops::Deref for Operator {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl Operator {
    /// Starts an operator for a new namespace whose name starts with `prefix`.
    pub async fn start(prefix: &str) -> Self {
        TestEnv::new(prefix).await.start_operator().await
    }

    /// Starts an operator for a new namespace, with its own registry settings.
    pub async fn start_with_registry(prefix: &str, registry: llsd_registry::Settings) -> Self {
        TestEnv::new(prefix)
            .await
            .start_operator_with_registry(registry)
            .await
    }

    /// Stops the operator and waits until it has stopped. The cluster stays as it is.
    pub async fn stop(self) -> TestEnv {
        self.stop.send(()).unwrap();
        let stopped = tokio::time::timeout(DEADLINE, self.task).await;
        stopped.unwrap().unwrap().unwrap();
        self.env
    }
}

impl TestEnv {
    /// The settings of an operator for this environment.
    pub async fn settings(&self) -> Options {
        let namespace = self.namespace.name();
        let home = self.home.as_ref().unwrap_or(&self.namespace).name();
        Options {
            client: self.testbed.client(&self.user).await.unwrap(),
            write_pace: WritePace::default(),
            plugins: plugins(),
            plugins_in_use: watch::Sender::new(Arc::default()),
            distributions_in_use: watch::Sender::new(Arc::default()),
            lookup: ObjectLookup::default(),
            image_lookup: ImageLookup::default(),
            scope: self.scope.clone(),
            operator_namespace: home.to_owned(),
            host: host().clone(),
            // SchemaPlugins are cluster-scoped, so leave out those of other tests.
            plugin_selector: Some(format!("{SERVED_BY}={namespace}")),
            registries: registries(llsd_registry::Settings::default()),
            keyring: Keyring::empty(),
            workers: 4,
            identity: None,
            endpoints: Endpoints::default(),
            polling: None,
            tag_interval: None,
            metrics: Metrics::new(),
        }
    }

    /// Starts an operator with the default settings.
    pub async fn start_operator(self) -> Operator {
        let settings = self.settings().await;
        self.start_operator_with(settings)
    }

    /// Starts an operator with its own registry settings.
    pub async fn start_operator_with_registry(self, registry: llsd_registry::Settings) -> Operator {
        let settings = Options {
            registries: registries(registry),
            ..self.settings().await
        };
        self.start_operator_with(settings)
    }

    /// Starts an operator with the given settings.
    pub fn start_operator_with(self, settings: Options) -> Operator {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        Operator {
            env: self,
            stop,
            task: tokio::spawn(run(settings, shutdown)),
        }
    }
}

/// The host that loads plugins, shared by all operators of a test binary.
pub fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        // The host compiles in a child process that runs `llsd`, which a test binary is not.
        let compiler = std::env::var_os("LLSD_BIN")
            .map_or(Compiler::ThisProgram, |path| Compiler::Program(path.into()));
        // Most of the time of these tests was the compiler, for the same few plugins.
        let cache = cache_dir().unwrap().join("compiled");
        Host::new(HostConfig {
            compiler,
            compile_cache: Some(CompileCache::open(&cache).unwrap()),
            ..HostConfig::default()
        })
        .unwrap()
    })
}

/// The built-in adapters, loaded once.
pub fn plugins() -> Vec<Plugin> {
    static LOADED: OnceLock<Vec<Plugin>> = OnceLock::new();
    let load = || {
        let host = host();
        let load =
            |one: &llsd_builtin::Builtin| host.load_built_in(one.component, one.digest).unwrap();
        llsd_builtin::ADAPTERS.iter().map(load).collect()
    };
    LOADED.get_or_init(load).clone()
}

/// The registries of an operator, with their settings.
pub fn registries(settings: llsd_registry::Settings) -> Arc<Registries> {
    Arc::new(Registries::new(Registry::new(settings).unwrap()))
}
