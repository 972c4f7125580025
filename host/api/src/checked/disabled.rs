//! What the resource leaves out of its distribution.

use super::names;
use super::providers::CheckedProvider;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::v1alpha2::ProviderApi;

/// Something to leave out.
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
        let good = name.split('/').count() <= 2
            && name
                .split('/')
                .all(|part| names::provider_id(part).is_none());
        if !good {
            diagnostics.error(
                &path,
                format!("{name:?} is neither an API nor a provider"),
                "write an API (eval) or one provider of it (inference/ollama)",
            );
        } else if let Some(first) = checked
            .iter()
            .find(|earlier| target(&earlier.name) == target(name))
        {
            diagnostics.error(
                &path,
                format!("repeats {}", first.path),
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

/// The API in the server's spelling, and the provider if one is named.
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

/// Disabled wins over providers, and says so.
pub(super) fn leave_out(
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
            let problem = format!("is not used: {} disables {:?}", by.path, by.name);
            diagnostics.warning(&provider.path, problem, "remove one of the two");
        }
        by.is_none()
    });
}
