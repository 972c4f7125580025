//! Which server to run, and where its configuration comes from.

use super::names;
use super::networking::check_namespace;
use super::object;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules;
use crate::v1alpha2::{DistributionSource, DistributionSpec, OverrideConfig};

/// Which server to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSource {
    /// A distribution that the operator knows by name.
    Named(String),
    /// An image.
    Image(String),
}

/// Where the server's configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// The user's complete file: nothing is generated.
    Override {
        /// ConfigMap whose key `config.yaml` is the file.
        config_map: String,
        /// Its namespace, where it is not the resource's.
        namespace: Option<String>,
    },
    /// The resource put over a base.
    Generated {
        /// ConfigMap that holds the base; absent: the image's labels or what is built in.
        base: Option<BaseConfigMap>,
    },
    /// The resource asks for nothing: the distribution's own file runs unchanged.
    DistributionDefault,
}

/// A ConfigMap of the resource's namespace that holds a base configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseConfigMap {
    /// Its name.
    pub name: String,
    /// The key that holds the configuration.
    pub key: String,
}

/// The key of a base configuration that names none.
pub const DEFAULT_CONFIG_KEY: &str = "config.yaml";

pub(super) fn check(
    source: &DistributionSource,
    diagnostics: &mut Collector,
) -> Option<ServerSource> {
    let DistributionSource {
        name,
        image,
        schema,
        base_config,
    } = source;
    let path = FieldPath::spec().field("distribution");
    if let Some(schema) = schema {
        object::typed_text(
            schema,
            &path.field("schema"),
            names::schema_id(schema),
            "give a schema such as llama-stack/0.7",
            diagnostics,
        );
    }
    if let Some(base) = base_config {
        let path = path.field("baseConfig");
        let (name, key) = (&base.config_map_name, base.key.as_deref());
        object::typed_text(
            name,
            &path.field("configMapName"),
            names::subdomain(name),
            "give the name of a ConfigMap",
            diagnostics,
        );
        if let Some(key) = key {
            object::typed_text(
                key,
                &path.field("key"),
                names::data_key(key),
                "give a key of the ConfigMap",
                diagnostics,
            );
        }
    }
    match (name, image) {
        (Some(name), None) => {
            let fix = "give the name of a distribution, for example starter";
            object::typed_text(
                name,
                &path.field("name"),
                names::provider_id(name).map(|_| "is no name of a distribution"),
                fix,
                diagnostics,
            );
            Some(ServerSource::Named(name.clone()))
        }
        (None, Some(image)) => {
            let fix = "give an image such as docker.io/llamastack/distribution-starter:0.7.3";
            object::typed_text(
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

pub(super) fn refuse_beside_override(spec: &DistributionSpec, diagnostics: &mut Collector) {
    let Some(config) = &spec.override_config else {
        return;
    };
    check_override(config, diagnostics);
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
    ];
    for (rule, field, _) in excluded.iter().filter(|(_, _, given)| *given) {
        diagnostics.violation(rule, field);
    }
}

pub(super) fn config_source(spec: &DistributionSpec, asks_for_something: bool) -> ConfigSource {
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
    if asks_for_something || base.is_some() {
        ConfigSource::Generated { base }
    } else {
        ConfigSource::DistributionDefault
    }
}

/// Checks the names of an override configuration.
fn check_override(config: &OverrideConfig, diagnostics: &mut Collector) {
    let path = FieldPath::spec().field("overrideConfig");
    let name = &config.config_map_name;
    object::typed_text(
        name,
        &path.field("configMapName"),
        names::subdomain(name),
        "give the name of a ConfigMap",
        diagnostics,
    );
    check_namespace(
        config.config_map_namespace.as_deref(),
        &path.field("configMapNamespace"),
        diagnostics,
    );
}
