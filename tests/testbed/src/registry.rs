//! An OCI registry on loopback: the reference implementation of the distribution project.

mod access_log;
mod config;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::invocation::Invocation;
use crate::process::{Daemon, Watchdog};
use crate::token_service::TokenService;
use crate::toolchain::{self, Tool};
use crate::wait::until;

pub use access_log::RegistryRequest;
use access_log::{parse_line, without_fences};
use config::{write_certificates, write_config, write_docker_config};

const START_DEADLINE: Duration = Duration::from_secs(180);

/// How to start a registry.
#[derive(Debug, Clone, Default)]
pub struct RegistryOptions {
    /// Whether to serve HTTPS, with a certificate of a private authority, instead of plain HTTP.
    pub tls: bool,
    /// Who may push and pull.
    pub access: Access,
}

/// Who may push to and pull from a registry.
#[derive(Debug, Clone, Default)]
pub enum Access {
    /// Everyone.
    #[default]
    Anyone,
    /// Clients that send this user name and password with each request.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: String,
    },
    /// Clients with a token, which a token service issues for this user name and password.
    Token {
        /// The user name.
        user: String,
        /// The password.
        password: String,
        /// Whether the service issues tokens for pulling to everyone, as public registries do.
        anonymous_pull: bool,
    },
}

impl Access {
    fn credentials(&self) -> Option<(&str, &str)> {
        match self {
            Self::Anyone => None,
            Self::Basic { user, password } | Self::Token { user, password, .. } => {
                Some((user, password))
            }
        }
    }
}

/// A running registry. It stops, and its content is deleted, when dropped.
#[derive(Debug)]
pub struct Registry {
    // Fields are dropped in this order: the process, its watchdog, the files that it uses.
    daemon: Option<Daemon>,
    watchdog: Option<Watchdog>,
    tokens: Option<TokenService>,
    host: String,
    tls: bool,
    program: PathBuf,
    crane: PathBuf,
    fences: AtomicU64,
    folder: TempDir,
}

impl Registry {
    /// Builds the registry if necessary, and starts it on a free port.
    pub async fn start(options: &RegistryOptions) -> Result<Self> {
        let cache = toolchain::cache_dir()?;
        let built = tokio::task::spawn_blocking(move || {
            toolchain::ensure_built(&cache, &[Tool::Registry, Tool::Crane])
        });
        let [program, crane] = <[PathBuf; 2]>::try_from(built.await??)
            .ok()
            .context("the registry was not built")?;
        let folder = tempfile::Builder::new()
            .prefix("llsd-registry-")
            .tempdir()?;
        let identity = options
            .tls
            .then(|| write_certificates(folder.path()))
            .transpose()?;
        let tokens = match &options.access {
            Access::Token {
                user,
                password,
                anonymous_pull,
            } => {
                let service =
                    TokenService::start(user, password, *anonymous_pull, identity.as_ref());
                Some(service.await?)
            }
            _ => None,
        };
        write_config(folder.path(), options, tokens.as_ref())?;

        let mut registry = Self {
            daemon: None,
            watchdog: None,
            tokens,
            // `restart` replaces it with the real address.
            host: "127.0.0.1:0".to_owned(),
            tls: options.tls,
            program,
            crane,
            fences: AtomicU64::new(0),
            folder,
        };
        registry.restart().await?;
        let credentials = options.access.credentials();
        write_docker_config(&registry.docker_config(), &registry.host, credentials)?;
        Ok(registry)
    }

    /// `127.0.0.1:<port>`, with which references to its images start.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The PEM file with the CA certificate to trust, if the registry serves HTTPS.
    pub fn ca_certificate(&self) -> Option<PathBuf> {
        self.tls.then(|| self.folder.path().join("ca.crt"))
    }

    /// A folder for `DOCKER_CONFIG`, with a `config.json` as `docker login` writes it.
    pub fn docker_config(&self) -> PathBuf {
        self.folder.path().join("docker")
    }

    /// The number of tokens issued; 0 without a token service.
    pub fn tokens_issued(&self) -> u64 {
        self.tokens.as_ref().map_or(0, TokenService::issued)
    }

    /// `crane` with the credentials and the CA certificate of this registry.
    pub fn crane(&self) -> Invocation {
        let invocation = Invocation::new(&self.crane).env("DOCKER_CONFIG", self.docker_config());
        match self.ca_certificate() {
            Some(file) => invocation.env("SSL_CERT_FILE", file),
            None => invocation,
        }
    }

    /// Every request so far, in order.
    pub async fn requests(&self) -> Result<Vec<RegistryRequest>> {
        // The registry logs a request just after its response. So send one more request, the fence:
        // once it is in the log, so are all earlier requests.
        let fence = format!("fence-{}", self.fences.fetch_add(1, Ordering::Relaxed));
        let listing = format!("{}/{fence}", self.host);
        // The repository does not exist, so the command fails.
        self.crane().args(["ls", &listing]).run().await?.failure()?;
        let marker = format!("/v2/{fence}/tags/list");
        until(
            "the fence is in the registry's log",
            Duration::from_secs(120),
            || async {
                let requests = self.logged_requests()?;
                let is_fence = |r: &RegistryRequest| r.uri.starts_with(&marker) && r.status == 404;
                ensure!(requests.iter().any(is_fence), "{marker} is not in the log");
                Ok(())
            },
        )
        .await?;
        Ok(without_fences(self.logged_requests()?))
    }

    /// Stops the registry. Its content stays for [`Registry::restart`].
    pub fn stop(&mut self) {
        self.daemon = None;
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
    }

    /// Starts the registry again, at the same address and with the same content.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop();
        let folder = self.folder.path();
        let arguments = ["serve".to_owned(), "config.json".to_owned()];
        let config = fs::read_to_string(folder.join("config.json"))?;
        let mut config: Value = serde_json::from_str(&config)?;
        config["http"]["addr"] = json!(self.host);
        fs::write(folder.join("config.json"), config.to_string())?;

        let log_before = fs::read_to_string(self.log()).unwrap_or_default().len();
        let mut daemon = Daemon::start("registry", &self.program, &arguments, folder)?;
        let mut watchdog = Watchdog::start(Some(folder))?;
        watchdog.watch(&daemon)?;
        self.watchdog = Some(watchdog);
        let log = self.log();
        let host = until("the registry listens", START_DEADLINE, || {
            let found = daemon.check_alive().and_then(|()| {
                let log = fs::read_to_string(&log)?;
                let line = log
                    .get(log_before..)
                    .and_then(|new| new.split_once("listening on "));
                let (_, rest) = line.context("the log does not name the address yet")?;
                let end = rest
                    .find(['"', ','])
                    .context("the line in the log is incomplete")?;
                Ok(rest[..end].to_owned())
            });
            std::future::ready(found)
        })
        .await?;
        self.host = host;
        self.daemon = Some(daemon);
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("registry.log")
    }

    fn logged_requests(&self) -> Result<Vec<RegistryRequest>> {
        let log = fs::read_to_string(self.log())?;
        Ok(log.lines().filter_map(parse_line).collect())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}
