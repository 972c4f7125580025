//! Reads the commands of the guides.
//!
//! A block of commands is fenced as `console`. A line that starts with `$ ` is a command. A line that
//! starts with `> ` or follows a backslash continues it. Every other line is output. A second word after
//! `console` names the environment: `cluster` needs a cluster with an operator, `install` one without, and
//! `by-hand` marks commands that no test can run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::checkout;

/// What the commands of a block need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// Only our programs.
    Anywhere,
    /// A cluster with an operator.
    Cluster,
    /// A cluster without an operator.
    Install,
    /// Something that tests do not have.
    ByHand,
}

/// A fenced block of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line number of its fence, from 1.
    pub line: usize,
    /// What its commands need.
    pub environment: Environment,
    /// Its commands, ready for a shell.
    pub commands: Vec<String>,
}

/// The Markdown pages of the checkout and its `docs` folder, sorted.
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

/// The blocks of a page for some environments.
pub fn blocks_of(page: &Path, is_wanted: impl Fn(Environment) -> bool) -> Result<Vec<Block>> {
    let text = std::fs::read_to_string(page)?;
    let mut blocks = blocks(&text).with_context(|| page.display().to_string())?;
    blocks.retain(|block| is_wanted(block.environment));
    Ok(blocks)
}

/// Every block of commands of a page, in order.
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
        let environment = match info.split_whitespace().collect::<Vec<_>>()[..] {
            ["console"] => Environment::Anywhere,
            ["console", "cluster"] => Environment::Cluster,
            ["console", "install"] => Environment::Install,
            ["console", "by-hand"] => Environment::ByHand,
            ["console", ..] | ["sh" | "bash" | "shell", ..] => {
                bail!(
                    "line {number}: the fence of a block of commands must be `console`, alone or followed by `cluster`, `install` or `by-hand`"
                )
            }
            _ => continue,
        };
        let commands = commands(&body).with_context(|| format!("line {number}"))?;
        ensure!(
            !commands.is_empty(),
            "line {number}: the block has no command; start each command with `$ `"
        );
        blocks.push(Block {
            line: number,
            environment,
            commands,
        });
    }
    Ok(blocks)
}

fn commands(body: &[&str]) -> Result<Vec<String>> {
    let mut commands = Vec::<String>::new();
    let mut continues = false;
    for line in body {
        let next = line.strip_prefix("> ").or(continues.then_some(*line));
        if let Some(next) = next {
            let command = commands
                .last_mut()
                .context("a continuation line has no command before it")?;
            command.push('\n');
            command.push_str(next);
        } else if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
        } else {
            continue;
        }
        continues = line.ends_with('\\');
    }
    ensure!(!continues, "the last command must not end with a backslash");
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_separated_from_their_output() {
        let page = "text\n```console cluster\n$ one \\\n    more\nprinted\n$ two <<E\n> in\n> E\n```\n\n```yaml\n$ no\n```\n";
        let block = Block {
            line: 2,
            environment: Environment::Cluster,
            commands: vec!["one \\\n    more".to_owned(), "two <<E\nin\nE".to_owned()],
        };
        assert_eq!(blocks(page).unwrap(), [block]);
    }

    #[test]
    fn a_block_that_no_test_would_run_is_rejected() {
        for page in [
            "```sh\nls\n```\n",
            "```console later\n$ ls\n```\n",
            "```console\nls\n```\n",
        ] {
            assert!(blocks(page).is_err(), "{page}");
        }
    }
}
