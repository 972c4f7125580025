//! One HTTP request on the loopback address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Longer than anything that a loaded machine needs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Sends JSON to a WebDriver and returns the value of its response.
pub(crate) fn call(port: u16, method: &str, path: &str, body: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let body = match method {
        "POST" => body.to_string(),
        _ => String::new(),
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    // The driver keeps the connection open, so the length says where the response ends.
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut json: Value = serde_json::from_slice(&body)
        .with_context(|| format!("{method} {path}: {}", String::from_utf8_lossy(&body)))?;
    let value = json["value"].take();
    ensure!(
        value["error"].is_null(),
        "{method} {path}: {}: {}",
        value["error"],
        value["message"]
    );
    Ok(value)
}
