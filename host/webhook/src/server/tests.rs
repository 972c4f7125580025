//! Requests to the server over TLS, from an HTTP client and from a client that violates the protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{Client, Config};
use llsd_api::checked::Checked;
use llsd_render::distributions;
use llsd_render::objects::Kind;
use reqwest::Certificate;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

use super::*;
use crate::base_config::{ImageBaseConfig, ImageReader};
use crate::cert_rotation::tls_config;
use crate::certificates::IssuedCert;
use crate::preview::Catalog;
use crate::references::ObjectIndex;

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// The timeout for a client that sends nothing.
const SHORT: Duration = Duration::from_secs(1);

/// Small size limits and long timeouts.
const SMALL: Limits = Limits {
    connections: 16,
    connections_per_address: 8,
    admission_bytes: 100 << 10,
    conversion_bytes: 200 << 10,
    large_bytes: 1 << 20,
    small_bytes: 10 << 10,
    handshake: DEADLINE,
    first_byte: DEADLINE,
    request: DEADLINE,
    idle: DEADLINE,
    body: DEADLINE,
    response: DEADLINE,
};

/// A cluster without registry and objects.
struct EmptyCluster;

impl ImageReader for EmptyCluster {
    fn base_config<'a>(
        &'a self,
        _: &'a str,
        _: &'a Checked,
        _: &'a str,
    ) -> BoxFuture<'a, Result<ImageBaseConfig, String>> {
        std::future::ready(Err("there is no registry".to_owned())).boxed()
    }
}

impl ObjectIndex for EmptyCluster {
    fn exists(&self, _: Kind, _: &str, _: &str) -> Option<bool> {
        None
    }
}

/// A server on its own port. It ends with the test.
struct TestServer {
    address: SocketAddr,
    authority: String,
    client: reqwest::Client,
    _task: JoinSet<std::io::Result<()>>,
}

impl TestServer {
    async fn start(limits: Limits) -> Self {
        // Fails if another test has installed the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let names = [address.ip().to_string()];
        let cert = IssuedCert::issue(&names, Timestamp::now(), DEADLINE * 2).unwrap();
        let tls = tls_config(&cert.certificate, &cert.key).unwrap();
        let unreachable = Config::new("http://127.0.0.1:9".parse().unwrap());
        let catalog = Catalog::new(Arc::new([]), &distributions::builtin(), false);
        let context = Context {
            client: Client::try_from(unreachable).unwrap(),
            images: Arc::new(EmptyCluster),
            objects: Arc::new(EmptyCluster),
            catalog: watch::channel(Arc::new(catalog)).1,
        };
        let tls = RustlsConfig::from_config(Arc::new(tls));
        let authority = Certificate::from_pem(cert.authority.as_bytes()).unwrap();
        let client = reqwest::Client::builder()
            .tls_certs_only([authority])
            .timeout(DEADLINE)
            // The server may close an idle connection.
            .pool_max_idle_per_host(0)
            .build();
        let serving = serve(listener, tls, context, limits, std::future::pending());
        Self {
            address,
            authority: cert.authority,
            client: client.unwrap(),
            _task: JoinSet::from_iter([serving]),
        }
    }

    async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
        let url = format!("https://{}{path}", self.address);
        let response = self.client.post(url).body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Sends bytes and nothing more, and returns what the server sends until it closes the connection.
    async fn send_raw(&self, bytes: String) -> String {
        let mut stream = self.connect();
        let exchange = move || {
            stream.write_all(bytes.as_bytes()).unwrap();
            read_to_end(&mut stream)
        };
        spawn_blocking(exchange).await.unwrap()
    }

    /// A TLS connection whose handshake begins with the first byte.
    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes());
        roots.add(authority.unwrap()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = self.address.ip().into();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_read_timeout(Some(DEADLINE)).unwrap();
        StreamOwned::new(tls, tcp)
    }

    /// Asserts that a valid resource is admitted and converted.
    async fn assert_works(&self) {
        let (status, text) = self
            .post(VALIDATION_PATH, creation(good()).to_string())
            .await;
        assert_eq!(
            (status, response(&text)["allowed"] == true),
            (200, true),
            "{text}"
        );
        let (status, text) = self
            .post(CONVERSION_PATH, conversion(json!([good()])).to_string())
            .await;
        let converted = &response(&text)["convertedObjects"][0]["apiVersion"];
        assert_eq!(
            (status, converted),
            (200, &json!("llamastack.io/v1alpha1")),
            "{text}"
        );
    }
}

/// What the server sends until it closes the connection, with or without a TLS close_notify.
fn read_to_end(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> String {
    let mut output = String::new();
    if let Err(error) = stream.read_to_string(&mut output) {
        let expected = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
        assert!(expected.contains(&error.kind()), "{error}");
    }
    output
}

fn good() -> Value {
    json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "distribution": {"name": "starter"},
            "networking": {"tls": {"enabled": true, "secretName": "certificate"}},
        },
    })
}

fn creation(object: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "namespace": "n", "object": object},
    })
}

fn conversion(objects: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "llamastack.io/v1alpha1", "objects": objects},
    })
}

fn response(text: &str) -> Value {
    let review: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
    review["response"].clone()
}

#[tokio::test]
async fn an_invalid_review_is_denied_with_a_message() {
    let server = TestServer::start(Limits::default()).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let later = json!({"apiVersion": "llamastack.io/v9", "kind": "LlamaStackDistribution"});
    let cases = [
        (String::new(), "invalid AdmissionReview: EOF"),
        ("no JSON".to_owned(), "invalid AdmissionReview: expected"),
        ("[".repeat(10_000), "invalid AdmissionReview: "),
        (
            json!({}).to_string(),
            "invalid AdmissionReview: the field request is missing; ",
        ),
        (
            json!({"request": {"uid": "u"}}).to_string(),
            "missing field `operation`",
        ),
        (creation(Value::Null).to_string(), "object: is missing; "),
        (
            creation(json!("text")).to_string(),
            "resource: must be an object; ",
        ),
        (
            creation(pod).to_string(),
            "kind: \"Pod\" cannot be converted; ",
        ),
        (
            creation(later).to_string(),
            "apiVersion: \"llamastack.io/v9\" is not a version of ",
        ),
    ];
    for (body, expected) in cases {
        let (status, text) = server.post(VALIDATION_PATH, body.clone()).await;
        let response = response(&text);
        assert_eq!(
            (status, &response["allowed"]),
            (200, &json!(false)),
            "{body}"
        );
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{body}: {message}");
    }
    server.assert_works().await;
}

#[tokio::test]
async fn a_failed_conversion_has_a_message() {
    let server = TestServer::start(Limits::default()).await;
    for body in ["", "no JSON", "[]"] {
        let (status, text) = server.post(CONVERSION_PATH, body).await;
        assert_eq!(status, 400, "{body}");
        assert!(
            text.starts_with("invalid ConversionReview: "),
            "{body}: {text}"
        );
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let no_request = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"});
    for (review, expected) in [
        (
            no_request,
            "invalid ConversionReview: the field request is missing; ",
        ),
        (
            conversion(json!([good(), pod])),
            "\"p\": kind: \"Pod\" cannot be converted; ",
        ),
        (conversion(json!(["text"])), "resource: must be an object; "),
    ] {
        let (status, text) = server.post(CONVERSION_PATH, review.to_string()).await;
        let result = &response(&text)["result"];
        assert_eq!(
            (status, &result["status"]),
            (200, &json!("Failure")),
            "{text}"
        );
        let message = result["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
    server.assert_works().await;
}

#[tokio::test]
async fn the_error_for_a_large_body_names_the_limit() {
    let server = TestServer::start(SMALL).await;
    for (path, max) in [
        (VALIDATION_PATH, SMALL.admission_bytes),
        (CONVERSION_PATH, SMALL.conversion_bytes),
    ] {
        let (status, text) = server.post(path, " ".repeat(max)).await;
        assert_ne!(status, 413, "{path}: {text}");
        for size in [max + 1, max * 50] {
            let (status, text) = server.post(path, " ".repeat(size)).await;
            assert_eq!(status, 413, "{path}: {text}");
            let expected = format!("the request body is larger than {max} bytes; ");
            assert!(text.starts_with(&expected), "{path}: {text}");
        }
    }
    server.assert_works().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let server = TestServer::start(Limits {
        body: SHORT,
        ..SMALL
    })
    .await;
    for path in [VALIDATION_PATH, CONVERSION_PATH] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: llsd\r\ncontent-length: 1000\r\n\r\n");
        let output = server.send_raw(head + "{\"request\":").await;
        assert!(output.starts_with("HTTP/1.1 408 "), "{path}: {output}");
        assert!(
            output.contains("the request body did not arrive within 1s; "),
            "{path}: {output}"
        );
    }
    server.assert_works().await;
}

#[tokio::test]
async fn a_client_that_sends_no_request_is_disconnected() {
    let server = TestServer::start(Limits {
        handshake: SHORT,
        request: SHORT,
        ..SMALL
    })
    .await;
    let output = server
        .send_raw("POST /validate HTTP/1.1\r\nhost: ll".to_owned())
        .await;
    assert!(!output.contains(" 200 "), "{output}");
    let address = server.address;
    let silent = spawn_blocking(move || {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut output = Vec::new();
        tcp.read_to_end(&mut output).map(|_| output)
    });
    assert_eq!(silent.await.unwrap().unwrap(), b"");
    server.assert_works().await;
}

/// Issue I, row 17.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_nothing_after_the_handshake_is_disconnected() {
    let server = TestServer::start(Limits {
        first_byte: SHORT,
        ..SMALL
    })
    .await;
    let mut stream = server.connect();
    let silent = spawn_blocking(move || {
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        read_to_end(&mut stream)
    });
    assert_eq!(silent.await.unwrap(), "");
    server.assert_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_a_request_byte_by_byte_is_disconnected() {
    let server = TestServer::start(Limits {
        request: SHORT,
        ..SMALL
    })
    .await;
    // The beginning of HTTP/2, and of HTTP/1.
    for preface in ["PRI * HTTP/2.0\r\n", "POST /validate HTTP/1.1\r\nhost: "] {
        let mut stream = server.connect();
        let dripping = spawn_blocking(move || {
            let mut bytes = preface.bytes().chain(std::iter::repeat(b'a'));
            let pause = || std::thread::sleep(SHORT / 10);
            // Fails when the server has closed the connection.
            while stream.write_all(&[bytes.next().unwrap()]).is_ok() {
                pause();
            }
        });
        let ended = tokio::time::timeout(DEADLINE, dripping).await;
        assert!(ended.is_ok(), "{preface:?}: the connection is still open");
    }
    server.assert_works().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_a_response() {
    let server = TestServer::start(Limits {
        idle: SHORT,
        ..SMALL
    })
    .await;
    let output = server
        .send_raw("GET /healthz HTTP/1.1\r\nhost: llsd\r\n\r\n".to_owned())
        .await;
    assert!(output.starts_with("HTTP/1.1 200 "), "{output}");
    server.assert_works().await;
}

#[tokio::test]
async fn connections_of_one_address_leave_room_for_others() {
    let server = TestServer::start(SMALL).await;
    let connect_from = |address: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket
            .bind(format!("{address}:0").parse().unwrap())
            .unwrap();
        socket.connect(server.address)
    };
    let mut held = Vec::new();
    for _ in 0..SMALL.connections_per_address {
        held.push(connect_from("127.0.0.2").await.unwrap());
    }
    let mut refused = connect_from("127.0.0.2").await.unwrap();
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut refused, &mut byte);
    let read = tokio::time::timeout(DEADLINE, read).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    server.assert_works().await;
    drop(held);
}

#[tokio::test]
async fn large_bodies_wait_for_each_other_and_small_ones_do_not() {
    let server = TestServer::start(Limits {
        conversion_bytes: 1 << 20,
        body: SHORT,
        ..SMALL
    })
    .await;
    let size = SMALL.large_bytes;
    let head =
        format!("POST {CONVERSION_PATH} HTTP/1.1\r\nhost: llsd\r\ncontent-length: {size}\r\n\r\n");
    // Each is one byte short, so it holds its memory until its time is over.
    let incomplete = || server.send_raw(head.clone() + &" ".repeat(size - 1));
    let (first, second, ()) = tokio::join!(incomplete(), incomplete(), server.assert_works());
    for output in [first, second] {
        assert!(output.starts_with("HTTP/1.1 408 "), "{output}");
    }
}
