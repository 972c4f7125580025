//! The pull credentials of a namespace, found in the same places as the kubelet finds them.
//!
//! The order: pull secrets of the resource, of its ServiceAccount, of the namespace's default
//! ServiceAccount, then the operator's own docker config. A pull secret that does not exist is
//! skipped, as the kubelet does. Credentials are cached for some minutes, so that a reconciliation
//! of an unchanged resource makes no request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{LocalObjectReference, Secret, ServiceAccount};
use kube::Client;
use kube::api::Api;
use llsd_api::checked::Checked;
use llsd_registry::{BaseError, Keyring};
use parking_lot::Mutex;

use super::Error;

/// As long as the registry client caches the digest of a tag.
const TTL: Duration = Duration::from_secs(300);
/// The cache is cleared when it reaches this many entries.
const MAX_ENTRIES: usize = 4096;

/// Who pulls an image: decides which credentials are used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Puller {
    namespace: String,
    secrets: Vec<String>,
    service_account: Option<String>,
}

impl Puller {
    /// The namespace of the resource.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The puller for the pods of a resource.
    pub(crate) fn of(checked: &Checked, namespace: &str) -> Self {
        let overrides = &checked.workload.overrides;
        Self {
            namespace: namespace.to_owned(),
            secrets: names(overrides.image_pull_secrets.as_deref()),
            service_account: overrides.service_account_name.clone(),
        }
    }
}

#[cfg(test)]
impl From<&str> for Puller {
    fn from(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            secrets: Vec::new(),
            service_account: None,
        }
    }
}

/// The credentials of a puller.
#[derive(Clone)]
struct Found {
    keyring: Keyring,
    /// Every pull secret that was tried, whether or not it exists.
    secrets: Vec<String>,
}

pub(super) struct Keyrings {
    client: Client,
    mounted: Keyring,
    cached: Mutex<HashMap<Puller, (Found, Instant)>>,
}

impl Keyrings {
    pub(super) fn new(client: Client, mounted: Keyring) -> Self {
        Self {
            client,
            mounted,
            cached: Mutex::default(),
        }
    }

    /// The credentials of a puller, from the cache if possible.
    pub(super) async fn of(&self, puller: &Puller) -> Result<Keyring, Error> {
        let cached = self.cached.lock().get(puller).cloned();
        match cached {
            Some((found, at)) if at.elapsed() < TTL => Ok(found.keyring),
            _ => self.read_again(puller).await,
        }
    }

    /// The credentials of a puller from the API server.
    pub(super) async fn read_again(&self, puller: &Puller) -> Result<Keyring, Error> {
        let found = self.collect(puller).await?;
        let keyring = found.keyring.clone();
        let mut cached = self.cached.lock();
        if cached.len() >= MAX_ENTRIES {
            cached.clear();
        }
        cached.insert(puller.clone(), (found, Instant::now()));
        Ok(keyring)
    }

    /// The pull secrets that were tried when the credentials were last read.
    pub(super) fn secrets(&self, puller: &Puller) -> Vec<String> {
        let cached = self.cached.lock();
        let found = cached.get(puller);
        found.map_or_else(Vec::new, |(found, _)| found.secrets.clone())
    }

    async fn collect(&self, puller: &Puller) -> Result<Found, Error> {
        let mut all = puller.secrets.clone();
        let accounts = puller.service_account.iter().map(String::as_str);
        for account in accounts.chain(["default"]) {
            for secret in self.secrets_of(&puller.namespace, account).await? {
                if !all.contains(&secret) {
                    all.push(secret);
                }
            }
        }
        let api = Api::<Secret>::namespaced(self.client.clone(), &puller.namespace);
        let mut keyring = Keyring::empty();
        for name in &all {
            let Some(secret) = found("Secret", name, api.get_opt(name).await)? else {
                continue;
            };
            let data = secret.data.unwrap_or_default();
            let data = data.into_iter().map(|(key, value)| (key, value.0));
            let kind = secret.type_.unwrap_or_default();
            keyring
                .add_secret(name, &kind, &data.collect())
                .map_err(BaseError::from)?;
        }
        keyring.extend(&self.mounted);
        Ok(Found {
            keyring,
            secrets: all,
        })
    }

    async fn secrets_of(&self, namespace: &str, account: &str) -> Result<Vec<String>, Error> {
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let account = found("ServiceAccount", account, api.get_opt(account).await)?;
        Ok(names(
            account
                .and_then(|account| account.image_pull_secrets)
                .as_deref(),
        ))
    }
}

fn names(references: Option<&[LocalObjectReference]>) -> Vec<String> {
    let all = references.unwrap_or_default().iter();
    all.map(|one| one.name.clone())
        .filter(|name| !name.is_empty())
        .collect()
}

fn found<T>(
    kind: &'static str,
    name: &str,
    result: Result<Option<T>, kube::Error>,
) -> Result<Option<T>, Error> {
    result.map_err(|error| Error::Api {
        kind,
        name: name.to_owned(),
        error: Arc::new(error),
    })
}
