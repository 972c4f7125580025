//! The real servers ask for tokens as the resource says, and accept the valid ones.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_render::yaml;
use llsd_servers::{
    FakeIdentity, NEWEST_LLAMA_STACK, RELEASES, Release, RunningServer, test_each_release,
};
use llsd_testbed::Testbed;
use serde_json::{Value, json};

/// Everybody who is authenticated may use the models.
fn policy() -> Value {
    json!([{"permit": {"actions": ["read"], "resource": "model::*"}}])
}

/// Starts the server of a release with this access.
fn start(
    release: Release,
    access: &Value,
    variables: &[(String, String)],
) -> Result<RunningServer, String> {
    let folder = tempfile::tempdir().unwrap();
    let document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": "guarded"},
        "spec": {"distribution": {"name": "starter"}, "access": access},
    });
    let base = release.inference_base().unwrap();
    let generated = release.generate(folder.path(), &yaml::write(&document), &base);
    let config = generated.unwrap()?.file;
    Ok(RunningServer::start(release, &config, variables).unwrap())
}

/// A request without a token and one with an invalid token fail, one with a valid token succeeds. The probes
/// of the pods need no token.
fn assert_guarded(server: &RunningServer, token: &str) {
    let models = |token: Option<&str>| server.get("/v1/models", token).unwrap();
    assert_eq!(models(None).0, 401);
    assert_eq!(models(Some("bad")).0, 401);
    let (status, body) = models(Some(token));
    assert_eq!(status, 200, "{body}");
    for path in ["/v1/health", "/v1/version"] {
        assert_eq!(server.get(path, None).unwrap().0, 200, "{path}");
    }
}

fn clients_need_a_token(release: Release) {
    let identity = FakeIdentity::start().unwrap();
    let mut oauth2 = json!({
        "oauth2": {
            "issuer": "https://login.test", "audience": "acme",
            "jwks": {"uri": identity.url("/keys")}, "claimsMapping": {"groups": "teams"},
        },
        "policy": policy(),
    });
    // Members of another team may not use this path.
    let has_routes = !["llama-stack/0.3", "llama-stack/0.4"].contains(&release.schema);
    if has_routes {
        oauth2["routePolicy"] = json!([
            {"forbid": {"paths": ["/v1/providers*"]}, "unless": ["user with admin in teams"]},
            {"permit": {"paths": ["*"]}},
        ]);
    }
    let is_before_0_3 = ["llama-stack/0.1.3", "llama-stack/0.2.13"].contains(&release.schema);
    let server = match start(release, &oauth2, &[]) {
        Ok(server) => server,
        Err(stderr) => {
            assert!(is_before_0_3, "{stderr}");
            assert!(
                stderr.contains("spec.access") && stderr.contains("llama-stack 0.3 or newer"),
                "{stderr}"
            );
            return;
        }
    };
    assert!(!is_before_0_3);
    assert_guarded(&server, identity.token());
    if has_routes {
        let response = server.get("/v1/providers", Some(identity.token()));
        assert_eq!(response.unwrap().0, 403);
    }
}

test_each_release!(clients_need_a_token);

#[test]
fn a_service_of_the_user_checks_tokens() {
    let identity = FakeIdentity::start().unwrap();
    let custom = json!({"custom": {"endpoint": identity.url("/check")}, "policy": policy()});
    let server = start(NEWEST_LLAMA_STACK, &custom, &[]).unwrap();
    assert_guarded(&server, "good");
}

/// The oldest release that can, and ogx; the newest llama-stack asks a real cluster below.
#[test]
fn tokens_of_kubernetes_are_accepted() {
    let identity = FakeIdentity::start().unwrap();
    let access = json!({"kubernetes": {"apiServerUrl": identity.url("")}, "policy": policy()});
    for schema in ["llama-stack/0.3", "ogx/1.0"] {
        let server = start(release_of(schema), &access, &[]).unwrap();
        assert_guarded(&server, "good");
    }
}

fn release_of(schema: &str) -> Release {
    *RELEASES.iter().find(|one| one.schema == schema).unwrap()
}

#[test]
fn clients_of_ogx_send_a_key_of_a_secret() {
    let access = json!({"apiKeys": [{"name": "keys", "key": "a"}, {"name": "keys", "key": "b"}]});
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = [
        variable("LLSD_ACCESS_API_KEY0", "first-key"),
        variable("LLSD_ACCESS_API_KEY1", "second-key"),
    ];
    let server = start(release_of("ogx/1.0"), &access, &variables).unwrap();
    assert_guarded(&server, "second-key");
}

/// The API server is real, and so is the token of the ServiceAccount.
#[tokio::test]
async fn tokens_of_a_real_cluster_are_accepted() {
    let testbed = Testbed::shared().await.unwrap();
    let namespace = testbed.namespace("tokens").await.unwrap();
    let kubectl = || {
        let kubectl = testbed.kubectl("admin").unwrap();
        kubectl.namespace(namespace.name())
    };
    let create = kubectl().args(["create", "serviceaccount", "client"]);
    create.run().await.unwrap().success().unwrap();
    let create = kubectl().args(["create", "token", "client"]);
    let token = create.run().await.unwrap().success().unwrap();
    let state = testbed.state();
    let access = json!({
        "kubernetes": {"apiServerUrl": state.server},
        "policy": [{
            "permit": {"actions": ["read"]},
            "when": [format!("user with system:serviceaccounts:{} in roles", namespace.name())],
        }],
    });
    // As the operator does for networking.tls.caBundle.
    let authority = state.folder.join("ca.crt");
    let variables = [(
        "SSL_CERT_FILE".to_owned(),
        authority.to_str().unwrap().to_owned(),
    )];
    let started = tokio::task::spawn_blocking(move || {
        let server = start(NEWEST_LLAMA_STACK, &access, &variables).unwrap();
        assert_guarded(&server, token.trim());
    });
    started.await.unwrap();
}
