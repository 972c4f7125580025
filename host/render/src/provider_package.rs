//! The `ProviderPackage` document in the image of an external provider.

use serde::{Deserialize, Serialize};

/// The fields of the document that the server configuration needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderPackage {
    /// The provider's type: `remote::custom`.
    pub provider_type: String,
    /// The API that it implements, in the server's spelling.
    pub api: String,
    /// The Python module that the server imports.
    pub module: String,
}

/// Why a document is not a valid `ProviderPackage`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be parsed.
    #[error("failed to parse the ProviderPackage: {0}")]
    Unreadable(String),
    /// Another kind of document.
    #[error("kind must be \"ProviderPackage\", not {0:?}")]
    WrongKind(String),
    /// The provider type is invalid.
    #[error(
        "spec.providerType {0:?} is invalid; use remote::<name> or inline::<name>, with lower-case letters, digits and hyphens in the name"
    )]
    WrongType(String),
}

#[derive(Deserialize)]
struct Document {
    kind: String,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    package_name: String,
    provider_type: String,
    api: String,
}

impl ProviderPackage {
    /// Parses `lls-provider-spec.yaml`.
    pub fn read(text: &str) -> Result<Self, Error> {
        let Document { kind, spec } =
            serde_saphyr::from_str(text).map_err(|error| Error::Unreadable(error.to_string()))?;
        if kind != "ProviderPackage" {
            return Err(Error::WrongKind(kind));
        }
        let name = spec
            .provider_type
            .strip_prefix("remote::")
            .or_else(|| spec.provider_type.strip_prefix("inline::"));
        let is_valid = |name: &str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if !name.is_some_and(is_valid) {
            return Err(Error::WrongType(spec.provider_type));
        }
        Ok(Self {
            provider_type: spec.provider_type,
            api: spec.api,
            module: spec.package_name.replace('-', "_"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_api_and_module_are_parsed() {
        let text = "kind: ProviderPackage\nspec: {packageName: my-provider, providerType: remote::custom, api: inference}";
        let package = ProviderPackage::read(text).unwrap();
        assert_eq!(
            package,
            ProviderPackage {
                provider_type: "remote::custom".into(),
                api: "inference".into(),
                module: "my_provider".into()
            }
        );
    }

    #[test]
    fn an_invalid_type_or_kind_is_an_error() {
        let text =
            "kind: ProviderPackage\nspec: {packageName: p, providerType: custom, api: inference}";
        assert!(matches!(
            ProviderPackage::read(text),
            Err(Error::WrongType(_))
        ));
        assert!(matches!(
            ProviderPackage::read("kind: Pod\nspec: {packageName: p, providerType: x, api: y}"),
            Err(Error::WrongKind(_))
        ));
        assert!(matches!(
            ProviderPackage::read("a: b"),
            Err(Error::Unreadable(_))
        ));
    }
}
