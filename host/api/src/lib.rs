//! The resources of the group `llamastack.io`, and everything that can be said about one without a
//! cluster or a plugin: types, schemas, rules, conversion.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | distribution | a server with its own default configuration: an image, or a name for one |
//! | resource | a `LlamaStackDistribution` as its author wrote it |
//! | base | the distribution's own server configuration, which a resource is put over |
//! | schema, dialect | how a range of server releases writes its configuration: `llama-stack/0.7` |
//! | plugin | a WebAssembly component that knows one or more schemas, or some providers |
//! | provider | a backend of one of the server's APIs; it has an id and a type |
//! | API | a part of the server: `inference`, `vectorIo` (which the server spells `vector_io`) |
//! | model, tool, shield | what the server registers at its providers when it starts |
//! | reference | the place of a secret value: a Secret and a key. The value is never ours |
//! | variable | an environment variable of the pod; `LLSD_…` carries a reference's value |
//! | field path | where something stands in a resource: `spec.providers.inference[1].id` |
//! | diagnostic | an error or a warning about a field: field path, problem, fix |
//! | checked | a resource that was read, normalised and found good |
//! | rule | one thing that is demanded of a resource, and the layers that demand it |
//! | layer | who can refuse: schema, CRD rule, admission policy, webhook |
//! | carried field | what one version of the API cannot say; it travels in an annotation |

mod admission_policy;
pub mod checked;
pub mod conditions;
pub mod conversion;
mod crd;
mod diagnostic;
mod document;
mod field_path;
pub mod labels;
pub mod rules;
mod schema;
pub mod schema_plugin;
mod structure;
pub mod v1alpha1;
pub mod v1alpha2;
mod webhook;

pub use admission_policy::{
    POLICY_NAME, admission_policy, admission_policy_binding, policy_manifests,
};
pub use checked::{CheckReport, Checked, check, review};
pub use crd::{
    DISTRIBUTION_CRD_NAME, Manifest, crd_manifests, distribution_crd, schema_plugin_crd,
};
pub use diagnostic::{Diagnostic, Diagnostics, Severity, choices, nearest};
pub use document::{API_VERSION_V1ALPHA1, API_VERSION_V1ALPHA2, GROUP, KIND};
pub use field_path::FieldPath;
pub use schema_plugin::SchemaPlugin;
pub use v1alpha2::{Distribution, DistributionSpec, DistributionStatus};
pub use webhook::{
    CONVERSION_PATH, VALIDATION_PATH, WEBHOOK_NAME, Webhook, WebhookEndpoint, validating_webhook,
};
