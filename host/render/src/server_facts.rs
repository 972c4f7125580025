//! What the operator knows about a server without starting it.
//!
//! In: the image, the dialect and the configuration of a server, as far as they are known. Out: what
//! its pods depend on if the operator does not generate the configuration.

use std::collections::BTreeMap;

use llsd_api::server_variables::{Form, readings};
use serde::{Deserialize, Serialize};

use crate::yaml;

/// The home directories of servers, as their configurations name them.
const HOMES: [&str; 2] = ["~/.llama", "~/.ogx"];
/// Directory with providers that are part of the image. It holds no data.
const PROVIDERS_FOLDER: &str = "/providers.d";
/// Repositories of the published images. Their tags are releases of the server.
const PUBLISHED: [&str; 2] = ["llamastack/distribution-", "ogxai/distribution-"];
/// The first release whose published images read the path of the configuration from a variable.
const FIRST_WITH_VARIABLE: (u32, u32) = (0, 3);

/// What is known about a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// The user in the image's configuration.
    pub user: Option<String>,
    /// How the image finds its configuration.
    pub entry_point: EntryPoint,
    /// The variables with which the server's configuration sets its data directories, and each
    /// directory relative to the home of the server. `None`: the configuration is not known.
    pub data_folders: Option<BTreeMap<String, String>>,
}

/// How the entry point of an image finds the server configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryPoint {
    /// By the variable `RUN_CONFIG_PATH`.
    Variable,
    /// By a path or a template name in the entry point itself, as images of 0.1 and 0.2 do.
    Fixed,
    /// The release is not known.
    #[default]
    Unknown,
}

impl EntryPoint {
    /// The entry point of an image. Its dialect decides, or else the tag of a published image.
    pub fn of(image: &str, schema: Option<&str>) -> Self {
        let release = match schema.and_then(|schema| schema.split_once('/')) {
            Some(("llama-stack", release)) => Some(release),
            Some(_) => return Self::Variable,
            None => published_release(image),
        };
        match release.and_then(major_and_minor) {
            Some(release) if release < FIRST_WITH_VARIABLE => Self::Fixed,
            Some(_) => Self::Variable,
            None => Self::Unknown,
        }
    }
}

/// The variables whose default is a directory below the home of the server, and that directory
/// relative to it. `None` if the text is not a configuration.
pub fn data_folders(text: &str) -> Option<BTreeMap<String, String>> {
    let config = yaml::read(text).ok()?;
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for reading in readings(&config) {
        let Form::Or(default) = reading.form else {
            continue;
        };
        let Some(folder) = below_home(default) else {
            continue;
        };
        // The shortest of several is the common parent.
        let kept = found
            .entry(reading.name.to_owned())
            .or_insert_with(|| folder.to_owned());
        if (folder.len(), folder) < (kept.len(), kept.as_str()) {
            *kept = folder.to_owned();
        }
    }
    Some(found)
}

fn below_home(path: &str) -> Option<&str> {
    let folder = HOMES.iter().find_map(|home| path.strip_prefix(home))?;
    let folder = folder.trim_end_matches('/');
    let is_below = folder.is_empty() || folder.starts_with('/');
    (is_below && !folder.ends_with(PROVIDERS_FOLDER)).then_some(folder)
}

fn published_release(image: &str) -> Option<&str> {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let (repository, tag) = image.rsplit_once(':')?;
    let mut names = PUBLISHED
        .iter()
        .filter_map(|one| repository.rsplit_once(one));
    let (_, name) = names.next()?;
    (!name.contains('/')).then_some(tag)
}

fn major_and_minor(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_decides_the_entry_point_or_else_the_tag_of_a_published_image() {
        let (published, own) = (
            "docker.io/llamastack/distribution-starter:0.2.12",
            "a/b:0.2.12",
        );
        for (image, schema, expected) in [
            (own, Some("llama-stack/0.1.3"), EntryPoint::Fixed),
            (own, Some("llama-stack/0.2.13"), EntryPoint::Fixed),
            (own, Some("llama-stack/0.3"), EntryPoint::Variable),
            (published, Some("llama-stack/0.7"), EntryPoint::Variable),
            (own, Some("ogx/0.8"), EntryPoint::Variable),
            (published, None, EntryPoint::Fixed),
            (
                "mirror:5000/llamastack/distribution-starter:0.7.1",
                None,
                EntryPoint::Variable,
            ),
            (
                "docker.io/ogxai/distribution-starter:1.3.0",
                None,
                EntryPoint::Variable,
            ),
            (
                "llamastack/distribution-starter@sha256:aa",
                None,
                EntryPoint::Unknown,
            ),
            (
                "llamastack/distribution-starter:latest",
                None,
                EntryPoint::Unknown,
            ),
            (own, None, EntryPoint::Unknown),
        ] {
            assert_eq!(
                EntryPoint::of(image, schema),
                expected,
                "{image} {schema:?}"
            );
        }
    }

    #[test]
    fn data_folders_are_the_defaults_below_a_home_directory() {
        let text = "
storage_dir: ${env.FILES_STORAGE_DIR:=~/.llama/distributions/acme/files}
db: ${env.SQLITE_STORE_DIR:=~/.llama/distributions/acme}/kv.db
deeper: ${env.SQLITE_STORE_DIR:=~/.llama/distributions/acme/deeper}/kv.db
older: ${env.OLD_STORE:~/.ogx/}
external_providers_dir: ${env.EXTERNAL_PROVIDERS_DIR:=~/.llama/providers.d}
url: ${env.URL:=http://vllm}
other: ${env.OTHER:=~/.llamas/x}
";
        let expected = [
            ("FILES_STORAGE_DIR", "/distributions/acme/files"),
            ("OLD_STORE", ""),
            ("SQLITE_STORE_DIR", "/distributions/acme"),
        ];
        let expected = expected.map(|(name, folder)| (name.to_owned(), folder.to_owned()));
        assert_eq!(data_folders(text), Some(expected.into()));
        assert_eq!(data_folders("a: [b"), None);
    }
}
