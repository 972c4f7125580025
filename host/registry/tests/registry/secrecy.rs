//! Credentials appear in requests only.

use std::io::Write;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use llsd_registry::{Error, Keyring, Registry};

use crate::support::proxy::{Proxy, response};
use crate::support::token_server::{REFRESH, TokenServer};
use crate::support::{Options, PASSWORD, RegistryServer, USER, chain, keyring, settings_for};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_line_and_no_error_contains_a_credential() {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // Set globally, because the client also runs on other threads.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut output = String::new();

    let tokens = TokenServer::start();
    let server = RegistryServer::start(Options {
        token_auth: Some(tokens),
        ..Options::default()
    });
    let registry = Registry::new(server.settings()).unwrap();
    let refresh = format!(
        r#"{{"auths": {{"{}": {{"identitytoken": "{REFRESH}"}}}}}}"#,
        server.address
    );
    let mut by_token = Keyring::empty();
    by_token.add_docker_config("x", refresh.as_bytes()).unwrap();
    for keyring in [
        server.keyring(),
        by_token,
        keyring(&server.address, USER, "wrong-canary"),
    ] {
        let result = registry
            .base_config(&server.reference("none/such:1"), &keyring)
            .await;
        output += &format!("{keyring:?} {}", chain(&result.unwrap_err()));
    }

    // Registries that return the credential in every part of a response.
    let echo = format!(r#"{{"errors": [{{"code": "X", "message": "you sent {PASSWORD}"}}]}}"#);
    let secret_query = format!("https://storage.example/blob?signature={PASSWORD}");
    for (status, headers) in [
        ("400 Bad Request", vec![]),
        ("403 Forbidden", vec![]),
        ("500 Internal Server Error", vec![]),
        (
            "307 Temporary Redirect",
            vec![("Location", secret_query.as_str())],
        ),
        (
            "401 Unauthorized",
            vec![(
                "WWW-Authenticate",
                "Bearer realm=\"http://nowhere.example/\"",
            )],
        ),
    ] {
        let proxy = Proxy::before(&server.address).await;
        proxy.fault("HEAD", "/manifests/", 9, response(status, &headers, b""));
        proxy.fault(
            "GET",
            "/manifests/",
            9,
            response(status, &headers, echo.as_bytes()),
        );
        let registry = Registry::new(settings_for(&proxy.address)).unwrap();
        let reference: llsd_registry::Reference =
            format!("{}/x/y:1", proxy.address).parse().unwrap();
        let keyring = keyring(&proxy.address, USER, PASSWORD);
        for reference in [
            reference.clone(),
            reference.at(&llsd_registry::Digest::of(b"x")),
        ] {
            let error = registry
                .base_config(&reference, &keyring)
                .await
                .unwrap_err();
            output += &format!("{error:?} {}", chain(&error));
        }
    }
    let refused: Error = Error::Unauthorized {
        at: "x".into(),
        credential: "secret \"pull\"".into(),
    };
    output += &format!("{refused:?}");

    let logged = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("refused"), "the log is not empty: {logged}");
    for secret in [PASSWORD, REFRESH, "wrong-canary"] {
        let basic = STANDARD.encode(format!("{USER}:{secret}"));
        for text in [&logged, &output] {
            assert!(!text.contains(secret), "{secret} in {text}");
            assert!(!text.contains(&basic), "{basic} in {text}");
        }
    }
    assert!(output.contains("you sent …"), "{output}");
}
