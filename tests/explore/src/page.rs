//! A running `llsd explore`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A running page.
pub struct Page {
    process: Child,
    /// The address that it printed.
    pub address: String,
}

impl Page {
    /// Starts the program of `LLSD_BIN` on a free port.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let program = std::env::var("LLSD_BIN")
            .context("LLSD_BIN is not set; run the tests with `cargo xtask test`")?;
        let mut process = Command::new(program)
            .args(["explore", "--port", "0"])
            .args(arguments)
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start llsd")?;
        let output = process.stdout.take().context("no output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address)?;
        anyhow::ensure!(
            address.starts_with("http://127.0.0.1:"),
            "llsd printed {address:?}"
        );
        Ok(Self {
            process,
            address: address.trim().to_owned(),
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        let rest = self.address.trim_start_matches("http://127.0.0.1:");
        rest.split('/')
            .next()
            .and_then(|port| port.parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
