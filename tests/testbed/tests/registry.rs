//! The registry is real: it stores, refuses strangers, and says what it was asked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use llsd_testbed::{Access, Registry, RegistryOptions};

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

/// A layer to push: any file will do, since nobody unpacks it.
fn layer(folder: &tempfile::TempDir) -> PathBuf {
    let file = folder.path().join("layer.tar");
    std::fs::write(&file, [0; 1024]).unwrap();
    file
}

async fn push(registry: &Registry, reference: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let layer = layer(&folder);
    let crane = registry
        .crane()
        .args(["append", "--new_tag", reference, "--new_layer"]);
    crane.arg(layer).run().await.unwrap().success().unwrap();
    let digest = registry
        .crane()
        .args(["digest", reference])
        .run()
        .await
        .unwrap()
        .success()
        .unwrap();
    digest.trim().to_owned()
}

#[tokio::test]
async fn what_was_pushed_over_tls_with_a_password_can_be_pulled() {
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
    let manifest = crane.run().await.unwrap().success().unwrap();
    assert!(manifest.contains("\"layers\""), "{manifest}");
}

#[tokio::test]
async fn a_stranger_is_refused_and_so_is_an_unknown_authority() {
    let options = RegistryOptions {
        tls: true,
        access: basic(),
    };
    let registry = Registry::start(&options).await.unwrap();
    let reference = format!("{}/team/app:v1", registry.host());
    push(&registry, &reference).await;

    let nobody = tempfile::tempdir().unwrap();
    let stranger = registry.crane().env("DOCKER_CONFIG", nobody.path());
    let refusal = stranger
        .args(["digest", &reference])
        .run()
        .await
        .unwrap()
        .failure()
        .unwrap();
    assert!(refusal.contains("401"), "{refusal}");

    let no_authority = nobody.path().join("empty.pem");
    std::fs::write(&no_authority, "").unwrap();
    let wary = registry
        .crane()
        .env("SSL_CERT_FILE", &no_authority)
        .env("SSL_CERT_DIR", nobody.path());
    let refusal = wary
        .args(["digest", &reference])
        .run()
        .await
        .unwrap()
        .failure()
        .unwrap();
    assert!(refusal.contains("certificate"), "{refusal}");
}

#[tokio::test]
async fn tokens_are_given_for_a_password_and_for_pulling_to_everyone_where_allowed() {
    for (tls, anonymous_pull) in [(false, false), (true, false), (true, true)] {
        let options = RegistryOptions {
            tls,
            access: token(anonymous_pull),
        };
        let registry = Registry::start(&options).await.unwrap();
        let reference = format!("{}/team/app:v1", registry.host());
        push(&registry, &reference).await;
        assert!(registry.tokens_issued() > 0);

        let nobody = tempfile::tempdir().unwrap();
        let stranger = || registry.crane().env("DOCKER_CONFIG", nobody.path());
        let pull = stranger().args(["digest", &reference]).run().await.unwrap();
        assert_eq!(pull.code == Some(0), anonymous_pull, "{}", pull.stderr);
        let copy = format!("{}/team/app:v2", registry.host());
        stranger()
            .args(["tag", &reference, "v2"])
            .run()
            .await
            .unwrap()
            .failure()
            .unwrap();
        registry
            .crane()
            .args(["digest", &copy])
            .run()
            .await
            .unwrap()
            .failure()
            .unwrap();
    }
}

#[tokio::test]
async fn the_requests_of_a_client_are_counted() {
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let reference = format!("{}/app:v1", registry.host());
    push(&registry, &reference).await;
    let before = registry.requests().await.unwrap().len();
    assert_eq!(
        registry.requests().await.unwrap().len(),
        before,
        "counting is not counted"
    );

    registry
        .crane()
        .args(["digest", &reference])
        .run()
        .await
        .unwrap()
        .success()
        .unwrap();
    let requests = registry.requests().await.unwrap();
    let new: Vec<_> = requests[before..]
        .iter()
        .map(|r| format!("{} {}", r.method, r.uri))
        .collect();
    assert_eq!(new, ["GET /v2/", "HEAD /v2/app/manifests/v1"]);
}

#[tokio::test]
async fn a_stopped_registry_is_unreachable_and_comes_back_with_its_content() {
    let mut registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let reference = format!("{}/app:v1", registry.host());
    let digest = push(&registry, &reference).await;

    registry.stop();
    let refusal = registry
        .crane()
        .args(["digest", &reference])
        .run()
        .await
        .unwrap()
        .failure()
        .unwrap();
    assert!(refusal.contains("connection refused"), "{refusal}");

    registry.restart().await.unwrap();
    let again = registry
        .crane()
        .args(["digest", &reference])
        .run()
        .await
        .unwrap()
        .success()
        .unwrap();
    assert_eq!(again.trim(), digest);
}
