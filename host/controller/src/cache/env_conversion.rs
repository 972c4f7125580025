//! What the server makes of a text that it converts before it reads it.
//!
//! Its rule is Python's: nothing, a boolean, an integer, a floating-point number, else a text. A
//! field that wants a text refuses the others, and the server does not start.

/// What a text becomes, if not a text.
pub(crate) fn becomes(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    if text.is_empty() {
        Some("nothing")
    } else if lower == "true" || lower == "false" {
        Some("a boolean")
    } else {
        is_number(lower.trim()).then_some("a number")
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

/// Digits, which Python lets stand in groups: `1_000`.
fn is_digits(text: &str) -> bool {
    text.split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::becomes;

    #[test]
    fn the_server_converts_what_python_converts() {
        for (text, expected) in [
            ("", Some("nothing")),
            ("True", Some("a boolean")),
            ("false", Some("a boolean")),
            ("12345", Some("a number")),
            (" 12\n", Some("a number")),
            ("1_000", Some("a number")),
            ("-1.5e10", Some("a number")),
            (".5", Some("a number")),
            ("Infinity", Some("a number")),
            ("nan", Some("a number")),
            ("12a", None),
            ("1__0", None),
            ("e5", None),
            (".", None),
            ("0x10", None),
            ("yes", None),
            ("sk-1234", None),
        ] {
            assert_eq!(becomes(text), expected, "{text:?}");
        }
    }
}
