//! The webhooks that the API server calls: conversion between the API versions, and validating
//! admission.
//!
//! [`start`] binds the port and obtains a certificate. The returned [`Server`] runs on every replica,
//! without leader election. The decisions are made in `llsd_api` and `llsd_render`, with the same code
//! as `llsd check`; this crate handles requests and responses. A failure here prevents changes to
//! resources. It never affects running servers.

mod admission;
mod admission_decision;
mod admission_request;
mod base_config;
mod ca_bundle;
mod cert_folder;
mod cert_rotation;
mod cert_secret;
mod certificates;
mod conversion;
mod limits;
mod preview;
mod references;
mod server;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use kube::Client;
use llsd_api::{Webhook, WebhookEndpoint};
use tokio::sync::watch;

pub use base_config::{ImageBaseConfig, ImageReader};
pub use cert_rotation::Error as CertificateError;
pub use certificates::Periods;
pub use limits::{ADMISSION_BYTES, BODY_TIME, RESPONSE_TIME};
pub use preview::Catalog;
pub use references::ObjectIndex;

use admission::Context;
use ca_bundle::CaBundlePublisher;
use cert_folder::CertFolder;
use cert_rotation::{CertRotator, ServingCert};
use limits::Limits;

/// The default name of the Secret that stores the certificate.
pub const SECRET_NAME: &str = "llsd-webhook";

/// The settings of the webhook server.
pub struct Settings {
    /// The client of the API server.
    pub client: Client,
    /// Reads base configurations from images.
    pub images: Arc<dyn ImageReader>,
    /// Knows which Secrets and ConfigMaps exist.
    pub objects: Arc<dyn ObjectIndex>,
    /// The plugins and distributions in use.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// The address to listen on; port 0 for any free port.
    pub listen: SocketAddr,
    /// How the API server reaches the webhooks.
    pub exposure: Exposure,
    /// The namespace of the Secret that stores the certificate.
    pub namespace: String,
    /// The name of that Secret.
    pub secret: String,
    /// The lifetimes of certificates.
    pub periods: Periods,
    /// A folder with `tls.crt` and `tls.key`, which another program writes and publishes. The Secret is then
    /// not used.
    pub cert_dir: Option<PathBuf>,
}

/// How the API server reaches the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exposure {
    /// Through a Service in front of all replicas.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// At the address that the server listens on, for an operator on the same machine.
    Direct,
}

/// Why the webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("cannot listen on {address}; check whether another operator uses this port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        #[source]
        error: std::io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The server failed.
    #[error("the webhook server failed")]
    Stopped(#[source] std::io::Error),
}

/// A server that is bound and has a certificate. [`Server::run`] starts to accept requests.
pub struct Server {
    listener: TcpListener,
    context: Context,
    certs: CertSource,
    cert: ServingCert,
    webhook: Webhook,
}

/// Where the certificate comes from.
enum CertSource {
    Rotated(Box<CertRotator>),
    Folder(CertFolder),
}

/// Binds the port and obtains a certificate.
pub async fn start(settings: Settings) -> Result<Server, Error> {
    let Settings {
        client,
        images,
        objects,
        catalog,
        listen,
        exposure,
        namespace,
        secret,
        periods,
        cert_dir,
    } = settings;
    let bind = || {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) = bind().map_err(|error| Error::Listen {
        address: listen,
        error,
    })?;
    let certs = match cert_dir {
        Some(folder) => CertSource::Folder(CertFolder(folder)),
        None => CertSource::Rotated(Box::new(CertRotator {
            client: client.clone(),
            namespace,
            secret,
            names: exposure.names(address),
            periods,
            publisher: CaBundlePublisher::new(&client),
        })),
    };
    let cert = match &certs {
        CertSource::Rotated(rotator) => rotator.reconcile().await?,
        CertSource::Folder(folder) => folder.read()?,
    };
    let webhook = Webhook {
        endpoint: exposure.endpoint(address),
        ca_bundle: cert.ca_bundle.clone(),
    };
    Ok(Server {
        listener,
        context: Context {
            client,
            images,
            objects,
            catalog,
        },
        certs,
        cert,
        webhook,
    })
}

impl Server {
    /// The client configuration that the API server needs to call the webhooks.
    pub fn webhook(&self) -> &Webhook {
        &self.webhook
    }

    /// Serves requests and rotates the certificate until `shutdown` completes.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let Self {
            listener,
            context,
            certs,
            cert,
            webhook: _,
        } = self;
        let tls = RustlsConfig::from_config(cert.tls_config.clone());
        let served = server::serve(listener, tls.clone(), context, Limits::default(), shutdown);
        let renewal = async {
            match certs {
                CertSource::Rotated(rotator) => rotator.run(tls, cert).await,
                CertSource::Folder(folder) => folder.run(tls, cert).await,
            }
        };
        tokio::select! {
            served = served => served.map_err(Error::Stopped),
            () = renewal => Ok(()),
        }
    }
}

impl Exposure {
    /// The names and addresses that the certificate must be valid for.
    fn names(&self, address: SocketAddr) -> Vec<String> {
        match self {
            Self::Service {
                namespace, name, ..
            } => vec![format!("{name}.{namespace}.svc")],
            Self::Direct => vec![address.ip().to_string()],
        }
    }

    fn endpoint(&self, address: SocketAddr) -> WebhookEndpoint {
        match self.clone() {
            Self::Service {
                namespace,
                name,
                port,
            } => WebhookEndpoint::Service {
                namespace,
                name,
                port,
            },
            Self::Direct => WebhookEndpoint::Url(format!("https://{address}")),
        }
    }
}
