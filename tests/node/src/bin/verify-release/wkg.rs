//! The exchange of plugins with wkg, the package tool of the Bytecode Alliance: what one of the two programs
//! pushes, the other one pulls.
//!
//! In: a component of the release. Out: an error, or nothing. A registry of its own is used, because both
//! programs push to it.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use llsd_testbed::{Access, Invocation, Registry, RegistryOptions};

use crate::artifacts::User;
use crate::say;

/// The plugin that is exchanged.
const PLUGIN: &str = "example-adapter";

/// Exchanges a component in both directions. It must arrive unchanged, and the operator must accept it.
pub(crate) async fn exchange(user: &User, wkg: PathBuf) -> Result<()> {
    say("==> plugins and wkg");
    let options = RegistryOptions {
        tls: false,
        access: Access::Anyone,
    };
    let registry = Registry::start(&options).await?;
    let host = registry.host();
    let component = user.component(PLUGIN);
    let reference = |name: &str| format!("{host}/{name}:{}", user.version);
    let plugin = |command: &str, name: &str| {
        let plain = ["--plain-http", host];
        let llsd = user.llsd().args(["plugin", command]).args(plain);
        llsd.arg(reference(name))
    };
    let oci = |command: &str, name: &str| {
        let insecure = ["--insecure", host];
        let wkg = user.program(&wkg).args(["oci", command]).args(insecure);
        wkg.arg(reference(name))
    };

    let push = plugin("push", "by-llsd").arg(&component);
    push.run().await?.success()?;
    let pulled = user.file("by-llsd.wasm");
    let pull = oci("pull", "by-llsd").arg("--output").arg(&pulled);
    same_component(pull, &pulled, &component).await?;

    let push = oci("push", "by-wkg").arg(&component);
    push.run().await?.success()?;
    let pulled = user.file("by-wkg.wasm");
    let pull = plugin("pull", "by-wkg").arg(&pulled);
    same_component(pull, &pulled, &component).await?;
    plugin("verify", "by-wkg").run().await?.success()?;
    Ok(())
}

async fn same_component(pull: Invocation, pulled: &Path, component: &Path) -> Result<()> {
    pull.run().await?.success()?;
    ensure!(
        std::fs::read(pulled)? == std::fs::read(component)?,
        "{} differs from {}",
        pulled.display(),
        component.display()
    );
    Ok(())
}
