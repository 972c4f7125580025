//! `cargo xtask demo`: generates the configuration of a sample, without a cluster.

use crate::shell;

/// Dependencies that the demo compiles without optimisation, which takes half of the time of its whole first
/// build. The demo then waits half a minute for Cranelift, once: `llsd` stores the machine code of adapters.
const NOT_OPTIMISED: [&str; 7] = [
    "cranelift-assembler-x64",
    "cranelift-codegen",
    "gimli",
    "object",
    "pulley-interpreter",
    "wasmtime",
    "wasmtime-environ",
];

/// Checks a sample with the built-in adapters, and shows its configuration as a diff against the base.
pub fn run(is_built: bool) -> anyhow::Result<()> {
    if !is_built {
        build()?;
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
        "llsd check -f samples/minimal.yaml (compiles the adapters the first time)",
        &mut llsd(&["check", "-f", "samples/minimal.yaml"]),
    )?;
    shell::step(
        "llsd render -f samples/minimal.yaml --output diff",
        &mut llsd(&["render", "-f", "samples/minimal.yaml", "--output", "diff"]),
    )?;
    eprintln!(
        "\nNext, play with it in the browser: cargo run -p llsd -- explore --open (builds the rest first)"
    );
    Ok(())
}

/// Builds `llsd` without the clients of clusters and registries, which the demo does not use.
fn build() -> anyhow::Result<()> {
    let mut build = shell::cargo(&["build", "--package", "llsd", "--no-default-features"]);
    // What would make the next build faster only costs time.
    build.env("CARGO_INCREMENTAL", "0");
    build.args(["--config", "profile.dev.debug=false"]);
    for name in NOT_OPTIMISED {
        let setting = format!("profile.dev.package.{name}.opt-level=0");
        build.args(["--config", &setting]);
    }
    shell::step("build llsd (some minutes the first time)", &mut build)
}
