//! A real PostgreSQL server on loopback, from the packages of the distribution.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::server::free_port;

/// Where Debian installs the server programs, one folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
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
        let programs = programs()?;
        let folder = tempfile::tempdir()?;
        let account = account()?;
        let password = folder.path().join("password");
        std::fs::write(&password, PASSWORD)?;
        if let Some((user, group)) = account {
            for path in [folder.path(), &password] {
                std::os::unix::fs::chown(path, Some(user), Some(group))?;
            }
        }
        let as_user = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(folder.path()).stdin(Stdio::null());
            // The server refuses to run as root.
            if let Some((user, group)) = account {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.path().join("data");
        let created = as_user("initdb")
            .args(["--auth=scram-sha-256", "--no-sync", "-U", USER, "-D"])
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

/// The folder with the programs of the newest version.
fn programs() -> anyhow::Result<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .collect();
    versions.sort();
    versions.pop().with_context(|| {
        format!("{DEBIAN} has no server; install it with `apt-get install postgresql`")
    })
}

/// The user and the group `postgres` of the package, if this process is root.
fn account() -> anyhow::Result<Option<(u32, u32)>> {
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self")?) == 0;
    if !is_root {
        return Ok(None);
    }
    let accounts = std::fs::read_to_string(Path::new("/etc/passwd"))?;
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    let found = found.context("there is no user postgres; install postgresql")?;
    Ok(Some(found))
}
