//! The credentials of a namespace, found as the kubelet finds them.
//!
//! The order: pull secrets of the resource, of its ServiceAccount, of the namespace's default
//! ServiceAccount, then the operator's own docker config. A secret that does not exist is passed
//! over, as the kubelet does. What was read is used for some minutes, so that a pass over an
//! unchanged resource asks nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{LocalObjectReference, Secret, ServiceAccount};
use kube::Client;
use kube::api::Api;
use llsd_api::checked::Checked;
use llsd_registry::{BaseError, Keyring};

use super::Error;

/// As long as the digest of a tag is believed.
const BELIEVED: Duration = Duration::from_secs(300);
/// Namespaces and accounts; beyond it everything is read anew.
const MOST: usize = 4096;

/// Who pulls an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Puller {
    namespace: String,
    secrets: Vec<String>,
    service_account: Option<String>,
}

impl Puller {
    /// The pods of a resource.
    pub(crate) fn of(checked: &Checked, namespace: &str) -> Self {
        let overrides = &checked.workload.overrides;
        Self {
            namespace: namespace.to_owned(),
            secrets: names(overrides.image_pull_secrets.as_deref()),
            service_account: overrides.service_account_name.clone(),
        }
    }
}

/// What was found for a puller.
#[derive(Clone)]
struct Found {
    keyring: Keyring,
    /// Every pull secret that was looked for, whether or not it is there.
    secrets: Vec<String>,
}

pub(super) struct Keyrings {
    client: Client,
    mounted: Keyring,
    read: Mutex<HashMap<Puller, (Found, Instant)>>,
}

impl Keyrings {
    pub(super) fn new(client: Client, mounted: Keyring) -> Self {
        Self {
            client,
            mounted,
            read: Mutex::default(),
        }
    }

    /// The credentials to try for whatever the puller names.
    pub(super) async fn of(&self, puller: &Puller) -> Result<Keyring, Error> {
        let known = {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.get(puller).cloned()
        };
        match known {
            Some((found, at)) if at.elapsed() < BELIEVED => Ok(found.keyring),
            _ => self.read_again(puller).await,
        }
    }

    /// The same from the API server.
    pub(super) async fn read_again(&self, puller: &Puller) -> Result<Keyring, Error> {
        let found = self.collect(puller).await?;
        let keyring = found.keyring.clone();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= MOST {
            read.clear();
        }
        read.insert(puller.clone(), (found, Instant::now()));
        Ok(keyring)
    }

    /// The pull secrets that the last reading looked for.
    pub(super) fn secrets(&self, puller: &Puller) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let found = read.get(puller);
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
    answer: Result<Option<T>, kube::Error>,
) -> Result<Option<T>, Error> {
    answer.map_err(|error| Error::Api {
        kind,
        name: name.to_owned(),
        error: Box::new(error),
    })
}
