//! Reads the declarations in the images of external providers.

use std::collections::BTreeMap;

use futures::future::join_all;
use llsd_api::checked::{Checked, CheckedExternal};
use llsd_api::{Diagnostic, Diagnostics};
use llsd_render::ProviderPackage;
use llsd_render::objects::Owner;

use super::Error;
use crate::images::{ImageReader, Puller};

/// The file in which an image declares its provider.
const DECLARATION: &str = "/lls-provider/lls-provider-spec.yaml";

/// The declarations of all external providers, by provider id.
pub(super) async fn packages(
    images: &impl ImageReader,
    checked: &Checked,
    owner: &Owner,
) -> Result<BTreeMap<String, ProviderPackage>, Error> {
    let puller = Puller::of(checked, &owner.namespace);
    let (mut packages, mut errors) = (BTreeMap::new(), Vec::new());
    // All images are requested before the first failure counts, so that they are read together.
    let texts = checked.external.iter().map(|provider| {
        let puller = &puller;
        async move { images.file(&provider.image, DECLARATION, puller).await }
    });
    for (provider, text) in checked.external.iter().zip(join_all(texts).await) {
        let text = text.map_err(|error| Error::Image {
            field: provider.path.field("image"),
            error: Box::new(error),
        })?;
        match parse(provider, &text) {
            Ok(package) => {
                packages.insert(provider.id.to_string(), package);
            }
            Err(error) => errors.push(error),
        }
    }
    Diagnostics::new(errors).map_or(Ok(packages), |errors| Err(errors.into()))
}

/// Parses a declaration and checks that the provider serves the API that it is listed under.
fn parse(provider: &CheckedExternal, text: &[u8]) -> Result<ProviderPackage, Diagnostic> {
    let reject = |problem: String, fix: &str| {
        let problem = format!("{DECLARATION} of {}: {problem}", provider.image);
        Diagnostic::error(provider.path.field("image"), problem, fix)
    };
    let text = std::str::from_utf8(text).map_err(|_| {
        reject(
            "must be UTF-8 text".to_owned(),
            "fix the file and build the image again",
        )
    })?;
    let package = ProviderPackage::read(text)
        .map_err(|error| reject(error.to_string(), "fix the file and build the image again"))?;
    if package.api != provider.api {
        let fix = "move the entry to the API that the image serves, or use another image";
        let problem = format!(
            "the provider serves the API {:?}, but is listed under {:?}",
            package.api, provider.api_field
        );
        return Err(reject(problem, fix));
    }
    Ok(package)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn provider() -> CheckedExternal {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"},
            "spec": {
                "distribution": {"name": "starter"},
                "externalProviders": {"vectorIo": [{"providerId": "own", "image": "acme/own:1"}]},
            },
        });
        let checked = llsd_api::check_document(document)
            .result
            .expect("a valid resource");
        checked.external[0].clone()
    }

    fn parsed(api: &str, kind: &str) -> Result<ProviderPackage, String> {
        let text = format!(
            "kind: {kind}\nspec: {{packageName: own, providerType: remote::own, api: {api}}}"
        );
        parse(&provider(), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_declaration_is_accepted_only_under_the_api_that_it_serves() {
        assert_eq!(
            parsed("vector_io", "ProviderPackage").unwrap().module,
            "own"
        );
        let error = parsed("inference", "ProviderPackage").unwrap_err();
        assert!(
            error.starts_with("spec.externalProviders.vectorIo[0].image: ")
                && error.contains("\"inference\"")
                && error.contains("acme/own:1"),
            "{error}"
        );
        assert!(parsed("vector_io", "Pod").unwrap_err().contains("\"Pod\""));
    }
}
