//! The registry client of the command line: the operator's client with the user's credentials.
//!
//! Credentials come from docker's configuration file. The cache belongs to one user, so content in it
//! is used without checking with the registry that the user still has access.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow, bail};
use llsd_registry::guard::AllowedAddress;
use llsd_registry::signature::{Identity, Level, PublicKey, TrustedRoot, Verification};
use llsd_registry::{
    BaseError, Cause, Keyring, Mirror, Mirrors, Policy, ProxySettings, PullError, Reference,
    Registry, Rule, Settings, TransferObserver, labelling, signature,
};

use crate::caches::Caches;
use crate::files;
use crate::progress::Progress;

/// Shows the transfers of a client.
#[derive(Default)]
struct Transfers(Mutex<HashMap<String, Progress>>);

impl TransferObserver for Transfers {
    fn transferred(&self, at: &str, done: u64, total: u64) {
        let mut transfers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if done >= total {
            transfers.remove(at);
            return;
        }
        let new = || Progress::of_bytes(at, total);
        let progress = transfers.entry(at.to_owned()).or_insert_with(new);
        progress.set_done(done);
    }
}

/// Options of every command that uses a registry.
#[derive(clap::Args)]
#[command(next_help_heading = "Registries")]
pub(crate) struct RegistryOptions {
    /// CA certificates to trust in addition to those of the system, as PEM; repeatable
    #[arg(long = "registry-ca", value_name = "FILE")]
    authorities: Vec<PathBuf>,
    /// Registry (host or host:port) to connect to with plain HTTP; repeatable
    #[arg(
        long = "plain-http",
        value_name = "HOST",
        env = "LLSD_PLAIN_HTTP",
        value_delimiter = ','
    )]
    plain_http: Vec<String>,
    /// Pull references with the prefix FROM from TO instead; the longest prefix wins; repeatable
    #[arg(long = "mirror", value_name = "FROM=TO", value_parser = parse_mirror)]
    mirrors: Vec<Mirror>,
    /// Host or network to connect to even if its address is loopback or private; repeatable
    #[arg(
        long = "allow-address",
        value_name = "HOST",
        env = "LLSD_ALLOW_ADDRESS",
        value_delimiter = ','
    )]
    allowed: Vec<String>,
    /// File with credentials, as written by docker login; by default docker's own
    #[arg(long, value_name = "FILE")]
    docker_config: Option<PathBuf>,
}

/// A registry client with the user's credentials.
pub(crate) struct Client {
    pub(crate) registry: Registry,
    pub(crate) keyring: Keyring,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// A client for the registry of `named`. That registry may have a loopback or private address,
    /// because the user named it.
    pub(crate) fn new(options: &RegistryOptions, named: &Reference) -> anyhow::Result<Self> {
        let mut settings = options.settings()?;
        let mirrored = settings.mirrors.rewrite(named)?;
        settings.allowed.push(allowed_address(mirrored.registry()));
        settings.check_access = false;
        settings.observer = Some(Arc::new(Transfers::default()));
        settings.cache_dir = Caches::of_user().registry();
        Ok(Self {
            registry: Registry::new(settings)?,
            keyring: options.keyring()?,
            runtime: tokio::runtime::Runtime::new().context("failed to start the async runtime")?,
        })
    }

    /// Runs a future to completion.
    pub(crate) fn block_on<T>(&self, operation: impl Future<Output = T>) -> T {
        self.runtime.block_on(operation)
    }
}

impl RegistryOptions {
    /// The settings that the options describe.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let mut extra_ca = Vec::new();
        for path in &self.authorities {
            extra_ca.extend(files::bytes(path)?);
            extra_ca.push(b'\n');
        }
        Ok(Settings {
            mirrors: Mirrors::new(self.mirrors.iter().cloned()),
            extra_ca,
            plain_http: self.plain_http.clone(),
            proxy: ProxySettings::from_variables(|name| std::env::var(name).ok())?,
            allowed: self
                .allowed
                .iter()
                .map(|host| allowed_address(host))
                .collect(),
            ..Settings::default()
        })
    }

    /// The credentials in docker's configuration file, if it exists.
    pub(crate) fn keyring(&self) -> anyhow::Result<Keyring> {
        let mut keyring = Keyring::empty();
        let path = match &self.docker_config {
            Some(path) => Some(path.clone()),
            None => docker_config().filter(|path| path.exists()),
        };
        if let Some(path) = path {
            let source = format!("the docker config {}", path.display());
            keyring.add_docker_config(&source, &files::bytes(&path)?)?;
        }
        Ok(keyring)
    }
}

/// Options that select who must have signed a plugin.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("signers").args(["keys", "subject", "subject_pattern"]).multiple(true))]
pub(crate) struct SignatureOptions {
    /// Public key (cosign.pub) that must have signed the plugin; repeatable
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Signer that the certificate of a keyless signature must name: an e-mail address or a URL
    #[arg(
        long = "certificate-identity",
        value_name = "SUBJECT",
        requires_all = ["issuer", "trusted_root"]
    )]
    subject: Option<String>,
    /// Regular expression that the whole signer in the certificate must match
    #[arg(
        long = "certificate-identity-regexp",
        value_name = "PATTERN",
        conflicts_with = "subject",
        requires_all = ["issuer", "trusted_root"]
    )]
    subject_pattern: Option<String>,
    /// Issuer of the signer's token, as in the certificate of a keyless signature
    #[arg(
        long = "certificate-oidc-issuer",
        value_name = "URL",
        requires = "trusted_root"
    )]
    issuer: Option<String>,
    /// File trusted_root.json of the Sigstore instance that certified the signer
    #[arg(long = "trusted-root", value_name = "FILE", requires = "issuer")]
    trusted_root: Option<PathBuf>,
    /// Number of keys and identities that must have signed the plugin
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    threshold: usize,
    /// Reject signatures that name no repository
    #[arg(long)]
    require_repository: bool,
    /// Predicate type of an attestation that one of them must have signed; repeatable
    #[arg(
        long = "require-attestation",
        value_name = "TYPE",
        requires = "signers"
    )]
    attestations: Vec<String>,
}

impl SignatureOptions {
    /// No signatures are required.
    pub(crate) fn none() -> Self {
        Self {
            keys: Vec::new(),
            subject: None,
            subject_pattern: None,
            issuer: None,
            trusted_root: None,
            threshold: 1,
            require_repository: false,
            attestations: Vec::new(),
        }
    }

    /// A policy that allows one plugin of at most `max_bytes`. Signatures are enforced if a key or an
    /// identity was given.
    pub(crate) fn policy(&self, plugin: &Reference, max_bytes: u64) -> anyhow::Result<Policy> {
        let mut keys = Vec::new();
        for path in &self.keys {
            let key = PublicKey::from_pem(&files::text(path)?);
            keys.push(
                key.with_context(|| format!("{} is not a supported public key", path.display()))?,
            );
        }
        let identity = self.identity()?;
        let trusted_root = self.trusted_root.as_deref().map(read_trusted_root);
        let level = if keys.is_empty() && identity.is_none() {
            Level::Skip
        } else {
            Level::Enforce
        };
        let verification = Verification {
            level,
            keys,
            identities: identity.into_iter().collect(),
            trusted_root: trusted_root.transpose()?,
            threshold: self.threshold,
            require_repository: self.require_repository,
            attestations: self.attestations.iter().cloned().collect(),
        };
        let mut rule = Rule::new(plugin.name(), verification);
        rule.max_bytes = max_bytes;
        Ok(Policy { rules: vec![rule] })
    }

    /// The identity that the options describe.
    fn identity(&self) -> anyhow::Result<Option<Identity>> {
        let Some(issuer) = &self.issuer else {
            return Ok(None);
        };
        let identity = match (&self.subject, &self.subject_pattern) {
            (Some(subject), _) => Identity::exact(issuer, subject)?,
            (None, Some(pattern)) => Identity::matching(issuer, pattern)?,
            (None, None) => bail!(
                "--certificate-oidc-issuer names no signer; add --certificate-identity or --certificate-identity-regexp"
            ),
        };
        Ok(Some(identity))
    }
}

fn read_trusted_root(path: &Path) -> anyhow::Result<TrustedRoot> {
    let root = TrustedRoot::parse(&files::bytes(path)?);
    root.map_err(|error| anyhow!("{} {error}", path.display()))
}

/// Whether an error is about the content of a registry (exit code 1), not about reaching it (2).
pub(crate) fn is_rejection(error: &anyhow::Error) -> bool {
    let of_image = |error: &BaseError| {
        matches!(
            error,
            BaseError::MissingConfigLabels { .. }
                | BaseError::BadLabel { .. }
                | BaseError::NotAnImage { .. }
                | BaseError::Layer { .. }
        )
    };
    if let Some(PullError { cause, .. }) = error.downcast_ref() {
        return match &**cause {
            Cause::Settings(_)
            | Cause::Registry(_)
            | Cause::Signature(signature::Error::Registry(_)) => false,
            Cause::Denied(_) | Cause::NotAPlugin(_) | Cause::Signature(_) | Cause::Rejected(_) => {
                true
            }
        };
    }
    match error.downcast_ref() {
        Some(labelling::Error::Image(error)) => return of_image(error),
        Some(labelling::Error::NotInAnyLayer { .. } | labelling::Error::Malformed { .. }) => {
            return true;
        }
        Some(labelling::Error::Registry(_) | labelling::Error::Tag(_)) => return false,
        None => {}
    }
    error.downcast_ref().is_some_and(of_image)
}

/// The address without its port.
fn allowed_address(host: &str) -> AllowedAddress {
    let bare = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    // Parsing cannot fail: a string that is not a network is a host name.
    bare.parse().unwrap_or_else(|never| match never {})
}

fn docker_config() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
    Some(folder.or_else(home)?.join("config.json"))
}

fn parse_mirror(text: &str) -> Result<Mirror, String> {
    let (from, to) = text.split_once('=').ok_or("must have the form FROM=TO")?;
    Ok(Mirror {
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_an_allowed_address_is_ignored() {
        let net = |text: &str| text.parse::<AllowedAddress>().unwrap();
        assert_eq!(allowed_address("127.0.0.1:5000"), net("127.0.0.1"));
        assert_eq!(allowed_address("localhost:5000"), net("localhost"));
        assert_eq!(allowed_address("[::1]:5000"), net("::1"));
        assert_eq!(allowed_address("10.0.0.0/8"), net("10.0.0.0/8"));
        assert_eq!(allowed_address("registry.local"), net("registry.local"));
    }
}
