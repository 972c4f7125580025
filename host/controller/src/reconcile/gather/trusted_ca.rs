//! Reads the CA certificates that a server trusts.

use std::collections::BTreeMap;

use llsd_api::FieldPath;
use llsd_api::checked::Checked;
use llsd_api::v1alpha2::CaBundle as CaBundleRef;
use llsd_render::ca_bundle::{CaBundle, CaSource, TrustedCa};
use llsd_render::digest;
use llsd_render::objects::Owner;

use super::{Error, reject};
use crate::cache::{ConfigMapData, ContentCache, PLATFORM_BUNDLE, bundle_namespace};

/// The key of a bundle whose reference names no keys.
const DEFAULT_KEY: &str = "ca-bundle.crt";

/// The certificates that a server would trust now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CurrentCa {
    /// All of them.
    pub(crate) trusted: Option<TrustedCa>,
    /// Digest of those that the resource names.
    pub(crate) named: Option<String>,
    /// Digest of those of the platform.
    pub(crate) platform: Option<String>,
}

/// The certificates that a resource refers to, and those of the platform.
pub(crate) async fn trusted_ca(
    contents: &ContentCache,
    checked: &Checked,
    owner: &Owner,
) -> Result<CurrentCa, Error> {
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
    let bundle = |named: &[CaSource<'_>], platform: &[CaSource<'_>]| {
        CaBundle::new(named, platform).map_err(|error| {
            let fix = "put certificates in PEM format under the referenced keys".to_owned();
            reject(path.clone(), error.to_string(), fix)
        })
    };
    let trusted = bundle(&referenced, &platform)?.map(TrustedCa::from);
    let all = trusted.as_ref().map(|trusted| trusted.digest.clone());
    let digest = |bundle: Option<CaBundle>| bundle.map(|bundle| digest::of(bundle.as_str()));
    // Parsing certificates takes time, so that it is done again only if there are two sources.
    let (named, platform) = match (referenced.is_empty(), platform.is_empty()) {
        (true, _) => (None, all),
        (false, true) => (all, None),
        (false, false) => (
            digest(bundle(&referenced, &[])?),
            digest(bundle(&[], &platform)?),
        ),
    };
    Ok(CurrentCa {
        trusted,
        named,
        platform,
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
