//! A release on a real node: upgraded from the release before and back, with Helm and with kubectl, while a
//! server answers.
//!
//! The node reaches nothing outside of it. It has a copy of the release in its own registry, and containerd
//! pulls from there what the chart and the manifests name.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use llsd_node::{Cluster, Lab, Load};
use llsd_testbed::Invocation;
use serde_json::json;

use crate::artifacts::User;
use crate::say;

const NAMESPACE: &str = "llsd-system";
const WITHIN: &str = "--timeout=110s";
/// An adapter of the release that is not built in.
const ADAPTER: &str = "adapters/example-adapter";
/// How many the server answers meanwhile.
const REQUESTS: usize = 1000;
/// The server, of the sample.
const SERVER: &str = "minimal";

/// The release before.
pub(crate) struct Previous {
    source: PathBuf,
    llsd: PathBuf,
}

impl Previous {
    /// In the folder that `cargo xtask release --verify` writes.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            source: folder.join("source"),
            llsd: folder.join("llsd"),
        }
    }

    fn chart(&self) -> PathBuf {
        self.source.join("deploy/helm/llsd")
    }

    fn manifests(&self) -> PathBuf {
        self.source.join("deploy/kustomize/default")
    }

    /// The image that its chart and manifests name.
    fn image(&self) -> Result<String> {
        let file = self
            .source
            .join("deploy/kustomize/operator/deployment.yaml");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        let image = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("image: "));
        let image = image.with_context(|| format!("{} names no image", file.display()))?;
        Ok(image.to_owned())
    }
}

/// A node, and the user who installs the release on it.
pub(crate) struct Installation<'a> {
    user: &'a User,
    cluster: &'static Cluster,
}

impl<'a> Installation<'a> {
    /// Starts a node, and copies the release to its registry.
    pub(crate) async fn start(user: &'a User) -> Result<Self> {
        say("==> node");
        let cluster = Cluster::shared_without_operator().await?;
        let node = cluster.node();
        node.mirror(user.host())?;
        let installation = Self { user, cluster };
        for (name, _) in &user.artifacts {
            let copy = user.crane().args(["copy", "--insecure"]);
            let copy = copy.arg(format!("{}/{name}", user.registry));
            let copy = copy.arg(installation.copied(name));
            copy.run().await?.success()?;
        }
        if user.key.is_some() {
            installation.copy_signature(ADAPTER).await?;
        }
        Ok(installation)
    }

    /// An artifact in the registry of the node.
    fn copied(&self, name: &str) -> String {
        let registry = self.cluster.node().registry();
        match self.user.path() {
            "" => format!("{registry}/{name}"),
            path => format!("{registry}/{path}/{name}"),
        }
    }

    /// Installs the release before, upgrades it, goes back and upgrades again, with Helm and then with
    /// kubectl. Then installs an adapter of the release.
    pub(crate) async fn run(&self, previous: &Previous) -> Result<()> {
        say("==> the release before, with Helm");
        let node = self.cluster.node();
        node.import_operator(&previous.llsd, &previous.image()?)
            .await?;
        let chart = previous.chart().display().to_string();
        self.helm(&["install", "llsd", &chart, "--create-namespace"])
            .await?;
        let lab = self.cluster.lab("release").await?;
        let sample = std::fs::read_to_string(self.user.sample())?;
        lab.apply(&sample).await?;
        let server = lab.ready(SERVER).await?;
        let pods = lab.pod_uids(SERVER).await?;
        let load = Load::start(&server).await?;
        self.replace_operator(previous, &lab, &pods).await?;
        load.stop(REQUESTS).await?;
        self.install_adapter().await
    }

    async fn replace_operator(&self, previous: &Previous, lab: &Lab, pods: &str) -> Result<()> {
        let is_unchanged = || async {
            lab.ready(SERVER).await?;
            let now = lab.pod_uids(SERVER).await?;
            ensure!(now == pods, "the pods {pods} of the server are now {now}");
            Ok(())
        };
        let chart = format!("oci://{}/charts/llsd", self.user.registry);
        let mut upgrade = vec!["upgrade", "llsd", &chart, "--version", &self.user.version];
        upgrade.extend(self.user.is_loopback().then_some("--plain-http"));
        say("==> upgrade with Helm");
        self.helm(&upgrade).await?;
        self.runs_release().await?;
        is_unchanged().await?;
        say("==> back with Helm");
        self.helm(&["rollback", "llsd"]).await?;
        is_unchanged().await?;
        say("==> upgrade again with Helm, and remove");
        self.helm(&upgrade).await?;
        self.helm(&["uninstall", "llsd"]).await?;

        let before = ("--kustomize", previous.manifests());
        let release = ("--filename", self.user.manifests());
        for (title, (option, path)) in [
            ("the release before, with kubectl", &before),
            ("upgrade with install.yaml", &release),
            ("back with kubectl", &before),
            ("upgrade again with install.yaml", &release),
        ] {
            say(&format!("==> {title}"));
            let apply = self.kubectl(["apply", "--server-side", "--force-conflicts", option])?;
            apply.arg(path).run().await?.success()?;
            self.rollout().await?;
            is_unchanged().await?;
        }
        self.runs_release().await
    }

    /// Checks that the operator runs the image of the release.
    async fn runs_release(&self) -> Result<()> {
        let image = "--output=jsonpath={.spec.template.spec.containers[0].image}";
        let get = self.kubectl(["get", "deployment/llsd-operator", image])?;
        let image = get.namespace(NAMESPACE).run().await?.success()?;
        let (repository, digest) = (&self.user.registry, self.user.digest("llsd")?);
        ensure!(
            image == format!("{repository}/llsd@{digest}"),
            "the operator runs {image}"
        );
        Ok(())
    }

    /// Installs an adapter from the registry of the node, which serves plain HTTP.
    async fn install_adapter(&self) -> Result<()> {
        say("==> an adapter of the release");
        let registry = format!("LLSD_PLAIN_HTTP={}", self.cluster.node().registry());
        let allow = self.kubectl(["set", "env", "deployment/llsd-operator", &registry])?;
        allow.namespace(NAMESPACE).run().await?.success()?;
        self.rollout().await?;
        let name = format!("{ADAPTER}:{}", self.user.version);
        let mut spec = json!({ "reference": self.copied(&name) });
        if let Some(key) = &self.user.key {
            let key = std::fs::read_to_string(key)
                .with_context(|| format!("failed to read {}", key.display()))?;
            spec["verify"] = json!({ "level": "enforce", "keys": [key] });
        }
        let plugin = json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "SchemaPlugin",
            "metadata": { "name": "released" },
            "spec": spec,
        });
        let apply = self.kubectl(["apply", "--filename=-"])?;
        apply.input(plugin.to_string()).run().await?.success()?;
        let wait = ["wait", "schemaplugin/released", "--for=condition=Ready"];
        let wait = self.kubectl(wait)?.arg(WITHIN);
        wait.run().await?.success()?;
        Ok(())
    }

    /// Copies the signature of an artifact, which cosign stores as a referrer.
    async fn copy_signature(&self, repository: &str) -> Result<()> {
        let digest = self.user.digest(repository)?;
        let tag = digest.replace(':', "-");
        let copy = self.user.crane().args(["copy", "--insecure"]);
        let copy = copy.arg(format!("{}/{repository}:{tag}", self.user.registry));
        let copy = copy.arg(self.copied(&format!("{repository}:{tag}")));
        copy.run().await?.success()?;
        Ok(())
    }

    fn kubectl<'b>(&self, arguments: impl IntoIterator<Item = &'b str>) -> Result<Invocation> {
        let kubectl = self.cluster.node().testbed().kubectl("admin")?;
        Ok(kubectl.args(arguments))
    }

    /// Runs Helm, which waits until the operator is ready.
    async fn helm(&self, arguments: &[&str]) -> Result<()> {
        let kubeconfig = self.cluster.node().testbed().kubeconfig("admin")?;
        let helm = self.user.helm().args(arguments).args(["--wait", WITHIN]);
        let helm = helm.namespace(NAMESPACE).env("KUBECONFIG", kubeconfig);
        helm.run().await?.success()?;
        Ok(())
    }

    /// Waits until the replicas of the operator are ready.
    async fn rollout(&self) -> Result<()> {
        let status = ["rollout", "status", "deployment/llsd-operator", WITHIN];
        let status = self.kubectl(status)?.namespace(NAMESPACE);
        status.run().await?.success()?;
        Ok(())
    }
}
