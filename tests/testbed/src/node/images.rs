//! The images that a node needs before any test runs, and how images get into its containerd.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use llsd_oci_layout::{Compression, ImageConfig, ImageLayout, Platform};

use super::libraries::{self, find_program};
use super::{config, dns};
use crate::toolchain::{self, Tool};
use crate::wait::until;

/// The namespace of containerd that the kubelet uses.
const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// The operator's image, under the name that the manifests use. The tag is not `latest`, so the kubelet
/// does not try to pull it.
pub const OPERATOR_IMAGE: &str = concat!("ghcr.io/llsd-project/llsd:", env!("CARGO_PKG_VERSION"));

/// Imports the images of pods that every node runs. Runs inside the node.
pub(super) async fn import_system_images(folder: &Path, cache: &Path) -> Result<()> {
    let socket = || async {
        let problem = "containerd does not listen yet";
        std::os::unix::net::UnixStream::connect(config::CONTAINERD_SOCKET).context(problem)
    };
    until("containerd listens", Duration::from_secs(240), socket).await?;
    let coredns = toolchain::locate(cache, Tool::Coredns)?.context("CoreDNS is not built")?;
    let images = folder.join("images");
    let (pause, dns) = (images.join("pause"), images.join("coredns"));
    write_program(
        &pause,
        config::PAUSE_IMAGE,
        &busybox()?,
        &["/busybox", "tail", "-f", "/dev/null"],
        "",
    )?;
    write_program(&dns, dns::IMAGE, &coredns, &["/coredns"], "")?;
    for layout in [pause, dns] {
        import(Command::new("ctr"), &layout)?;
    }
    Ok(())
}

/// Writes the operator's image with an `llsd` that was built for this machine, under the name `image`.
///
/// It differs from the published image in the binary, which is not static, and in the libraries that
/// this binary needs.
pub(super) fn write_operator_image(layout: &Path, llsd: &Path, image: &str) -> Result<()> {
    write_program(layout, image, llsd, &["/llsd"], "65532:65532")
}

/// Writes an image with one program at the path that the entry point starts with, and the libraries that
/// it is linked to.
fn write_program(
    layout: &Path,
    name: &str,
    program: &Path,
    entrypoint: &[&str],
    user: &str,
) -> Result<()> {
    let mut layout = ImageLayout::create(layout, 0)?;
    let layer = layout.layer(Compression::None, |layer| {
        for library in libraries::of_program(program)? {
            layer.copy(&library, &libraries::path_in_image(&library))?;
        }
        layer.copy(program, entrypoint[0].trim_start_matches('/'))
    })?;
    let mut config = ImageConfig::new(Platform::current(), entrypoint);
    config.user = user.to_owned();
    layout.image(name, &config, &[layer])?;
    layout.finish()
}

/// The static busybox of the distribution.
pub(super) fn busybox() -> Result<PathBuf> {
    let found = find_program("busybox").context(
        "busybox was not found; install the package busybox-static, or run `cargo xtask node up` as root",
    )?;
    if libraries::of_program(&found)?.is_empty() {
        return Ok(found);
    }
    bail!(
        "{} is not static; install the package busybox-static",
        found.display()
    )
}

/// Imports a layout into containerd. `ctr` is the command that reaches it.
pub(super) fn import(mut ctr: Command, layout: &Path) -> Result<()> {
    ctr.args(["--address", config::CONTAINERD_SOCKET]);
    ctr.args(["--namespace", CONTAINERD_NAMESPACE]);
    ctr.args(["images", "import", "--snapshotter", "overlayfs", "-"]);
    let mut child = ctr
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to run ctr")?;
    let mut input = child.stdin.take().context("ctr has no standard input")?;
    let written = llsd_oci_layout::export(layout, &mut input);
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        bail!("failed to import {}: {}", layout.display(), messages.trim());
    }
    written
}
