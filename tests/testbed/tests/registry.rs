//! The registry works: it stores images, checks credentials and logs requests.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use llsd_testbed::{Access, Invocation, Registry, RegistryOptions};

fn basic() -> Access {
    Access::Basic {
        user: "tester".to_owned(),
        password: "p@ss word".to_owned(),
    }
}

fn token(anonymous_pull: bool) -> Access {
    Access::Token {
        user: "tester".to_owned(),
        password: "secret".to_owned(),
        anonymous_pull,
    }
}

/// A layer to push. Nothing unpacks it, so its content does not matter.
fn layer(folder: &tempfile::TempDir) -> PathBuf {
    let file = folder.path().join("layer.tar");
    std::fs::write(&file, [0; 1024]).unwrap();
    file
}

/// Runs a command that must succeed, and returns its standard output.
async fn succeed(command: Invocation) -> String {
    command.run().await.unwrap().success().unwrap()
}

/// Runs a command that must fail, and returns its standard error.
async fn fail(command: Invocation) -> String {
    command.run().await.unwrap().failure().unwrap()
}

async fn push(registry: &Registry, reference: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let layer = layer(&folder);
    let crane = registry
        .crane()
        .args(["append", "--new_tag", reference, "--new_layer"]);
    succeed(crane.arg(layer)).await;
    let digest = succeed(registry.crane().args(["digest", reference])).await;
    digest.trim().to_owned()
}

#[tokio::test]
async fn an_image_pushed_over_tls_with_a_password_can_be_pulled() {
    let options = RegistryOptions {
        tls: true,
        access: basic(),
    };
    let registry = Registry::start(&options).await.unwrap();
    let reference = format!("{}/team/app:v1", registry.host());
    let digest = push(&registry, &reference).await;
    assert!(digest.starts_with("sha256:"), "{digest}");

    let by_digest = format!("{}/team/app@{digest}", registry.host());
    let crane = registry.crane().args(["manifest", &by_digest]);
    let manifest = succeed(crane).await;
    assert!(manifest.contains("\"layers\""), "{manifest}");
}

#[tokio::test]
async fn a_client_without_a_password_is_rejected_and_an_unknown_ca_is_not_trusted() {
    let options = RegistryOptions {
        tls: true,
        access: basic(),
    };
    let registry = Registry::start(&options).await.unwrap();
    let reference = format!("{}/team/app:v1", registry.host());
    push(&registry, &reference).await;

    let empty = tempfile::tempdir().unwrap();
    let anonymous = registry.crane().env("DOCKER_CONFIG", empty.path());
    let error = fail(anonymous.args(["digest", &reference])).await;
    assert!(error.contains("401"), "{error}");

    let empty_bundle = empty.path().join("empty.pem");
    std::fs::write(&empty_bundle, "").unwrap();
    let untrusting = registry
        .crane()
        .env("SSL_CERT_FILE", &empty_bundle)
        .env("SSL_CERT_DIR", empty.path());
    let error = fail(untrusting.args(["digest", &reference])).await;
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn tokens_are_issued_for_a_password_and_for_anonymous_pulls_if_allowed() {
    for (tls, anonymous_pull) in [(false, false), (true, false), (true, true)] {
        let options = RegistryOptions {
            tls,
            access: token(anonymous_pull),
        };
        let registry = Registry::start(&options).await.unwrap();
        let reference = format!("{}/team/app:v1", registry.host());
        push(&registry, &reference).await;
        assert!(registry.tokens_issued() > 0);

        let empty = tempfile::tempdir().unwrap();
        let anonymous = || registry.crane().env("DOCKER_CONFIG", empty.path());
        let pull = anonymous()
            .args(["digest", &reference])
            .run()
            .await
            .unwrap();
        assert_eq!(pull.code == Some(0), anonymous_pull, "{}", pull.stderr);
        let copy = format!("{}/team/app:v2", registry.host());
        fail(anonymous().args(["tag", &reference, "v2"])).await;
        fail(registry.crane().args(["digest", &copy])).await;
    }
}

#[tokio::test]
async fn every_request_of_a_client_is_logged() {
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let reference = format!("{}/app:v1", registry.host());
    push(&registry, &reference).await;
    let before = registry.requests().await.unwrap().len();
    assert_eq!(
        registry.requests().await.unwrap().len(),
        before,
        "reading the log adds no entry"
    );

    succeed(registry.crane().args(["digest", &reference])).await;
    let requests = registry.requests().await.unwrap();
    let new: Vec<_> = requests[before..]
        .iter()
        .map(|r| format!("{} {}", r.method, r.uri))
        .collect();
    assert_eq!(new, ["GET /v2/", "HEAD /v2/app/manifests/v1"]);
}

#[tokio::test]
async fn a_stopped_registry_is_unreachable_and_restarts_with_its_content() {
    let mut registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let reference = format!("{}/app:v1", registry.host());
    let digest = push(&registry, &reference).await;

    registry.stop();
    let error = fail(registry.crane().args(["digest", &reference])).await;
    assert!(error.contains("connection refused"), "{error}");

    registry.restart().await.unwrap();
    let again = succeed(registry.crane().args(["digest", &reference])).await;
    assert_eq!(again.trim(), digest);
}
