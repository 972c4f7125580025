//! The node and the operator that all tests of a program share.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use llsd_testbed::Node;
use llsd_testbed::node::{STARTER_RELEASE, ServerPackages};
use tokio::sync::{Mutex, OnceCell};

use crate::lab::Lab;

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
        SHARED.get_or_try_init(Self::start).await
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
        let llsd = variable("LLSD_BIN")?;
        cluster.node.install_operator(&llsd).await?;
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
            self.node.import_server(&self.packages, release).await?;
            imported.insert(release.to_owned());
        }
        Ok(())
    }

    /// A namespace with a model server.
    pub async fn lab(&'static self, prefix: &str) -> Result<Lab> {
        Lab::create(self, prefix).await
    }
}

fn variable(name: &str) -> Result<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from);
    value.with_context(|| {
        format!("{name} is not set; run `cargo xtask test`, or see CONTRIBUTING.md for its value")
    })
}
