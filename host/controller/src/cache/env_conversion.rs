//! How the server converts the value of an environment variable before it validates it.
//!
//! The rule is the server's own (Python): an empty value becomes null, `true` and `false` become
//! booleans, whatever `int()` or `float()` accepts becomes a number, and everything else stays a
//! string. A string field rejects a converted value, and the server does not start.

use std::fmt;

/// The type that a value is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvertedType {
    Null,
    Boolean,
    Number,
}

impl fmt::Display for ConvertedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
        })
    }
}

/// The type that the server converts a value to; `None` if it stays a string.
pub(crate) fn converted_type(text: &str) -> Option<ConvertedType> {
    let lower = text.to_ascii_lowercase();
    if text.is_empty() {
        Some(ConvertedType::Null)
    } else if lower == "true" || lower == "false" {
        Some(ConvertedType::Boolean)
    } else {
        is_number(lower.trim()).then_some(ConvertedType::Number)
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if ["inf", "infinity", "nan"].contains(&unsigned) {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (mantissa, ""),
    };
    let or_empty = |text: &str| text.is_empty() || is_digits(text);
    !(whole.is_empty() && fraction.is_empty())
        && or_empty(whole)
        && or_empty(fraction)
        && exponent
            .is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// Whether a string consists of digits. Python accepts underscores between them: `1_000`.
fn is_digits(text: &str) -> bool {
    text.split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::ConvertedType::{Boolean, Null, Number};
    use super::converted_type;

    #[test]
    fn values_are_converted_as_python_converts_them() {
        for (text, expected) in [
            ("", Some(Null)),
            ("True", Some(Boolean)),
            ("false", Some(Boolean)),
            ("12345", Some(Number)),
            (" 12\n", Some(Number)),
            ("1_000", Some(Number)),
            ("-1.5e10", Some(Number)),
            (".5", Some(Number)),
            ("Infinity", Some(Number)),
            ("nan", Some(Number)),
            ("12a", None),
            ("1__0", None),
            ("e5", None),
            (".", None),
            ("0x10", None),
            ("yes", None),
            ("sk-1234", None),
        ] {
            assert_eq!(converted_type(text), expected, "{text:?}");
        }
    }
}
