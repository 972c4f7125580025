//! Resolves scalars with the rules of YAML 1.1.

use serde_json::{Number, Value};

/// Resolves one scalar. The error is the value, if JSON cannot represent it.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Value, String> {
    let tag = tag.map(|tag| tag.trim_start_matches("tag:yaml.org,2002:"));
    match tag {
        Some("int" | "float" | "bool" | "null") => implicit(text),
        None if plain => implicit(text),
        _ => Ok(text.into()),
    }
}

fn implicit(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => true.into(),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => false.into(),
        _ => return number(text),
    })
}

fn number(text: &str) -> Result<Value, String> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("the number {text}"));
    }
    if let Some(magnitude) = integer(digits) {
        let magnitude =
            magnitude.ok_or_else(|| format!("the number {text}, which is too large"))?;
        let signed = i128::from(sign) * magnitude;
        return i64::try_from(signed)
            .map(Value::from)
            .or_else(|_| u64::try_from(signed).map(Value::from))
            .map_err(|_| format!("the number {text}, which is too large"));
    }
    let Some(magnitude) = float(digits) else {
        return Ok(text.into());
    };
    // Fails only if the exponent overflows.
    Number::from_f64(f64::from(sign) * magnitude)
        .map(Value::Number)
        .ok_or_else(|| format!("the number {text}"))
}

/// The magnitude of an integer in one of the five notations of YAML 1.1. `Some(None)` if it is an
/// integer but does not fit.
fn integer(digits: &str) -> Option<Option<i128>> {
    let (radix, body) = match digits.as_bytes() {
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        [b'0'] => (10, digits),
        [b'1'..=b'9', ..] if digits.contains(':') => return sexagesimal(digits),
        [b'1'..=b'9', ..] => (10, digits),
        _ => return None,
    };
    let body: String = body.chars().filter(|c| *c != '_').collect();
    let fits = !body.is_empty() && body.chars().all(|c| c.is_digit(radix));
    fits.then(|| {
        i128::from_str_radix(&body, radix)
            .ok()
            .filter(|n| *n <= i128::from(u64::MAX))
    })
}

/// `190:20:30` is base 60. The groups after the first must be below 60.
fn sexagesimal(digits: &str) -> Option<Option<i128>> {
    let mut total: i128 = 0;
    for (index, group) in digits.split(':').enumerate() {
        let group: String = if index == 0 {
            group.replace('_', "")
        } else {
            group.to_owned()
        };
        let fits = (1..=if index == 0 { 15 } else { 2 }).contains(&group.len())
            && group.bytes().all(|b| b.is_ascii_digit());
        let value: i128 = if fits {
            group.parse().ok()?
        } else {
            return None;
        };
        if index > 0 && value > 59 {
            return None;
        }
        total = total.checked_mul(60)?.checked_add(value)?;
    }
    Some((total <= i128::from(u64::MAX)).then_some(total))
}

/// A float must have a decimal point, and its exponent a sign: `1e5` and `1.0e5` are strings.
fn float(digits: &str) -> Option<f64> {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.')?;
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let starts_with_digit =
        if whole.is_empty() { fraction } else { whole }.starts_with(|c: char| c.is_ascii_digit());
    if !starts_with_digit || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    if let Some(exponent) = exponent {
        let signed = exponent.strip_prefix(['-', '+'])?;
        if signed.is_empty() || !signed.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    digits.replace('_', "").parse().ok()
}
