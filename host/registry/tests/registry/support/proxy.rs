//! A proxy between client and registry that injects faults into selected requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A fault.
#[derive(Clone)]
pub(crate) enum Fault {
    /// Closes the connection after this many bytes of the response body.
    CutAfter(usize),
    /// Sends no response.
    Silence,
    /// Sends the response header, then single bytes with delays, without end.
    Drip,
    /// Sends a body without length and without end.
    Endless,
    /// Sends exactly these bytes.
    Respond(Vec<u8>),
}

struct Rule {
    method: &'static str,
    path: String,
    left: usize,
    fault: Fault,
}

/// Forwards requests to a registry, unless a rule matches.
pub(crate) struct Proxy {
    pub(crate) address: String,
    rules: Arc<Mutex<Vec<Rule>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(crate) async fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let rules = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (shared, log, upstream) = (Arc::clone(&rules), Arc::clone(&seen), upstream.to_owned());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(
                    socket,
                    Arc::clone(&shared),
                    Arc::clone(&log),
                    upstream.clone(),
                ));
            }
        });
        Self {
            address,
            rules,
            seen,
        }
    }

    /// Injects a fault into the next `times` requests with this method and this string in their path.
    pub(crate) fn fault(&self, method: &'static str, path: &str, times: usize, fault: Fault) {
        self.rules.lock().unwrap().push(Rule {
            method,
            path: path.to_owned(),
            left: times,
            fault,
        });
    }

    /// Stops injecting faults.
    pub(crate) fn clear_faults(&self) {
        self.rules.lock().unwrap().clear();
    }

    /// Method and path of every request so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        let first = |head: String| head.split(" HTTP/").next().unwrap_or_default().to_owned();
        self.heads().into_iter().map(first).collect()
    }

    /// The header of every request so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// A response with a body.
pub(crate) fn response(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Fault {
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    Fault::Respond([head.as_bytes(), b"\r\n", body].concat())
}

/// Serves one request per connection, so that every request passes the rules.
async fn serve(
    mut client: TcpStream,
    rules: Arc<Mutex<Vec<Rule>>>,
    seen: Arc<Mutex<Vec<String>>>,
    upstream: String,
) -> Option<()> {
    let mut request = Vec::new();
    let end = loop {
        if client.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        if let Some(at) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8_lossy(&request[..end]).into_owned();
    let mut line = head.lines().next()?.split(' ');
    let (method, path) = (line.next()?, line.next()?);
    seen.lock().unwrap().push(head.clone());
    let fault = {
        let mut rules = rules.lock().unwrap();
        let matching = |r: &&mut Rule| r.left > 0 && r.method == method && path.contains(&r.path);
        rules.iter_mut().find(matching).map(|rule| {
            rule.left -= 1;
            rule.fault.clone()
        })
    };
    const OPEN_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n";
    match fault {
        Some(Fault::Silence) => {
            // Wait until the client closes the connection.
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
        Some(Fault::Respond(bytes)) => {
            let _ = client.write_all(&bytes).await;
            let _ = client.shutdown().await;
        }
        Some(Fault::Endless) => {
            client
                .write_all(&[OPEN_HEAD, b"\r\n"].concat())
                .await
                .ok()?;
            while client.write_all(&[0; 16 << 10]).await.is_ok() {}
        }
        Some(Fault::Drip) => {
            client
                .write_all(&[OPEN_HEAD, b"\r\n"].concat())
                .await
                .ok()?;
            let mut ticks = tokio::time::interval(Duration::from_millis(50));
            while client.write_all(b"{").await.is_ok() {
                ticks.tick().await;
            }
        }
        None => {
            forward(
                &head,
                &request[end + 4..],
                &mut client,
                &upstream,
                usize::MAX,
            )
            .await?
        }
        Some(Fault::CutAfter(bytes)) => {
            forward(&head, &request[end + 4..], &mut client, &upstream, bytes).await?;
        }
    }
    Some(())
}

async fn forward(
    head: &str,
    body_start: &[u8],
    client: &mut TcpStream,
    upstream: &str,
    body_limit: usize,
) -> Option<()> {
    let mut server = TcpStream::connect(upstream).await.ok()?;
    let headers = head
        .lines()
        .filter(|line| !line.to_lowercase().starts_with("connection:"));
    let lines: Vec<_> = headers.chain(["connection: close", "", ""]).collect();
    server.write_all(lines.join("\r\n").as_bytes()).await.ok()?;
    server.write_all(body_start).await.ok()?;
    let length = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length:")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    let mut left = length.unwrap_or(0).saturating_sub(body_start.len());
    let mut buffer = vec![0; 16 << 10];
    while left > 0 {
        let read = client
            .read(&mut buffer)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        server.write_all(&buffer[..read]).await.ok()?;
        left -= read;
    }
    let mut response = Vec::new();
    server.read_to_end(&mut response).await.ok()?;
    let body = response
        .windows(4)
        .position(|window| window == b"\r\n\r\n")?
        + 4;
    let end = response.len().min(body.saturating_add(body_limit));
    client.write_all(&response[..end]).await.ok()?;
    let _ = client.shutdown().await;
    Some(())
}
