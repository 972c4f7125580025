//! Files of Git revisions, read with the `git` program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// A file and its text.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The two sides of `A...B` (since B branched off A), `A..B`, or `A` (and the working tree).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) old: String,
    /// `None`: the working tree.
    pub(crate) new: Option<String>,
    /// Whether the old side is where the new one branched off.
    pub(crate) is_merge_base: bool,
}

impl Range {
    /// Parses a range. An empty side is `HEAD`, as in git.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let side = |text: &str| if text.is_empty() { "HEAD" } else { text }.to_owned();
        let (old, new, is_merge_base) = match (text.split_once("..."), text.split_once("..")) {
            (Some((old, new)), _) => (side(old), Some(side(new)), true),
            (None, Some((old, new))) => (side(old), Some(side(new)), false),
            (None, None) => (side(text), None, false),
        };
        for revision in [Some(&old), new.as_ref()].into_iter().flatten() {
            // git would take it for an option.
            ensure!(
                !revision.starts_with('-'),
                "--git: {revision:?} is not a revision"
            );
        }
        Ok(Self {
            old,
            new,
            is_merge_base,
        })
    }
}

/// Both sides of a range: the YAML files below `paths`. An empty list of paths is the whole repository.
pub(crate) fn sides(
    range: &Range,
    paths: &[String],
) -> anyhow::Result<(Vec<SourceFile>, Vec<SourceFile>)> {
    let old = if range.is_merge_base {
        let new = range.new.as_deref().unwrap_or("HEAD");
        let base = git(&["merge-base", "--end-of-options", &range.old, new])?;
        String::from_utf8_lossy(&base).trim().to_owned()
    } else {
        range.old.clone()
    };
    let before = of_revision(&old, paths)?;
    let after = match &range.new {
        Some(new) => of_revision(new, paths)?,
        None => of_working_tree(paths)?,
    };
    Ok((before, after))
}

fn of_revision(revision: &str, paths: &[String]) -> anyhow::Result<Vec<SourceFile>> {
    // A name like `main:samples` would be a tree of another path.
    let verified = git(&[
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &format!("{revision}^{{commit}}"),
    ])
    .with_context(|| format!("--git: {revision:?} is not a revision of this repository"))?;
    let commit = String::from_utf8_lossy(&verified).trim().to_owned();
    let mut arguments = vec![
        "ls-tree",
        "-r",
        "-z",
        "--name-only",
        "--full-name",
        &commit,
        "--",
    ];
    arguments.extend(paths.iter().map(String::as_str));
    let listed = git(&arguments)?;
    let mut files = Vec::new();
    for path in names(&listed) {
        let text = git(&["cat-file", "blob", &format!("{commit}:{path}")])?;
        files.push(SourceFile {
            text: String::from_utf8_lossy(&text).into_owned(),
            path,
        });
    }
    Ok(files)
}

/// The files that git tracks or would add.
fn of_working_tree(paths: &[String]) -> anyhow::Result<Vec<SourceFile>> {
    let top = String::from_utf8_lossy(&git(&["rev-parse", "--show-toplevel"])?)
        .trim()
        .to_owned();
    let mut arguments = vec![
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--full-name",
        "--",
    ];
    arguments.extend(paths.iter().map(String::as_str));
    let listed = git(&arguments)?;
    let mut files = Vec::new();
    for path in names(&listed) {
        let file = Path::new(&top).join(&path);
        // A deleted file is still listed until the deletion is staged.
        if file.is_file() {
            let bytes = std::fs::read(&file)
                .with_context(|| format!("failed to read {}", file.display()))?;
            files.push(SourceFile {
                text: String::from_utf8_lossy(&bytes).into_owned(),
                path,
            });
        }
    }
    Ok(files)
}

/// The YAML files among names that end with a zero byte.
fn names(listed: &[u8]) -> Vec<String> {
    let names = listed.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut names: Vec<String> = names
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"))
        .map(|name| name.into_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn git(arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .context("failed to run git; --git needs the git program")?;
    if !output.status.success() {
        bail!(
            "git {} failed: {}",
            arguments.first().unwrap_or(&""),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_git_reads_them() {
        let range = |text: &str| {
            let Range {
                old,
                new,
                is_merge_base,
            } = Range::parse(text).unwrap();
            (old, new, is_merge_base)
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(
            range("main...HEAD"),
            (text("main"), Some(text("HEAD")), true)
        );
        assert_eq!(range("main..."), (text("main"), Some(text("HEAD")), true));
        assert_eq!(range("v1..v2"), (text("v1"), Some(text("v2")), false));
        assert_eq!(range("main"), (text("main"), None, false));
        assert!(Range::parse("--output=x...HEAD").is_err());
        assert!(Range::parse("main..--x").is_err());
    }

    #[test]
    fn only_yaml_files_are_named_each_once() {
        assert_eq!(
            names(b"b.yml\0a.yaml\0c.txt\0a.yaml\0"),
            ["a.yaml", "b.yml"]
        );
    }
}
