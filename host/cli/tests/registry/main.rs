//! The commands that use a registry, against a real one. Artifacts are exchanged with crane and cosign.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod errors;
mod images;
mod plugins;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use llsd_testbed::{Access, Registry, RegistryOptions};
use serde_json::Value;
use tempfile::TempDir;

const PASSWORD: &str = "s3cret-canary";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tool(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run the tests through `cargo xtask test`")
    })
}

fn component(name: &str) -> String {
    format!("{}/{name}.wasm", tool("LLSD_PLUGINS"))
}

/// A registry, and a directory for its user.
struct Setup {
    registry: Registry,
    home: TempDir,
}

impl Setup {
    async fn start(tls: bool, access: Access) -> Self {
        let registry = Registry::start(&RegistryOptions { tls, access }).await;
        Self {
            registry: registry.unwrap(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.registry.host())
    }

    /// Runs `llsd` with the options to reach this registry.
    fn llsd(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs it as on a terminal. Otherwise escape sequences are removed from its output.
    fn llsd_in_colour(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.env("CLICOLOR_FORCE", "1").output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llsd"));
        command
            .args(arguments)
            .current_dir(root())
            .env("DOCKER_CONFIG", self.registry.docker_config())
            // Shared by all tests and runs, so that each plugin is compiled once.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        match self.registry.ca_certificate() {
            Some(authority) => command.arg("--registry-ca").arg(authority),
            // The token service listens on another port of localhost.
            None => command.args([
                "--plain-http",
                self.registry.host(),
                "--plain-http",
                "localhost",
            ]),
        };
        command.args(["--allow-address", "localhost"]);
        command
    }

    async fn crane(&self, arguments: &[&str]) -> String {
        let run = self.registry.crane().args(arguments).run().await;
        run.unwrap().success().unwrap()
    }

    /// Pushes an image with one file and no labels.
    async fn push_image(&self, rest: &str) -> String {
        let reference = self.reference(rest);
        let layer = self.home.path().join("layer.tar");
        std::fs::write(&layer, [0; 1024]).unwrap();
        let layer = layer.to_str().unwrap();
        self.crane(&["append", "--new_tag", &reference, "--new_layer", layer])
            .await;
        reference
    }

    /// The number of requests that the registry has handled.
    async fn requests(&self) -> usize {
        self.registry.requests().await.unwrap().len()
    }
}

fn basic() -> Access {
    Access::Basic {
        user: "puller".to_owned(),
        password: PASSWORD.to_owned(),
    }
}

fn token() -> Access {
    Access::Token {
        user: "puller".to_owned(),
        password: PASSWORD.to_owned(),
        anonymous_pull: false,
    }
}

/// Standard output and standard error.
fn printed(output: &Output) -> String {
    let Output { stdout, stderr, .. } = output;
    format!(
        "{}\n{}",
        String::from_utf8_lossy(stdout),
        String::from_utf8_lossy(stderr)
    )
}

fn succeed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", printed(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&succeed(output)).unwrap()
}
