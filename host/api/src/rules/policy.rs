//! Rules over the parts of a resource that may have several shapes, in the words of a
//! ValidatingAdmissionPolicy.
//!
//! To a policy the object has no types, so it sees what the API server's own rules cannot. An
//! expression that errors is refused with its own text for a message: each asks for the type first
//! and leaves other shapes to the rule about the shape.

use super::{Example, Expression, Layer, Rule};

/// The providers of the API `k`, as a list.
macro_rules! entries {
    () => {
        "(type(variables.providers[k]) == list ? variables.providers[k] : [variables.providers[k]])"
    };
}

/// Nothing is asked again of a resource whose spec did not change: finalizers and labels of a
/// resource that is older than a rule can always be edited.
pub(crate) const MATCH_CONDITION: &str =
    "request.operation == 'CREATE' || object.spec != oldObject.spec";

/// Names for what several rules look at.
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

/// True of every provider of the API `k` that is an object.
macro_rules! each_entry {
    ($($condition:expr),+) => {
        concat!(entries!(), ".all(e, type(e) != map || (", $($condition),+, "))")
    };
}

/// `{name, key}` with texts.
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

/// A text with something in it.
macro_rules! text {
    ($x:expr) => {
        concat!("(type(", $x, ") == string && ", $x, ".trim() != '')")
    };
}

/// A text, or an object that has a name and known fields only.
macro_rules! named {
    ($list:literal, $fields:literal) => {
        concat!(
            "variables.",
            $list,
            ".all(m, type(m) == string ? m.trim() != '' : ",
            "(type(m) == map && has(m.name) && ",
            text!("m.name"),
            " && m.all(f, f in [",
            $fields,
            "]) && ",
            "(!has(m.provider) || ",
            text!("m.provider"),
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
        culprits: None,
    }
}

const REFERENCE: (&str, &str) = (
    "is no reference to a key of a Secret",
    "write {name: <secret>, key: <key in it>}",
);

mod parts;
mod providers;

pub(super) use parts::RULES as PART_RULES;
pub(crate) use parts::SQL_NEEDS_TYPE;
pub(super) use providers::RULES as PROVIDER_RULES;
