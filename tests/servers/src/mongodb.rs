//! A server that speaks the protocol of MongoDB, on loopback.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::server::{free_port, wait_until_listening};
use crate::variable;

/// FerretDB with empty databases, stopped when dropped.
pub struct MongoDb {
    child: Child,
    /// Its port on 127.0.0.1.
    pub port: u16,
    data: TempDir,
}

impl MongoDb {
    /// Starts it, and waits until it listens.
    pub fn start() -> anyhow::Result<Self> {
        let port = free_port()?;
        let data = tempfile::tempdir()?;
        let child = Command::new(variable("LLSD_MONGODB_BIN")?)
            .arg(format!("127.0.0.1:{port}"))
            .arg(data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, port, data };
        wait_until_listening(port)?;
        Ok(server)
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.data.path()
    }
}

impl Drop for MongoDb {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
