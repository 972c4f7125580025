//! Checks `spec.disabled`: APIs and providers to remove from the distribution.

use super::providers::CheckedProvider;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::v1alpha2::ProviderApi;

/// An API or a provider to disable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedDisabled {
    /// `spec.disabled[0]`.
    pub path: FieldPath,
    /// As written: `postTraining`, `post_training` or `inference/ollama`.
    pub name: String,
}

pub(super) fn check(disabled: &[String], diagnostics: &mut Collector) -> Vec<CheckedDisabled> {
    let mut checked: Vec<CheckedDisabled> = Vec::new();
    for (position, name) in disabled.iter().enumerate() {
        let path = FieldPath::spec().field("disabled").index(position);
        let is_valid = name.split('/').count() <= 2
            && name.split('/').all(|part| names::provider_id(part).is_ok());
        if !is_valid {
            diagnostics.error(
                &path,
                format!("{name:?} is not an API or a provider"),
                "use an API such as eval, or a provider such as inference/ollama",
            );
        } else if let Some(first) = checked
            .iter()
            .find(|earlier| target(&earlier.name) == target(name))
        {
            diagnostics.error(
                &path,
                format!("duplicates {}", first.path),
                "remove one of the two",
            );
        }
        checked.push(CheckedDisabled {
            path,
            name: name.clone(),
        });
    }
    checked
}

/// The API in the spelling of the server, and the provider, if set.
fn target(disabled: &str) -> (&str, Option<&str>) {
    let (api, provider) = match disabled.split_once('/') {
        Some((api, provider)) => (api, Some(provider)),
        None => (disabled, None),
    };
    (
        ProviderApi::named(api).map_or(api, |known| known.api),
        provider,
    )
}

/// Removes disabled providers, with a warning for each: `disabled` has precedence over `providers`.
pub(super) fn remove_disabled(
    providers: &mut Vec<CheckedProvider>,
    disabled: &[CheckedDisabled],
    diagnostics: &mut Collector,
) {
    providers.retain(|provider| {
        let by = disabled.iter().find(|disabled| {
            let (api, id) = target(&disabled.name);
            api == provider.api && id.is_none_or(|id| id == provider.id.as_str())
        });
        if let Some(by) = by {
            let problem = format!("is ignored: {} disables {:?}", by.path, by.name);
            diagnostics.warning(&provider.path, problem, "remove one of the two");
        }
        by.is_none()
    });
}
