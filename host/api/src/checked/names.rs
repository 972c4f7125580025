//! Which names and texts the cluster and the server take.
//!
//! Each function answers with what is wrong, in words that continue the quoted name, or nothing.

/// A name of a namespace, a resource of ours, a container: an RFC 1123 label.
pub(crate) fn label(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > 63 {
        Some("is longer than 63 characters")
    } else if !is_dns_part(name) {
        Some("is no name of the cluster")
    } else {
        None
    }
}

/// A name of a Secret, ConfigMap or ServiceAccount: an RFC 1123 subdomain. The cluster limits the
/// length of the whole only.
pub(crate) fn subdomain(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > 253 {
        Some("is longer than 253 characters")
    } else if !name.split('.').all(is_dns_part) {
        Some("is no name of the cluster")
    } else {
        None
    }
}

fn is_dns_part(part: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.chars().all(|c| edge(c) || c == '-') && part.starts_with(edge) && part.ends_with(edge)
}

/// A key of a Secret or ConfigMap.
pub(crate) fn data_key(key: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() {
        Some("is empty")
    } else if key.len() > 253 {
        Some("is longer than 253 characters")
    } else if key == "." || key.starts_with("..") || !key.chars().all(allowed) {
        Some("is no key of a Secret or ConfigMap")
    } else {
        None
    }
}

/// An id of a provider.
pub(crate) fn provider_id(id: &str) -> Option<&'static str> {
    word(id, "is no provider id")
}

/// A value of a label, which is also what a network policy can compare a namespace's name with.
pub(crate) fn label_value(value: &str) -> Option<&'static str> {
    word(value, "is no value of a label")
}

fn word(text: &str, otherwise: &'static str) -> Option<&'static str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: char| c.is_ascii_alphanumeric();
    if text.is_empty() {
        Some("is empty")
    } else if text.len() > 63 {
        Some("is longer than 63 characters")
    } else if !text.chars().all(inner) || !text.starts_with(edge) || !text.ends_with(edge) {
        Some(otherwise)
    } else {
        None
    }
}

/// A provider: `vllm`, or a full type such as `remote::vllm`.
pub(crate) fn provider_type(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("is empty");
    }
    if name.len() > 128 {
        return Some("is longer than 128 characters");
    }
    name.split("::")
        .any(|part| provider_id(part).is_some())
        .then_some("is no provider")
}

/// A key of a label: `team` or `example.com/team`.
pub(crate) fn label_key(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    (prefix.is_some_and(|prefix| subdomain(prefix).is_some()) || provider_id(name).is_some())
        .then_some("is no label key")
}

/// A container image reference. Only what no registry would take is refused.
pub(crate) fn image(reference: &str) -> Option<&'static str> {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@' | '+');
    if reference.is_empty() {
        Some("is empty")
    } else if reference.contains("://") {
        Some("begins with a scheme, which an image reference does not have")
    } else if !reference.chars().all(allowed) || reference.ends_with([':', '/', '@']) {
        Some("is no image reference")
    } else {
        None
    }
}

/// A dialect: `llama-stack/0.7`.
pub(crate) fn schema_id(id: &str) -> Option<&'static str> {
    let good = id.split_once('/').is_some_and(|(product, release)| {
        label(product).is_none()
            && release
                .split('.')
                .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
    });
    (!good).then_some("is no schema id")
}

/// An amount such as `10Gi`, `500m` or `1e3`.
pub(crate) fn quantity(text: &str) -> Option<&'static str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_number = |number: &str| {
        number.chars().any(|c| c.is_ascii_digit()) && number.matches('.').count() <= 1
    };
    let known = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let exponent = |suffix: &str| {
        suffix.strip_prefix(['e', 'E']).is_some_and(|power| {
            let power = power.strip_prefix(['+', '-']).unwrap_or(power);
            is_number(power) && power.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
    };
    (!is_number(number) || !(known.contains(&suffix) || exponent(suffix)))
        .then_some("is no quantity")
}

/// A text without line breaks, spaces or control characters: addresses.
pub(crate) fn address(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.len() > 2048 {
        Some("is longer than 2048 characters")
    } else if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Some("holds a space or a control character")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort<'a>(check: fn(&str) -> Option<&'static str>, names: &[&'a str]) -> Vec<&'a str> {
        names
            .iter()
            .copied()
            .filter(|name| check(name).is_none())
            .collect()
    }

    #[test]
    fn cluster_names_follow_rfc_1123() {
        let long = "a".repeat(64);
        assert_eq!(
            sort(
                label,
                &["a", "a-1", "", "A", "-a", "a-", "a.b", "a_b", &long]
            ),
            ["a", "a-1"]
        );
        assert_eq!(
            sort(
                subdomain,
                &[
                    "a.b-c",
                    "a",
                    &long,
                    "",
                    "a..b",
                    ".a",
                    "A.b",
                    &"a.".repeat(127)
                ]
            ),
            ["a.b-c", "a", &long]
        );
        assert!(subdomain(&"ab.".repeat(90)).is_some());
    }

    #[test]
    fn keys_ids_and_types_take_what_their_users_take() {
        let long = "a".repeat(254);
        assert_eq!(
            sort(
                data_key,
                &["token", "a.b_C-1", "", ".", "..a", "a/b", &long]
            ),
            ["token", "a.b_C-1"]
        );
        assert_eq!(
            sort(
                provider_id,
                &["vllm-1", "a_b.c", "", "-a", "a/b", "a b", &long]
            ),
            ["vllm-1", "a_b.c"]
        );
        let types = [
            "vllm",
            "remote::vllm",
            "",
            "remote::",
            "::vllm",
            "a b",
            long.as_str(),
        ];
        assert_eq!(sort(provider_type, &types), ["vllm", "remote::vllm"]);
        assert_eq!(
            sort(
                label_key,
                &["team", "example.com/team", "team=x", "A.b/", "/x"]
            ),
            ["team", "example.com/team"]
        );
    }

    #[test]
    fn references_and_schema_ids_are_recognised() {
        let images = [
            "quay.io/a/b:1",
            "a@sha256:0f",
            "localhost:5000/a",
            "",
            "https://a/b",
            "a b",
            "a:",
        ];
        assert_eq!(
            sort(image, &images),
            ["quay.io/a/b:1", "a@sha256:0f", "localhost:5000/a"]
        );
        assert_eq!(
            sort(
                schema_id,
                &[
                    "llama-stack/0.7",
                    "ogx/1.0",
                    "0.7",
                    "ogx/",
                    "Ogx/1",
                    "ogx/v1"
                ]
            ),
            ["llama-stack/0.7", "ogx/1.0"]
        );
    }

    #[test]
    fn quantities_are_those_of_kubernetes() {
        let texts = [
            "1", "10Gi", "500m", "0.5", ".5", "1e3", "1E-3", "+1", "-1k", "", "Gi", "10GB", "1..2",
            "1 Gi", "1e", "1.2.3",
        ];
        assert_eq!(
            sort(quantity, &texts),
            ["1", "10Gi", "500m", "0.5", ".5", "1e3", "1E-3", "+1", "-1k"]
        );
    }

    #[test]
    fn addresses_have_no_spaces() {
        let long = "a".repeat(2049);
        assert_eq!(
            sort(address, &["http://vllm:8000", "", "a b", "a\n", &long]),
            ["http://vllm:8000"]
        );
    }
}
