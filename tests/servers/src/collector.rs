//! An OpenTelemetry collector that remembers what it was sent.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// How long a server may take to send something: it sends in intervals.
const DEADLINE: Duration = Duration::from_secs(120);

/// A request to the collector.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// `/v1/traces` or `/v1/metrics`.
    pub path: String,
    /// Header lines, in lower case.
    pub headers: Vec<String>,
    /// The protocol buffer. It contains names as text.
    pub body: Vec<u8>,
}

/// A collector on 127.0.0.1. Its thread ends with the test program.
pub struct Collector {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Collector {
    /// Starts it.
    pub fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let list = received.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let list = list.clone();
                // A connection that ends early was the server's, and is not one of its requests.
                std::thread::spawn(move || serve(connection, &list).ok());
            }
        });
        Ok(Self { port, received })
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits for a request to a path.
    pub fn wait_for(&self, path: &str) -> anyhow::Result<Received> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = received.iter().find(|one| one.path == path) {
                return Ok(found.clone());
            }
            drop(received);
            ensure!(Instant::now() < deadline, "nothing was sent to {path}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Responds to the requests of a connection until it ends.
fn serve(connection: TcpStream, list: &Mutex<Vec<Received>>) -> anyhow::Result<()> {
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let path = first.split(' ').nth(1).context("no path")?.to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            headers.push(line.trim().to_lowercase());
        }
        let length = headers
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.context("no length")?.parse()?];
        reader.read_exact(&mut body)?;
        let mut received = list.lock().unwrap_or_else(PoisonError::into_inner);
        received.push(Received {
            path,
            headers,
            body,
        });
        drop(received);
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
