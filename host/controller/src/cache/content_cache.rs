//! The content of the Secrets and ConfigMaps that resources refer to. An object is read again only
//! when its resource version changed, or when its namespace refers to more than the cache stores.
//!
//! Of a Secret, the cache stores the keys and a fingerprint of each value: an HMAC under a key that
//! only the operator has, so that a fingerprint cannot be used to guess the value. Secret values
//! themselves are never stored; [`ContentCache::secret_values`] reads them on every call.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use llsd_api::labels;
use llsd_render::objects::Kind;
use parking_lot::Mutex;
use ring::digest::{self, SHA256};
use ring::hmac::{self, HMAC_SHA256};
use tokio::sync::OnceCell;

use super::ClusterCache;
use super::env_conversion::{ConvertedType, converted_type};
use super::parsed_bases::ParsedBases;
use super::tenant_cache::{Identity, TenantCache};

/// The Secret with the HMAC key, in the operator's own namespace.
const KEY_SECRET: &str = "llsd-rollout-key";
const KEY_ENTRY: &str = "key";
const KEY_BYTES: usize = 32;

/// The data of one ConfigMap.
pub(crate) type ConfigMapData = Arc<BTreeMap<String, String>>;
/// The keys of one Secret, each with the fingerprint of its value.
pub(crate) type Fingerprints = Arc<BTreeMap<String, Fingerprint>>;

/// What is stored of a secret value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Changes with the value.
    pub(crate) hash: String,
    /// The type that the server converts the value to; `None` if it stays a string.
    pub(crate) converted_type: Option<ConvertedType>,
}

/// What a small content weighs besides its bytes.
const OVERHEAD_BYTES: usize = 128;

/// Why the keys of a Secret are unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(
        "Secret {KEY_SECRET:?} in namespace {0:?} has no valid {KEY_ENTRY:?} entry of {KEY_BYTES} bytes; delete the Secret, and the operator creates a new one"
    )]
    InvalidKey(String),
    #[error("failed to generate random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

/// A cache of Secret keys and ConfigMap data.
pub(crate) struct ContentCache {
    client: Client,
    cache: Arc<ClusterCache>,
    operator_namespace: String,
    key: OnceCell<Vec<u8>>,
    config_maps: Mutex<TenantCache<ConfigMapData>>,
    secrets: Mutex<TenantCache<Fingerprints>>,
    bases: ParsedBases,
}

impl ContentCache {
    /// Creates an empty cache.
    pub(crate) fn new(
        client: Client,
        cache: Arc<ClusterCache>,
        operator_namespace: String,
    ) -> Self {
        Self {
            client,
            cache,
            operator_namespace,
            key: OnceCell::new(),
            config_maps: Mutex::default(),
            secrets: Mutex::default(),
            bases: ParsedBases::default(),
        }
    }

    /// The base configurations that were parsed before.
    pub(crate) fn bases(&self) -> &ParsedBases {
        &self.bases
    }

    /// The data of a ConfigMap; `None` if it does not exist.
    pub(crate) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ConfigMapData>, kube::Error> {
        if let Some(cached) = self.cached(&self.config_maps, Kind::ConfigMap, namespace, name) {
            return Ok(Some(cached));
        }
        // An object that is absent from the cache may be too new for the watch.
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await?;
        Ok(found.map(|map| {
            let data = Arc::new(map.data.unwrap_or_default());
            let bytes: usize = data.iter().map(|(key, text)| key.len() + text.len()).sum();
            let texts = data
                .iter()
                .flat_map(|(key, text)| [key.as_str(), text.as_str()]);
            let identity = identity(texts);
            let mut stored = self.config_maps.lock();
            let version = map.metadata.resource_version.unwrap_or_default();
            stored.insert(
                (namespace, name),
                version,
                identity,
                data,
                bytes + OVERHEAD_BYTES,
            )
        }))
    }

    /// The data of an optional ConfigMap. Unlike [`Self::config_map`], it makes no request for a
    /// ConfigMap that the watch has not reported.
    pub(crate) async fn watched_config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ConfigMapData>, kube::Error> {
        match self.cache.has_child(Kind::ConfigMap, namespace, name) {
            true => self.config_map(namespace, name).await,
            false => Ok(None),
        }
    }

    /// The values of a Secret, which the caller must not store.
    pub(crate) async fn secret_values(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, ByteString>, ContentError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await?;
        Ok(found.and_then(|secret| secret.data).unwrap_or_default())
    }

    /// The keys of a Secret with the fingerprints of their values; `None` if it does not exist.
    pub(crate) async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Fingerprints>, ContentError> {
        if let Some(cached) = self.cached(&self.secrets, Kind::Secret, namespace, name) {
            return Ok(Some(cached));
        }
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let Some(secret) = api.get_opt(name).await? else {
            return Ok(None);
        };
        let key = self.key.get_or_try_init(|| self.load_key()).await?;
        let values = secret.data.unwrap_or_default();
        let fingerprints: BTreeMap<_, _> = values
            .into_iter()
            .map(|(entry, ByteString(value))| {
                let hash = hash(key, &[namespace, name, &entry], &value);
                let converted_type = std::str::from_utf8(&value).map_or(None, converted_type);
                (
                    entry,
                    Fingerprint {
                        hash,
                        converted_type,
                    },
                )
            })
            .collect();
        let fingerprints = Arc::new(fingerprints);
        let bytes = fingerprints.keys().map(|key| key.len() + OVERHEAD_BYTES);
        let bytes = bytes.sum::<usize>() + OVERHEAD_BYTES;
        // Fingerprints of two Secrets are never equal.
        let identity = identity([namespace, name]);
        let mut stored = self.secrets.lock();
        let version = secret.metadata.resource_version.unwrap_or_default();
        let object = (namespace, name);
        Ok(Some(stored.insert(
            object,
            version,
            identity,
            fingerprints,
            bytes,
        )))
    }

    /// The bytes of the stored ConfigMaps and Secrets.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.config_maps.lock().bytes(), self.secrets.lock().bytes())
    }

    /// Drops the content of objects that no longer exist.
    pub(crate) fn forget_deleted(&self) {
        self.config_maps
            .lock()
            .retain(|namespace, name| self.cache.has_child(Kind::ConfigMap, namespace, name));
        self.secrets
            .lock()
            .retain(|namespace, name| self.cache.has_child(Kind::Secret, namespace, name));
    }

    /// The stored content, if the object has not changed since it was read.
    fn cached<T: Clone>(
        &self,
        stored: &Mutex<TenantCache<T>>,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Option<T> {
        let version = self.cache.of(kind)?.resource_version(namespace, name)?;
        stored.lock().get(namespace, name, &version.to_string())
    }

    /// Reads the HMAC key, and creates it if there is none.
    async fn load_key(&self) -> Result<Vec<u8>, ContentError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.operator_namespace);
        let found = match api.get_opt(KEY_SECRET).await? {
            Some(found) => found,
            None => match api.create(&PostParams::default(), &new_key()?).await {
                // Another replica created it first.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    api.get(KEY_SECRET).await?
                }
                created => created?,
            },
        };
        let entry = found.data.and_then(|mut data| data.remove(KEY_ENTRY));
        entry
            .map(|ByteString(bytes)| bytes)
            .filter(|bytes| bytes.len() == KEY_BYTES)
            .ok_or_else(|| ContentError::InvalidKey(self.operator_namespace.clone()))
    }
}

fn new_key() -> Result<Secret, ContentError> {
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

/// What contents with the same texts have in common.
fn identity<'a>(texts: impl IntoIterator<Item = &'a str>) -> Identity {
    let mut digest = digest::Context::new(&SHA256);
    for text in texts {
        digest.update(&text.len().to_le_bytes());
        digest.update(text.as_bytes());
    }
    let mut identity = Identity::default();
    identity.copy_from_slice(digest.finish().as_ref());
    identity
}

/// The HMAC of a value. `location` (namespace, Secret and key) is part of the hashed message, so
/// that equal values in two Secrets have different hashes.
fn hash(key: &[u8], location: &[&str], value: &[u8]) -> String {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, key));
    for part in location {
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    mac.update(value);
    HEXLOWER.encode(mac.sign().as_ref())
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn a_hash_depends_on_value_location_and_key_and_nothing_else() {
        let one = hash(b"k", &["ns", "s", "a"], b"value");
        assert_eq!(one, hash(b"k", &["ns", "s", "a"], b"value"));
        assert_ne!(one, hash(b"k", &["ns", "s", "a"], b"valuf"));
        assert_ne!(one, hash(b"k", &["ns", "s", "b"], b"value"));
        assert_ne!(one, hash(b"l", &["ns", "s", "a"], b"value"));
        assert_eq!(one.len(), 64);
    }
}
