//! What the image of an external provider declares about itself.

use serde::Deserialize;

/// The declaration, as far as the server's configuration needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPackage {
    /// The provider's type: `remote::custom`.
    pub provider_type: String,
    /// The API that it serves, in the server's spelling.
    pub api: String,
    /// The Python module that the server imports.
    pub module: String,
}

/// Why a text declares no provider.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not the document expected.
    #[error("this is no ProviderPackage: {0}")]
    Unreadable(String),
    /// Another kind of document.
    #[error("kind is {0:?} and must be \"ProviderPackage\"")]
    WrongKind(String),
    /// A type that no server takes.
    #[error(
        "spec.providerType is {0:?}; write remote::<name> or inline::<name>, with lower-case letters, digits and hyphens"
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
    /// Reads `lls-provider-spec.yaml`.
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
        let plain = |name: &str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if !name.is_some_and(plain) {
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
    fn a_declaration_gives_type_api_and_module() {
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
    fn a_type_that_no_server_takes_is_refused() {
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
