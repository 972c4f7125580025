//! The release that the running server reports, as a hint about the dialect.
//!
//! In: the status of a resource and the image that it uses now. Out: the release, if it may decide
//! between several candidates. The operator and the webhook call it, so that both select the same dialect.

use llsd_api::DistributionStatus;

use crate::adapter::Adapter;
use crate::schema_selection::schema_of_release;

/// The release that the running server reports, if it helps to select the dialect: the server runs the
/// image that the resource uses now, and what runs was not generated in another dialect. Otherwise a
/// question would be answered by changing what runs. `digest` is the digest of the image, if it was read.
pub fn running_release(
    status: &DistributionStatus,
    image: &str,
    digest: Option<&str>,
    adapters: &[&dyn Adapter],
) -> Option<String> {
    let resolved = status.resolved_distribution.as_ref()?;
    let is_same_digest = match (resolved.digest.as_deref(), digest) {
        (Some(running), Some(read)) => running == read,
        _ => true,
    };
    if resolved.image.as_deref() != Some(image) || !is_same_digest {
        return None;
    }
    let release = status
        .version
        .as_ref()?
        .llama_stack_server_version
        .clone()?;
    let generation = status.config_generation.as_ref();
    match generation.and_then(|generation| generation.schema.as_ref()) {
        Some(running) => {
            let schema = schema_of_release(adapters, &release);
            (schema.as_ref() == Some(running)).then_some(release)
        }
        None => Some(release),
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::v1alpha2::{ConfigGeneration, ResolvedDistribution, Versions};

    use super::*;

    fn status(image: &str, release: Option<&str>, schema: Option<&str>) -> DistributionStatus {
        DistributionStatus {
            resolved_distribution: Some(ResolvedDistribution {
                image: Some(image.to_owned()),
                digest: Some("sha256:a".to_owned()),
                ..ResolvedDistribution::default()
            }),
            version: Some(Versions {
                llama_stack_server_version: release.map(str::to_owned),
                ..Versions::default()
            }),
            config_generation: schema.map(|schema| ConfigGeneration {
                schema: Some(schema.to_owned()),
                ..ConfigGeneration::default()
            }),
            ..DistributionStatus::default()
        }
    }

    /// Issue H, wanted 2.
    #[test]
    fn the_running_release_counts_only_for_its_own_image_and_its_own_dialect() {
        let release = |status: &DistributionStatus, digest| {
            running_release(status, "acme/stack:1", digest, &[])
        };
        let same = status("acme/stack:1", Some("0.3.5"), None);
        for digest in [None, Some("sha256:a")] {
            assert_eq!(release(&same, digest).as_deref(), Some("0.3.5"));
        }
        assert_eq!(release(&same, Some("sha256:b")), None);
        for (case, status) in [
            ("nothing runs yet", DistributionStatus::default()),
            ("another image", status("acme/stack:2", Some("0.3.5"), None)),
            ("not known", status("acme/stack:1", None, None)),
            (
                "generated in another dialect",
                status("acme/stack:1", Some("0.3.5"), Some("llama-stack/0.5")),
            ),
        ] {
            assert_eq!(release(&status, None), None, "{case}");
        }
    }
}
