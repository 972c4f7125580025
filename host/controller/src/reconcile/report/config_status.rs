//! The parts of the status that describe the configuration and where it comes from.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_adapter_sdk::documents::ModelId;
use llsd_api::v1alpha2::{
    ConfigGeneration, ConfigSourceKind, PluginIdentity, ResolvedDistribution, ServedModel,
};
use llsd_render::objects::{ConfigPlan, Owner, config_map_name};
use llsd_render::{Generated, SchemaSource, digest};

use super::Applied;
use crate::reconcile::gather::{ImageFacts, Source};

/// The largest number of models that the CRD allows in the status.
const MAX_MODELS: usize = 1024;

/// The generated configuration; `None` if the resource uses a complete one. An unchanged
/// configuration keeps its time.
pub(super) fn config_generation(
    applied: &Applied,
    owner: &Owner,
    old: Option<&ConfigGeneration>,
    now: Timestamp,
) -> Option<ConfigGeneration> {
    let ConfigPlan::Generated(generated) = &applied.plan else {
        return None;
    };
    let Generated {
        yaml,
        counts,
        models,
        schema,
        receipt,
        ..
    } = &**generated;
    let name = config_map_name(&owner.name, yaml);
    let unchanged = old.filter(|old| old.config_map_name.as_ref() == Some(&name));
    Some(ConfigGeneration {
        config_map_name: Some(name),
        generated_at: unchanged
            .and_then(|old| old.generated_at.clone())
            .or(Some(Time(now))),
        provider_count: i32::try_from(counts.providers).ok(),
        resource_count: i32::try_from(resource_count(generated)).ok(),
        models: models.iter().take(MAX_MODELS).map(served_model).collect(),
        schema: Some(schema.id.clone()),
        schema_reason: Some(schema_reason(
            schema.source,
            applied.checked.schema.is_some(),
            applied.gathered.facts.as_ref(),
        )),
        plugin: Some(PluginIdentity {
            name: receipt.plugin.clone(),
            version: Some(receipt.version.clone()),
            digest: receipt.component.clone(),
        }),
        receipt: Some(digest::of(
            [&*receipt.input, &receipt.component, &receipt.output].join("\n"),
        )),
        input_digest: Some(receipt.input.clone()),
        output_digest: Some(receipt.output.clone()),
        fuel: i64::try_from(receipt.fuel).ok(),
        engine: Some(receipt.engine.clone()).filter(|engine| !engine.is_empty()),
    })
}

/// Why the dialect was selected. `is_in_spec`: the resource states it.
fn schema_reason(source: SchemaSource, is_in_spec: bool, labels: Option<&ImageFacts>) -> String {
    match source {
        SchemaSource::Stated if is_in_spec => "stated in spec.distribution.schema".to_owned(),
        SchemaSource::Stated if labels.is_some_and(|labels| labels.schema.is_some()) => {
            "stated by the image's label io.llamastack.config.schema".to_owned()
        }
        SchemaSource::Stated => "stated in the list of distributions".to_owned(),
        SchemaSource::ServerVersion => {
            let origin = labels.and_then(|labels| {
                let version = labels.server_version.as_deref()?;
                Some((version, labels.server_version_source.as_deref()?))
            });
            match origin {
                Some((version, origin)) => {
                    format!("derived from the server's release {version} ({origin})")
                }
                None => "derived from the release of the server".to_owned(),
            }
        }
        SchemaSource::Detected => "detected by a plugin in the base configuration".to_owned(),
        SchemaSource::RunningServer => {
            "chosen among several candidates by the release that the running server reports"
                .to_owned()
        }
    }
}

/// The number of registered resources in a generated configuration.
pub(super) fn resource_count(generated: &Generated) -> u32 {
    generated.counts.models + generated.counts.tools + generated.counts.shields
}

/// The image, and the source of the configuration.
pub(super) fn resolved_distribution(applied: &Applied) -> ResolvedDistribution {
    let (kind, digest) = match &applied.gathered.source {
        Source::Base { kind, digest, .. } => (*kind, Some(digest.clone())),
        Source::Override { digest, .. } => (ConfigSourceKind::Override, Some(digest.clone())),
        Source::DistributionDefault => (ConfigSourceKind::DistributionDefault, None),
    };
    ResolvedDistribution {
        image: Some(applied.gathered.image.clone()),
        digest: applied.gathered.digest().map(str::to_owned),
        config_source: Some(kind),
        config_hash: digest,
    }
}

fn served_model(ModelId { name, id }: &ModelId) -> ServedModel {
    ServedModel {
        name: name.clone(),
        id: id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue H, wanted 2.
    #[test]
    fn the_reason_names_where_the_dialect_comes_from() {
        let labels = |schema: Option<&str>, source: Option<&str>| ImageFacts {
            digest: String::new(),
            schema: schema.map(str::to_owned),
            server_version: source.map(|_| "0.3.5".to_owned()),
            server_version_source: source.map(str::to_owned),
            plugin: None,
            user: None,
            variables: Default::default(),
        };
        let stated = labels(Some("llama-stack/0.3"), None);
        let recorded = labels(
            None,
            Some("package folder /lib/llama_stack-0.3.5.dist-info"),
        );
        for (source, is_in_spec, labels, expected) in [
            (
                SchemaSource::Stated,
                true,
                Some(&stated),
                "spec.distribution.schema",
            ),
            (
                SchemaSource::Stated,
                false,
                Some(&stated),
                "io.llamastack.config.schema",
            ),
            (SchemaSource::Stated, false, None, "list of distributions"),
            (
                SchemaSource::ServerVersion,
                false,
                Some(&recorded),
                "0.3.5 (package folder /lib/llama_stack-0.3.5.dist-info)",
            ),
            (SchemaSource::Detected, false, Some(&stated), "detected"),
            (SchemaSource::RunningServer, false, None, "running server"),
        ] {
            let reason = schema_reason(source, is_in_spec, labels);
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
