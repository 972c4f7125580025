//! Checks that a Rust toolchain can compile for `wasm32-unknown-unknown`.
//!
//! In: the `rustc` in use. Out: an error with the command to run if the target is missing. The crate
//! only uses the standard library, so that xtask and a build script can run the check before
//! anything else is compiled.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target that adapters are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// An installed Rust toolchain.
#[derive(Debug, Clone)]
pub struct Toolchain {
    sysroot: PathBuf,
    rustup_name: Option<String>,
}

impl Toolchain {
    /// The toolchain of `rustc` when run in `folder`, where rustup may select another toolchain.
    pub fn of(rustc: &OsStr, folder: &Path) -> Result<Self, NoCompiler> {
        let output = Command::new(rustc)
            .args(["--print", "sysroot"])
            .current_dir(folder)
            .output()
            .map_err(|error| NoCompiler(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || text.trim().is_empty() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(NoCompiler(stderr.trim().to_owned()));
        }
        let sysroot = PathBuf::from(text.trim());
        let rustup_name = rustup_name(&sysroot);
        Ok(Self {
            sysroot,
            rustup_name,
        })
    }

    /// The compiler in the variable `RUSTC`, which cargo sets, or the one on `PATH`.
    pub fn rustc() -> OsString {
        std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
    }

    /// The toolchain's name, if rustup manages it.
    pub fn rustup_name(&self) -> Option<&str> {
        self.rustup_name.as_deref()
    }

    /// Whether the toolchain contains a program, for example `cargo-clippy`, in `bin` or in
    /// `lib/rustlib/<target>/bin`.
    pub fn has_program(&self, name: &str) -> bool {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        let platforms = std::fs::read_dir(self.sysroot.join("lib/rustlib"));
        let platforms = platforms.into_iter().flatten().flatten();
        let mut folders = platforms
            .map(|platform| platform.path().join("bin"))
            .chain([self.sysroot.join("bin")]);
        folders.any(|folder| folder.join(&file).is_file())
    }

    /// Whether the toolchain has the standard library for [`TARGET`].
    pub fn has_target(&self) -> bool {
        let folder = self.sysroot.join("lib/rustlib").join(TARGET).join("lib");
        let Ok(entries) = std::fs::read_dir(folder) else {
            return false;
        };
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("libcore-")
        })
    }

    /// Fails when the standard library for [`TARGET`] is missing.
    pub fn check_target(&self) -> Result<(), MissingTarget> {
        if self.has_target() {
            return Ok(());
        }
        Err(MissingTarget {
            rustup_name: self.rustup_name.clone(),
        })
    }
}

/// The name of the toolchain in `sysroot`. `None` if rustup does not manage it: the folder is not in
/// `toolchains`, or has no list of components.
fn rustup_name(sysroot: &Path) -> Option<String> {
    let is_in_toolchains = sysroot.parent()?.file_name()? == "toolchains";
    let has_components = sysroot
        .join("lib/rustlib/multirust-channel-manifest.toml")
        .is_file();
    (is_in_toolchains && has_components)
        .then(|| Some(sysroot.file_name()?.to_string_lossy().into_owned()))
        .flatten()
}

/// The compiler could not be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCompiler(String);

impl fmt::Display for NoCompiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(cause) = self;
        write!(
            formatter,
            "failed to run rustc ({cause}); install Rust with rustup"
        )
    }
}

impl std::error::Error for NoCompiler {}

/// The toolchain cannot compile for WebAssembly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTarget {
    rustup_name: Option<String>,
}

impl MissingTarget {
    /// The command to run, or the package to install.
    pub fn fix(&self) -> String {
        match &self.rustup_name {
            Some(toolchain) => format!("run `rustup target add {TARGET} --toolchain {toolchain}`"),
            None => format!(
                "install your distribution's package for it (Debian: libstd-rust-dev-wasm32; Fedora: \
                 rust-std-static-{TARGET}; Alpine and Arch: rust-wasm), or install Rust with rustup"
            ),
        }
    }
}

impl fmt::Display for MissingTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the Rust target {TARGET} is not installed; {}",
            self.fix()
        )
    }
}

impl std::error::Error for MissingTarget {}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(rustup_name: Option<&str>) -> String {
        MissingTarget {
            rustup_name: rustup_name.map(str::to_owned),
        }
        .to_string()
    }

    #[test]
    fn the_message_is_one_line_with_the_command_to_run() {
        assert_eq!(
            missing(Some("1.95.0-x86_64-unknown-linux-gnu")),
            "the Rust target wasm32-unknown-unknown is not installed; run `rustup target add \
             wasm32-unknown-unknown --toolchain 1.95.0-x86_64-unknown-linux-gnu`"
        );
        let without_rustup = missing(None);
        assert!(without_rustup.contains("libstd-rust-dev-wasm32"));
        assert!(!without_rustup.contains('\n'));
    }

    #[test]
    fn a_compiler_that_cannot_be_started_is_an_error_with_a_fix() {
        let error = Toolchain::of(OsStr::new("no-such-rustc"), Path::new(".")).unwrap_err();
        assert!(error.to_string().ends_with("install Rust with rustup"));
    }
}
