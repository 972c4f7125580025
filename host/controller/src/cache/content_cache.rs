//! What the Secrets and ConfigMaps hold that resources refer to, read when their version moved.
//!
//! Of a Secret only its keys are kept and, for each, a mark that changes with the value: a hash under
//! a key that only the operator has. Whoever sees a mark cannot try out values. Values are given to
//! whoever takes them apart, and are not kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use llsd_api::labels;
use llsd_render::objects::Kind;
use sha2::Sha256;
use tokio::sync::OnceCell;

use super::conversion;
use crate::view::View;

/// The operator's own Secret, in the operator's namespace.
const KEY_SECRET: &str = "llsd-rollout-key";
const KEY_ENTRY: &str = "key";
const KEY_BYTES: usize = 32;

/// What one ConfigMap holds.
pub(crate) type Texts = Arc<BTreeMap<String, String>>;
/// The keys of one Secret, each with what is kept of its value.
pub(crate) type Marks = Arc<BTreeMap<String, Mark>>;

/// What is kept of a secret value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Changes with the value.
    pub(crate) hash: String,
    /// What a server makes of it that converts texts, if not a text.
    pub(crate) becomes: Option<&'static str>,
}

/// By namespace and name: the version that was read, and what it held.
type Read<T> = Mutex<HashMap<(String, String), (String, T)>>;

/// Why a Secret's keys are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(
        "the Secret {KEY_SECRET:?} in namespace {0:?} holds no key for rollouts; delete it, and a new one is made"
    )]
    NoKey(String),
    #[error("this machine gives no random bytes: {0}")]
    NoRandom(#[from] getrandom::Error),
}

/// What has been read so far.
pub(crate) struct Contents {
    client: Client,
    view: Arc<View>,
    home: String,
    key: OnceCell<Vec<u8>>,
    texts: Read<Texts>,
    marks: Read<Marks>,
}

impl Contents {
    /// Nothing yet. `home` is the operator's own namespace.
    pub(crate) fn new(client: Client, view: Arc<View>, home: String) -> Self {
        Self {
            client,
            view,
            home,
            key: OnceCell::new(),
            texts: Read::default(),
            marks: Read::default(),
        }
    }

    /// What a ConfigMap holds, if it is there.
    pub(crate) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Texts>, kube::Error> {
        if let Some(known) = self.known(&self.texts, Kind::ConfigMap, namespace, name) {
            return Ok(Some(known));
        }
        // Absent from the view may mean that the watch has not told of it yet.
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await?;
        Ok(found.map(|map| {
            let texts = Arc::new(map.data.unwrap_or_default());
            keep(&self.texts, namespace, name, map.metadata, texts.clone());
            texts
        }))
    }

    /// The same of one that is looked for but need not exist: it is not asked for before the watch
    /// tells of it.
    pub(crate) async fn watched_config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Texts>, kube::Error> {
        match self.view.child(Kind::ConfigMap, namespace, name) {
            Some(_) => self.config_map(namespace, name).await,
            None => Ok(None),
        }
    }

    /// The values of a Secret, to be taken apart at once.
    pub(crate) async fn values(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, ByteString>, Error> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await?;
        Ok(found.and_then(|secret| secret.data).unwrap_or_default())
    }

    /// The keys of a Secret with their marks, if it is there.
    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Marks>, Error> {
        if let Some(known) = self.known(&self.marks, Kind::Secret, namespace, name) {
            return Ok(Some(known));
        }
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let Some(secret) = api.get_opt(name).await? else {
            return Ok(None);
        };
        let key = self.key.get_or_try_init(|| self.load_key()).await?;
        let values = secret.data.unwrap_or_default();
        let marks: BTreeMap<_, _> = values
            .into_iter()
            .map(|(entry, ByteString(value))| {
                let hash = mark(key, &[namespace, name, &entry], &value);
                let becomes = std::str::from_utf8(&value).map_or(None, conversion::becomes);
                (entry, Mark { hash, becomes })
            })
            .collect();
        let marks = Arc::new(marks);
        keep(&self.marks, namespace, name, secret.metadata, marks.clone());
        Ok(Some(marks))
    }

    /// Forgets what was read of objects that are not there any more.
    pub(crate) fn forget_absent(&self) {
        forget(&self.texts, |namespace, name| {
            self.view.child(Kind::ConfigMap, namespace, name).is_some()
        });
        forget(&self.marks, |namespace, name| {
            self.view.child(Kind::Secret, namespace, name).is_some()
        });
    }

    /// What was read, if the object has not changed since.
    fn known<T: Clone>(
        &self,
        read: &Read<T>,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Option<T> {
        let now = self.view.child(kind, namespace, name)?;
        let read = read.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, content) = read.get(&(namespace.to_owned(), name.to_owned()))?;
        (now.metadata.resource_version.as_ref() == Some(version)).then(|| content.clone())
    }

    /// The key, which is made by whoever needs it first.
    async fn load_key(&self) -> Result<Vec<u8>, Error> {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.home);
        let found = match api.get_opt(KEY_SECRET).await? {
            Some(found) => found,
            None => match api.create(&PostParams::default(), &new_key()?).await {
                // Another replica was faster.
                Err(kube::Error::Api(answer)) if answer.is_already_exists() => {
                    api.get(KEY_SECRET).await?
                }
                made => made?,
            },
        };
        let entry = found.data.and_then(|mut data| data.remove(KEY_ENTRY));
        entry
            .map(|ByteString(bytes)| bytes)
            .filter(|bytes| bytes.len() == KEY_BYTES)
            .ok_or_else(|| Error::NoKey(self.home.clone()))
    }
}

fn new_key() -> Result<Secret, Error> {
    let mut bytes = vec![0; KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(KEY_SECRET.to_owned()),
            labels: Some([(labels::PART_OF.to_owned(), labels::PRODUCT.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([(KEY_ENTRY.to_owned(), ByteString(bytes))].into()),
        ..Secret::default()
    })
}

fn keep<T>(read: &Read<T>, namespace: &str, name: &str, metadata: ObjectMeta, content: T) {
    let version = metadata.resource_version.unwrap_or_default();
    read.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert((namespace.to_owned(), name.to_owned()), (version, content));
}

fn forget<T>(read: &Read<T>, is_there: impl Fn(&str, &str) -> bool) {
    read.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|(namespace, name), _| is_there(namespace, name));
}

/// A value's mark. Where it stands is part of it, so that equal values are not seen to be equal.
fn mark(key: &[u8], place: &[&str], value: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        // A key of any length is taken.
        return String::new();
    };
    for part in place {
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    mac.update(value);
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::mark;

    #[test]
    fn a_mark_changes_with_value_place_and_key_and_with_nothing_else() {
        let one = mark(b"k", &["ns", "s", "a"], b"value");
        assert_eq!(one, mark(b"k", &["ns", "s", "a"], b"value"));
        assert_ne!(one, mark(b"k", &["ns", "s", "a"], b"valuf"));
        assert_ne!(one, mark(b"k", &["ns", "s", "b"], b"value"));
        assert_ne!(one, mark(b"l", &["ns", "s", "a"], b"value"));
        assert_eq!(one.len(), 64);
    }
}
