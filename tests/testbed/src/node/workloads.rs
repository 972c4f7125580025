//! What a node runs for tests and for `cargo xtask up`: the operator, servers and a model server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::images::{OPERATOR_IMAGE, write_operator_image};
use super::{Node, ServerPackages};
use crate::toolchain;
use crate::wait::until;

/// The image of the distribution `starter`, under the name that the operator gives it.
pub const STARTER_IMAGE: &str = "docker.io/llamastack/distribution-starter:0.7.1";

/// The release inside the image of `starter`: the newest of its minor release.
pub const STARTER_RELEASE: &str = "0.7.3";

/// The operator compiles its plugins first, which is slow in an unoptimised build.
const OPERATOR_WITHIN: &str = "--timeout=110s";

/// The name of the model server and its Service.
const VLLM: &str = "vllm";

/// A machine where two cores do everything else, too.
const VLLM_WITHIN: Duration = Duration::from_secs(240);

impl Node {
    /// Imports the images of a release: `llsd.test/server:<release>` and its variants. `config` is the file
    /// that they run by default, instead of the one of the distribution.
    pub async fn import_server(
        &self,
        packages: &ServerPackages,
        release: &str,
        config: Option<String>,
    ) -> Result<()> {
        let (packages, name) = (packages.clone(), release.to_owned());
        let written = tokio::task::spawn_blocking(move || {
            let aliases: &[&str] = match name.as_str() {
                STARTER_RELEASE => &[STARTER_IMAGE],
                _ => &[],
            };
            packages.ensure(&toolchain::cache_dir()?, &name, aliases, config.as_deref())
        });
        self.import(&written.await??).await
    }

    /// Imports the operator's image with this binary, under the name `image`.
    pub async fn import_operator(&self, llsd: &Path, image: &str) -> Result<()> {
        let layout = self.testbed().state().folder.join("images/operator");
        let (target, llsd, image) = (layout.clone(), llsd.to_owned(), image.to_owned());
        let write = move || write_operator_image(&target, &llsd, &image);
        tokio::task::spawn_blocking(write).await??;
        self.import(&layout).await
    }

    /// Installs the operator from the default manifests, unchanged, and waits until it is ready. It may
    /// read images from the registry of the node, which serves plain HTTP.
    pub async fn install_operator(&self, llsd: &Path) -> Result<()> {
        self.import_operator(llsd, OPERATOR_IMAGE).await?;
        let manifests = checkout().join("deploy/kustomize/default");
        let apply = self.testbed().kubectl("admin")?;
        let apply = apply.args(["apply", "--server-side", "--kustomize"]);
        apply.arg(manifests).run().await?.success()?;
        let allow = self.testbed().kubectl("admin")?.namespace("llsd-system");
        let allow = allow.args(["set", "env", "deployment/llsd-operator"]);
        let allow = allow.arg(format!("LLSD_PLAIN_HTTP={}", self.registry()));
        allow.run().await?.success()?;
        let wait = self.testbed().kubectl("admin")?.namespace("llsd-system");
        let wait = wait.args(["rollout", "status", "deployment/llsd-operator"]);
        wait.arg(OPERATOR_WITHIN).run().await?.success()?;
        Ok(())
    }

    /// Runs a model server with these models behind the Service `vllm` of a namespace. It answers every
    /// chat with the same sentence. With `token`, requests need it as a bearer token.
    pub async fn run_vllm(
        &self,
        namespace: &str,
        models: &[&str],
        token: Option<&str>,
    ) -> Result<()> {
        let script = checkout().join("tests/oracle/fake_vllm.py");
        let script = std::fs::read_to_string(&script)
            .with_context(|| format!("failed to read {}", script.display()))?;
        let objects = vllm_objects(&script, models, token);
        let apply = self.testbed().kubectl("admin")?.namespace(namespace);
        let apply = apply.args(["apply", "--server-side", "--filename=-"]);
        apply.input(objects.to_string()).run().await?.success()?;
        until("the model server is ready", VLLM_WITHIN, || async {
            let status = self.testbed().kubectl("admin")?.namespace(namespace);
            let status = status.args(["rollout", "status", "deployment", VLLM, "--timeout=5s"]);
            status.run().await?.success()
        })
        .await
        .map(drop)
    }
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .components()
        .collect()
}

fn vllm_objects(script: &str, models: &[&str], token: Option<&str>) -> Value {
    let mut command = vec!["python3", "-u", "/code/fake_vllm.py", "8000"];
    command.extend(models);
    let mut env = vec![json!({"name": "FAKE_VLLM_ADDRESS", "value": "0.0.0.0"})];
    env.extend(token.map(|token| json!({"name": "FAKE_VLLM_TOKEN", "value": token})));
    let labels = json!({"app": VLLM});
    let container = json!({
        "name": VLLM,
        "image": STARTER_IMAGE,
        "command": command,
        "env": env,
        // Servers that start beside it may leave it no time for seconds. It is not what is tested, so it
        // stays ready.
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": 8000},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
            "failureThreshold": 30,
        },
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 1,
        // Also allowed in a namespace that enforces the restricted Pod Security level.
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 1001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "code", "configMap": {"name": VLLM}}],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": VLLM},
            "data": {"fake_vllm.py": script},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": VLLM},
            "spec": {"selector": labels, "ports": [{"port": 8000}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": VLLM},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]})
}
