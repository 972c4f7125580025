//! Reads the CA certificates that a server trusts.

use std::collections::BTreeMap;

use llsd_api::FieldPath;
use llsd_api::checked::Checked;
use llsd_api::v1alpha2::CaBundle as CaBundleRef;
use llsd_render::ca_bundle::{CaBundle, CaSource};
use llsd_render::objects::Owner;

use super::{Error, reject};
use crate::cache::{ConfigMapData, ContentCache, PLATFORM_BUNDLE, bundle_namespace};

/// The key of a bundle whose reference names no keys.
const DEFAULT_KEY: &str = "ca-bundle.crt";

/// The certificates that a resource refers to, and those of the platform.
pub(super) async fn trusted_ca(
    contents: &ContentCache,
    checked: &Checked,
    owner: &Owner,
) -> Result<Option<CaBundle>, Error> {
    let path = FieldPath::spec().at(&["networking", "tls", "caBundle"]);
    let platform = contents
        .watched_config_map(&owner.namespace, PLATFORM_BUNDLE)
        .await
        .map_err(|error| Error::api(PLATFORM_BUNDLE, error))?
        .unwrap_or_default();
    let mut referenced = Vec::new();
    if let Some(bundle) = &checked.networking.ca_bundle {
        let data = read(contents, bundle, owner, &path).await?;
        referenced = select_keys(bundle, &data, &path)?;
    }
    let name = checked.networking.ca_bundle.as_ref();
    let config_map = name.map_or("", |bundle| &bundle.config_map_name);
    let source = |config_map, (key, text)| CaSource {
        config_map,
        key,
        text,
    };
    let referenced: Vec<_> = referenced
        .iter()
        .map(|(key, text)| source(config_map, (key.as_str(), text.as_str())))
        .collect();
    let platform: Vec<_> = platform
        .iter()
        .map(|(key, text)| source(PLATFORM_BUNDLE, (key.as_str(), text.as_str())))
        .collect();
    CaBundle::new(&referenced, &platform).map_err(|error| {
        let fix = "put certificates in PEM format under the referenced keys".to_owned();
        reject(path, error.to_string(), fix)
    })
}

/// The keys that a reference names, in its order.
fn select_keys(
    bundle: &CaBundleRef,
    data: &BTreeMap<String, String>,
    path: &FieldPath,
) -> Result<Vec<(String, String)>, Error> {
    let default = [DEFAULT_KEY.to_owned()];
    let keys = bundle.config_map_keys.as_deref().unwrap_or(&default);
    let keys = if keys.is_empty() { &default } else { keys };
    let select = |key: &String| match data.get(key) {
        Some(text) => Ok((key.clone(), text.clone())),
        None => Err(Error::ConfigMapNotFound {
            field: path.field("configMapKeys"),
            problem: format!("ConfigMap {:?} has no key {key:?}", bundle.config_map_name),
            fix: "add the key, or name an existing one".to_owned(),
        }),
    };
    keys.iter().map(select).collect()
}

async fn read(
    contents: &ContentCache,
    bundle: &CaBundleRef,
    owner: &Owner,
    path: &FieldPath,
) -> Result<ConfigMapData, Error> {
    let namespace = bundle_namespace(bundle, owner);
    let name = &bundle.config_map_name;
    let found = contents.config_map(namespace, name).await;
    let found = found.map_err(|error| Error::api(name, error))?;
    found.ok_or_else(|| Error::ConfigMapNotFound {
        field: path.field("configMapName"),
        problem: format!("ConfigMap {name:?} not found in namespace {namespace:?}"),
        fix: "create it, or correct the name".to_owned(),
    })
}
