//! How the command line reaches registries: the same client as the operator's, for one person.
//!
//! Credentials come from docker's configuration file. Nobody else uses this machine's cache, so what
//! is in it is given without asking the registry again.

use std::path::PathBuf;

use anyhow::Context;
use llsd_registry::guard::Allowed;
use llsd_registry::signature::{Level, PublicKey, Verification};
use llsd_registry::{
    BaseError, Cause, Keyring, Mirror, Mirrors, Policy, ProxySettings, PullError, Reference,
    Registry, Rule, Settings, image, signature,
};

use crate::caches::Caches;
use crate::files;

/// Options of every command that asks a registry.
#[derive(clap::Args)]
#[command(next_help_heading = "Registries")]
pub(crate) struct RegistryOptions {
    /// A certificate authority to trust besides those of the system, PEM; may be repeated
    #[arg(long = "registry-ca", value_name = "FILE")]
    authorities: Vec<PathBuf>,
    /// A registry (host or host:port) that speaks plain HTTP; may be repeated
    #[arg(
        long = "plain-http",
        value_name = "HOST",
        env = "LLSD_PLAIN_HTTP",
        value_delimiter = ','
    )]
    plain_http: Vec<String>,
    /// Read what is under a prefix from another place; the longest prefix wins; may be repeated
    #[arg(long = "mirror", value_name = "FROM=TO", value_parser = parse_mirror)]
    mirrors: Vec<Mirror>,
    /// A host or network that may be asked although it is this machine, or further inside the
    /// network than the registry that leads to it; may be repeated
    #[arg(
        long = "allow-address",
        value_name = "HOST",
        env = "LLSD_ALLOW_ADDRESS",
        value_delimiter = ','
    )]
    allowed: Vec<String>,
    /// Credentials, as docker login writes them; by default those of docker
    #[arg(long, value_name = "FILE")]
    docker_config: Option<PathBuf>,
}

/// A registry client with one person's credentials.
pub(crate) struct Client {
    pub(crate) registry: Registry,
    pub(crate) keyring: Keyring,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// A client for what the user named. That a registry is on this machine is then no surprise.
    pub(crate) fn new(options: &RegistryOptions, named: &Reference) -> anyhow::Result<Self> {
        let mut settings = options.settings()?;
        let asked = settings.mirrors.rewrite(named)?;
        settings.allowed.push(allowed(asked.registry()));
        settings.check_access = false;
        settings.cache_dir = Caches::of_user().registry();
        Ok(Self {
            registry: Registry::new(settings)?,
            keyring: options.keyring()?,
            runtime: tokio::runtime::Runtime::new().context("no threads to run on")?,
        })
    }

    /// Runs one operation to its end.
    pub(crate) fn wait<T>(&self, operation: impl Future<Output = T>) -> T {
        self.runtime.block_on(operation)
    }
}

impl RegistryOptions {
    /// What the options say, without what only the command line may assume.
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
            allowed: self.allowed.iter().map(|text| allowed(text)).collect(),
            ..Settings::default()
        })
    }

    /// The credentials of docker's configuration file, when there is one.
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

/// Whose signatures a plugin must bear.
#[derive(clap::Args)]
pub(crate) struct SignatureOptions {
    /// A public key (cosign.pub) that must have signed; may be repeated
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// How many of the keys must have signed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    threshold: usize,
}

impl SignatureOptions {
    /// Nobody's.
    pub(crate) fn none() -> Self {
        Self {
            keys: Vec::new(),
            threshold: 1,
        }
    }

    /// Terms for one plugin: the user has named it, so it is allowed; keys are wanted where given.
    pub(crate) fn policy(&self, plugin: &Reference) -> anyhow::Result<Policy> {
        let mut keys = Vec::new();
        for path in &self.keys {
            let key = PublicKey::from_pem(&files::text(path)?);
            keys.push(key.with_context(|| format!("{} cannot be used", path.display()))?);
        }
        let level = if keys.is_empty() {
            Level::Skip
        } else {
            Level::Enforce
        };
        let verification = Verification {
            level,
            keys,
            threshold: self.threshold,
        };
        Ok(Policy {
            rules: vec![Rule::new(plugin.name(), verification)],
        })
    }
}

/// Whether a failure is a verdict over what a registry holds, and not a registry out of reach.
pub(crate) fn is_refusal(error: &anyhow::Error) -> bool {
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
        Some(image::Error::Image(error)) => return of_image(error),
        Some(image::Error::NotInAnyLayer { .. } | image::Error::Malformed { .. }) => return true,
        Some(image::Error::Registry(_) | image::Error::Tag(_)) => return false,
        None => {}
    }
    error.downcast_ref().is_some_and(of_image)
}

fn allowed(host: &str) -> Allowed {
    let bare = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    // A network or a name: every text is one of the two.
    bare.parse().unwrap_or_else(|never| match never {})
}

fn docker_config() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
    Some(folder.or_else(home)?.join("config.json"))
}

fn parse_mirror(text: &str) -> Result<Mirror, String> {
    let (from, to) = text.split_once('=').ok_or("write it as FROM=TO")?;
    Ok(Mirror {
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_allowed_by_its_host_whatever_its_port() {
        let net = |text: &str| text.parse::<Allowed>().unwrap();
        assert_eq!(allowed("127.0.0.1:5000"), net("127.0.0.1"));
        assert_eq!(allowed("localhost:5000"), net("localhost"));
        assert_eq!(allowed("[::1]:5000"), net("::1"));
        assert_eq!(allowed("10.0.0.0/8"), net("10.0.0.0/8"));
        assert_eq!(allowed("registry.local"), net("registry.local"));
    }
}
