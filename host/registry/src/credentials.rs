//! Registry credentials, with the matching rules of the kubelet.
//!
//! In: pull secrets (`.dockerconfigjson` or `.dockercfg`) and docker config files, in the order in which
//! to try them. Out: the credentials whose key matches a reference. Values are stored in [`Credential`]
//! and used in request headers only. Its `Debug` output contains no values.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

use crate::reference::Reference;

mod matching;

/// The longest credential. Tokens of cloud providers have up to 4 KB. Credentials are part of the keys of
/// the caches.
const MAX_CREDENTIAL_BYTES: usize = 16 << 10;
/// The most credentials that are tried for one image.
const MAX_CANDIDATES: usize = 16;

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// No credential.
    Anonymous,
    /// A user name and a password, for Basic authentication or a token request.
    Basic {
        /// The account.
        username: String,
        /// Its password.
        password: String,
    },
    /// An OAuth2 refresh token (`identitytoken`), exchanged for an access token.
    IdentityToken(String),
    /// An access token (`registrytoken`), sent unchanged.
    RegistryToken(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic(…)",
            Self::IdentityToken(_) => "IdentityToken(…)",
            Self::RegistryToken(_) => "RegistryToken(…)",
        })
    }
}

impl Credential {
    /// The size of its values.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Anonymous => 0,
            Self::Basic { username, password } => username.len() + password.len(),
            Self::IdentityToken(token) | Self::RegistryToken(token) => token.len(),
        }
    }

    /// The secret values, which are removed from error messages of the registry.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let all = match self {
            Self::Anonymous => vec![],
            Self::Basic { password, .. } => vec![password.as_str()],
            Self::IdentityToken(token) | Self::RegistryToken(token) => vec![token.as_str()],
        };
        all.into_iter()
            .filter(|secret| !secret.is_empty())
            .collect()
    }
}

/// A credential and its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Where the credential comes from, for messages: `secret "pull-me"` or `the docker config`.
    pub source: String,
    /// The credential.
    pub credential: Credential,
}

/// Why credentials cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The type of the secret is not one for registry credentials.
    #[error(
        "{source_name}: type {found:?} is not a type for registry credentials; create the secret with \
         kubectl create secret docker-registry"
    )]
    SecretType {
        /// The secret.
        source_name: String,
        /// Its type.
        found: String,
    },
    /// The content is not a valid docker config. The message contains the position, never a value.
    #[error(
        "{source_name}: {problem}; create it again with docker login or kubectl create secret docker-registry"
    )]
    Unreadable {
        /// The secret or file.
        source_name: String,
        /// What is wrong, without values.
        problem: String,
    },
    /// The config refers to a credential helper for this registry. Helpers are not supported.
    #[error(
        "{source_name}: credentials for {registry} are managed by the credential helper {helper:?}, which is \
         not supported; put a user name and password, or a token, for {registry} into a pull secret"
    )]
    Helper {
        /// The secret or file.
        source_name: String,
        /// The registry.
        registry: String,
        /// The credential helper.
        helper: String,
    },
}

/// Credentials, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    groups: Vec<Group>,
}

/// The content of one secret or file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    source: String,
    /// Credentials by normalized key (`host[:port][/path]`).
    entries: BTreeMap<String, Credential>,
    /// Credential helpers by normalized key.
    helpers: BTreeMap<String, String>,
}

impl Keyring {
    /// A keyring without credentials: all requests are anonymous.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a pull secret. Secrets are tried in the order in which they are added: those of the resource,
    /// those of its ServiceAccount, then those of the default ServiceAccount of the namespace.
    pub fn add_secret(
        &mut self,
        name: &str,
        secret_type: &str,
        data: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), Error> {
        let source = format!("secret {name:?}");
        let key = match secret_type {
            "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
            "kubernetes.io/dockercfg" => ".dockercfg",
            other => {
                return Err(Error::SecretType {
                    source_name: source,
                    found: other.to_owned(),
                });
            }
        };
        let bytes = data.get(key).ok_or_else(|| Error::Unreadable {
            source_name: source.clone(),
            problem: format!("the key {key} is missing"),
        })?;
        self.groups.push(match key {
            ".dockercfg" => parse_legacy(&source, bytes)?,
            _ => parse_config(&source, bytes)?,
        });
        Ok(())
    }

    /// Adds a docker config file (`config.json`). It is tried after all earlier ones.
    pub fn add_docker_config(&mut self, source: &str, bytes: &[u8]) -> Result<(), Error> {
        self.groups.push(parse_config(source, bytes)?);
        Ok(())
    }

    /// Adds the credentials of another keyring. They are tried after all earlier ones.
    pub fn extend(&mut self, other: &Self) {
        self.groups.extend(other.groups.iter().cloned());
    }

    /// The credentials to try for a reference, the best match first. Anonymous only if no key matches.
    pub fn lookup(&self, reference: &Reference) -> Result<Vec<Candidate>, Error> {
        let image = reference.name();
        let mut found: Vec<Candidate> = Vec::new();
        for group in &self.groups {
            for key in matching::keys_for(group.entries.keys(), &image) {
                let credential = group.entries[key].clone();
                let candidate = Candidate {
                    source: group.source.clone(),
                    credential,
                };
                if !found
                    .iter()
                    .any(|other| other.credential == candidate.credential)
                {
                    found.push(candidate);
                }
            }
        }
        if !found.is_empty() {
            found.truncate(MAX_CANDIDATES);
            return Ok(found);
        }
        for group in &self.groups {
            if let Some(key) = matching::keys_for(group.helpers.keys(), &image).first() {
                return Err(Error::Helper {
                    source_name: group.source.clone(),
                    registry: reference.registry().to_owned(),
                    helper: group.helpers[*key].clone(),
                });
            }
        }
        Ok(vec![Candidate {
            source: "no credential".to_owned(),
            credential: Credential::Anonymous,
        }])
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

fn parse_config(source: &str, bytes: &[u8]) -> Result<Group, Error> {
    let ConfigFile {
        auths,
        cred_helpers,
        creds_store,
    } = decode(source, bytes)?;
    let mut group = collect(source, auths, creds_store.filter(|store| !store.is_empty()))?;
    let named = cred_helpers
        .into_iter()
        .map(|(key, helper)| (matching::normalize(&key), helper));
    group.helpers.extend(named);
    Ok(group)
}

fn parse_legacy(source: &str, bytes: &[u8]) -> Result<Group, Error> {
    collect(source, decode(source, bytes)?, None)
}

fn decode<T: serde::de::DeserializeOwned>(source: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Unreadable {
        source_name: source.to_owned(),
        // Messages of serde_json contain values, so only the position is reported.
        problem: format!(
            "invalid docker config: JSON error at line {}, column {}",
            error.line(),
            error.column()
        ),
    })
}

fn collect(
    source: &str,
    auths: BTreeMap<String, Entry>,
    store: Option<String>,
) -> Result<Group, Error> {
    let mut group = Group {
        source: source.to_owned(),
        entries: BTreeMap::new(),
        helpers: BTreeMap::new(),
    };
    for (key, entry) in auths {
        let normal = matching::normalize(&key);
        let credential = credential_of(&entry).and_then(|credential| match credential {
            Some(long) if long.bytes() > MAX_CREDENTIAL_BYTES => {
                Err("has a credential of more than 16 KiB")
            }
            other => Ok(other),
        });
        match (credential, &store) {
            (Ok(Some(credential)), _) => {
                group.entries.insert(normal, credential);
            }
            // With a credential store, `docker login` writes an empty entry.
            (Ok(None), Some(store)) => {
                group.helpers.insert(normal, store.clone());
            }
            (Ok(None), None) => {}
            (Err(problem), _) => {
                let problem = format!("the entry for {normal:?} {problem}");
                return Err(Error::Unreadable {
                    source_name: source.to_owned(),
                    problem,
                });
            }
        }
    }
    Ok(group)
}

fn credential_of(entry: &Entry) -> Result<Option<Credential>, &'static str> {
    let Entry {
        auth,
        username,
        password,
        identitytoken,
        registrytoken,
    } = entry;
    if !registrytoken.is_empty() {
        return Ok(Some(Credential::RegistryToken(registrytoken.clone())));
    }
    if !identitytoken.is_empty() {
        return Ok(Some(Credential::IdentityToken(identitytoken.clone())));
    }
    let (username, password) = if auth.is_empty() {
        (username.clone(), password.clone())
    } else {
        let packed = auth.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD
            .decode(packed)
            .or_else(|_| STANDARD.decode(auth))
            .map_err(|_| "has a value of auth that is not valid base64")?;
        let text =
            String::from_utf8(bytes).map_err(|_| "has a value of auth that is not valid UTF-8")?;
        let pair = text
            .split_once(':')
            .ok_or("has a value of auth without a colon")?;
        // Some tools pad the password with NUL bytes.
        (pair.0.to_owned(), pair.1.trim_end_matches('\0').to_owned())
    };
    if username.is_empty() && password.is_empty() {
        return Ok(None);
    }
    Ok(Some(Credential::Basic { username, password }))
}

#[cfg(test)]
mod tests;
