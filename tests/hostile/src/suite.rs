//! Runs the cases, one after the other, against one operator.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, Status};
use llsd_api::{Distribution, SchemaPlugin};
use llsd_testbed::{Namespace, Release, Testbed, until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fair_tenant::SERVED_WITHIN;
use crate::image::Stored;
use crate::{Attack, Case, FairTenant, HostileRegistry, Image, Operator, Outcome};

/// How long the operator may take to report on a hostile resource.
const REPORTED: Duration = Duration::from_secs(45);
/// How long the memory may take to return.
const SETTLED: Duration = Duration::from_secs(40);
/// Changes of the fair tenant during one attack.
const CHANGES: u32 = 3;
/// The name of a hostile `SchemaPlugin`.
const PLUGIN: &str = "hostile";
/// Stands for the address of the hostile registry in the corpus.
const REGISTRY: &str = "{registry}";

/// The running parts.
pub struct Suite {
    operator: Operator,
    fair: FairTenant,
    client: Client,
    /// The namespace of the operator.
    _home: Namespace,
    testbed: Testbed,
    /// The private memory of the operator before the first case.
    memory: u64,
}

/// What a case measured.
pub struct Report {
    /// The slowest change of the fair tenant.
    pub served: Duration,
    /// The peak of the operator's resident memory, in bytes.
    pub peak: u64,
    /// Its private memory after the case, in bytes.
    pub after: u64,
    /// What happened to the hostile input.
    pub outcome: String,
}

impl Suite {
    /// Starts a control plane, the operator and the fair tenant.
    pub async fn start() -> Result<Self> {
        let testbed = Testbed::start(Release::Newest).await?;
        let home = testbed.namespace("home").await?;
        let operator = Operator::start(&testbed, home.name()).await?;
        let mut fair = FairTenant::start(&testbed).await?;
        // The first changes fill the caches.
        for _ in 0..CHANGES {
            fair.change().await?;
        }
        Ok(Self {
            memory: operator.private_memory()?,
            operator,
            fair,
            client: testbed.client("admin").await?,
            _home: home,
            testbed,
        })
    }

    /// How the memory limit is enforced, and the memory of the operator before the first case.
    pub fn describe(&self) -> String {
        let limit = self.operator.limit();
        format!("memory limit {limit}; {} MiB at first", self.memory >> 20)
    }

    /// Runs one case. Fails with everything that must not happen.
    pub async fn run(&mut self, case: &Case) -> Result<Report> {
        let namespace = self.testbed.namespace("hostile").await?;
        // Each case has its own, because slow reads of one case use up the share of their registry.
        let registry = HostileRegistry::start().await;
        let hostile = Hostile {
            client: self.client.clone(),
            namespace,
            registry: registry.host(),
        };
        self.operator.reset_peak()?;
        let mut running = JoinSet::new();
        let created = hostile
            .attack(
                &case.attack,
                &registry,
                self.operator.webhooks,
                &mut running,
            )
            .await?;
        let mut served = Duration::ZERO;
        for _ in 0..CHANGES {
            served = served.max(self.fair.change().await?);
            self.operator.check().await?;
        }
        ensure!(
            served <= SERVED_WITHIN,
            "a change of the fair tenant took {served:.1?}"
        );
        let outcome = hostile.check(&case.outcome, created).await?;
        self.operator.check().await?;
        let peak = self.operator.peak_memory()?;
        running.shutdown().await;
        hostile.delete().await?;
        let after = self.wait_for_memory().await?;
        Ok(Report {
            served,
            peak,
            after,
            outcome,
        })
    }

    /// Waits until the private memory is at most a fifth above that before the first case.
    async fn wait_for_memory(&self) -> Result<u64> {
        let allowed = self.memory + self.memory / 5;
        let started = Instant::now();
        loop {
            let now = self.operator.private_memory()?;
            if now <= allowed {
                return Ok(now);
            }
            ensure!(
                started.elapsed() < SETTLED,
                "the operator keeps {} MiB, it had {} MiB",
                now >> 20,
                self.memory >> 20
            );
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

/// The hostile tenant.
struct Hostile {
    client: Client,
    namespace: Namespace,
    registry: String,
}

/// What the API server said about the first resource.
type Created = Option<Result<String, Status>>;

impl Hostile {
    async fn attack(
        &self,
        attack: &Attack,
        registry: &HostileRegistry,
        webhooks: SocketAddr,
        running: &mut JoinSet<()>,
    ) -> Result<Created> {
        match attack {
            Attack::Apply {
                config_maps,
                resources,
            } => {
                for (name, key, text) in config_maps {
                    let data = json!({ key: text });
                    let map = json!({"metadata": {"name": name}, "data": data});
                    self.create_config_map(map).await?;
                }
                self.create_all(resources).await
            }
            Attack::Serve { images, resources } => {
                for (repository, image) in images {
                    registry.put(repository, image.clone());
                }
                self.create_all(resources).await
            }
            Attack::Plugin { component } => {
                let stored = Stored::with_component(component.clone());
                registry.put("hostile/plugin", Image::Stored(stored));
                let plugin = json!({
                    "apiVersion": "llamastack.io/v1alpha1", "kind": "SchemaPlugin",
                    "metadata": {"name": PLUGIN},
                    "spec": {"reference": format!("{}/hostile/plugin:1", self.registry)},
                });
                let plugin = serde_json::from_value(plugin)?;
                self.plugins()
                    .create(&PostParams::default(), &plugin)
                    .await?;
                Ok(Some(Ok(PLUGIN.to_owned())))
            }
            Attack::Churn { resource, writers } => {
                let created = self.create_all(std::slice::from_ref(resource)).await?;
                let Some(Ok(name)) = &created else {
                    bail!("the resource to change was rejected");
                };
                for writer in 0..*writers {
                    running.spawn(churn(self.resources(), name.clone(), writer));
                }
                Ok(created)
            }
            Attack::Clutter { count, bytes } => {
                let text = "x".repeat(*bytes);
                for number in 0..*count {
                    let name = format!("clutter-{number}");
                    let annotations = json!({"example.com/clutter": text});
                    self.create_config_map(
                        json!({"metadata": {"name": name, "annotations": annotations}}),
                    )
                    .await?;
                }
                Ok(None)
            }
            Attack::Idle { connections } => {
                let tls = Arc::new(accept_any_certificate());
                for _ in 0..*connections {
                    running.spawn(idle(webhooks, tls.clone()));
                }
                Ok(None)
            }
        }
    }

    async fn create_config_map(&self, map: Value) -> Result<()> {
        let api = self.namespace.api::<ConfigMap>(&self.client);
        let map = serde_json::from_value(map)?;
        api.create(&PostParams::default(), &map).await?;
        Ok(())
    }

    /// Creates resources, and returns what the API server said about the first one.
    async fn create_all(&self, resources: &[Value]) -> Result<Created> {
        let creations = resources.iter().map(async |resource| {
            let mut resource = resource.clone();
            let image = &mut resource["spec"]["distribution"]["image"];
            if let Some(reference) = image.as_str() {
                *image = reference.replace(REGISTRY, &self.registry).into();
            }
            let resource: DynamicObject = serde_json::from_value(resource)?;
            let created = self
                .resources()
                .create(&PostParams::default(), &resource)
                .await;
            match created {
                Ok(created) => Ok(Ok(created.metadata.name.unwrap_or_default())),
                Err(kube::Error::Api(status)) => Ok(Err(*status)),
                Err(error) => Err(anyhow::Error::from(error)),
            }
        });
        let mut all = join_all(creations).await.into_iter();
        all.next().transpose()
    }

    fn resources(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Distribution>(&());
        Api::namespaced_with(self.client.clone(), self.namespace.name(), &resource)
    }

    fn plugins(&self) -> Api<SchemaPlugin> {
        Api::all(self.client.clone())
    }

    /// Fails unless the hostile input ends as it must.
    async fn check(&self, expected: &Outcome, created: Created) -> Result<String> {
        match (expected, created) {
            (Outcome::Denied(parts), Some(Err(denied))) => {
                contains_all(&denied.message, parts)?;
                Ok(denied.message)
            }
            (Outcome::Denied(_), _) => bail!("the resource was admitted"),
            (_, Some(Err(denied))) => bail!("the resource was denied: {}", denied.message),
            (Outcome::Condition(kind, parts), Some(Ok(name))) => {
                until("the operator reports on the resource", REPORTED, || async {
                    let resource = self.resources().get(&name).await?;
                    let conditions = resource.data["status"]["conditions"].as_array();
                    let mut conditions = conditions.into_iter().flatten();
                    let found = conditions.find(|one| one["type"] == *kind);
                    let found = found.with_context(|| format!("no condition {kind}"))?;
                    ensure!(found["status"] != "True", "{kind} is True");
                    let message = found["message"].as_str().unwrap_or_default();
                    contains_all(message, parts)?;
                    Ok(message.to_owned())
                })
                .await
            }
            (Outcome::PluginRejected(parts), _) => {
                until("the operator reports on the plugin", REPORTED, || async {
                    let plugin = self.plugins().get(PLUGIN).await?;
                    let status = plugin.status.unwrap_or_default();
                    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
                    ensure!(
                        ready.is_some_and(|ready| ready.status != "True"),
                        "no condition says that the plugin is not ready"
                    );
                    let messages: Vec<_> = status
                        .conditions
                        .into_iter()
                        .map(|one| one.message)
                        .collect();
                    let all = messages.join("\n");
                    contains_all(&all, parts)?;
                    Ok(all)
                })
                .await
            }
            (Outcome::Condition(..), None) => bail!("no resource was created"),
            (Outcome::Served, _) => Ok("served".to_owned()),
        }
    }

    /// Deletes everything, and waits until it is gone.
    async fn delete(&self) -> Result<()> {
        let (all, background) = (ListParams::default(), DeleteParams::background());
        self.resources()
            .delete_collection(&background, &all)
            .await?;
        self.plugins().delete_collection(&background, &all).await?;
        let maps = self.namespace.api::<ConfigMap>(&self.client);
        maps.delete_collection(&background, &all).await?;
        until("the hostile resources are gone", REPORTED, || async {
            let left = self.resources().list_metadata(&all).await?.items.len();
            ensure!(left == 0, "{left} resources are left");
            Ok(())
        })
        .await
    }
}

fn contains_all(message: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(message.contains(part), "{part:?} is missing in {message:?}");
    }
    Ok(())
}

/// Changes a resource as fast as the API server allows.
async fn churn(resources: Api<DynamicObject>, name: String, writer: usize) {
    for number in 0_u64.. {
        let model = format!("model-{writer}-{number}");
        let patch = json!({"spec": {"resources": {"models": [model]}}});
        let patch = Patch::Merge(patch);
        // A rejected write is followed by the next one.
        let _ = resources
            .patch(&name, &PatchParams::default(), &patch)
            .await;
    }
}

/// Finishes a TLS handshake, and then sends nothing.
async fn idle(webhooks: SocketAddr, tls: Arc<rustls::ClientConfig>) {
    let connect = tokio::task::spawn_blocking(move || -> Result<_> {
        let mut socket = std::net::TcpStream::connect(webhooks)?;
        let name = rustls::pki_types::ServerName::try_from("localhost")?;
        let mut connection = rustls::ClientConnection::new(tls, name)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok((socket, connection))
    });
    let connection = connect.await;
    // Keeps the connection open until the case ends.
    std::future::pending::<()>().await;
    drop(connection);
}

/// A TLS client that does not care whom it talks to.
fn accept_any_certificate() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth()
}

#[derive(Debug)]
struct AnyCertificate;

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
