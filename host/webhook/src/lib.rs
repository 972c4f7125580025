//! The webhooks that the API server calls: conversion between the versions of the API, and the last
//! layer of validation.
//!
//! [`start`] binds, makes sure of a certificate and gives a [`Server`], which then runs on every
//! replica: it needs no leader. What is decided is decided in `llsd_api` and `llsd_render`, the same
//! as for `llsd check`; here is what carries questions and answers. A problem here stops a resource
//! from changing and never what is running.

mod admission;
mod base;
mod certificates;
mod conversion;
mod decision;
mod examination;
mod keeper;
mod preview;
mod publication;
mod references;
mod server;
mod stored;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use kube::Client;
use llsd_api::{Webhook, WebhookEndpoint};
use tokio::sync::watch;

pub use base::{ImageBase, Images};
pub use certificates::Periods;
pub use keeper::Error as CertificateError;
pub use preview::Knowledge;
pub use references::Objects;

use admission::Context;
use keeper::{Keeper, Turn};
use publication::Publication;
use server::Limits;

/// Name of the Secret that holds the certificate, unless the installer chooses another.
pub const SECRET_NAME: &str = "llsd-webhook";

/// What a server works with.
pub struct Settings {
    /// The cluster.
    pub client: Client,
    /// How images are read.
    pub images: Arc<dyn Images>,
    /// What is known of the cluster.
    pub objects: Arc<dyn Objects>,
    /// Plugins and distributions, replaced as a whole when they change.
    pub knowledge: watch::Receiver<Arc<Knowledge>>,
    /// Where to listen; port 0 for any that is free.
    pub listen: SocketAddr,
    /// How the API server reaches it.
    pub reached: Reached,
    /// Namespace of the Secret with the certificate.
    pub namespace: String,
    /// Name of that Secret.
    pub secret: String,
    /// How long certificates last.
    pub periods: Periods,
}

/// How the API server reaches the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// Through a Service in front of every replica.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// Straight, at the address that it listens on: an operator on the same machine.
    Directly,
}

/// Why the webhooks are not served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; is another operator running?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The server stopped by itself.
    #[error("the webhook server stopped")]
    Stopped(#[source] std::io::Error),
}

/// A server that has its port and its certificate, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    context: Context,
    keeper: Keeper,
    first: Turn,
    webhook: Webhook,
}

/// Binds and makes sure of a certificate.
pub async fn start(settings: Settings) -> Result<Server, Error> {
    let Settings {
        client,
        images,
        objects,
        knowledge,
        listen,
        reached,
        namespace,
        secret,
        periods,
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
    let keeper = Keeper {
        client: client.clone(),
        namespace,
        secret,
        names: reached.names(address),
        periods,
        publication: Publication::new(&client),
    };
    let first = keeper.turn().await?;
    let webhook = Webhook {
        endpoint: reached.endpoint(address),
        ca_bundle: Some(first.bundle.clone()),
    };
    Ok(Server {
        listener,
        context: Context {
            client,
            images,
            objects,
            knowledge,
        },
        keeper,
        first,
        webhook,
    })
}

impl Server {
    /// What the API server has to be told to find it.
    pub fn webhook(&self) -> &Webhook {
        &self.webhook
    }

    /// Answers and keeps the certificate until `shutdown` is done.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let Self {
            listener,
            context,
            keeper,
            first,
            webhook: _,
        } = self;
        let tls = RustlsConfig::from_config(first.serving.clone());
        let served = server::serve(listener, tls.clone(), context, Limits::default(), shutdown);
        tokio::select! {
            served = served => served.map_err(Error::Stopped),
            () = keeper.keep(tls, first) => Ok(()),
        }
    }
}

impl Reached {
    /// What the certificate has to be good for.
    fn names(&self, address: SocketAddr) -> Vec<String> {
        match self {
            Self::Service {
                namespace, name, ..
            } => vec![format!("{name}.{namespace}.svc")],
            Self::Directly => vec![address.ip().to_string()],
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
            Self::Directly => WebhookEndpoint::Url(format!("https://{address}")),
        }
    }
}
