//! A namespace for one test.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

use crate::control_plane::keeps_data;
use crate::testbed::Testbed;
use crate::wait::eventually;

/// A namespace with a generated name, deleted when dropped.
///
/// `drop` requests the deletion and does not wait for it. The controllers finish it while other
/// tests run.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    kubeconfig: std::path::PathBuf,
}

impl Namespace {
    pub(crate) async fn create(testbed: &Testbed, prefix: &str) -> Result<Self> {
        let admin = testbed.client("admin").await?;
        let namespace = core::Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..core::Namespace::default()
        };
        let api = Api::<core::Namespace>::all(admin.clone());
        let created = api.create(&PostParams::default(), &namespace).await?;
        let name = created.metadata.name.unwrap_or_default();
        if testbed.state().has_controllers {
            // The API server rejects pods until the default service account exists.
            let accounts = Api::<core::ServiceAccount>::namespaced(admin, &name);
            eventually(
                &accounts,
                "default",
                Duration::from_secs(240),
                "created",
                |a| a.is_some(),
            )
            .await?;
        }
        Ok(Self {
            name,
            kubeconfig: testbed.kubeconfig("admin")?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Access to one kind in this namespace.
    pub fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(client.clone(), &self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if keeps_data() {
            return;
        }
        // `drop` is not async and the test's runtime may be shutting down, so the request runs in
        // its own thread and runtime.
        let (name, kubeconfig) = (self.name.clone(), self.kubeconfig.clone());
        let request = std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let api =
                    Api::<core::Namespace>::all(crate::control_plane::client(&kubeconfig).await?);
                api.delete(&name, &DeleteParams::background()).await?;
                Ok(())
            })
        });
        // A failed deletion does not fail the test.
        let _ = request.join();
    }
}
