//! One HTTP request on the loopback address.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Longer than anything that a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends JSON to a WebDriver and returns the value of its response.
pub(crate) fn call(port: u16, method: &str, path: &str, body: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = match method {
        "POST" => body.to_string(),
        _ => String::new(),
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = end.and_then(|end| response.get(end + 4..));
    let body = body.context("the response of the WebDriver has no body")?;
    let mut json: Value = serde_json::from_slice(body)
        .with_context(|| format!("{method} {path}: {}", String::from_utf8_lossy(body)))?;
    let value = json["value"].take();
    ensure!(
        value["error"].is_null(),
        "{method} {path}: {}: {}",
        value["error"],
        value["message"]
    );
    Ok(value)
}
