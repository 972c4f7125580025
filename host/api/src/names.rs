//! Validators for names and other strings with a fixed syntax.

/// Why a string is invalid. Printed after the quoted string: `"a b" is not a valid …`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("is empty")]
    Empty,
    #[error("is longer than {0} characters")]
    TooLong(usize),
    #[error("has a part longer than {0} characters")]
    PartTooLong(usize),
    #[error("is not a valid {0}")]
    Invalid(&'static str),
    #[error("starts with a URL scheme, which an image reference must not have")]
    UrlScheme,
    #[error("contains a space or a control character")]
    Whitespace,
}

/// What the validators call a name of a Kubernetes object.
const KUBERNETES_NAME: &str = "Kubernetes name";

/// An RFC 1123 label: the name of a namespace, a container or a resource of ours.
pub(crate) fn label(name: &str) -> Result<(), NameError> {
    bounded(name, 63)?;
    valid_if(is_dns_label(name), KUBERNETES_NAME)
}

/// An RFC 1123 subdomain: the name of a Secret, ConfigMap or ServiceAccount. Kubernetes limits only
/// the length of the whole name.
pub(crate) fn subdomain(name: &str) -> Result<(), NameError> {
    bounded(name, 253)?;
    valid_if(name.split('.').all(is_dns_label), KUBERNETES_NAME)
}

/// A DNS name, optionally with a leading `*.`. DNS also limits the length of each part.
pub(crate) fn hostname(name: &str) -> Result<(), NameError> {
    let name = name.strip_prefix("*.").unwrap_or(name);
    subdomain(name)?;
    match name.split('.').any(|part| part.len() > 63) {
        true => Err(NameError::PartTooLong(63)),
        false => Ok(()),
    }
}

/// A key of a Secret or ConfigMap.
pub(crate) fn data_key(key: &str) -> Result<(), NameError> {
    bounded(key, 253)?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    valid_if(
        key != "." && !key.starts_with("..") && key.chars().all(is_allowed),
        "key of a Secret or ConfigMap",
    )
}

/// The id of a provider.
pub(crate) fn provider_id(id: &str) -> Result<(), NameError> {
    qualified_name_part(id, "provider id")
}

/// The name of a distribution.
pub(crate) fn distribution(name: &str) -> Result<(), NameError> {
    qualified_name_part(name, "distribution name")
}

/// A label value. Network policies match the name of a namespace as a label value.
pub(crate) fn label_value(value: &str) -> Result<(), NameError> {
    qualified_name_part(value, "label value")
}

/// A provider type: `vllm`, or in full `remote::vllm`.
pub(crate) fn provider_type(name: &str) -> Result<(), NameError> {
    bounded(name, 128)?;
    valid_if(
        name.split("::").all(|part| provider_id(part).is_ok()),
        "provider type",
    )
}

/// A label key: `team` or `example.com/team`.
pub(crate) fn label_key(key: &str) -> Result<(), NameError> {
    valid_if(is_qualified_name(key), "label key")
}

/// An annotation key, which has the same syntax as a label key.
pub(crate) fn annotation_key(key: &str) -> Result<(), NameError> {
    valid_if(is_qualified_name(key), "annotation key")
}

/// A container image reference. Rejects only what no registry would accept.
pub(crate) fn image(reference: &str) -> Result<(), NameError> {
    if reference.is_empty() {
        return Err(NameError::Empty);
    }
    if reference.contains("://") {
        return Err(NameError::UrlScheme);
    }
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@' | '+');
    valid_if(
        reference.chars().all(is_allowed) && !reference.ends_with([':', '/', '@']),
        "image reference",
    )
}

/// The id of a dialect: `llama-stack/0.7`.
pub(crate) fn schema_id(id: &str) -> Result<(), NameError> {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let is_valid = id.split_once('/').is_some_and(|(product, release)| {
        label(product).is_ok() && release.split('.').all(is_number)
    });
    valid_if(is_valid, "schema id")
}

/// A Kubernetes quantity: `10Gi`, `500m` or `1e3`.
pub(crate) fn quantity(text: &str) -> Result<(), NameError> {
    const SUFFIXES: [&str; 16] = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_number = |number: &str| {
        number.chars().any(|c| c.is_ascii_digit()) && number.matches('.').count() <= 1
    };
    let is_exponent = |suffix: &str| {
        suffix.strip_prefix(['e', 'E']).is_some_and(|power| {
            let power = power.strip_prefix(['+', '-']).unwrap_or(power);
            is_number(power) && power.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
    };
    valid_if(
        is_number(number) && (SUFFIXES.contains(&suffix) || is_exponent(suffix)),
        "quantity",
    )
}

/// The size of a volume: a quantity above zero. Malformed quantities are left to [`quantity`].
pub(crate) fn volume_size(text: &str) -> Result<(), NameError> {
    let first = text.trim_start_matches(['+', '0', '.']).chars().next();
    valid_if(
        !text.starts_with('-') && !first.is_none_or(char::is_alphabetic),
        "volume size",
    )
}

/// The address of a service: a string without spaces and control characters.
pub(crate) fn address(text: &str) -> Result<(), NameError> {
    bounded(text, 2048)?;
    match text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => Err(NameError::Whitespace),
        false => Ok(()),
    }
}

/// An `http://` or `https://` URL without user name and password.
pub(crate) fn http_url(text: &str) -> Result<(), NameError> {
    address(text)?;
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_valid = authority.is_some_and(|authority| {
        !authority.is_empty() && !authority.starts_with(':') && !authority.contains('@')
    });
    valid_if(
        is_valid,
        "http or https URL without a user name and a password",
    )
}

/// A TCP port.
pub(crate) fn port(text: &str) -> Result<(), NameError> {
    valid_if(text.parse::<u16>().is_ok_and(|port| port != 0), "port")
}

/// The name of a setting of a provider. It becomes part of the name of an environment variable.
pub(crate) fn setting(name: &str) -> Result<(), NameError> {
    valid_if(
        provider_id(name).is_ok() && !name.contains('.'),
        "setting name",
    )
}

/// The name of an environment variable.
pub(crate) fn variable(name: &str) -> Result<(), NameError> {
    valid_if(
        !name.is_empty() && !name.contains('='),
        "environment variable name",
    )
}

/// Any string that is not blank and has at most 512 characters.
pub(crate) fn short(text: &str) -> Result<(), NameError> {
    if text.trim().is_empty() {
        return Err(NameError::Empty);
    }
    match text.chars().count() > 512 {
        true => Err(NameError::TooLong(512)),
        false => Ok(()),
    }
}

fn bounded(text: &str, max: usize) -> Result<(), NameError> {
    match text.len() {
        0 => Err(NameError::Empty),
        length if length > max => Err(NameError::TooLong(max)),
        _ => Ok(()),
    }
}

fn valid_if(is_valid: bool, what: &'static str) -> Result<(), NameError> {
    is_valid.then_some(()).ok_or(NameError::Invalid(what))
}

fn is_dns_label(part: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.chars().all(|c| is_edge(c) || c == '-')
        && part.starts_with(is_edge)
        && part.ends_with(is_edge)
}

/// At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit first and last.
fn qualified_name_part(text: &str, what: &'static str) -> Result<(), NameError> {
    bounded(text, 63)?;
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    let is_inner = |c: char| is_edge(c) || matches!(c, '-' | '_' | '.');
    valid_if(
        text.chars().all(is_inner) && text.starts_with(is_edge) && text.ends_with(is_edge),
        what,
    )
}

fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => subdomain(prefix).is_ok() && provider_id(name).is_ok(),
        None => provider_id(key).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that pass the check.
    fn valid<'a>(check: fn(&str) -> Result<(), NameError>, names: &[&'a str]) -> Vec<&'a str> {
        names
            .iter()
            .copied()
            .filter(|name| check(name).is_ok())
            .collect()
    }

    #[test]
    fn kubernetes_names_follow_rfc_1123() {
        let long = "a".repeat(64);
        assert_eq!(
            valid(
                label,
                &["a", "a-1", "", "A", "-a", "a-", "a.b", "a_b", &long]
            ),
            ["a", "a-1"]
        );
        assert_eq!(
            valid(
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
        assert!(subdomain(&"ab.".repeat(90)).is_err());
    }

    #[test]
    fn keys_ids_and_types_have_the_syntax_of_their_consumers() {
        let long = "a".repeat(254);
        assert_eq!(
            valid(
                data_key,
                &["token", "a.b_C-1", "", ".", "..a", "a/b", &long]
            ),
            ["token", "a.b_C-1"]
        );
        assert_eq!(
            valid(
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
        assert_eq!(valid(provider_type, &types), ["vllm", "remote::vllm"]);
        assert_eq!(
            valid(
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
            valid(image, &images),
            ["quay.io/a/b:1", "a@sha256:0f", "localhost:5000/a"]
        );
        assert_eq!(
            valid(
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
    fn quantities_have_the_syntax_of_kubernetes() {
        let texts = [
            "1", "10Gi", "500m", "0.5", ".5", "1e3", "1E-3", "+1", "-1k", "", "Gi", "10GB", "1..2",
            "1 Gi", "1e", "1.2.3",
        ];
        assert_eq!(
            valid(quantity, &texts),
            ["1", "10Gi", "500m", "0.5", ".5", "1e3", "1E-3", "+1", "-1k"]
        );
    }

    #[test]
    fn addresses_have_no_spaces() {
        let long = "a".repeat(2049);
        assert_eq!(
            valid(address, &["http://vllm:8000", "", "a b", "a\n", &long]),
            ["http://vllm:8000"]
        );
    }

    #[test]
    fn an_error_continues_the_quoted_name() {
        assert_eq!(
            label("A").unwrap_err().to_string(),
            "is not a valid Kubernetes name"
        );
        assert_eq!(
            provider_id(&"a".repeat(64)).unwrap_err().to_string(),
            "is longer than 63 characters"
        );
        assert_eq!(label("").unwrap_err(), NameError::Empty);
    }
}
