//! The referrers of a manifest: the referrers API with its pages, and the fallback tag.

use reqwest::Response;
use reqwest::header::LINK;
use url::Url;

use super::{Access, Session};
use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, Document, Index, OCI_INDEX};
use crate::transport::{Request, read_body};

/// The most pages that are read. A registry puts at least a hundred referrers on a page.
const MAX_PAGES: usize = 16;
/// The most referrers that are kept.
const MAX_REFERRERS: usize = 1024;

impl Session {
    /// The referrers from the referrers API, from all pages.
    pub(crate) async fn referrers(
        &self,
        repository: &str,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, Error> {
        let at = self.at(repository, &subject.to_string());
        let mut url = self.url(&at, &[repository, "referrers", &subject.to_string()])?;
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let request = Request::get(url.clone(), &at).accept(OCI_INDEX);
            let response = self.send(repository, Access::Pull, &request).await?;
            let next = next_page(&response, &url, &at)?;
            let timeouts = self.transport.timeouts;
            let bytes = read_body(response, &at, self.manifest_limit, timeouts).await?;
            all.extend(referrers_in(&bytes, &at)?);
            match next {
                Some(next) if all.len() < MAX_REFERRERS => url = next,
                _ => break,
            }
        }
        all.truncate(MAX_REFERRERS);
        Ok(all)
    }

    /// The referrers from the tag that clients write if the registry has no referrers API.
    pub(crate) async fn referrers_from_tag(
        &self,
        repository: &str,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, Error> {
        let tag = fallback_tag(subject);
        match self.get_manifest(repository, &tag).await {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(stored) => {
                let mut all = referrers_in(&stored.bytes, &self.at(repository, &tag))?;
                all.truncate(MAX_REFERRERS);
                Ok(all)
            }
        }
    }
}

/// The tag of the list of referrers, in a registry without the referrers API.
pub(super) fn fallback_tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

fn referrers_in(bytes: &[u8], at: &str) -> Result<Vec<Descriptor>, Error> {
    match Document::parse(bytes) {
        Ok(Document::Index(Index { manifests })) => Ok(manifests),
        Ok(Document::Manifest(_)) => Ok(Vec::new()),
        Err(problem) => Err(Error::UnexpectedResponse {
            at: at.to_owned(),
            problem,
        }),
    }
}

/// The URL of the next page, from `Link: <…>; rel="next"`. It must be on the registry, because the
/// request carries our authorization.
fn next_page(response: &Response, current: &Url, at: &str) -> Result<Option<Url>, Error> {
    let values = response.headers().get_all(LINK).iter();
    let Some(target) = values
        .filter_map(|value| next_link(value.to_str().ok()?))
        .next()
    else {
        return Ok(None);
    };
    match current.join(target) {
        Ok(next) if next.origin() == current.origin() => Ok(Some(next)),
        _ => Err(Error::UnexpectedResponse {
            at: at.to_owned(),
            problem: "the next page of referrers is not on the registry".to_owned(),
        }),
    }
}

/// The target of `<target>; rel="next"`.
fn next_link(value: &str) -> Option<&str> {
    let (target, parameters) = value.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = parameters.split(';').any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"') == "next"
    });
    is_next.then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_read_from_the_link_header() {
        let next = "</v2/a/referrers/sha256:1?last=x>; rel=\"next\"";
        assert_eq!(next_link(next), Some("/v2/a/referrers/sha256:1?last=x"));
        assert_eq!(next_link("<x>;rel=next"), Some("x"));
        for other in ["<x>; rel=\"prev\"", "x; rel=next", "<x", ""] {
            assert_eq!(next_link(other), None, "{other}");
        }
    }
}
