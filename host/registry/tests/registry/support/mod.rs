//! Starts the registry and runs crane and cosign.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
pub(crate) use llsd_registry::chain;
use llsd_registry::{Keyring, Reference, Retry, Settings, Timeouts};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use token_server::TokenServer;

pub(crate) mod layout;
pub(crate) mod proxy;
pub(crate) mod token_server;

/// The account of registries with authentication. The password must not appear in any output.
pub(crate) const USER: &str = "puller";
pub(crate) const PASSWORD: &str = "s3cret-canary";
/// `USER` and `PASSWORD` as an htpasswd file.
const HTPASSWD: &str = "puller:$2b$04$nSIgKpJgh7mSmnpbLCtFqeD586UrIAS516LGFHk6.OIM1Dm/CT.fq\n";

/// The path of a tool, from the environment of the test runner.
pub(crate) fn tool(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => path.into(),
        None => panic!("{variable} is not set; run the tests with cargo xtask test"),
    }
}

/// The options of a test registry.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) tls: bool,
    pub(crate) basic_auth: bool,
    pub(crate) token_auth: Option<TokenServer>,
}

/// A running registry. It is stopped when dropped.
pub(crate) struct RegistryServer {
    pub(crate) address: String,
    pub(crate) ca_pem: Option<String>,
    pub(crate) tokens: Option<TokenServer>,
    folder: TempDir,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    has_account: bool,
}

impl RegistryServer {
    pub(crate) fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = String::from(
            "version: 0.1\nlog: {level: info}\nstorage: {inmemory: {}}\nhttp:\n  addr: 127.0.0.1:0\n",
        );
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let mut ca_pem = None;
        if options.tls {
            let (ca, certificate, key) = certificates();
            let (certificate, key) = (write("tls.crt", &certificate), write("tls.key", &key));
            config += &format!("  tls: {{certificate: {certificate}, key: {key}}}\n");
            write("ca.crt", &ca);
            ca_pem = Some(ca);
        }
        if options.basic_auth {
            let file = write("htpasswd", HTPASSWD);
            config += &format!("auth: {{htpasswd: {{realm: test, path: {file}}}}}\n");
        }
        if let Some(server) = &options.token_auth {
            let bundle = write("tokens.crt", &server.certificate_pem);
            let realm = server.realm();
            config += &format!(
                "auth: {{token: {{realm: \"{realm}\", service: test, issuer: test, rootcertbundle: {bundle}}}}}\n"
            );
        }
        let file = write("config.yaml", &config);
        let mut child = Command::new(tool("LLSD_REGISTRY_BIN"))
            .args(["serve", &file])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        // The registry logs requests to stdout and all other messages to stderr.
        let mut requests = BufReader::new(child.stdout.take().unwrap());
        let into = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut line = String::new();
            while requests.read_line(&mut line).unwrap_or(0) > 0 {
                into.lock().unwrap().push(std::mem::take(&mut line));
            }
        });
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut output = String::new();
        let address = loop {
            let from = output.len();
            assert!(
                messages.read_line(&mut output).unwrap() > 0,
                "the registry did not start: {output}"
            );
            if let Some((_, rest)) = output[from..].split_once("listening on ") {
                let end = rest.find([',', '"']).unwrap();
                break rest[..end].to_owned();
            }
        };
        std::thread::spawn(move || messages.read_to_end(&mut Vec::new()));
        let has_account = options.basic_auth || options.token_auth.is_some();
        let tokens = options.token_auth;
        Self {
            address,
            ca_pem,
            tokens,
            folder,
            child,
            log,
            has_account,
        }
    }

    pub(crate) fn plain() -> Self {
        Self::start(Options::default())
    }

    pub(crate) fn reference(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.address).parse().unwrap()
    }

    /// Settings for this registry, with short timeouts.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = settings_for(&self.address);
        if let Some(ca) = &self.ca_pem {
            settings.extra_ca = ca.clone().into_bytes();
            settings.plain_http.clear();
        }
        if let Some(server) = &self.tokens {
            settings.plain_http.push(server.host());
            settings.allowed.push("localhost".parse().unwrap());
        }
        settings
    }

    /// A keyring that this registry accepts.
    pub(crate) fn keyring(&self) -> Keyring {
        match self.has_account {
            true => keyring(&self.address, USER, PASSWORD),
            false => Keyring::empty(),
        }
    }

    /// Method and path of every request so far. Sends a marker request and waits until it is logged.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let marker = format!("/v2/marker-{:x}/tags/list", fastrand::u64(..));
        let mut socket = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let request = format!("GET {marker} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut socket, request.as_bytes())
            .await
            .unwrap();
        tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut Vec::new())
            .await
            .unwrap();
        loop {
            let lines = self.log.lock().unwrap().clone();
            let requests = lines.iter().filter_map(|line| line.split('"').nth(1));
            let requests: Vec<String> = requests
                .filter_map(|request| request.rsplit_once(' ').map(|(line, _)| line.to_owned()))
                .collect();
            if requests.iter().any(|request| request.contains(&marker)) {
                return requests
                    .into_iter()
                    .filter(|r| !r.contains("/marker-"))
                    .collect();
            }
            tokio::task::yield_now().await;
        }
    }

    fn command(&self, variable: &str) -> Command {
        let mut command = Command::new(tool(variable));
        let auths = format!(
            r#"{{"auths": {{"{}": {{"username": "{USER}", "password": "{PASSWORD}"}}}}}}"#,
            self.address
        );
        let auths = if self.has_account {
            auths
        } else {
            "{}".to_owned()
        };
        std::fs::write(self.folder.path().join("config.json"), auths).unwrap();
        command.env("DOCKER_CONFIG", self.folder.path());
        command.env("HOME", self.folder.path());
        if self.ca_pem.is_some() {
            command.env("SSL_CERT_FILE", self.folder.path().join("ca.crt"));
        }
        command
    }

    /// Runs crane and returns its standard output.
    pub(crate) fn crane(&self, arguments: &[&str]) -> Vec<u8> {
        run(self.command("LLSD_CRANE_BIN").args(arguments))
    }

    /// Runs cosign, with an empty key password.
    pub(crate) fn cosign(&self, folder: &Path, arguments: &[&str]) -> Vec<u8> {
        let mut command = self.command("LLSD_COSIGN_BIN");
        run(command
            .args(arguments)
            .current_dir(folder)
            .env("COSIGN_PASSWORD", ""))
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Settings for a host on loopback with plain HTTP.
pub(crate) fn settings_for(address: &str) -> Settings {
    Settings {
        plain_http: vec![address.to_owned()],
        allowed: vec!["127.0.0.1".parse().unwrap()],
        timeouts: Timeouts {
            connect: Duration::from_secs(2),
            read: Duration::from_secs(2),
            total: Duration::from_secs(20),
        },
        retry: Retry {
            attempts: 3,
            initial_backoff: Duration::from_millis(2),
            max_backoff: Duration::from_secs(1),
        },
        ..Settings::default()
    }
}

pub(crate) fn keyring(registry: &str, username: &str, password: &str) -> Keyring {
    let json = format!(
        r#"{{"auths": {{"{registry}": {{"username": "{username}", "password": "{password}"}}}}}}"#
    );
    let mut keyring = Keyring::empty();
    keyring
        .add_docker_config("the test's docker config", json.as_bytes())
        .unwrap();
    keyring
}

/// A directory for the disk cache, and a handle to it.
pub(crate) fn cache_folder() -> (TempDir, Arc<Dir>) {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    (folder, Arc::new(dir))
}

/// All files below a directory.
pub(crate) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_in(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {stderr}");
    output.stdout
}

/// A CA, a certificate for 127.0.0.1 signed by it, and the key of the certificate.
fn certificates() -> (String, String, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = server.signed_by(&key, &issuer).unwrap();
    (
        authority_certificate.pem(),
        certificate.pem(),
        key.serialize_pem(),
    )
}
