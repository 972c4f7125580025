//! The folder of a release: files, an OCI layout in `oci`, and a table of both.

use std::path::{Path, PathBuf};

use anyhow::Context;
use data_encoding::HEXLOWER;
use llsd_oci_layout::Descriptor;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The file with the digests of all others.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// A folder that is being filled.
pub struct Dist {
    folder: PathBuf,
    files: Vec<Artifact>,
    artifacts: Vec<Artifact>,
}

/// A row of the table.
struct Artifact {
    name: String,
    /// In bytes. That of an OCI artifact includes everything that it refers to.
    size: u64,
    digest: String,
}

impl Dist {
    /// An empty folder. Removes what was there.
    pub fn create(folder: &Path) -> anyhow::Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("failed to remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(folder)
            .with_context(|| format!("failed to create {}", folder.display()))?;
        Ok(Self {
            folder: folder.to_owned(),
            files: Vec::new(),
            artifacts: Vec::new(),
        })
    }

    /// The OCI layout.
    pub fn layout(&self) -> PathBuf {
        self.folder.join("oci")
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file.
    pub fn add_file(&mut self, name: &str, content: Vec<u8>) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, &content)
            .with_context(|| format!("failed to write {}", path.display()))?;
        self.files.push(Artifact {
            name: name.to_owned(),
            size: content.len() as u64,
            digest: format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(&content))),
        });
        Ok(())
    }

    /// Adds an artifact of the layout. `name` is its repository and tag.
    pub fn add_artifact(&mut self, name: &str, descriptor: &Descriptor) -> anyhow::Result<()> {
        self.artifacts.push(Artifact {
            name: name.to_owned(),
            size: total_size(&self.layout(), descriptor)?,
            digest: descriptor.digest.clone(),
        });
        Ok(())
    }

    /// Name and digest of every file.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|file| (file.name.as_str(), file.digest.as_str()))
    }

    /// Name and digest of every artifact of the layout.
    pub fn artifacts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.artifacts
            .iter()
            .map(|artifact| (artifact.name.as_str(), artifact.digest.as_str()))
    }

    /// Writes the digests of all files, in the format of `sha256sum`.
    pub fn add_checksums(&mut self) -> anyhow::Result<()> {
        let line = |(name, digest): (&str, &str)| {
            format!("{}  {name}\n", digest.trim_start_matches("sha256:"))
        };
        let mut lines: Vec<String> = self.files().map(line).collect();
        lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
        self.add_file(CHECKSUMS, lines.concat().into_bytes())
    }

    /// The table of everything: artifact, size, digest.
    pub fn table(&self) -> String {
        let size = |artifact: &Artifact| format!("{:.1} kB", artifact.size as f64 / 1e3);
        let rows: Vec<[String; 3]> =
            std::iter::once(["artifact", "size", "digest"].map(str::to_owned))
                .chain(self.artifacts.iter().chain(&self.files).map(|artifact| {
                    [
                        artifact.name.clone(),
                        size(artifact),
                        artifact.digest.clone(),
                    ]
                }))
                .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let (first, second) = (width(0), width(1));
        let line = |[name, size, digest]: &[String; 3]| {
            format!("{name:first$}  {size:>second$}  {digest}\n")
        };
        rows.iter().map(line).collect()
    }
}

/// The size of a manifest or an image index, with the blobs and manifests that it refers to.
fn total_size(layout: &Path, descriptor: &Descriptor) -> anyhow::Result<u64> {
    let path = layout
        .join("blobs")
        .join(descriptor.digest.replace(':', "/"));
    let content =
        std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let document: Value = serde_json::from_slice(&content)?;
    let list = |key: &str| document[key].as_array().cloned().unwrap_or_default();
    let mut size = descriptor.size;
    for manifest in list("manifests") {
        size += total_size(layout, &serde_json::from_value(manifest)?)?;
    }
    let blobs = list("layers")
        .into_iter()
        .chain([document["config"].clone()]);
    size += blobs.filter_map(|blob| blob["size"].as_u64()).sum::<u64>();
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_the_format_of_sha256sum_and_are_sorted_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut dist = Dist::create(folder.path()).unwrap();
        dist.add_file("b", b"second".to_vec()).unwrap();
        dist.add_file("a", b"first".to_vec()).unwrap();
        dist.add_checksums().unwrap();
        let sums = std::fs::read_to_string(dist.path(CHECKSUMS)).unwrap();
        assert_eq!(
            sums,
            "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e  a\n\
             16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4  b\n"
        );
        let table = dist.table();
        let columns: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(columns[..3], ["b", "0.0", "kB"]);
    }
}
