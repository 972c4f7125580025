//! Providers that arrive in images of their own.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::names;
use super::object;
use super::providers::{CheckedProvider, ProviderId};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules;
use crate::v1alpha2::{ExternalProviders, PullPolicy};

/// The init container of a provider is called `install-provider-<id>`, in 63 characters at most.
const LONGEST_ID: usize = 63 - "install-provider-".len();

/// A provider in an image of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedExternal {
    /// The field of `spec.externalProviders` it stands under: `vectorIo`.
    pub api_field: &'static str,
    /// The server's spelling of that API: `vector_io`.
    pub api: &'static str,
    /// `spec.externalProviders.inference[0]`.
    pub path: FieldPath,
    /// Its id; it wins over a provider of the same id from elsewhere.
    pub id: ProviderId,
    /// Its image.
    pub image: String,
    /// When to pull the image.
    pub image_pull_policy: PullPolicy,
    /// Its configuration, as written.
    pub config: Map<String, Value>,
}

/// Reads every entry, in the order of the resource.
pub(super) fn check(
    external: &ExternalProviders,
    inline: &[CheckedProvider],
    diagnostics: &mut Collector,
) -> Vec<CheckedExternal> {
    let mut checked: Vec<CheckedExternal> = Vec::new();
    let mut seen: BTreeMap<String, FieldPath> = BTreeMap::new();
    for (api, list) in external.entries() {
        for (position, provider) in list.iter().enumerate() {
            let path = FieldPath::spec()
                .at(&["externalProviders", api.field])
                .index(position);
            let id = &provider.provider_id;
            let id_path = path.field("providerId");
            if id.len() > LONGEST_ID {
                diagnostics.violation(&rules::SHORT_EXTERNAL_ID, &id_path);
            } else {
                // The id names an init container, which takes fewer characters than the server does.
                let fix = "use lower-case letters, digits and \"-\"";
                object::typed_text(id, &id_path, names::label(id), fix, diagnostics);
            }
            let image = &provider.image;
            object::typed_text(
                image,
                &path.field("image"),
                names::image(image),
                "give an image such as registry.example.com/provider:v1",
                diagnostics,
            );
            if let Some(first) = seen.get(id) {
                diagnostics.error(
                    &id_path,
                    format!("{id:?} is already the id of {first}"),
                    "give each provider its own id",
                );
            }
            if let Some(same) = inline.iter().find(|inline| inline.id.as_str() == id) {
                diagnostics.warning(
                    &id_path,
                    format!("{id:?} is also the id of {}, which is not used", same.path),
                    "change one of the ids, or remove the other provider",
                );
            }
            seen.entry(id.clone()).or_insert_with(|| path.clone());
            checked.push(CheckedExternal {
                api_field: api.field,
                api: api.api,
                path,
                id: ProviderId::from_checked(id.clone()),
                image: image.clone(),
                image_pull_policy: provider.image_pull_policy.unwrap_or_default(),
                config: provider.config.clone().unwrap_or_default(),
            });
        }
    }
    checked
}
