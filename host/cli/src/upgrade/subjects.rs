//! The resources to plan for.

use std::path::PathBuf;

use anyhow::ensure;
use llsd_api::KIND;
use serde_json::Value;

use super::Arguments;
use crate::{files, output};

/// A resource to plan for.
pub(crate) struct Subject {
    /// The file or the namespace that it is in.
    pub(crate) place: String,
    /// Its file, and its place among the documents of the file.
    pub(crate) file: Option<(PathBuf, usize)>,
    /// The resource as it was read.
    pub(crate) object: Value,
    /// Objects that may contain its ConfigMaps.
    pub(crate) objects: Vec<Value>,
    /// The dialect and the file that its server uses, as the cluster knows them.
    pub(crate) running: Option<(String, Value)>,
}

/// The resources of the files, or of the cluster.
pub(super) fn subjects(arguments: &Arguments) -> anyhow::Result<Vec<Subject>> {
    if arguments.paths.is_empty() {
        #[cfg(feature = "network")]
        return arguments.cluster.subjects();
        #[cfg(not(feature = "network"))]
        anyhow::bail!("pass files or folders with --filename");
    }
    let mut objects: Vec<(Option<(PathBuf, usize)>, Value)> = Vec::new();
    for path in &arguments.paths {
        let is_folder = path.is_dir();
        for file in files::yaml_files(path)? {
            match files::objects(&file) {
                Ok(found) => objects.extend(
                    found
                        .into_iter()
                        .enumerate()
                        .map(|(place, object)| (Some((file.clone(), place)), object)),
                ),
                // A folder may hold templates and other files that are not YAML.
                Err(error) if is_folder => output::print_note(&format!("skipped: {error:#}")),
                Err(error) => return Err(error),
            }
        }
    }
    let found = resources_of(objects);
    ensure!(!found.is_empty(), "the files contain no {KIND}");
    Ok(found)
}

/// The resources among objects, which may also contain their ConfigMaps. Each object may have a file, and a
/// place among its documents.
pub(super) fn resources_of(objects: Vec<(Option<(PathBuf, usize)>, Value)>) -> Vec<Subject> {
    let maps: Vec<Value> = objects
        .iter()
        .filter(|(_, object)| object["kind"] == "ConfigMap" || object["items"].is_array())
        .map(|(_, object)| object.clone())
        .collect();
    let resources = objects
        .into_iter()
        .filter(|(_, object)| object["kind"] == KIND);
    let subjects = resources.map(|(file, object)| Subject {
        place: match &file {
            Some((path, _)) => path.display().to_string(),
            None => "text of the page".to_owned(),
        },
        file,
        object,
        objects: maps.clone(),
        running: None,
    });
    subjects.collect()
}
