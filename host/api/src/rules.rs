//! The validation rules of `LlamaStackDistribution`, in one table.
//!
//! Each rule names the first layer that can enforce it. The CEL rules of the CustomResourceDefinition
//! and the admission policy are generated from this table. [`crate::check`] enforces all rules, because a
//! resource may be older than a rule. Each rule has examples of invalid resources, which the tests send
//! through every layer.

mod crd;
mod policy;
mod schema;
mod semantic;

pub(crate) use crd::*;
pub(crate) use policy::{MATCH_CONDITION, POLICY_VARIABLES, SQL_NEEDS_TYPE};
pub(crate) use semantic::SHORT_EXTERNAL_ID;

/// The layers that validate a resource, in the order of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The schema of the CustomResourceDefinition: types, bounds, enums.
    Schema,
    /// CEL rules of the CustomResourceDefinition, for typed fields.
    Crd,
    /// The ValidatingAdmissionPolicy, also for untyped fields.
    Policy,
    /// The validating webhook and the command line, which run [`crate::check`].
    Webhook,
}

/// A validation rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Short, stable identifier: `one-source`.
    pub id: &'static str,
    /// The first layer that enforces the rule.
    pub layer: Layer,
    /// What is wrong with a resource that violates the rule.
    pub problem: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// The CEL expression, for the layers that use CEL.
    pub expression: Option<Expression>,
    /// Resources that violate the rule.
    pub examples: &'static [Example],
}

/// A CEL expression that is true for valid resources.
#[derive(Debug, Clone, Copy)]
pub enum Expression {
    /// A rule of the CustomResourceDefinition.
    Crd {
        /// The schema nodes of the rule: `spec.storage.kv`, or `spec.access.apiKeys[]` for each item.
        at: &'static [&'static str],
        /// The expression on `self`.
        rule: &'static str,
        /// The field below the node that the error names: `.endpoint`.
        field_path: Option<&'static str>,
    },
    /// A validation of the admission policy.
    Policy {
        /// The expression on `object`.
        rule: &'static str,
        /// The field that the error names.
        field: &'static str,
        /// An expression for the offending values, which the message lists.
        offenders: Option<&'static str>,
    },
    /// A validation of the admission policy for each API `k` of `spec.providers`. The message lists
    /// the APIs that violate it.
    PolicyPerApi {
        /// The expression on `k`.
        rule: &'static str,
        /// The field below the API that the error names: `.endpoint`.
        suffix: &'static str,
    },
}

/// A resource that violates a rule.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// The name of the resource.
    pub name: &'static str,
    /// The spec in YAML.
    pub spec: &'static str,
    /// The field that the error names.
    pub field: &'static str,
}

/// All rules, by layer.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        schema::RULES,
        crd::RULES,
        policy::PROVIDER_RULES,
        policy::RESOURCE_RULES,
        policy::NETWORKING_RULES,
        policy::STORAGE_RULES,
        semantic::RULES,
    ]
    .into_iter()
    .flatten()
}

const fn example(spec: &'static str, field: &'static str) -> Example {
    Example {
        name: "my-stack",
        spec,
        field,
    }
}

const fn named_example(name: &'static str, field: &'static str) -> Example {
    Example {
        name,
        spec: "{distribution: {name: starter}}",
        field,
    }
}

#[cfg(test)]
mod tests;
