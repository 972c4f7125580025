//! The image of an external provider, in the registry of the node.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use llsd_oci_layout::{Compression, ImageConfig, ImageLayout, Platform};
use llsd_testbed::{Invocation, Node};

const WHEEL: &str = "acme_inference-1.0.0-py3-none-any.whl";
const SPEC: &str = "lls-provider-spec.yaml";
/// What the operator's init container runs.
const PROGRAMS: [&str; 3] = ["sh", "cp", "mkdir"];

/// Writes the image of the provider `remote::acme`, pushes it to the registry of the node, and returns its
/// reference.
pub(crate) async fn push_provider(node: &Node, python: &Path) -> Result<String> {
    let folder = node.testbed().state().folder.join("images/provider");
    std::fs::create_dir_all(&folder)?;
    let wheel = folder.join(WHEEL);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/provider");
    let parts = ["acme_inference", "acme_inference-1.0.0.dist-info"];
    Invocation::new(python)
        .args(["-m", "zipfile", "--create"])
        .arg(&wheel)
        .args(parts.map(|part| fixtures.join(part)))
        .run()
        .await?
        .success()?;
    let image = format!("{}/acme/provider:1.0.0", node.registry());
    let layout = folder.join("layout");
    write(&layout, &image, &wheel, &fixtures.join(SPEC))?;
    node.import(&layout).await?;
    let push = node.ctr().args(["images", "push", "--plain-http", &image]);
    push.run().await?.success()?;
    Ok(image)
}

fn write(layout: &Path, image: &str, wheel: &Path, spec: &Path) -> Result<()> {
    let busybox = busybox()?;
    let mut layout = ImageLayout::create(layout, 0)?;
    let layer = layout.layer(Compression::Gzip, |layer| {
        layer.copy(&busybox, "bin/busybox")?;
        for program in PROGRAMS {
            layer.link(&format!("bin/{program}"), "busybox")?;
        }
        layer.copy(spec, &format!("lls-provider/{SPEC}"))?;
        layer.copy(wheel, &format!("lls-provider/packages/{WHEEL}"))
    })?;
    let config = ImageConfig::new(Platform::current(), &["/bin/sh"]);
    layout.image(image, &config, &[layer])?;
    layout.finish()
}

fn busybox() -> Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join("busybox"));
    found
        .find(|path| path.is_file())
        .context("busybox is not installed")
}
