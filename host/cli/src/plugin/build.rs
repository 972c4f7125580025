//! `llsd plugin build`: builds a plugin as a component.
//!
//! The language follows from the files of the directory. Rust is built by cargo, JavaScript by the
//! componentize-qjs that the plugin's package.json pins, and C by `$CC`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::embedded;
use super::new::Language;
use crate::{Exit, files, output};

/// Arguments of `plugin build`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the plugin
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// File to write the component to; by default <plugin>/target/<directory name>.wasm
    #[arg(long, short)]
    output: Option<PathBuf>,
}

/// Builds the plugin and writes the component.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let folder = arguments
        .folder
        .canonicalize()
        .with_context(|| format!("directory {} not found", arguments.folder.display()))?;
    let target = folder.join("target");
    std::fs::create_dir_all(&target)
        .with_context(|| format!("failed to create {}", target.display()))?;
    let component = match language(&folder)? {
        Language::Rust => llsd_componentize::build(&folder, &target)?,
        Language::Js => build_javascript(&folder, &target)?,
        Language::C => build_c(&folder, &target)?,
    };
    let name = folder.file_name().unwrap_or_else(|| "plugin".as_ref());
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| target.join(name).with_added_extension("wasm"));
    files::write(&output, &component)?;
    output::print_note(&format!(
        "{}: {} KiB",
        output.display(),
        component.len().div_ceil(1024)
    ));
    Ok(Exit::Success)
}

/// The language of the plugin in a directory.
pub(super) fn language(folder: &Path) -> anyhow::Result<Language> {
    for (file, language) in [
        ("Cargo.toml", Language::Rust),
        ("package.json", Language::Js),
        ("src/adapter.c", Language::C),
        ("src/pack.c", Language::C),
    ] {
        if folder.join(file).is_file() {
            return Ok(language);
        }
    }
    bail!(
        "{} has none of Cargo.toml, package.json and src/adapter.c; create a plugin with `llsd plugin new`",
        folder.display()
    )
}

/// The source file of a plugin that is not written in Rust, and the world that its name stands for.
fn source(folder: &Path, extension: &str) -> anyhow::Result<(PathBuf, &'static str)> {
    for (name, world) in [("adapter", "schema-adapter"), ("pack", "provider-pack")] {
        let file = folder
            .join("src")
            .join(name)
            .with_added_extension(extension);
        if file.is_file() {
            return Ok((file, world));
        }
    }
    bail!(
        "{} has neither src/adapter.{extension} nor src/pack.{extension}; the name decides which world is built",
        folder.display()
    )
}

/// Builds an ES module with the QuickJS engine, initialised at build time.
fn build_javascript(folder: &Path, target: &Path) -> anyhow::Result<Vec<u8>> {
    let (script, world) = source(folder, "js")?;
    let compiler = folder.join("node_modules/.bin/componentize-qjs");
    ensure!(
        compiler.is_file(),
        "componentize-qjs is not installed in {}; run `npm install`",
        folder.display()
    );
    let output = target.join("component.wasm");
    let mut command = Command::new(compiler);
    command
        .arg("--wit")
        .arg(wit(folder, target)?)
        .args(["--world", world, "--stub-wasi", "--sync", "--opt-size"])
        .arg("--module-root")
        .arg(folder.join("src"))
        .arg("--js")
        .arg(script)
        .arg("--output")
        .arg(&output);
    execute(&mut command, "install Node.js")?;
    files::bytes(&output)
}

/// Compiles and links all C files without a C library, and wraps the module.
fn build_c(folder: &Path, target: &Path) -> anyhow::Result<Vec<u8>> {
    let (_, world) = source(folder, "c")?;
    let mut sources = Vec::new();
    for part in ["sdk", "src"] {
        let part = folder.join(part);
        let entries = std::fs::read_dir(&part)
            .with_context(|| format!("failed to read {}", part.display()))?;
        let files = entries.flatten().map(|entry| entry.path());
        sources.extend(files.filter(|file| file.extension().is_some_and(|end| end == "c")));
    }
    sources.sort();
    let module = target.join("module.wasm");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "clang".to_owned());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("clang"));
    command
        .args(words)
        .args(C_FLAGS)
        .arg("-I")
        .arg(folder.join("sdk/include"))
        .arg("-I")
        .arg(folder.join("sdk"))
        .args(sources)
        .arg("-o")
        .arg(&module);
    execute(
        &mut command,
        "install clang and lld, or set CC, for example to `zig cc`",
    )?;
    let wit = wit(folder, target)?;
    Ok(llsd_componentize::wrap_module(
        &files::bytes(&module)?,
        &wit,
        world,
    )?)
}

/// No C library, and WebAssembly 1 with the bulk memory operations that our own `memcpy` needs.
const C_FLAGS: [&str; 13] = [
    "--target=wasm32-freestanding",
    "-std=c17",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-builtin",
    "-mbulk-memory",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,-z,stack-size=262144",
    "-Wl,--strip-debug",
];

/// The contract: the plugin's own copy, or that of this version.
fn wit(folder: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let own = folder.join("wit");
    if own.join("adapter.wit").is_file() {
        return Ok(own);
    }
    let written = target.join("wit");
    std::fs::create_dir_all(&written)
        .with_context(|| format!("failed to create {}", written.display()))?;
    for (path, text) in embedded::WIT {
        if path.ends_with(".wit") {
            files::write(&written.join(path), text)?;
        }
    }
    Ok(written)
}

fn execute(command: &mut Command, fix: &str) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("failed to run {program}; {fix}"))?;
    ensure!(
        output.status.success(),
        "{program} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
