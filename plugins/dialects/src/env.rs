//! Variables in the server's file: `${env.NAME}` and its two syntaxes.

use std::fmt;

use llsd_adapter_sdk::serde_json::Value;

/// How a dialect writes defaults and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// `${env.X:default}`, `${env.X+value}`; values stay strings.
    Plain,
    /// `${env.X:=default}`, `${env.X:+value}`; values that look like numbers or booleans are converted.
    Colon,
}

impl Syntax {
    /// An expression for the variable, or for `default` if it is unset.
    pub(crate) fn or(self, name: &str, default: impl fmt::Display) -> String {
        match self {
            Self::Plain => format!("${{env.{name}:{default}}}"),
            Self::Colon => format!("${{env.{name}:={default}}}"),
        }
    }
}

/// An expression for a variable that must be set, as for secrets.
pub(crate) fn reference(name: &str) -> String {
    format!("${{env.{name}}}")
}

/// Whether the server substitutes this name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// One `${env.…}` in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expression<'t> {
    /// Name of the variable.
    pub(crate) name: &'t str,
    /// Its form.
    pub(crate) form: Form<'t>,
    /// The syntax; `None` if both syntaxes share the form.
    pub(crate) syntax: Option<Syntax>,
}

/// The form of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form<'t> {
    /// The value.
    Value,
    /// The value, or this default if it is unset.
    Or(&'t str),
    /// This value if the variable is set, otherwise null.
    When(&'t str),
}

/// The start of an expression.
const OPEN: &str = "${env.";

/// The rest of the string after each `${env.`.
///
/// Searches for the first character only: a substring search has a set-up cost that does not pay off
/// for the short strings of a configuration.
fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('$')
        .filter_map(|(place, _)| text.get(place..)?.strip_prefix(OPEN))
}

/// Whether a string contains an expression, even a malformed one.
pub(crate) fn is_in(text: &str) -> bool {
    beginnings(text).next().is_some()
}

/// Every expression of a string, in order. Of nested expressions only the inner one.
pub(crate) fn expressions(text: &str) -> impl Iterator<Item = Expression<'_>> {
    beginnings(text)
        .filter_map(|rest| rest.split_once('}'))
        .filter(|(inside, _)| !is_in(inside))
        .filter_map(|(inside, _)| parse(inside))
}

/// The expression, if a string consists of exactly one.
pub(crate) fn whole(text: &str) -> Option<Expression<'_>> {
    let inside = text.strip_prefix(OPEN)?.strip_suffix('}')?;
    if inside.contains('}') {
        None
    } else {
        parse(inside)
    }
}

fn parse(inside: &str) -> Option<Expression<'_>> {
    let end = inside.find([':', '+']).unwrap_or(inside.len());
    let (name, rest) = inside.split_at_checked(end)?;
    let (form, syntax) = if rest.is_empty() {
        (Form::Value, None)
    } else if let Some(default) = rest.strip_prefix(":=") {
        (Form::Or(default), Some(Syntax::Colon))
    } else if let Some(value) = rest.strip_prefix(":+") {
        (Form::When(value), Some(Syntax::Colon))
    } else if let Some(value) = rest.strip_prefix('+') {
        (Form::When(value), Some(Syntax::Plain))
    } else {
        (Form::Or(rest.strip_prefix(':')?), Some(Syntax::Plain))
    };
    Some(Expression { name, form, syntax })
}

/// The value of a `provider_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Id<'v> {
    /// A fixed id.
    Always(&'v str),
    /// An id that applies only if a variable is set.
    When {
        /// The id.
        id: &'v str,
        /// The variable.
        variable: &'v str,
    },
    /// Disabled, missing, or not known from the file.
    None,
}

impl<'v> Id<'v> {
    /// Reads the value of `provider_id`.
    pub(crate) fn of(value: Option<&'v Value>) -> Self {
        let Some(text) = value.and_then(Value::as_str) else {
            return Self::None;
        };
        match whole(text) {
            Some(Expression {
                form: Form::When(id),
                name,
                ..
            }) if !id.is_empty() => Self::When { id, variable: name },
            Some(Expression {
                form: Form::Or(id), ..
            }) if !id.is_empty() => Self::Always(id),
            Some(_) => Self::None,
            None if text.is_empty() || text == "__disabled__" || is_in(text) => Self::None,
            None => Self::Always(text),
        }
    }

    /// The id, conditional or not.
    pub(crate) fn name(self) -> Option<&'v str> {
        match self {
            Self::Always(id) | Self::When { id, .. } => Some(id),
            Self::None => None,
        }
    }
}

/// Whether a value is empty if its variable is unset.
pub(crate) fn is_empty_by_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            text.is_empty()
                || matches!(
                    whole(text),
                    Some(Expression {
                        form: Form::Or("") | Form::When(_),
                        ..
                    })
                )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llsd_adapter_sdk::serde_json::json;

    #[test]
    fn both_syntaxes_are_read() {
        for (text, name, form, syntax) in [
            ("${env.X}", "X", Form::Value, None),
            ("${env.X:=d}", "X", Form::Or("d"), Some(Syntax::Colon)),
            ("${env.X:=}", "X", Form::Or(""), Some(Syntax::Colon)),
            ("${env.X:+v}", "X", Form::When("v"), Some(Syntax::Colon)),
            (
                "${env.X:http://a:1}",
                "X",
                Form::Or("http://a:1"),
                Some(Syntax::Plain),
            ),
            ("${env.X+v}", "X", Form::When("v"), Some(Syntax::Plain)),
        ] {
            assert_eq!(
                whole(text),
                Some(Expression { name, form, syntax }),
                "{text}"
            );
        }
        assert_eq!(whole("a ${env.X}"), None);
        assert_eq!(whole("${env.X}/${env.Y}"), None);
        let all: Vec<_> = expressions("${env.A:=~/x}/f ${env.B} ${env.C")
            .map(|e| e.name)
            .collect();
        assert_eq!(all, ["A", "B"]);
        let inner: Vec<_> = expressions("$${env.A:=${env.B}} $5 ${env.C:=$}")
            .map(|e| e.name)
            .collect();
        assert_eq!(inner, ["B", "C"]);
    }

    #[test]
    fn an_id_inside_a_condition_counts() {
        for (value, id) in [
            (json!("vllm"), Id::Always("vllm")),
            (
                json!("${env.VLLM_URL:+vllm}"),
                Id::When {
                    id: "vllm",
                    variable: "VLLM_URL",
                },
            ),
            (
                json!("${env.ENABLE_X+x}"),
                Id::When {
                    id: "x",
                    variable: "ENABLE_X",
                },
            ),
            (json!("${env.ID:=a}"), Id::Always("a")),
            (json!("__disabled__"), Id::None),
            (json!(""), Id::None),
            (json!(null), Id::None),
            (json!(7), Id::None),
            (json!("${env.ID}"), Id::None),
        ] {
            assert_eq!(Id::of(Some(&value)), id, "{value}");
        }
    }

    #[test]
    fn defaults_are_written_in_the_syntax_of_the_dialect() {
        assert_eq!(Syntax::Plain.or("A", "b"), "${env.A:b}");
        assert_eq!(Syntax::Colon.or("A", ""), "${env.A:=}");
        assert_eq!(reference("A"), "${env.A}");
    }
}
