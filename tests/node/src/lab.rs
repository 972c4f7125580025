//! A namespace of one test, with a model server in it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use llsd_testbed::node::STARTER_IMAGE;
use llsd_testbed::{Invocation, Namespace, until};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::MODEL;
use crate::client::Server;
use crate::cluster::Cluster;
use crate::postgres::{self, POSTGRES};

/// A server needs ten seconds on a quiet machine. The rest is a margin for a busy one.
const READY_WITHIN: Duration = Duration::from_secs(300);

const ROUTED_WITHIN: Duration = Duration::from_secs(30);
/// Lines of a log in the message of a failed test.
const LOG_LINES: usize = 60;

/// A namespace with a model server behind the Service `vllm`. It is deleted when dropped.
pub struct Lab {
    cluster: &'static Cluster,
    namespace: Namespace,
    _guard: NodeGuard,
}

/// Labs that share the node, and labs that need all of it.
static NODE_LOCK: RwLock<()> = RwLock::const_new(());

/// The right to use the node until it is dropped.
enum NodeGuard {
    Shared {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
}

impl Lab {
    pub(crate) async fn create(
        cluster: &'static Cluster,
        prefix: &str,
        is_alone: bool,
    ) -> Result<Self> {
        let guard = match is_alone {
            true => NodeGuard::Alone {
                _guard: NODE_LOCK.write().await,
            },
            false => NodeGuard::Shared {
                _guard: NODE_LOCK.read().await,
            },
        };
        let namespace = cluster.node().testbed().namespace(prefix).await?;
        let node = cluster.node();
        node.run_vllm(namespace.name(), &[MODEL], None).await?;
        Ok(Self {
            cluster,
            namespace,
            _guard: guard,
        })
    }

    /// The name of the namespace.
    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    /// The cluster.
    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// kubectl in this namespace.
    pub fn kubectl<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<Invocation> {
        let kubectl = self.cluster.node().testbed().kubectl("admin")?;
        Ok(kubectl.namespace(self.namespace()).args(arguments))
    }

    /// Runs kubectl, which must succeed, and returns its standard output.
    pub async fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<String> {
        self.kubectl(arguments)?.run().await?.success()
    }

    /// Creates or changes objects.
    pub async fn apply(&self, objects: &str) -> Result<()> {
        let apply = self.kubectl(["apply", "--server-side", "--filename=-"])?;
        apply.input(objects).run().await?.success()?;
        Ok(())
    }

    /// Runs a PostgreSQL behind the Service `postgres`, with the user and the database `postgres`.
    pub async fn run_postgres(&self, password: &str) -> Result<()> {
        let objects = postgres::objects(STARTER_IMAGE, password);
        self.apply(&objects.to_string()).await?;
        let status = ["rollout", "status", "deployment", POSTGRES, "--timeout=5s"];
        until("PostgreSQL is ready", READY_WITHIN, || self.run(status))
            .await
            .map(drop)
    }

    /// Creates or changes a resource with this spec. Its pods ask for little CPU, so that the servers of
    /// several tests fit on a small machine.
    pub async fn apply_resource(&self, name: &str, mut spec: Value) -> Result<()> {
        let requests = &mut spec["workload"]["resources"]["requests"];
        if requests.is_null() {
            *requests = json!({"cpu": "50m", "memory": "200Mi"});
        }
        let resource = json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.apply(&resource.to_string()).await
    }

    /// Waits until the operator has seen the current spec and the server is ready.
    pub async fn ready(&self, name: &str) -> Result<Server> {
        let outcome = until("the server becomes ready", READY_WITHIN, || async {
            let resource = self.get(&format!("llamastackdistribution/{name}")).await?;
            let status = &resource["status"];
            let is_current = status["observedGeneration"] == resource["metadata"]["generation"];
            anyhow::ensure!(is_current && status["phase"] == "Ready", "it is {status}");
            Ok(())
        })
        .await;
        if let Err(error) = outcome {
            return Err(error.context(self.explain(name).await));
        }
        let server = self.server(name).await?;
        // kube-proxy learns of a ready pod at about the same time as the operator.
        until("the Service is routed", ROUTED_WITHIN, || async {
            Ok(TcpStream::connect(server.host()).await?)
        })
        .await?;
        Ok(server)
    }

    /// The server behind the Service of a resource.
    pub async fn server(&self, name: &str) -> Result<Server> {
        let service = self.get(&format!("service/{name}-service")).await?;
        Server::of_service(&service)
    }

    /// Changes the variable `CHANGED` of a server, and waits until its pods are replaced.
    pub async fn replace_pods(&self, name: &str, value: &str) -> Result<()> {
        let variable = json!([{"name": "CHANGED", "value": value}]);
        let change = json!({"spec": {"workload": {"overrides": {"env": variable}}}});
        let resource = format!("llamastackdistribution/{name}");
        let patch = format!("--patch={change}");
        self.run(["patch", &resource, "--type=merge", &patch])
            .await?;
        self.ready(name).await?;
        let selector = format!("--selector=app.kubernetes.io/instance={name}");
        until("the old pods are gone", READY_WITHIN, || async {
            let replicas = self.get(&format!("deployment/{name}")).await?;
            let replicas = replicas["spec"]["replicas"].as_u64().unwrap_or(1);
            let pods = self
                .run(["get", "pods", &selector, "--output=name"])
                .await?;
            let pods = u64::try_from(pods.lines().count())?;
            anyhow::ensure!(pods == replicas, "{pods} of {replicas} pods");
            Ok(())
        })
        .await
    }

    /// The uids of the pods of a server.
    pub async fn pod_uids(&self, name: &str) -> Result<String> {
        let selector = format!("--selector=app.kubernetes.io/instance={name}");
        let uids = "--output=jsonpath={.items[*].metadata.uid}";
        self.run(["get", "pods", &selector, uids]).await
    }

    /// One object.
    pub async fn get(&self, object: &str) -> Result<Value> {
        let text = self.run(["get", object, "--output=json"]).await?;
        serde_json::from_str(&text).with_context(|| format!("kubectl printed no JSON for {object}"))
    }

    /// The pods of a server and the end of their logs without the requests that succeeded, for the message
    /// of a failed test.
    pub async fn explain(&self, name: &str) -> String {
        let show = |result: Result<String>| result.unwrap_or_else(|error| error.to_string());
        let pods = show(self.run(["get", "pods", "--output=wide"]).await);
        let selector = format!("--selector=app.kubernetes.io/instance={name}");
        let logs = ["logs", &selector, "--prefix", "--tail=-1"];
        let logs = show(self.run(logs).await);
        let lines: Vec<_> = logs.lines().filter(|line| !line.contains("200")).collect();
        let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
        format!("pods:\n{pods}\nlog of the server:\n{}", end.join("\n"))
    }
}
