//! Reads what the images of external providers declare: which provider each of them brings.

use std::collections::BTreeMap;

use llsd_api::checked::{Checked, CheckedExternal};
use llsd_api::{Rejection, Rejections};
use llsd_render::ProviderPackage;
use llsd_render::objects::Owner;

use super::Error;
use crate::images::{Images, Puller};

/// Where an image declares its provider.
const DECLARATION: &str = "/lls-provider/lls-provider-spec.yaml";

/// By provider id, what its image declares.
pub(super) async fn packages(
    images: &Images,
    checked: &Checked,
    owner: &Owner,
) -> Result<BTreeMap<String, ProviderPackage>, Error> {
    let puller = Puller::of(checked, &owner.namespace);
    let (mut packages, mut refused) = (BTreeMap::new(), Vec::new());
    for provider in &checked.external {
        let text = images.file(&provider.image, DECLARATION, &puller).await;
        let text = text.map_err(|error| Error::ProviderImage {
            field: provider.path.field("image"),
            error: Box::new(error),
        })?;
        match declared(provider, &text) {
            Ok(package) => {
                packages.insert(provider.id.to_string(), package);
            }
            Err(rejection) => refused.push(rejection),
        }
    }
    Rejections::new(refused).map_or(Ok(packages), |refused| Err(refused.into()))
}

/// What a declaration says, if the provider can be used where the resource wants it.
fn declared(provider: &CheckedExternal, text: &[u8]) -> Result<ProviderPackage, Rejection> {
    let refuse = |problem: String, fix: &str| Rejection {
        field: provider.path.field("image"),
        problem: format!("{DECLARATION} of {}: {problem}", provider.image),
        fix: fix.to_owned(),
    };
    let text = std::str::from_utf8(text)
        .map_err(|_| refuse("is no text".to_owned(), "build the image again"))?;
    let package = ProviderPackage::read(text)
        .map_err(|error| refuse(error.to_string(), "correct it and build the image again"))?;
    if package.api != provider.api {
        let fix = "move the entry to the API that the image serves, or use another image";
        let problem = format!(
            "it serves the API {:?} and stands under {:?}",
            package.api, provider.api_field
        );
        return Err(refuse(problem, fix));
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
        let checked = llsd_api::review(document).result.expect("a good resource");
        checked.external[0].clone()
    }

    fn read(api: &str, kind: &str) -> Result<ProviderPackage, String> {
        let text = format!(
            "kind: {kind}\nspec: {{packageName: own, providerType: remote::own, api: {api}}}"
        );
        declared(&provider(), text.as_bytes()).map_err(|rejection| rejection.to_string())
    }

    #[test]
    fn a_declaration_is_taken_only_for_the_api_that_it_serves() {
        assert_eq!(read("vector_io", "ProviderPackage").unwrap().module, "own");
        let refused = read("inference", "ProviderPackage").unwrap_err();
        assert!(
            refused.starts_with("spec.externalProviders.vectorIo[0].image: ")
                && refused.contains("\"inference\"")
                && refused.contains("acme/own:1"),
            "{refused}"
        );
        assert!(read("vector_io", "Pod").unwrap_err().contains("\"Pod\""));
    }
}
