//! A running `llsd explore`, and a small HTTP client for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A running page, killed when dropped.
pub(crate) struct Page {
    pub(crate) process: Child,
    pub(crate) port: u16,
    /// The token in the printed address; empty if it has none.
    pub(crate) token: String,
}

/// The response to a request.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The headers in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Page {
    /// Starts the page on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    /// Starts the page with environment variables.
    pub(crate) fn start_in(arguments: &[&str], variables: &[(&str, &Path)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_llsd"))
            .args(["explore", "--port", "0"])
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(root())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut address).unwrap();
        let address = address.trim();
        let (address, token) = address.split_once("#token=").unwrap_or((address, ""));
        let port = address
            .strip_prefix("http://127.0.0.1:")
            .and_then(|rest| rest.strip_suffix('/'));
        Self {
            process,
            port: port.unwrap_or_else(|| panic!("{address}")).parse().unwrap(),
            token: token.to_owned(),
        }
    }

    /// Sends a request with the right `Host` header.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let host = format!("127.0.0.1:{}", self.port);
        let mut all = vec![("Host", host.as_str())];
        all.extend(headers);
        self.send(method, path, &all, body)
    }

    /// Sends a request with exactly these headers and a content length.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        // In version 1.0 a response ends with the connection, so its body needs no decoding.
        let mut request = format!(
            "{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += "\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    /// Asks about a text, as the page does, and returns all parts of the answer.
    pub(crate) fn ask(&self, question: &Value) -> Vec<Value> {
        let json = [("Content-Type", "application/json")];
        let response = self.request("POST", "/api/answer", &json, &question.to_string());
        assert_eq!(response.status, 200, "{}", response.body);
        let lines = response.body.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The parts of one kind.
pub(crate) fn parts<'a>(answer: &'a [Value], kind: &str) -> Vec<&'a Value> {
    answer.iter().filter(|part| part["part"] == kind).collect()
}
