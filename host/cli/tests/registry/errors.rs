//! Errors of the registry: denied credentials, and a registry that is not reachable.

use llsd_testbed::Access;

use crate::{PASSWORD, Setup, basic, component, printed};

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_credential_is_named_by_its_source_and_not_printed() {
    let setup = Setup::start(true, basic()).await;
    let build = setup.push_image("acme/stack:build").await;
    let wrong = setup.home.path().join("wrong.json");
    let host = setup.registry.host();
    let auths = format!(
        r#"{{"auths": {{"{host}": {{"username": "puller", "password": "wrong-canary"}}}}}}"#
    );
    std::fs::write(&wrong, auths).unwrap();
    let wrong = ["--docker-config", wrong.to_str().unwrap()];
    let file = component("example-pack");
    for arguments in [
        vec!["image", "inspect", &build],
        vec!["render", "-f", "samples/minimal.yaml", "--image", &build],
        vec!["plugin", "push", &build, &file],
        vec!["plugin", "verify", &build],
    ] {
        let rejected = setup.llsd(&[&arguments[..], &wrong].concat());
        assert_eq!(rejected.status.code(), Some(2), "{}", printed(&rejected));
        assert!(printed(&rejected).contains("denied access with the docker config"));
        for secret in [PASSWORD, "wrong-canary", "d3JvbmctY2FuYXJ5"] {
            assert!(
                !printed(&rejected).contains(secret),
                "{}",
                printed(&rejected)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_registry_exits_with_2() {
    let mut setup = Setup::start(false, Access::Anyone).await;
    let build = setup.push_image("acme/stack:build").await;
    setup.registry.stop();
    let down = setup.llsd(&["image", "inspect", &build]);
    assert_eq!(down.status.code(), Some(2), "{}", printed(&down));
    assert!(
        printed(&down).contains("failed to connect to the registry"),
        "{}",
        printed(&down)
    );
}
