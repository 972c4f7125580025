//! The API group `llamastack.io`: types, schemas, validation rules and conversion.
//!
//! Everything in this crate works without a cluster and without plugins. The terms of this project are
//! defined in `docs/glossary.md`.

mod admission_policy;
pub mod checked;
pub mod conditions;
pub mod conversion;
mod crd;
mod diagnostic;
mod document;
mod escape;
mod field_path;
mod gvk;
mod json_type;
pub mod labels;
pub mod limits;
mod manifest;
mod names;
pub mod rules;
mod schema;
pub mod schema_plugin;
mod schema_validation;
pub mod server_variables;
mod unmanaged;
pub mod v1alpha1;
pub mod v1alpha2;
mod webhook;

pub use admission_policy::{
    POLICY_NAME, admission_policy, admission_policy_binding, policy_manifests,
};
pub use checked::{CheckReport, Checked, check, check_document, check_document_of_any_version};
pub use crd::{DISTRIBUTION_CRD_NAME, crd_manifests, distribution_crd, schema_plugin_crd};
pub use diagnostic::{Diagnostic, Diagnostics, Severity, choices, nearest};
pub use escape::{escape_line, escape_lines};
pub use field_path::FieldPath;
pub use gvk::{API_VERSION_V1ALPHA1, API_VERSION_V1ALPHA2, GROUP, KIND};
pub use manifest::Manifest;
pub use schema_plugin::SchemaPlugin;
pub use v1alpha2::{Distribution, DistributionSpec, DistributionStatus};
pub use webhook::{
    CONVERSION_PATH, VALIDATION_PATH, WEBHOOK_NAME, Webhook, WebhookEndpoint, validating_webhook,
};
