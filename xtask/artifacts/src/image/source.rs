//! What an image is built from: the commit and its time.

use std::process::Command;

use anyhow::Context;
use jiff::Timestamp;

use xtask::shell;

/// The repository of the sources.
pub const URL: &str = "https://github.com/llsd-project/llsd";

/// The commit that an image is built from.
pub struct Source {
    /// The commit, if the checkout is a git repository without uncommitted changes.
    pub revision: Option<String>,
    /// `SOURCE_DATE_EPOCH`, or the time of the commit, in seconds since 1970.
    pub time: u64,
}

impl Source {
    /// The source of this checkout.
    pub fn of_checkout() -> anyhow::Result<Self> {
        let commit = git(&["log", "-1", "--format=%H %ct"]);
        let (revision, committed) = commit
            .as_deref()
            .and_then(|line| line.split_once(' '))
            .unwrap_or_default();
        let is_clean = git(&["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(given) => given
                .parse()
                .with_context(|| format!("SOURCE_DATE_EPOCH={given} is not a number of seconds"))?,
            Err(_) => committed.parse().unwrap_or(0),
        };
        Ok(Self {
            revision: (is_clean && !revision.is_empty()).then(|| revision.to_owned()),
            time,
        })
    }

    /// The time in RFC 3339.
    pub fn created(&self) -> String {
        let seconds = i64::try_from(self.time).unwrap_or(0);
        Timestamp::from_second(seconds)
            .unwrap_or_default()
            .to_string()
    }
}

/// The output of git, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(shell::root())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
