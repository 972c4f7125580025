//! Starts the real server with a generated configuration, and fakes of the servers that it connects to.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{Release, oracle, root, variable};

/// A fake vLLM on 127.0.0.1, stopped when dropped.
pub struct FakeVllm {
    child: Child,
    scheme: &'static str,
    port: u16,
}

impl FakeVllm {
    /// Starts a fake vLLM that serves one model.
    pub fn start(model: &str) -> anyhow::Result<Self> {
        Self::start_all(&[model])
    }

    /// Starts a fake vLLM that serves models.
    pub fn start_all(models: &[&str]) -> anyhow::Result<Self> {
        Self::start_with(models, None)
    }

    /// Starts a fake vLLM that serves models over HTTPS, with this file of a certificate and its key.
    pub fn start_with_tls(models: &[&str], certificate: &Path) -> anyhow::Result<Self> {
        Self::start_with(models, Some(certificate))
    }

    fn start_with(models: &[&str], certificate: Option<&Path>) -> anyhow::Result<Self> {
        let port = free_port()?;
        let child = Command::new(variable("LLSD_PYTHON")?)
            .arg(root().join("tests/oracle/fake_vllm.py"))
            .arg(port.to_string())
            .args(models)
            .envs(certificate.map(|file| ("FAKE_VLLM_TLS", file)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let scheme = certificate.map_or("http", |_| "https");
        Ok(Self {
            child,
            scheme,
            port,
        })
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }
}

impl Drop for FakeVllm {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fake MCP server on 127.0.0.1 with the tool `read_file`, stopped when dropped.
pub struct FakeMcp {
    child: Child,
    port: u16,
}

impl FakeMcp {
    /// Starts it, and waits until it listens: a server lists its tools while it starts.
    pub fn start() -> anyhow::Result<Self> {
        let port = free_port()?;
        let child = Command::new(variable("LLSD_PYTHON")?)
            .arg(root().join("tests/oracle/fake_mcp.py"))
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, port };
        wait_until_listening(port)?;
        Ok(server)
    }

    /// Its URL for a transport: `mcp` or `sse`.
    pub fn endpoint(&self, transport: &str) -> String {
        format!("http://127.0.0.1:{}/{transport}", self.port)
    }
}

impl Drop for FakeMcp {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fakes of the services that check tokens on 127.0.0.1, stopped when dropped.
pub struct FakeIdentity {
    child: Child,
    port: u16,
    token: String,
}

impl FakeIdentity {
    /// Starts them, and waits until they have a token.
    pub fn start() -> anyhow::Result<Self> {
        let port = free_port()?;
        let child = Command::new(variable("LLSD_PYTHON")?)
            .arg(root().join("tests/oracle/fake_identity.py"))
            .arg(port.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut identity = Self {
            child,
            port,
            token: String::new(),
        };
        let output = identity.child.stdout.as_mut().context("no output")?;
        BufReader::new(output).read_line(&mut identity.token)?;
        wait_until_listening(port)?;
        Ok(identity)
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A token that the keys at `/keys` verify.
    pub fn token(&self) -> &str {
        self.token.trim()
    }
}

impl Drop for FakeIdentity {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server of a release, stopped when dropped.
pub struct RunningServer {
    child: Child,
    port: u16,
}

impl RunningServer {
    /// Starts it, and waits until it answers.
    pub fn start(
        release: Release,
        config: &Path,
        variables: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let port = free_port()?;
        let child = Command::new(variable("LLSD_PYTHON")?)
            .arg(root().join("tests/oracle/run_server.py"))
            .arg("--venvs")
            .arg(oracle()?.join("venvs"))
            .arg(config)
            .args([&port.to_string(), release.name])
            .envs(variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the server")?;
        let mut server = Self { child, port };
        let mut line = String::new();
        let output = server.child.stdout.as_mut().context("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        ensure!(
            line.starts_with("up: "),
            "the server of {} does not answer; its log is on stderr",
            release.name
        );
        Ok(server)
    }

    /// The status and body of a GET request, with a token or without.
    pub fn get(&self, path: &str, token: Option<&str>) -> anyhow::Result<(u16, String)> {
        get(self.port, path, token)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // The end of its input stops the program, and the program stops the server.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The status and body of a GET request to a port of 127.0.0.1, with a token or without.
pub fn get(port: u16, path: &str, token: Option<&str>) -> anyhow::Result<(u16, String)> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    let credential = token.map_or(String::new(), |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{credential}\r\n"
    )?;
    let mut response = String::new();
    connection.read_to_string(&mut response)?;
    let (head, body) = response
        .split_once("\r\n\r\n")
        .context("the response has no body")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// Starts the server of a release with a file that it rejects, and waits for this text in its log.
pub fn expect_error(release: Release, config: &Path, text: &str) -> anyhow::Result<()> {
    let output = run_server(release, config, &[], &["--error", text])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{stderr}");
    Ok(())
}

/// Starts the server of a release, gets some paths from it, and stops it.
pub fn probe(
    release: Release,
    config: &Path,
    variables: &[(String, String)],
    paths: &[&str],
) -> anyhow::Result<Vec<Value>> {
    let mut options = vec!["--probe"];
    options.extend(paths.iter().flat_map(|path| ["--path", path]));
    let output = run_server(release, config, variables, &options)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the server of {} did not respond: {stderr}",
        release.name
    );
    BufReader::new(&output.stdout[..])
        .lines()
        .filter_map(|line| line.ok().filter(|line| line.starts_with('{')))
        .map(|line| {
            serde_json::from_str(&line)
                .with_context(|| format!("unexpected output of the probe: {line:?}"))
        })
        .collect()
}

/// Starts the server of a release with options of run_server.py, and waits until it has stopped.
fn run_server(
    release: Release,
    config: &Path,
    variables: &[(String, String)],
    options: &[&str],
) -> anyhow::Result<Output> {
    Command::new(variable("LLSD_PYTHON")?)
        .arg(root().join("tests/oracle/run_server.py"))
        .args(options)
        .arg("--venvs")
        .arg(oracle()?.join("venvs"))
        .arg(config)
        .args([&free_port()?.to_string(), release.name])
        .envs(variables.iter().cloned())
        .stdin(Stdio::null())
        .output()
        .context("failed to start the server")
}

pub(crate) fn wait_until_listening(port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(Instant::now() < deadline, "nothing listens on port {port}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A port of 127.0.0.1 that nobody listens on.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
