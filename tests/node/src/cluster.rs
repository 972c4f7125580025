//! The node and the operator that all tests of a program share.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use llsd_testbed::Node;
use llsd_testbed::node::{OPERATOR_IMAGE, STARTER_RELEASE, ServerPackages};
use tokio::sync::{Mutex, OnceCell};

use crate::lab::Lab;
use crate::provider_image::push_provider;
use crate::starter_config;

/// A node with the operator, installed from the default manifests.
pub struct Cluster {
    node: &'static Node,
    packages: ServerPackages,
    imported: Mutex<BTreeSet<String>>,
}

impl Cluster {
    /// The shared cluster. The first call starts it.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        let start = || async {
            let cluster = Self::start().await?;
            cluster
                .node
                .install_operator(&variable("LLSD_BIN")?)
                .await?;
            Ok(cluster)
        };
        SHARED.get_or_try_init(start).await
    }

    /// The shared cluster of a program that installs the operator itself.
    pub async fn shared_without_operator() -> Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Imports the operator's image.
    pub async fn import_operator(&self) -> Result<()> {
        let llsd = variable("LLSD_BIN")?;
        self.node.import_operator(&llsd, OPERATOR_IMAGE).await
    }

    async fn start() -> Result<Self> {
        let cluster = Self {
            node: Node::shared().await?,
            packages: ServerPackages {
                venvs: variable("LLSD_ORACLE")?.join("venvs"),
                python: variable("LLSD_PYTHON")?,
            },
            imported: Mutex::default(),
        };
        cluster.import(STARTER_RELEASE).await?;
        Ok(cluster)
    }

    /// The node.
    pub fn node(&self) -> &'static Node {
        self.node
    }

    /// Imports the server images of a release, once.
    pub async fn import(&self, release: &str) -> Result<()> {
        let mut imported = self.imported.lock().await;
        if !imported.contains(release) {
            let config = match release {
                STARTER_RELEASE => Some(starter_config()?),
                _ => None,
            };
            let node = self.node;
            node.import_server(&self.packages, release, config).await?;
            imported.insert(release.to_owned());
        }
        Ok(())
    }

    /// Pushes the image of the external provider `remote::acme`, and returns its reference.
    pub async fn push_provider(&self) -> Result<String> {
        push_provider(self.node, &self.packages.python).await
    }

    /// A namespace with a model server.
    pub async fn lab(&'static self, prefix: &str) -> Result<Lab> {
        Lab::create(self, prefix, false).await
    }

    /// A namespace with a model server, while no other one exists: for tests that count lost requests.
    /// A server that starts beside others may leave too little of a small machine to answer in time.
    pub async fn lab_alone(&'static self, prefix: &str) -> Result<Lab> {
        Lab::create(self, prefix, true).await
    }
}

fn variable(name: &str) -> Result<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from);
    value.with_context(|| {
        format!("{name} is not set; run `cargo xtask test`, or see CONTRIBUTING.md for its value")
    })
}
