//! The server over TLS, asked by a client of HTTP, and by one that does not keep to it.

use std::io::{Read, Write};
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
use tokio::task::JoinSet;

use super::*;
use crate::base::{ImageBase, Images};
use crate::certificates::Identity;
use crate::keeper::tls_config;
use crate::preview::Knowledge;
use crate::references::Objects;

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// What a silent client is waited for.
const SHORT: Duration = Duration::from_secs(1);

/// Little space and much time.
const SMALL: Limits = Limits {
    admission_bytes: 100 << 10,
    conversion_bytes: 200 << 10,
    handshake: DEADLINE,
    head: DEADLINE,
    body: DEADLINE,
    answer: DEADLINE,
};

/// A cluster without API server, registry and plugins.
struct Nothing;

impl Images for Nothing {
    fn base<'a>(
        &'a self,
        _: &'a str,
        _: &'a Checked,
        _: &'a str,
    ) -> BoxFuture<'a, Result<ImageBase, String>> {
        std::future::ready(Err("there is no registry".to_owned())).boxed()
    }
}

impl Objects for Nothing {
    fn has(&self, _: Kind, _: &str, _: &str) -> Option<bool> {
        None
    }
}

/// A server on a port of its own. It ends with the test.
struct Served {
    address: SocketAddr,
    authority: String,
    client: reqwest::Client,
    _task: JoinSet<std::io::Result<()>>,
}

impl Served {
    async fn start(limits: Limits) -> Self {
        // All tests choose the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let names = [address.ip().to_string()];
        let identity = Identity::issue(&names, Timestamp::now(), DEADLINE * 2).unwrap();
        let tls = tls_config(&identity.certificate, &identity.key).unwrap();
        let nobody = Config::new("http://127.0.0.1:9".parse().unwrap());
        let knowledge = Knowledge::new(Arc::new([]), &distributions::builtin(), false);
        let context = Context {
            client: Client::try_from(nobody).unwrap(),
            images: Arc::new(Nothing),
            objects: Arc::new(Nothing),
            knowledge: watch::channel(Arc::new(knowledge)).1,
        };
        let tls = RustlsConfig::from_config(Arc::new(tls));
        let authority = Certificate::from_pem(identity.authority.as_bytes()).unwrap();
        let client = reqwest::Client::builder()
            .tls_certs_only([authority])
            .timeout(DEADLINE)
            // The server may hang up on a connection that idles.
            .pool_max_idle_per_host(0)
            .build();
        let serving = serve(listener, tls, context, limits, std::future::pending());
        Self {
            address,
            authority: identity.authority,
            client: client.unwrap(),
            _task: JoinSet::from_iter([serving]),
        }
    }

    async fn ask(&self, path: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
        let url = format!("https://{}{path}", self.address);
        let answer = self.client.post(url).body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// What the server says to bytes after which nothing comes, until it hangs up.
    async fn say(&self, bytes: String) -> String {
        let mut authorities = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes());
        authorities.add(authority.unwrap()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(authorities)
            .with_no_client_auth();
        let name = self.address.ip().into();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let address = self.address;
        let talk = move || {
            let tcp = TcpStream::connect(address).unwrap();
            tcp.set_read_timeout(Some(DEADLINE)).unwrap();
            let mut stream = StreamOwned::new(tls, tcp);
            stream.write_all(bytes.as_bytes()).unwrap();
            let mut said = String::new();
            // Hanging up without a farewell is the server's right.
            if let Err(error) = stream.read_to_string(&mut said) {
                assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}");
            }
            said
        };
        spawn_blocking(talk).await.unwrap()
    }

    /// Fails unless a good resource is admitted and converted.
    async fn assert_well(&self) {
        let (status, answer) = self
            .ask(VALIDATION_PATH, creation(good()).to_string())
            .await;
        assert_eq!(
            (status, response(&answer)["allowed"] == true),
            (200, true),
            "{answer}"
        );
        let (status, answer) = self
            .ask(CONVERSION_PATH, conversion(json!([good()])).to_string())
            .await;
        let converted = &response(&answer)["convertedObjects"][0]["apiVersion"];
        assert_eq!(
            (status, converted),
            (200, &json!("llamastack.io/v1alpha1")),
            "{answer}"
        );
    }
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

fn response(answer: &str) -> Value {
    let review: Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{answer}"));
    review["response"].clone()
}

#[tokio::test]
async fn a_review_that_cannot_be_read_is_denied_in_words() {
    let served = Served::start(Limits::default()).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let later = json!({"apiVersion": "llamastack.io/v9", "kind": "LlamaStackDistribution"});
    let cases = [
        (String::new(), "the review cannot be read: EOF"),
        ("no JSON".to_owned(), "the review cannot be read: expected"),
        ("[".repeat(10_000), "the review cannot be read: "),
        (
            json!({}).to_string(),
            "the review cannot be read: it holds no request; ",
        ),
        (
            json!({"request": {"uid": "u"}}).to_string(),
            "missing field `operation`",
        ),
        (
            creation(Value::Null).to_string(),
            "object: there is none to admit; ",
        ),
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
        let (status, answer) = served.ask(VALIDATION_PATH, body.clone()).await;
        let response = response(&answer);
        assert_eq!(
            (status, &response["allowed"]),
            (200, &json!(false)),
            "{body}"
        );
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{body}: {message}");
    }
    served.assert_well().await;
}

#[tokio::test]
async fn a_conversion_that_cannot_be_done_fails_in_words() {
    let served = Served::start(Limits::default()).await;
    for body in ["", "no JSON", "[]"] {
        let (status, answer) = served.ask(CONVERSION_PATH, body).await;
        assert_eq!(status, 400, "{body}");
        assert!(
            answer.starts_with("the review cannot be read: "),
            "{body}: {answer}"
        );
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let no_request = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"});
    for (review, expected) in [
        (no_request, "the review holds no request; "),
        (
            conversion(json!([good(), pod])),
            "\"p\": kind: \"Pod\" cannot be converted; ",
        ),
        (conversion(json!(["text"])), "resource: must be an object; "),
    ] {
        let (status, answer) = served.ask(CONVERSION_PATH, review.to_string()).await;
        let result = &response(&answer)["result"];
        assert_eq!(
            (status, &result["status"]),
            (200, &json!("Failure")),
            "{answer}"
        );
        let message = result["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
    served.assert_well().await;
}

#[tokio::test]
async fn a_review_that_is_too_large_is_refused_with_the_limit() {
    let served = Served::start(SMALL).await;
    for (path, most) in [
        (VALIDATION_PATH, SMALL.admission_bytes),
        (CONVERSION_PATH, SMALL.conversion_bytes),
    ] {
        let (status, answer) = served.ask(path, " ".repeat(most)).await;
        assert_ne!(status, 413, "{path}: {answer}");
        for size in [most + 1, most * 50] {
            let (status, answer) = served.ask(path, " ".repeat(size)).await;
            assert_eq!(status, 413, "{path}: {answer}");
            let expected = format!("the review is larger than {most} bytes; ");
            assert!(answer.starts_with(&expected), "{path}: {answer}");
        }
    }
    served.assert_well().await;
}

#[tokio::test]
async fn a_review_that_does_not_arrive_is_not_waited_for() {
    let served = Served::start(Limits {
        body: SHORT,
        ..SMALL
    })
    .await;
    for path in [VALIDATION_PATH, CONVERSION_PATH] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: llsd\r\ncontent-length: 1000\r\n\r\n");
        let said = served.say(head + "{\"request\":").await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{path}: {said}");
        assert!(
            said.contains("the review did not arrive within 1s; "),
            "{path}: {said}"
        );
    }
    served.assert_well().await;
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_is_not_waited_for() {
    let served = Served::start(Limits {
        handshake: SHORT,
        head: SHORT,
        ..SMALL
    })
    .await;
    let said = served
        .say("POST /validate HTTP/1.1\r\nhost: ll".to_owned())
        .await;
    assert!(!said.contains(" 200 "), "{said}");
    let address = served.address;
    let silent = spawn_blocking(move || {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut said = Vec::new();
        tcp.read_to_end(&mut said).map(|_| said)
    });
    assert_eq!(silent.await.unwrap().unwrap(), b"");
    served.assert_well().await;
}
