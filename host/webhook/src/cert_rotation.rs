//! Rotates the serving certificate: stores it in a Secret that all replicas share, reloads the server,
//! and publishes the CA bundle.
//!
//! Any replica may do the next step of a rotation. The resource version of the Secret ensures that only
//! one of them succeeds, and the others use its result. An externally managed certificate (by
//! cert-manager, or a Secret created by hand) is served and never written.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Client, Resource};
use llsd_api::{DISTRIBUTION_CRD_NAME, WEBHOOK_NAME};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::de::DeserializeOwned;

use crate::ca_bundle::{CaBundlePublisher, api_error};
use crate::cert_secret::{CertSecret, ServedPem, build_secret, is_of_cert_manager};
use crate::certificates::{Periods, Rotation, Step, advance};

/// The longest time between two checks. Watches trigger earlier ones.
const RESYNC: Duration = Duration::from_secs(3600);
/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// The most attempts if other replicas change the Secret at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("failed to {verb} {object}")]
    Api {
        /// The operation.
        verb: &'static str,
        /// The object.
        object: String,
        /// The error of the client.
        #[source]
        error: Box<kube::Error>,
    },
    /// The certificate is managed by cert-manager, which has not created it yet.
    #[error(
        "Secret {0:?} with the webhook certificate not found; wait for cert-manager to create it, or check its \
         Certificate"
    )]
    NotIssued(String),
    /// The Secret contains no valid certificate.
    #[error(
        "Secret {secret:?} contains no valid certificate: {reason}; delete the Secret to get a new certificate"
    )]
    Invalid {
        /// The Secret.
        secret: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder contains no valid certificate.
    #[error(
        "{folder} contains no valid webhook certificate: {reason}; check which program writes tls.crt and tls.key"
    )]
    InvalidFile {
        /// The folder.
        folder: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate cannot be issued.
    #[error("failed to issue a certificate")]
    Issue(#[from] rcgen::Error),
    /// The Secret changed during every attempt to write it.
    #[error(
        "failed to update Secret {0:?}: it changed during each of {MAX_ATTEMPTS} attempts; check which other client \
         writes it"
    )]
    Conflict(String),
}

/// Rotates the certificate.
pub(crate) struct CertRotator {
    pub(crate) client: Client,
    /// The namespace of the Secret.
    pub(crate) namespace: String,
    /// The name of the Secret.
    pub(crate) secret: String,
    /// The names and addresses of the server.
    pub(crate) names: Vec<String>,
    pub(crate) periods: Periods,
    pub(crate) publisher: CaBundlePublisher,
}

/// The certificate to serve, and when to check it again.
pub(crate) struct ServingCert {
    pub(crate) tls_config: Arc<ServerConfig>,
    /// `None` if another program publishes it.
    pub(crate) ca_bundle: Option<String>,
    /// The certificate in PEM, to detect changes.
    pub(crate) certificate: String,
    pub(crate) next_check: Duration,
}

impl CertRotator {
    /// Does all due steps of the rotation, publishes the CA bundle, and returns the certificate to serve.
    pub(crate) async fn reconcile(&self) -> Result<ServingCert, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let secret = self.get_secret().await?;
            let rotation = match self.managed_rotation(secret.as_ref()).await? {
                Managed::Rotation(rotation) => rotation.map(|rotation| *rotation),
                Managed::External(served) => return self.publish_and_serve(served, RESYNC).await,
            };
            let is_published = match &rotation {
                Some(rotation) => self.publish(&rotation.ca_bundle()).await,
                None => false,
            };
            let now = Timestamp::now();
            let step = advance(
                rotation.clone(),
                &self.names,
                now,
                is_published,
                &self.periods,
            )?;
            match (step, rotation) {
                (Step::Store(rotation), _) => self.store(*rotation, secret).await?,
                (Step::Wait(until), Some(rotation)) => {
                    let due = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    let next_check = due.clamp(RETRY / 4, RESYNC);
                    return self.publish_and_serve(rotation.into(), next_check).await;
                }
                (Step::Wait(_), None) => {}
            }
        }
        Err(Error::Conflict(self.secret.clone()))
    }

    /// Finds out who manages the certificate. `Managed::Rotation(None)` if a new one must be issued.
    async fn managed_rotation(&self, secret: Option<&Secret>) -> Result<Managed, Error> {
        let is_external = self.publisher.is_managed_by_cert_manager().await?;
        let Some(secret) = secret else {
            return if is_external {
                Err(Error::NotIssued(self.secret.clone()))
            } else {
                Ok(Managed::Rotation(None))
            };
        };
        if is_external {
            let served = ServedPem::parse(secret).map_err(|reason| self.invalid(reason))?;
            return Ok(Managed::External(served));
        }
        match CertSecret::parse(secret) {
            Ok(CertSecret::Rotated(rotation)) => Ok(Managed::Rotation(Some(rotation))),
            // cert-manager does not renew it any more.
            Ok(CertSecret::External(_)) if is_of_cert_manager(secret) => {
                Ok(Managed::Rotation(None))
            }
            Ok(CertSecret::External(served)) => Ok(Managed::External(served)),
            // An invalid Secret that we manage is replaced.
            Err(_) => Ok(Managed::Rotation(None)),
        }
    }

    /// Reconciles forever, on changes and when a step is due. A new certificate is used for new connections.
    pub(crate) async fn run(self, tls: RustlsConfig, first: ServingCert) {
        let (mut certificate, mut wait) = (first.certificate, first.next_check);
        let mut changes = self.changes();
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Some(()) = changes.next() => {}
            }
            wait = match self.reconcile().await {
                Ok(cert) => {
                    if cert.certificate != certificate {
                        tls.reload_from_config(cert.tls_config);
                        tracing::info!("serving a new webhook certificate");
                        certificate = cert.certificate;
                    }
                    cert.next_check
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "failed to rotate the webhook certificate");
                    RETRY
                }
            };
        }
    }

    /// An item for every change of the Secret and of the objects that contain the CA bundle.
    fn changes(&self) -> impl Stream<Item = ()> + Unpin + use<> {
        type Metadata<K> = Api<PartialObjectMeta<K>>;
        let secrets = Metadata::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let definitions = Metadata::<CustomResourceDefinition>::all(self.client.clone());
        let webhooks = Metadata::<ValidatingWebhookConfiguration>::all(self.client.clone());
        select_all([
            changes_of(secrets, &self.secret),
            changes_of(definitions, DISTRIBUTION_CRD_NAME),
            changes_of(webhooks, WEBHOOK_NAME),
        ])
    }

    async fn publish_and_serve(
        &self,
        served: ServedPem,
        next_check: Duration,
    ) -> Result<ServingCert, Error> {
        let is_published = match &served.ca_bundle {
            Some(ca_bundle) => self.publish(ca_bundle).await,
            None => true,
        };
        let tls_config =
            tls_config(&served.certificate, &served.key).map_err(|reason| self.invalid(reason))?;
        Ok(ServingCert {
            tls_config: Arc::new(tls_config),
            ca_bundle: served.ca_bundle,
            certificate: served.certificate,
            next_check: if is_published { next_check } else { RETRY },
        })
    }

    /// Publishes the CA bundle and returns whether that succeeded. A failure is only logged, so that the
    /// current certificate is still served.
    async fn publish(&self, ca_bundle: &str) -> bool {
        let published = self.publisher.publish(ca_bundle).await;
        if let Err(error) = &published {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "failed to publish the CA bundle of the webhooks");
        }
        published.is_ok()
    }

    async fn get_secret(&self) -> Result<Option<Secret>, Error> {
        let found = self.secrets().get_opt(&self.secret).await;
        found.map_err(|error| api_error("get", self.description(), error))
    }

    /// Stores a rotation. If another replica stored one in the meantime, the next attempt reads it.
    async fn store(&self, rotation: Rotation, found: Option<Secret>) -> Result<(), Error> {
        let version = found.and_then(|found| found.metadata.resource_version);
        let is_new = version.is_none();
        let secret = build_secret(&rotation, &self.secret, version);
        let api = self.secrets();
        let stored = if is_new {
            api.create(&PostParams::default(), &secret).await
        } else {
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&secret));
            api.patch(&self.secret, &parameters, &patch).await
        };
        match stored {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(())
            }
            Err(error) => Err(api_error("store", self.description(), error)),
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn description(&self) -> String {
        format!("Secret {:?} in namespace {:?}", self.secret, self.namespace)
    }

    fn invalid(&self, reason: String) -> Error {
        Error::Invalid {
            secret: self.secret.clone(),
            reason,
        }
    }
}

/// Who manages the certificate.
enum Managed {
    /// This operator, with the stored state of the rotation.
    Rotation(Option<Box<Rotation>>),
    /// Another program, with the certificate to serve.
    External(ServedPem),
}

fn changes_of<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, ()>
where
    PartialObjectMeta<K>: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // A failed watch is not an error: the certificate is checked at the next due time.
    let changes = watch_object(api, name).default_backoff();
    changes
        .filter_map(|change| std::future::ready(change.ok().map(drop)))
        .boxed()
}

/// The TLS configuration for a certificate and key in PEM.
pub(crate) fn tls_config(certificate: &str, key: &str) -> Result<ServerConfig, String> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("tls.crt: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| format!("tls.key: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
