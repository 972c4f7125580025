//! `cargo xtask demo`: the main job, offline.

use crate::shell;

/// Renders a sample with the adapters inside the binary and shows what changed against the base.
pub fn run(is_built: bool) -> anyhow::Result<()> {
    if !is_built {
        // The demo talks to no cluster and no registry, so it builds no client for them.
        shell::step(
            "build llsd (some minutes the first time)",
            &mut shell::cargo(&["build", "--package", "llsd", "--no-default-features"]),
        )?;
    }
    let binary = shell::target().join("debug/llsd");
    anyhow::ensure!(
        binary.is_file(),
        "{} was not found; leave out --built to build it",
        binary.display()
    );
    let llsd = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&binary);
        command.args(arguments).current_dir(shell::root());
        command
    };
    shell::step(
        "the resource: samples/minimal.yaml",
        std::process::Command::new("cat").arg(shell::root().join("samples/minimal.yaml")),
    )?;
    shell::step(
        "llsd check -f samples/minimal.yaml",
        &mut llsd(&["check", "-f", "samples/minimal.yaml"]),
    )?;
    shell::step(
        "llsd render -f samples/minimal.yaml --output diff",
        &mut llsd(&["render", "-f", "samples/minimal.yaml", "--output", "diff"]),
    )?;
    eprintln!("\nNext: cargo run -p llsd -- render -f samples/full.yaml");
    Ok(())
}
