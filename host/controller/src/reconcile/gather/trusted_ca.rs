//! Reads the certificates that a server trusts.

use std::collections::BTreeMap;

use llsd_api::FieldPath;
use llsd_api::checked::Checked;
use llsd_api::v1alpha2::CaBundle;
use llsd_render::objects::Owner;
use llsd_render::trust::{TrustBundle, TrustSource};

use super::contents::{Contents, Texts};
use super::{Error, refuse};

/// The key of a bundle that names none.
const DEFAULT_KEY: &str = "ca-bundle.crt";
/// What the platform offers to every resource of a namespace that has it.
pub(crate) const PLATFORM_BUNDLE: &str = "odh-trusted-ca-bundle";

/// The certificates that a resource names, and those of the platform.
pub(super) async fn trust(
    contents: &Contents,
    checked: &Checked,
    owner: &Owner,
) -> Result<Option<TrustBundle>, Error> {
    let path = FieldPath::spec().at(&["networking", "tls", "caBundle"]);
    let platform = contents
        .watched_config_map(&owner.namespace, PLATFORM_BUNDLE)
        .await
        .map_err(|error| failure(PLATFORM_BUNDLE, error))?
        .unwrap_or_default();
    let mut named = Vec::new();
    if let Some(bundle) = &checked.networking.ca_bundle {
        let data = read_named(contents, bundle, owner, &path).await?;
        named = chosen(bundle, &data, &path)?;
    }
    let name = checked.networking.ca_bundle.as_ref();
    let config_map = name.map_or("", |bundle| &bundle.config_map_name);
    let source = |config_map, (key, text)| TrustSource {
        config_map,
        key,
        text,
    };
    let named: Vec<_> = named
        .iter()
        .map(|(key, text)| source(config_map, (key.as_str(), text.as_str())))
        .collect();
    let platform: Vec<_> = platform
        .iter()
        .map(|(key, text)| source(PLATFORM_BUNDLE, (key.as_str(), text.as_str())))
        .collect();
    TrustBundle::new(&named, &platform).map_err(|error| {
        let fix = "put certificates in PEM under the keys that the resource names".to_owned();
        refuse(path, error.to_string(), fix)
    })
}

/// Where the bundle that a resource names is.
pub(crate) fn namespace<'a>(bundle: &'a CaBundle, owner: &'a Owner) -> &'a str {
    let elsewhere = bundle.config_map_namespace.as_deref();
    elsewhere
        .filter(|name| !name.is_empty())
        .unwrap_or(&owner.namespace)
}

/// The keys that a resource names, in its order.
fn chosen(
    bundle: &CaBundle,
    data: &BTreeMap<String, String>,
    path: &FieldPath,
) -> Result<Vec<(String, String)>, Error> {
    let default = [DEFAULT_KEY.to_owned()];
    let keys = bundle.config_map_keys.as_deref().unwrap_or(&default);
    let keys = if keys.is_empty() { &default } else { keys };
    let take = |key: &String| match data.get(key) {
        Some(text) => Ok((key.clone(), text.clone())),
        None => Err(Error::ConfigMapNotFound {
            field: path.field("configMapKeys"),
            problem: format!(
                "the ConfigMap {:?} has no key {key:?}",
                bundle.config_map_name
            ),
            fix: "add the key, or name those that it has".to_owned(),
        }),
    };
    keys.iter().map(take).collect()
}

async fn read_named(
    contents: &Contents,
    bundle: &CaBundle,
    owner: &Owner,
    path: &FieldPath,
) -> Result<Texts, Error> {
    let namespace = namespace(bundle, owner);
    let name = &bundle.config_map_name;
    let found = contents.config_map(namespace, name).await;
    let found = found.map_err(|error| failure(name, error))?;
    found.ok_or_else(|| Error::ConfigMapNotFound {
        field: path.field("configMapName"),
        problem: format!("namespace {namespace:?} has no ConfigMap {name:?}"),
        fix: "create it, or correct the name".to_owned(),
    })
}

fn failure(name: &str, error: kube::Error) -> Error {
    Error::Api {
        name: name.to_owned(),
        error: Box::new(error),
    }
}
