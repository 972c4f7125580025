//! Checks `spec.externalProviders`: providers that are installed from container images.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::providers::{CheckedProvider, ProviderId};
use super::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::rules;
use crate::v1alpha2::{ExternalProviders, PullPolicy};

/// The id is part of the name of the init container, `install-provider-<id>`, which is limited to 63
/// characters.
const MAX_ID_LENGTH: usize = 63 - "install-provider-".len();

/// A provider that is installed from a container image.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedExternal {
    /// The field of `spec.externalProviders`: `vectorIo`.
    pub api_field: &'static str,
    /// The server's spelling of that API: `vector_io`.
    pub api: &'static str,
    /// Field path of the entry: `spec.externalProviders.inference[0]`.
    pub path: FieldPath,
    /// Id of the provider. It replaces a provider with the same id from another source.
    pub id: ProviderId,
    /// The container image.
    pub image: String,
    /// When to pull the image.
    pub image_pull_policy: PullPolicy,
    /// Configuration of the provider, as written.
    pub config: Map<String, Value>,
}

/// Checks all entries, in the order of the resource.
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
            if id.len() > MAX_ID_LENGTH {
                diagnostics.violation(&rules::SHORT_EXTERNAL_ID, &id_path);
            } else {
                // The id is part of the name of a container, which allows fewer characters than the server.
                let fix = "use lower-case letters, digits and \"-\"";
                untyped::check_string(id, &id_path, names::label(id), fix, diagnostics);
            }
            let image = &provider.image;
            untyped::check_string(
                image,
                &path.field("image"),
                names::image(image),
                "use an image such as registry.example.com/provider:v1",
                diagnostics,
            );
            if let Some(first) = seen.get(id) {
                diagnostics.error(
                    &id_path,
                    format!("{id:?} is already the id of {first}"),
                    "use a unique id for each provider",
                );
            }
            if let Some(same) = inline.iter().find(|inline| inline.id.as_str() == id) {
                diagnostics.warning(
                    &id_path,
                    format!("{id:?} is also the id of {}, which is ignored", same.path),
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
