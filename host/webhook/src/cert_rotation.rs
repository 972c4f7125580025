//! Keeps the certificate: in a Secret that all replicas share, in the server, and its authority in
//! the objects by which the API server finds the webhooks.
//!
//! Any replica may take the next step of a rotation; the Secret's resource version lets one of them
//! win, and the others take over what it stored. A certificate that somebody else keeps (cert-manager,
//! or whoever made the Secret by hand) is served and never written.

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

use crate::certificates::{Periods, Rotation, Step, advance};
use crate::publication::{self, Publication};
use crate::stored::{Kept, Stored};

/// The net below the watches, and how long to rest when nothing is due.
const GLANCE: Duration = Duration::from_secs(3600);
/// After a failure.
const RETRY: Duration = Duration::from_secs(2);
/// How often to try again when other replicas were faster.
const TRIES: usize = 5;

/// Why there is no certificate to serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not give or take something.
    #[error("the API server did not {verb} {object}")]
    Api {
        /// What it was asked for.
        verb: &'static str,
        /// Of what.
        object: String,
        /// What it said.
        #[source]
        error: Box<kube::Error>,
    },
    /// Somebody else keeps the certificate, and has not made it yet.
    #[error(
        "the Secret {0:?} with the webhook's certificate is not there yet; cert-manager is to make it"
    )]
    NotMadeYet(String),
    /// What is stored is no certificate.
    #[error(
        "the Secret {secret:?} holds no usable certificate: {reason}; delete it, and a new one is made"
    )]
    Unusable {
        /// The Secret.
        secret: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No certificate could be made.
    #[error("no certificate could be made")]
    Issue(#[from] rcgen::Error),
    /// Other replicas changed the Secret again and again.
    #[error("the Secret {0:?} is changed by others all the time; see who writes it")]
    Contended(String),
}

/// Who keeps the certificate.
pub(crate) struct Keeper {
    pub(crate) client: Client,
    /// Namespace and name of the Secret.
    pub(crate) namespace: String,
    pub(crate) secret: String,
    /// What the server is reached by.
    pub(crate) names: Vec<String>,
    pub(crate) periods: Periods,
    pub(crate) publication: Publication,
}

/// A certificate to serve, and when to look at it again.
pub(crate) struct Turn {
    pub(crate) serving: Arc<ServerConfig>,
    pub(crate) bundle: String,
    /// PEM of what is served: tells whether it changed.
    pub(crate) certificate: String,
    next_look: Duration,
}

impl Keeper {
    /// Takes every step that is due, publishes the authorities, and gives what to serve.
    pub(crate) async fn turn(&self) -> Result<Turn, Error> {
        for _ in 0..TRIES {
            let found = self.read().await?;
            let is_foreign = self.publication.is_kept_by_others().await?;
            let kept = match found.as_ref().map(Stored::read) {
                Some(Ok(Kept::Ours(rotation))) if !is_foreign => Some(*rotation),
                Some(Ok(kept)) => return self.settle(kept.served(), GLANCE).await,
                Some(Err(reason)) if is_foreign => return Err(self.unusable(reason)),
                None if is_foreign => return Err(Error::NotMadeYet(self.secret.clone())),
                // Ours to mend: what cannot be read is made anew.
                Some(Err(_)) | None => None,
            };
            let is_published = match &kept {
                Some(rotation) => self.publish(&rotation.bundle()).await,
                None => false,
            };
            let now = Timestamp::now();
            match advance(kept.clone(), &self.names, now, is_published, &self.periods)? {
                Step::Store(rotation) => self.store(*rotation, found).await?,
                Step::Keep(until) => {
                    let due = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    if let Some(rotation) = kept {
                        return self
                            .settle(
                                Kept::Ours(Box::new(rotation)).served(),
                                due.clamp(RETRY / 4, GLANCE),
                            )
                            .await;
                    }
                }
            }
        }
        Err(Error::Contended(self.secret.clone()))
    }

    /// Turns for ever: what changes is served from the next connection on.
    pub(crate) async fn keep(self, tls: RustlsConfig, first: Turn) {
        let (mut certificate, mut wait) = (first.certificate, first.next_look);
        let mut changes = self.changes();
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Some(()) = changes.next() => {}
            }
            wait = match self.turn().await {
                Ok(turn) => {
                    if turn.certificate != certificate {
                        tls.reload_from_config(turn.serving);
                        tracing::info!("serving a new webhook certificate");
                        certificate = turn.certificate;
                    }
                    turn.next_look
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the webhook certificate could not be kept up");
                    RETRY
                }
            };
        }
    }

    /// Something for every change of the Secret, and of the objects that the bundle stands in.
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

    async fn settle(&self, served: Served, next_look: Duration) -> Result<Turn, Error> {
        let is_published = match &served.bundle {
            Some(bundle) => self.publish(bundle).await,
            None => true,
        };
        let serving =
            tls_config(&served.certificate, &served.key).map_err(|reason| self.unusable(reason))?;
        Ok(Turn {
            serving: Arc::new(serving),
            bundle: served.bundle.unwrap_or_default(),
            certificate: served.certificate,
            next_look: if is_published { next_look } else { RETRY },
        })
    }

    /// Whether the bundle now stands wherever it belongs. Where it does not, requests that trust the
    /// old one are still to be served.
    async fn publish(&self, bundle: &str) -> bool {
        let published = self.publication.publish(bundle).await;
        if let Err(error) = &published {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "the webhook's authority could not be published");
        }
        published.is_ok()
    }

    async fn read(&self) -> Result<Option<Secret>, Error> {
        let found = self.secrets().get_opt(&self.secret).await;
        found.map_err(|error| publication::failure("give", self.described(), error))
    }

    /// Stores a rotation; when somebody else was faster, theirs counts.
    async fn store(&self, rotation: Rotation, found: Option<Secret>) -> Result<(), Error> {
        let version = found.and_then(|found| found.metadata.resource_version);
        let is_new = version.is_none();
        let secret = Stored::write(&rotation, &self.secret, version);
        let api = self.secrets();
        let stored = if is_new {
            api.create(&PostParams::default(), &secret).await
        } else {
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&secret));
            api.patch(&self.secret, &parameters, &patch).await
        };
        match stored {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_already_exists() => {
                Ok(())
            }
            Err(error) => Err(publication::failure("take", self.described(), error)),
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn described(&self) -> String {
        format!("the Secret {:?}", self.secret)
    }

    fn unusable(&self, reason: String) -> Error {
        Error::Unusable {
            secret: self.secret.clone(),
            reason,
        }
    }
}

/// What the server needs of whoever keeps the certificate. PEM.
pub(crate) struct Served {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The authorities to trust, where they are known.
    pub(crate) bundle: Option<String>,
}

fn changes_of<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, ()>
where
    PartialObjectMeta<K>: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // What cannot be watched is looked at when something is due.
    let changes = watch_object(api, name).default_backoff();
    changes
        .filter_map(|change| std::future::ready(change.ok().map(drop)))
        .boxed()
}

/// How to serve a certificate. PEM.
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
