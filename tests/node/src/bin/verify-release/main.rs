//! `verify-release`: checks a release, and installs it from its artifacts alone, as a user would.
//!
//! In: the folder and the registry of a release, the public key if it is signed, and the release before.
//! Out: an error, or nothing. Digests and signatures are checked with sha256sum, crane and cosign, and a plugin
//! is exchanged with wkg. Then the release is installed on a real node, with programs that have an empty home
//! folder.
//!
//! `cargo xtask release --verify` runs it.

mod artifacts;
mod installation;
mod wkg;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use artifacts::User;
use installation::{Installation, Previous};

#[tokio::main]
async fn main() -> ExitCode {
    match verify().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The arguments: folder and registry of the release, cosign, wkg, folder of the release before, and the
/// public key if there is one.
async fn verify() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let mut next = |what: &str| arguments.next().with_context(|| format!("missing: {what}"));
    let dist = std::path::absolute(next("the folder of the release")?)?;
    let registry = next("the registry")?.display().to_string();
    let cosign = next("cosign")?;
    let wkg = next("wkg")?;
    let previous = Previous::in_folder(&next("the folder of the release before")?);
    let key = next("the key").ok().map(std::path::absolute).transpose()?;
    let user = User::new(dist, &registry, cosign, key)?;

    user.check_files().await?;
    user.check_registry().await?;
    user.unpack().await?;
    wkg::exchange(&user, wkg).await?;
    Installation::start(&user).await?.run(&previous).await?;
    say("the release is complete, and can be installed from its artifacts alone");
    Ok(())
}

#[expect(clippy::print_stderr, reason = "progress and errors of a program")]
fn say(line: &str) {
    eprintln!("{line}");
}
