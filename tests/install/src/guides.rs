//! The commands that our guides tell people to type.
//!
//! A block of commands is fenced as `console`; a line that begins with `$ ` is a command, one that begins
//! with `> ` or follows a backslash goes on with it, and every other line is what it prints. A second word
//! says where it can run: `cluster` needs one with an operator, `install` one without, `by-hand` marks what a
//! test cannot run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::checkout;

/// Where the commands of a block can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On any machine with our programs.
    Anywhere,
    /// Against a cluster with an operator.
    Cluster,
    /// Against a cluster with nothing installed.
    Install,
    /// Nowhere that a test can reach.
    ByHand,
}

/// A fenced block of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Line of its fence, from 1.
    pub line: usize,
    /// Where it can run.
    pub place: Place,
    /// Its commands, ready for a shell.
    pub commands: Vec<String>,
}

/// Pages with commands, below the checkout, in the order in which they are read.
pub fn pages() -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for folder in [checkout(), checkout().join("docs")] {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The blocks of a page that can run in a place.
pub fn blocks_of(page: &Path, is_wanted: impl Fn(Place) -> bool) -> Result<Vec<Block>> {
    let text = std::fs::read_to_string(page)?;
    let mut blocks = blocks(&text).with_context(|| page.display().to_string())?;
    blocks.retain(|block| is_wanted(block.place));
    Ok(blocks)
}

/// Every block of commands of a Markdown page, in order.
fn blocks(markdown: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| !line.starts_with("```"))
            .collect();
        let number = index + 1;
        let place = match info.split_whitespace().collect::<Vec<_>>()[..] {
            ["console"] => Place::Anywhere,
            ["console", "cluster"] => Place::Cluster,
            ["console", "install"] => Place::Install,
            ["console", "by-hand"] => Place::ByHand,
            ["console", ..] | ["sh" | "bash" | "shell", ..] => {
                bail!(
                    "line {number}: write `console`, or `console` and one of `cluster`, `install`, `by-hand`"
                )
            }
            _ => continue,
        };
        let commands = commands(&body).with_context(|| format!("line {number}"))?;
        ensure!(
            !commands.is_empty(),
            "line {number}: no line begins with `$ `"
        );
        blocks.push(Block {
            line: number,
            place,
            commands,
        });
    }
    Ok(blocks)
}

fn commands(body: &[&str]) -> Result<Vec<String>> {
    let mut commands = Vec::<String>::new();
    let mut is_open = false;
    for line in body {
        let next = line.strip_prefix("> ").or(is_open.then_some(*line));
        if let Some(next) = next {
            let command = commands.last_mut().context("nothing to go on with")?;
            command.push('\n');
            command.push_str(next);
        } else if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
        } else {
            continue;
        }
        is_open = line.ends_with('\\');
    }
    ensure!(!is_open, "the last command ends with a backslash");
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_what_they_print() {
        let page = "text\n```console cluster\n$ one \\\n    more\nprinted\n$ two <<E\n> in\n> E\n```\n\n```yaml\n$ no\n```\n";
        let block = Block {
            line: 2,
            place: Place::Cluster,
            commands: vec!["one \\\n    more".to_owned(), "two <<E\nin\nE".to_owned()],
        };
        assert_eq!(blocks(page).unwrap(), [block]);
    }

    #[test]
    fn a_block_that_no_test_would_look_at_is_refused() {
        for page in [
            "```sh\nls\n```\n",
            "```console later\n$ ls\n```\n",
            "```console\nls\n```\n",
        ] {
            assert!(blocks(page).is_err(), "{page}");
        }
    }
}
