//! Rules of the ValidatingAdmissionPolicy, mostly for untyped fields.
//!
//! A policy evaluates the object without schema types, so it can check fields that the CEL rules of the
//! CustomResourceDefinition cannot. If an expression fails to evaluate, the request is denied with the
//! evaluation error as message. Every expression therefore tests the type first, and leaves other
//! types to the rule about the shape.

use super::{Example, Expression, Layer, Rule};

/// The list of providers of the API `k`.
macro_rules! entries {
    () => {
        "(type(variables.providers[k]) == list ? variables.providers[k] : [variables.providers[k]])"
    };
}

/// Skips resources whose spec did not change, so that finalizers and labels of a resource that is older
/// than a rule can be edited.
pub(crate) const MATCH_CONDITION: &str =
    "request.operation == 'CREATE' || object.spec != oldObject.spec";

/// Variables that several rules use.
pub(crate) const POLICY_VARIABLES: &[(&str, &str)] = &[
    (
        "providers",
        "has(object.spec.providers) ? object.spec.providers : {}",
    ),
    (
        "models",
        "has(object.spec.resources) && has(object.spec.resources.models) ? object.spec.resources.models : []",
    ),
    (
        "tools",
        "has(object.spec.resources) && has(object.spec.resources.tools) ? object.spec.resources.tools : []",
    ),
    (
        "shields",
        "has(object.spec.resources) && has(object.spec.resources.shields) ? object.spec.resources.shields : []",
    ),
    (
        "sql",
        "has(object.spec.storage) && has(object.spec.storage.sql) ? object.spec.storage.sql : {}",
    ),
    (
        "ids",
        concat!(
            "variables.providers.map(k, ",
            entries!(),
            ".filter(e, type(e) == map).map(e, has(e.id) ? (type(e.id) == string ? e.id : '') : ",
            "(has(e.provider) && type(e.provider) == string ? e.provider.split('::')[e.provider.split('::').size() - 1] : '')",
            ").filter(id, id != ''))",
        ),
    ),
    (
        "repeated",
        "variables.ids.map(l, l.filter(id, variables.ids.map(m, m.filter(other, other == id).size()).sum() > 1).join(', ')).filter(text, text != '').join(', ')",
    ),
];

/// A condition on every provider of the API `k` that is an object.
macro_rules! each_entry {
    ($($condition:expr),+) => {
        concat!(entries!(), ".all(e, type(e) != map || (", $($condition),+, "))")
    };
}

/// `{name, key}` with strings that are not empty.
macro_rules! key_of_secret {
    ($x:expr) => {
        concat!(
            "(has(",
            $x,
            ".name) && type(",
            $x,
            ".name) == string && ",
            $x,
            ".name != '' && ",
            "has(",
            $x,
            ".key) && type(",
            $x,
            ".key) == string && ",
            $x,
            ".key != '' && ",
            $x,
            ".all(f, f in ['name', 'key']))"
        )
    };
}

/// A secret reference in either form.
macro_rules! reference {
    ($x:expr) => {
        concat!(
            "(type(",
            $x,
            ") == map && (has(",
            $x,
            ".secretKeyRef) ? ",
            "(",
            $x,
            ".all(f, f == 'secretKeyRef') && type(",
            $x,
            ".secretKeyRef) == map && ",
            key_of_secret!(concat!($x, ".secretKeyRef")),
            ") : ",
            key_of_secret!($x),
            "))"
        )
    };
}

/// A string that is not blank.
macro_rules! string {
    ($x:expr) => {
        concat!("(type(", $x, ") == string && ", $x, ".trim() != '')")
    };
}

/// A string, or an object with a name and known fields only.
macro_rules! named {
    ($list:literal, $fields:literal) => {
        concat!(
            "variables.",
            $list,
            ".all(m, type(m) == string ? m.trim() != '' : ",
            "(type(m) == map && has(m.name) && ",
            string!("m.name"),
            " && m.all(f, f in [",
            $fields,
            "]) && ",
            "(!has(m.provider) || ",
            string!("m.provider"),
            ")))"
        )
    };
}

const fn rule(
    id: &'static str,
    expression: Expression,
    (problem, fix): (&'static str, &'static str),
    examples: &'static [Example],
) -> Rule {
    Rule {
        id,
        layer: Layer::Policy,
        problem,
        fix,
        expression: Some(expression),
        examples,
    }
}

const fn per_api(rule: &'static str, suffix: &'static str) -> Expression {
    Expression::PolicyPerApi { rule, suffix }
}

const fn whole(rule: &'static str, field: &'static str) -> Expression {
    Expression::Policy {
        rule,
        field,
        offenders: None,
    }
}

const REFERENCE: (&str, &str) = (
    "is not a valid secret reference",
    "write {name: <secret>, key: <key in it>}",
);

mod depth;
mod networking;
mod providers;
mod resources;
mod storage;

pub(super) use networking::RULES as NETWORKING_RULES;
pub(super) use providers::RULES as PROVIDER_RULES;
pub(super) use resources::RULES as RESOURCE_RULES;
pub(super) use storage::RULES as STORAGE_RULES;
pub(crate) use storage::SQL_NEEDS_TYPE;
