//! An OCI registry on loopback: the distribution project's own program, as strict as a test asks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::{Authority, Identity};
use crate::invocation::Invocation;
use crate::process::{Daemon, Watchdog};
use crate::token_service::TokenService;
use crate::toolchain::{self, Tool};
use crate::wait::until;

const START_DEADLINE: Duration = Duration::from_secs(60);

/// How a registry behaves.
#[derive(Debug, Clone, Default)]
pub struct RegistryOptions {
    /// Serve HTTPS with a certificate of a private authority; otherwise plain HTTP.
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
    /// Whoever sends this name and password with each request.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: String,
    },
    /// Whoever has a token, which a token service gives for this name and password.
    Token {
        /// The user name.
        user: String,
        /// The password.
        password: String,
        /// Whether the service gives tokens for pulling to everyone, as public registries do.
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

/// One request that a registry answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRequest {
    /// `GET`, `HEAD`, `PUT`, `POST` or `PATCH`.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// What the client calls itself.
    pub user_agent: String,
}

/// A running registry; it ends, with all it stores, when dropped.
#[derive(Debug)]
pub struct Registry {
    // Dropped in this order: the program, its guard, what it refers to.
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
    /// Starts a registry on a free port; builds it first if necessary.
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
            // Replaced by the address it gets.
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

    /// `127.0.0.1:<port>`, which is how references to its images start.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The certificate to trust, as a PEM file, when it serves HTTPS.
    pub fn authority(&self) -> Option<PathBuf> {
        self.tls.then(|| self.folder.path().join("ca.crt"))
    }

    /// A folder with a `config.json` as `docker login` writes it; right for `DOCKER_CONFIG`.
    pub fn docker_config(&self) -> PathBuf {
        self.folder.path().join("docker")
    }

    /// How many tokens its token service has given out; 0 when it has none.
    pub fn tokens_issued(&self) -> u64 {
        self.tokens.as_ref().map_or(0, TokenService::issued)
    }

    /// `crane` with the credentials and the authority of this registry.
    pub fn crane(&self) -> Invocation {
        let invocation = Invocation::new(&self.crane).env("DOCKER_CONFIG", self.docker_config());
        match self.authority() {
            Some(file) => invocation.env("SSL_CERT_FILE", file),
            None => invocation,
        }
    }

    /// Every request answered so far, in order.
    pub async fn requests(&self) -> Result<Vec<RegistryRequest>> {
        // The log line of a request is written just after its answer. A request of our own follows,
        // and once that is in the log, so is what came before.
        let fence = format!("fence-{}", self.fences.fetch_add(1, Ordering::Relaxed));
        let listing = format!("{}/{fence}", self.host);
        // Nothing is stored under that name, so the answer is a refusal.
        self.crane().args(["ls", &listing]).run().await?.failure()?;
        let marker = format!("/v2/{fence}/tags/list");
        until("the registry's log", Duration::from_secs(10), || async {
            let requests = self.logged_requests()?;
            let is_answered = |r: &RegistryRequest| r.uri.starts_with(&marker) && r.status == 404;
            ensure!(
                requests.iter().any(is_answered),
                "{marker} is not in the log"
            );
            Ok(())
        })
        .await?;
        Ok(without_fences(self.logged_requests()?))
    }

    /// Ends it; what it stores stays for [`Registry::restart`].
    pub fn stop(&mut self) {
        self.daemon = None;
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
    }

    /// Starts it, after [`Registry::stop`] at the same address and with the same content.
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
        let host = until("the registry", START_DEADLINE, || {
            let found = daemon.check_alive().and_then(|()| {
                let log = fs::read_to_string(&log)?;
                let line = log
                    .get(log_before..)
                    .and_then(|new| new.split_once("listening on "));
                let (_, rest) = line.context("it does not listen yet")?;
                let end = rest.find(['"', ',']).context("its log is incomplete")?;
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
        Ok(log.lines().filter_map(parse_access_line).collect())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Leaves out each fence with the question for the kind of access that crane asks before it.
fn without_fences(requests: Vec<RegistryRequest>) -> Vec<RegistryRequest> {
    let mut others: Vec<RegistryRequest> = Vec::new();
    for request in requests {
        if !request.uri.starts_with("/v2/fence-") {
            others.push(request);
            continue;
        }
        let is_its_ping =
            |r: &RegistryRequest| r.uri == "/v2/" && r.user_agent == request.user_agent;
        if let Some(ping) = others.iter().rposition(is_its_ping) {
            others.remove(ping);
        }
    }
    others
}

fn write_certificates(folder: &Path) -> Result<Identity> {
    let authority = Authority::generate()?;
    authority.save(folder)?;
    let identity = authority.server(&["127.0.0.1", "localhost"])?;
    fs::write(folder.join("server.crt"), &identity.certificate)?;
    fs::write(folder.join("server.key"), &identity.key)?;
    Ok(identity)
}

fn write_config(
    folder: &Path,
    options: &RegistryOptions,
    tokens: Option<&TokenService>,
) -> Result<()> {
    let mut config = json!({
        "version": "0.1",
        "log": {"level": "info", "formatter": "json", "accesslog": {"disabled": false}},
        "storage": {
            "filesystem": {"rootdirectory": folder.join("data")},
            "delete": {"enabled": true},
        },
        "http": {"secret": "the same after a restart"},
    });
    if options.tls {
        config["http"]["tls"] = json!({"certificate": "server.crt", "key": "server.key"});
    }
    match (&options.access, tokens) {
        (Access::Basic { user, password }, _) => {
            // The lowest cost there is: the password is not worth more.
            let hash =
                bcrypt::hash_with_result(password, 4)?.format_for_version(bcrypt::Version::TwoY);
            fs::write(folder.join("htpasswd"), format!("{user}:{hash}\n"))?;
            config["auth"] = json!({"htpasswd": {"realm": "testbed", "path": "htpasswd"}});
        }
        (_, Some(tokens)) => {
            fs::write(folder.join("jwks.json"), tokens.key_set().to_string())?;
            config["auth"] = json!({"token": tokens.registry_settings("jwks.json")});
        }
        _ => {}
    }
    fs::write(folder.join("config.json"), config.to_string())?;
    Ok(())
}

fn write_docker_config(folder: &Path, host: &str, credentials: Option<(&str, &str)>) -> Result<()> {
    let auths = match credentials {
        None => json!({}),
        Some((user, password)) => {
            json!({host: {"auth": BASE64.encode(format!("{user}:{password}"))}})
        }
    };
    fs::create_dir_all(folder)?;
    fs::write(
        folder.join("config.json"),
        json!({"auths": auths}).to_string(),
    )?;
    Ok(())
}

/// `127.0.0.1 - - [time] "GET /v2/ HTTP/1.1" 200 2 "" "client/1.0"`
fn parse_access_line(line: &str) -> Option<RegistryRequest> {
    if line.starts_with('{') {
        return None;
    }
    let mut parts = line.split('"');
    let mut request = parts.nth(1)?.split(' ');
    let status = parts.next()?.split_whitespace().next()?.parse().ok()?;
    Some(RegistryRequest {
        method: request.next()?.to_owned(),
        uri: request.next()?.to_owned(),
        status,
        user_agent: parts.nth(2)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_line_is_a_request_and_other_lines_are_not() {
        let line = r#"127.0.0.1 - - [15/Nov/2026:04:00:00 +0000] "HEAD /v2/a/manifests/v1 HTTP/1.1" 404 12 "" "crane/0.22""#;
        let request = parse_access_line(line).unwrap();
        assert_eq!((request.method.as_str(), request.status), ("HEAD", 404));
        assert_eq!(
            (request.uri.as_str(), request.user_agent.as_str()),
            ("/v2/a/manifests/v1", "crane/0.22")
        );
        assert_eq!(
            parse_access_line(r#"{"level":"info","msg":"listening on \"x\" 200 "}"#),
            None
        );
    }
    #[test]
    fn a_fence_and_its_ping_are_not_counted() {
        let request = |uri: &str, agent: &str| RegistryRequest {
            method: "GET".to_owned(),
            uri: uri.to_owned(),
            status: 200,
            user_agent: agent.to_owned(),
        };
        let counted = without_fences(vec![
            request("/v2/", "llsd"),
            request("/v2/", "crane"),
            request("/v2/fence-0/tags/list?n=1000", "crane"),
            request("/v2/a/manifests/v1", "llsd"),
        ]);
        assert_eq!(
            counted,
            [
                request("/v2/", "llsd"),
                request("/v2/a/manifests/v1", "llsd")
            ]
        );
    }
}
