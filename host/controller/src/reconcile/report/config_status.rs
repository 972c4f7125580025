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
use crate::reconcile::gather::Source;

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
        schema_source,
        receipt,
        ..
    } = &**generated;
    let name = config_map_name(&owner.name, yaml);
    let unchanged = old.filter(|old| old.config_map_name.as_ref() == Some(&name));
    let reason = match schema_source {
        SchemaSource::Stated => "stated by the resource or its distribution",
        SchemaSource::ServerVersion => "derived from the release of the server",
        SchemaSource::Detected => "detected by a plugin in the base configuration",
    };
    Some(ConfigGeneration {
        config_map_name: Some(name),
        generated_at: unchanged
            .and_then(|old| old.generated_at.clone())
            .or(Some(Time(now))),
        provider_count: i32::try_from(counts.providers).ok(),
        resource_count: i32::try_from(resource_count(generated)).ok(),
        models: models.iter().take(MAX_MODELS).map(served_model).collect(),
        schema: Some(schema.clone()),
        schema_reason: Some(reason.to_owned()),
        plugin: Some(PluginIdentity {
            name: receipt.plugin.clone(),
            version: Some(receipt.version.clone()),
            digest: receipt.component.clone(),
        }),
        receipt: Some(digest::of(
            [&*receipt.input, &receipt.component, &receipt.output].join("\n"),
        )),
    })
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
    let labels = applied.gathered.labels.as_ref();
    ResolvedDistribution {
        image: Some(applied.gathered.image.clone()),
        digest: labels.map(|labels| labels.image_digest.to_string()),
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
