//! The last good bytes of plugins, kept in ConfigMaps of the operator's namespace.
//!
//! An operator that starts while the registry is down goes on with them. They are believed only when
//! they have the digest that the status of the `SchemaPlugin` names, and the `SchemaPlugin` owns
//! them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::labels::{MANAGED_BY, MANAGER};
use llsd_registry::{Digest, keep};

/// Label of a kept part: which `SchemaPlugin` it belongs to, shortened.
const OF: &str = "llamastack.io/kept-for";
const KEY: &str = "component";

/// Why bytes are not kept, or not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Parts(#[from] keep::Error),
    #[error("nothing is kept for {0}")]
    Absent(Digest),
    #[error("the API server did not {verb} the kept component")]
    Api {
        verb: &'static str,
        #[source]
        error: Box<kube::Error>,
    },
}

/// The kept components of one `SchemaPlugin`.
pub(crate) struct Kept<'a> {
    api: Api<ConfigMap>,
    resource: &'a SchemaPlugin,
    /// Names of `SchemaPlugin`s are longer than labels may be.
    short: String,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(client: &Client, namespace: &str, resource: &'a SchemaPlugin) -> Self {
        let short = Digest::of(resource.name_any().as_bytes()).hex()[..16].to_owned();
        Self {
            api: Api::namespaced(client.clone(), namespace),
            resource,
            short,
        }
    }

    /// Writes a component, unless it is there.
    pub(crate) async fn put(&self, component: &[u8]) -> Result<(), Error> {
        let digest = Digest::of(component);
        for (number, part) in keep::split(component)?.into_iter().enumerate() {
            let name = self.name(&digest, number);
            if self.get(&name).await?.is_some() {
                continue;
            }
            let part = self.part(name, part);
            match self.api.create(&PostParams::default(), &part).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
                Err(error) => return Err(failed("take")(error)),
            }
        }
        Ok(())
    }

    /// Reads a component and checks it.
    pub(crate) async fn read(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let mut parts = Vec::new();
        for number in 0..keep::MAX_PARTS {
            let Some(part) = self.get(&self.name(digest, number)).await? else {
                break;
            };
            let bytes = part.binary_data.and_then(|mut data| data.remove(KEY));
            parts.push(bytes.unwrap_or_default().0);
        }
        if parts.is_empty() {
            return Err(Error::Absent(digest.clone()));
        }
        Ok(keep::join(parts.iter().map(Vec::as_slice), digest)?)
    }

    /// Deletes every component but those named.
    pub(crate) async fn retain(&self, wanted: &[Digest]) -> Result<(), Error> {
        let labelled = ListParams::default().labels(&format!("{OF}={}", self.short));
        let all = self.api.list_metadata(&labelled).await;
        for part in all.map_err(failed("list"))? {
            let name = part.name_any();
            let is_wanted = |digest: &Digest| name.starts_with(&self.name_of(digest));
            if !wanted.iter().any(is_wanted) {
                match self.api.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(answer)) if answer.is_not_found() => {}
                    Err(error) => return Err(failed("delete")(error)),
                }
            }
        }
        Ok(())
    }

    async fn get(&self, name: &str) -> Result<Option<ConfigMap>, Error> {
        self.api.get_opt(name).await.map_err(failed("give"))
    }

    fn part(&self, name: String, bytes: &[u8]) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(BTreeMap::from([
                    (MANAGED_BY.to_owned(), MANAGER.to_owned()),
                    (OF.to_owned(), self.short.clone()),
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

    fn name_of(&self, digest: &Digest) -> String {
        format!("llsd-plugin-{}-{}", self.short, &digest.hex()[..32])
    }

    fn name(&self, digest: &Digest, number: usize) -> String {
        format!("{}-{number}", self.name_of(digest))
    }
}

fn failed(verb: &'static str) -> impl Fn(kube::Error) -> Error {
    move |error| Error::Api {
        verb,
        error: Box::new(error),
    }
}
