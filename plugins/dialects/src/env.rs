//! Environment variables in the server's file: writing them, and what `provider_id` and empty values
//! mean. The syntax is that of `llsd_env_expressions`.

use std::fmt;

use llsd_adapter_sdk::documents::ReadAs;
use llsd_adapter_sdk::serde_json::Value;
pub(crate) use llsd_env_expressions::{
    Expression, Form, Syntax, expressions, is_in, is_name, whole,
};

/// An expression for the variable, or for `default` if it is unset.
pub(crate) fn with_default(syntax: Syntax, name: &str, default: impl fmt::Display) -> String {
    match syntax {
        Syntax::Plain => format!("${{env.{name}:{default}}}"),
        Syntax::Colon => format!("${{env.{name}:={default}}}"),
    }
}

/// An expression for a variable that must be set, as for secrets.
pub(crate) fn reference(name: &str) -> String {
    format!("${{env.{name}}}")
}

/// How the server reads the variable that stands alone at a key.
pub(crate) fn read_as(syntax: Syntax, key: &str) -> ReadAs {
    match (syntax, key) {
        (Syntax::Plain, _) => ReadAs::Text,
        (Syntax::Colon, "port") => ReadAs::Number,
        (Syntax::Colon, _) => ReadAs::ConvertedText,
    }
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
        assert_eq!(with_default(Syntax::Plain, "A", "b"), "${env.A:b}");
        assert_eq!(with_default(Syntax::Colon, "A", ""), "${env.A:=}");
        assert_eq!(reference("A"), "${env.A}");
    }
}
