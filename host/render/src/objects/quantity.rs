//! Compares Kubernetes quantities: `500m`, `1Gi`, `1e3`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Whether one quantity is less than another. `false` if one of them is invalid.
pub fn is_less(one: &Quantity, other: &Quantity) -> bool {
    match (nano_units(&one.0), nano_units(&other.0)) {
        (Some(one), Some(other)) => one < other,
        _ => false,
    }
}

/// A quantity in nano-units, rounded up as Kubernetes does.
fn nano_units(text: &str) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (tens, factor) = scale(suffix)?;
    let amount = digits.checked_mul(factor)?;
    let power = 9 + tens - i32::try_from(fraction.len()).ok()?;
    let ten = 10_u128.checked_pow(power.unsigned_abs());
    if power < 0 {
        // A divisor that overflows is larger than any amount, so the result is the smallest unit.
        return Some(amount.div_ceil(ten.unwrap_or(u128::MAX)));
    }
    amount.checked_mul(ten?)
}

/// The power of ten and the factor of a suffix.
fn scale(suffix: &str) -> Option<(i32, u128)> {
    Some(match suffix {
        "n" => (-9, 1),
        "u" => (-6, 1),
        "m" => (-3, 1),
        "" => (0, 1),
        "k" => (3, 1),
        "M" => (6, 1),
        "G" => (9, 1),
        "T" => (12, 1),
        "P" => (15, 1),
        "E" => (18, 1),
        "Ki" => (0, 1 << 10),
        "Mi" => (0, 1 << 20),
        "Gi" => (0, 1 << 30),
        "Ti" => (0, 1 << 40),
        "Pi" => (0, 1 << 50),
        "Ei" => (0, 1 << 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (exponent.parse::<i16>().ok()?.into(), 1)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn less(one: &str, other: &str) -> bool {
        is_less(&Quantity(one.to_owned()), &Quantity(other.to_owned()))
    }

    #[test]
    fn quantities_with_different_suffixes_are_compared() {
        for (smaller, larger) in [
            ("500m", "1"),
            ("999m", "1"),
            ("0.5", "1"),
            (".5", "1"),
            ("0", "1n"),
            ("999999999n", "1"),
            ("1", "1000001u"),
            ("512Mi", "1Gi"),
            ("1G", "1Gi"),
            ("1023Mi", "1Gi"),
            ("1073741823", "1Gi"),
            ("1e9", "1Gi"),
            ("1E", "1Ei"),
            ("1E3", "1.1k"),
            ("15e-1", "2"),
            ("+1Ki", "2k"),
            ("9Ti", "1Pi"),
            ("1e-30", "2n"),
        ] {
            assert!(less(smaller, larger), "{smaller} < {larger}");
            assert!(!less(larger, smaller), "{larger} < {smaller}");
        }
        for (one, same) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.0", "1"),
            ("1e3", "1k"),
            ("0.5Gi", "512Mi"),
            ("0.1n", "1n"),
            ("1e-1000", "1n"),
        ] {
            assert!(!less(one, same) && !less(same, one), "{one} = {same}");
        }
    }

    #[test]
    fn an_invalid_or_overflowing_quantity_is_not_less() {
        for odd in ["", "Gi", "1.2.3", "-1", "1x", "1e", "1e99999", "1e1000"] {
            assert!(!less(odd, "1Gi"), "{odd}");
            assert!(!less("0", odd), "{odd}");
        }
    }
}
