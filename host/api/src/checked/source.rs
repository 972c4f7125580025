//! Checks `spec.distribution` and `spec.overrideConfig`: the server and the source of its
//! configuration.

use super::networking::check_namespace;
use super::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::rules;
use crate::v1alpha2::{DistributionSource, DistributionSpec, OverrideConfig};

/// The server to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSource {
    /// A distribution that the operator supports by name.
    Named(String),
    /// A container image.
    Image(String),
}

/// The source of the server configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// A complete configuration of the user. Nothing is generated.
    Override {
        /// ConfigMap that holds the configuration in its key `config.yaml`.
        config_map: String,
        /// Namespace of the ConfigMap, if it differs from that of the resource.
        namespace: Option<String>,
    },
    /// Generated: the resource merged into a base configuration.
    Generated {
        /// ConfigMap that holds the base configuration. `None`: the labels of the image, or the
        /// configuration built into the operator.
        base: Option<BaseConfigMap>,
    },
    /// The distribution's own configuration, unchanged: the resource sets nothing that is part of it.
    DistributionDefault,
}

/// A ConfigMap in the namespace of the resource that holds a base configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseConfigMap {
    /// Its name.
    pub name: String,
    /// The key that holds the configuration.
    pub key: String,
}

/// The default key of a base configuration.
pub const DEFAULT_CONFIG_KEY: &str = "config.yaml";

pub(super) fn check(
    source: &DistributionSource,
    diagnostics: &mut Collector,
) -> Option<ServerSource> {
    let DistributionSource {
        name,
        image,
        schema,
        updates: _,
        base_config,
    } = source;
    let path = FieldPath::spec().field("distribution");
    if let Some(schema) = schema {
        untyped::check_string(
            schema,
            &path.field("schema"),
            names::schema_id(schema),
            "use a schema such as llama-stack/0.7",
            diagnostics,
        );
    }
    if let Some(base) = base_config {
        let path = path.field("baseConfig");
        let (name, key) = (&base.config_map_name, base.key.as_deref());
        untyped::check_string(
            name,
            &path.field("configMapName"),
            names::subdomain(name),
            "use the name of a ConfigMap",
            diagnostics,
        );
        if let Some(key) = key {
            untyped::check_string(
                key,
                &path.field("key"),
                names::data_key(key),
                "use a key of the ConfigMap",
                diagnostics,
            );
        }
    }
    match (name, image) {
        (Some(name), None) => {
            let fix = "use the name of a distribution, for example starter";
            untyped::check_string(
                name,
                &path.field("name"),
                names::distribution(name),
                fix,
                diagnostics,
            );
            Some(ServerSource::Named(name.clone()))
        }
        (None, Some(image)) => {
            let fix = "use an image such as docker.io/llamastack/distribution-starter:0.7.3";
            untyped::check_string(
                image,
                &path.field("image"),
                names::image(image),
                fix,
                diagnostics,
            );
            Some(ServerSource::Image(image.clone()))
        }
        (Some(_), Some(_)) => {
            diagnostics.violation(&rules::ONE_SOURCE, &path);
            None
        }
        (None, None) => {
            diagnostics.violation(&rules::SOME_SOURCE, &path);
            None
        }
    }
}

/// Checks the override configuration and that no field is set that it excludes.
pub(super) fn check_override(spec: &DistributionSpec, diagnostics: &mut Collector) {
    let Some(config) = &spec.override_config else {
        return;
    };
    check_override_names(config, diagnostics);
    let path = FieldPath::spec();
    let excluded = [
        (
            &rules::OVERRIDE_WITHOUT_PROVIDERS,
            path.field("providers"),
            spec.providers.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_RESOURCES,
            path.field("resources"),
            spec.resources.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_STORAGE,
            path.field("storage"),
            spec.storage.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_DISABLED,
            path.field("disabled"),
            spec.disabled.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_BASE,
            path.at(&["distribution", "baseConfig"]),
            spec.distribution.base_config.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_PATCH,
            path.field("configPatch"),
            spec.config_patch.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_ACCESS,
            path.field("access"),
            spec.access.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_TELEMETRY,
            path.field("telemetry"),
            spec.telemetry.is_some(),
        ),
    ];
    for (rule, field, _) in excluded.iter().filter(|(_, _, given)| *given) {
        diagnostics.violation(rule, field);
    }
}

pub(super) fn config_source(spec: &DistributionSpec, has_settings: bool) -> ConfigSource {
    if let Some(config) = &spec.override_config {
        return ConfigSource::Override {
            config_map: config.config_map_name.clone(),
            namespace: config
                .config_map_namespace
                .clone()
                .filter(|name| !name.is_empty()),
        };
    }
    let base = spec
        .distribution
        .base_config
        .as_ref()
        .map(|base| BaseConfigMap {
            name: base.config_map_name.clone(),
            key: base
                .key
                .clone()
                .unwrap_or_else(|| DEFAULT_CONFIG_KEY.to_owned()),
        });
    if has_settings || base.is_some() {
        ConfigSource::Generated { base }
    } else {
        ConfigSource::DistributionDefault
    }
}

fn check_override_names(config: &OverrideConfig, diagnostics: &mut Collector) {
    let path = FieldPath::spec().field("overrideConfig");
    let name = &config.config_map_name;
    untyped::check_string(
        name,
        &path.field("configMapName"),
        names::subdomain(name),
        "use the name of a ConfigMap",
        diagnostics,
    );
    check_namespace(
        config.config_map_namespace.as_deref(),
        &path.field("configMapNamespace"),
        diagnostics,
    );
}
