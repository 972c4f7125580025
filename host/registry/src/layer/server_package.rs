//! Finds the release of the server in the names of a layer's entries.
//!
//! In: the paths of a layer, one after the other. Out: the folder in which Python's installer records
//! the server package, such as `…/site-packages/llama_stack-0.3.5.dist-info`. Only names are compared;
//! no additional file is read.

/// The server packages, as installers spell them in the names of folders.
const PACKAGES: [&str; 2] = ["llama_stack-", "ogx-"];
const SUFFIX: &str = ".dist-info";
/// The folders of installed packages. Elsewhere, such a folder belongs to a cache or a test.
const PACKAGE_FOLDERS: [&str; 2] = ["site-packages", "dist-packages"];
/// The longest path that is kept. A layer is untrusted input, and the path is part of the status.
const MAX_PATH_BYTES: usize = 512;

/// The server package in a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerPackage {
    #[default]
    Absent,
    /// The folder that records it.
    Folder(String),
    /// There are several versions or packages, so that none of them can be trusted.
    Ambiguous,
}

impl ServerPackage {
    /// Takes the path of an entry into account.
    pub(super) fn visit(&mut self, path: &str) {
        let Some(folder) = metadata_folder(path) else {
            return;
        };
        match self {
            Self::Absent => *self = Self::Folder(folder.to_owned()),
            Self::Folder(known) if file_name(known) == file_name(folder) => {}
            Self::Folder(_) => *self = Self::Ambiguous,
            Self::Ambiguous => {}
        }
    }

    /// The folder, if there is exactly one package in one version.
    pub(super) fn into_folder(self) -> Option<String> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Absent | Self::Ambiguous => None,
        }
    }
}

/// The version in the name of a folder: `0.3.5` of `…/llama_stack-0.3.5.dist-info`.
pub(crate) fn version_of(folder: &str) -> Option<&str> {
    let name = file_name(folder).strip_suffix(SUFFIX)?;
    let version = PACKAGES
        .iter()
        .find_map(|package| name.strip_prefix(package))?;
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some(version)
}

/// The metadata folder that a path is, or is inside of.
fn metadata_folder(path: &str) -> Option<&str> {
    let mut start = 0;
    let mut is_in_packages = false;
    for part in path.split('/') {
        let end = start + part.len();
        if is_in_packages && version_of(part).is_some() {
            let folder = path.get(..end)?;
            let is_kept = folder.len() <= MAX_PATH_BYTES && !folder.contains(char::is_control);
            return is_kept.then_some(folder);
        }
        is_in_packages = PACKAGE_FOLDERS.contains(&part);
        start = end + 1;
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Option<String> {
        let mut package = ServerPackage::default();
        for path in paths {
            package.visit(path);
        }
        package.into_folder()
    }

    #[test]
    fn the_server_package_is_found_among_other_packages_and_its_version_is_read() {
        let folder = "opt/app/lib/python3.12/site-packages/llama_stack-0.3.0rc3+rhai0.dist-info";
        let paths = [
            "opt/app/lib/python3.12/site-packages/llama_stack_client-0.3.5.dist-info/METADATA",
            "opt/app/lib/python3.12/site-packages/llama_stack/run.yaml",
            folder,
            "opt/app/lib/python3.12/site-packages/llama_stack-0.3.0rc3+rhai0.dist-info/RECORD",
            "opt/app/lib/python3.12/site-packages/ogx_client-1.0.0.dist-info",
        ];
        assert_eq!(found(&paths).as_deref(), Some(folder));
        assert_eq!(version_of(folder), Some("0.3.0rc3+rhai0"));
        let ogx = "usr/lib/python3/dist-packages/ogx-1.2.0.dist-info/METADATA";
        let folder = found(&[ogx]).unwrap();
        assert_eq!(version_of(&folder), Some("1.2.0"));
    }

    #[test]
    fn a_folder_that_is_not_installed_is_ignored() {
        for path in [
            "root/.cache/uv/archive-v0/x/llama_stack-0.3.5.dist-info/METADATA",
            "llama_stack-0.3.5.dist-info",
            "lib/site-packages/.wh.llama_stack-0.3.5.dist-info",
            "lib/site-packages/llama_stack-.dist-info",
            "lib/site-packages/llama_stack-0.3.5.egg-info",
        ] {
            assert_eq!(found(&[path]), None, "{path}");
        }
        let long = format!("{}/site-packages/ogx-1.0.0.dist-info", "x".repeat(2000));
        assert_eq!(found(&[&long]), None);
        assert_eq!(found(&["a\nb/site-packages/ogx-1.0.0.dist-info"]), None);
    }

    #[test]
    fn two_versions_are_no_answer_and_two_copies_of_one_version_are() {
        let of = |place: &str, name: &str| format!("{place}/site-packages/{name}.dist-info");
        let first = of("a", "llama_stack-0.3.5");
        assert_eq!(found(&[&first, &of("b", "llama_stack-0.4.0")]), None);
        assert_eq!(found(&[&first, &of("b", "ogx-1.0.0"), &first]), None);
        assert_eq!(found(&[&first, &of("b", "llama_stack-0.3.5")]), Some(first));
    }
}
