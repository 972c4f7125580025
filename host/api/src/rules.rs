//! Everything that is demanded of a `LlamaStackDistribution`, in one table.
//!
//! Each rule names the first layer that can refuse what breaks it. The CustomResourceDefinition's
//! rules and the admission policy are generated from here; [`crate::check`] enforces all of them,
//! because a resource may be older than a rule. Each comes with bad examples, which the tests send
//! through every layer.

mod crd;
mod meaning;
mod policy;
mod schema;

pub(crate) use crd::*;
pub(crate) use meaning::SHORT_EXTERNAL_ID;
pub(crate) use policy::{MATCH_CONDITION, POLICY_VARIABLES, SQL_NEEDS_TYPE};

/// Who refuses, in the order of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Types, bounds and choices of the CustomResourceDefinition.
    Schema,
    /// Rules of the CustomResourceDefinition, over the parts that have a type.
    Crd,
    /// The ValidatingAdmissionPolicy, which sees inside the parts that have none.
    Policy,
    /// The validating webhook and the command line, which run [`crate::check`].
    Webhook,
}

/// One thing that is demanded.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Short and stable: `one-source`.
    pub id: &'static str,
    /// The first layer that refuses what breaks it.
    pub layer: Layer,
    /// What is wrong with a resource that breaks it.
    pub problem: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// How that layer asks, where it asks in CEL.
    pub expression: Option<Expression>,
    /// Resources that break it.
    pub examples: &'static [Example],
}

/// A rule in CEL. It is true of good resources.
#[derive(Debug, Clone, Copy)]
pub enum Expression {
    /// A rule of the CustomResourceDefinition.
    Crd {
        /// The nodes that carry it, as field names from the root: `spec.storage.kv`.
        at: &'static [&'static str],
        /// What must hold of `self`.
        rule: &'static str,
        /// The field below the node that is to blame: `.endpoint`.
        field_path: Option<&'static str>,
    },
    /// A validation of the admission policy that must hold.
    Policy {
        /// What must hold of `object`.
        rule: &'static str,
        /// The field to blame.
        field: &'static str,
        /// What names the culprits, for the message.
        culprits: Option<&'static str>,
    },
    /// A validation of the admission policy that must hold for each API `k` of `spec.providers`;
    /// the message names the APIs where it does not.
    PolicyPerApi {
        /// What must hold of `k`.
        rule: &'static str,
        /// What follows the API in the field to blame: `.endpoint`.
        suffix: &'static str,
    },
}

/// A resource that breaks a rule.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// The name of the resource.
    pub name: &'static str,
    /// The spec in YAML.
    pub spec: &'static str,
    /// The field that the rejection names.
    pub field: &'static str,
}

/// Every rule, by layer.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        schema::RULES,
        crd::RULES,
        policy::PROVIDER_RULES,
        policy::PART_RULES,
        meaning::RULES,
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
