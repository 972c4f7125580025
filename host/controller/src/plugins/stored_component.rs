//! The components of plugins in use, stored in ConfigMaps of the operator's namespace.
//!
//! An operator that starts while the registry is unavailable uses them. An object in etcd may have
//! about a megabyte, so a component of up to 900 KiB is stored in the `binaryData` of one ConfigMap,
//! and a larger one is split. A component is used only if its digest is the one that the status of
//! the `SchemaPlugin` names. The `SchemaPlugin` owns its ConfigMaps.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::labels::{MANAGED_BY, MANAGER};
use llsd_registry::Digest;

/// Label of a ConfigMap with a shortened digest of the name of its `SchemaPlugin`.
const STORED_FOR: &str = "llamastack.io/kept-for";
const KEY: &str = "component";
/// Leaves room for the metadata of the ConfigMap. The API server does not count the base64 encoding.
const PART_BYTES: usize = 900 << 10;
/// 16 parts are 14 MiB, more than any component is expected to have.
const MAX_PARTS: usize = 16;

/// Why a component is not stored, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "the component has {0} bytes, but at most {max} are stored in the cluster; it is fetched again after a restart",
        max = MAX_PARTS * PART_BYTES
    )]
    TooLarge(usize),
    #[error(
        "the stored component has digest {found}, expected {expected}; it is ignored and fetched again"
    )]
    Damaged { expected: Digest, found: Digest },
    #[error("no stored component for {0}")]
    NotFound(Digest),
    #[error("failed to {verb} the ConfigMap of a stored component")]
    Api {
        verb: &'static str,
        #[source]
        error: Box<kube::Error>,
    },
}

/// The stored components of one `SchemaPlugin`.
pub(super) struct StoredComponents<'a> {
    api: Api<ConfigMap>,
    resource: &'a SchemaPlugin,
    /// A digest of the name of the `SchemaPlugin`, because names can be longer than label values.
    short_name: String,
}

impl<'a> StoredComponents<'a> {
    pub(super) fn new(client: &Client, namespace: &str, resource: &'a SchemaPlugin) -> Self {
        let short_name = Digest::of(resource.name_any().as_bytes()).hex()[..16].to_owned();
        Self {
            api: Api::namespaced(client.clone(), namespace),
            resource,
            short_name,
        }
    }

    /// Stores a component, unless it is already stored.
    pub(super) async fn store(&self, component: &[u8]) -> Result<(), Error> {
        let digest = Digest::of(component);
        for (number, part) in split(component)?.into_iter().enumerate() {
            let name = self.part_name(&digest, number);
            if self.get(&name).await?.is_some() {
                continue;
            }
            let part = self.config_map(name, part);
            match self.api.create(&PostParams::default(), &part).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => return Err(failed("create")(error)),
            }
        }
        Ok(())
    }

    /// Reads a component and verifies its digest.
    pub(super) async fn read(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let mut parts = Vec::new();
        for number in 0..MAX_PARTS {
            let Some(part) = self.get(&self.part_name(digest, number)).await? else {
                break;
            };
            let bytes = part.binary_data.and_then(|mut data| data.remove(KEY));
            parts.push(bytes.unwrap_or_default().0);
        }
        if parts.is_empty() {
            return Err(Error::NotFound(digest.clone()));
        }
        join(parts.iter().map(Vec::as_slice), digest)
    }

    /// Deletes every component except those in `keep`.
    pub(super) async fn retain(&self, keep: &[Digest]) -> Result<(), Error> {
        let labelled = ListParams::default().labels(&format!("{STORED_FOR}={}", self.short_name));
        let all = self.api.list_metadata(&labelled).await;
        for part in all.map_err(failed("list"))? {
            let name = part.name_any();
            let is_kept = |digest: &Digest| name.starts_with(&self.component_name(digest));
            if !keep.iter().any(is_kept) {
                match self.api.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    Err(error) => return Err(failed("delete")(error)),
                }
            }
        }
        Ok(())
    }

    async fn get(&self, name: &str) -> Result<Option<ConfigMap>, Error> {
        self.api.get_opt(name).await.map_err(failed("get"))
    }

    fn config_map(&self, name: String, bytes: &[u8]) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(BTreeMap::from([
                    (MANAGED_BY.to_owned(), MANAGER.to_owned()),
                    (STORED_FOR.to_owned(), self.short_name.clone()),
                ])),
                owner_references: self.resource.owner_ref(&()).map(|one| vec![one]),
                ..ObjectMeta::default()
            },
            binary_data: Some(BTreeMap::from([(
                KEY.to_owned(),
                ByteString(bytes.to_vec()),
            )])),
            immutable: Some(true),
            ..ConfigMap::default()
        }
    }

    fn component_name(&self, digest: &Digest) -> String {
        format!("llsd-plugin-{}-{}", self.short_name, &digest.hex()[..32])
    }

    fn part_name(&self, digest: &Digest, number: usize) -> String {
        format!("{}-{number}", self.component_name(digest))
    }
}

/// Splits a component into parts for one ConfigMap each, in order.
fn split(component: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let parts: Vec<_> = component.chunks(PART_BYTES).collect();
    if parts.len() > MAX_PARTS {
        return Err(Error::TooLarge(component.len()));
    }
    Ok(parts)
}

/// Joins the parts of a component and verifies its digest.
fn join<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
    expected: &Digest,
) -> Result<Vec<u8>, Error> {
    let whole = parts.into_iter().collect::<Vec<_>>().concat();
    let found = Digest::of(&whole);
    match found == *expected {
        true => Ok(whole),
        false => Err(Error::Damaged {
            expected: expected.clone(),
            found,
        }),
    }
}

fn failed(verb: &'static str) -> impl Fn(kube::Error) -> Error {
    move |error| Error::Api {
        verb,
        error: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_split_and_joined_again() {
        for (size, count) in [
            (1, 1),
            (PART_BYTES, 1),
            (PART_BYTES + 1, 2),
            (MAX_PARTS * PART_BYTES, 16),
        ] {
            let component: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let parts = split(&component).unwrap();
            assert_eq!(parts.len(), count);
            assert!(parts.iter().all(|part| part.len() <= PART_BYTES));
            assert_eq!(join(parts, &Digest::of(&component)).unwrap(), component);
        }
        let huge = vec![0; MAX_PARTS * PART_BYTES + 1];
        let error = split(&huge).unwrap_err();
        assert!(matches!(error, Error::TooLarge(size) if size == huge.len()));
    }

    #[test]
    fn a_missing_swapped_or_changed_part_is_detected() {
        let component: Vec<u8> = (0..PART_BYTES * 2).map(|n| (n / 7) as u8).collect();
        let digest = Digest::of(&component);
        let parts = split(&component).unwrap();
        assert!(join([parts[1], parts[0]], &digest).is_err());
        assert!(join([parts[0]], &digest).is_err());
        assert!(join([], &digest).is_err());
    }
}
