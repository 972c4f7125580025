//! The default installation on OpenShift, whose APIs its roles do not include.

use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use llsd_controller::install_definitions;
use llsd_e2e::{TestEnv, minimal};
use llsd_testbed::{Release, Testbed};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_default_installation_works_on_openshift_without_routes() {
    let testbed: &'static Testbed =
        Box::leak(Box::new(Testbed::start(Release::Newest).await.unwrap()));
    let client = testbed.client("admin").await.unwrap();
    install_definitions(&client, None).await.unwrap();
    let parameters = PatchParams::apply("test").force();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let routes = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "routes.route.openshift.io"},
        "spec": {
            "group": "route.openshift.io", "scope": "Namespaced",
            "names": {"kind": "Route", "plural": "routes", "singular": "route"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    Api::<CustomResourceDefinition>::all(client.clone())
        .patch(
            "routes.route.openshift.io",
            &parameters,
            &Patch::Apply(&routes),
        )
        .await
        .unwrap();
    let any_uid = "system:openshift:scc:anyuid";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": any_uid}});
    Api::<ClusterRole>::all(client.clone())
        .patch(any_uid, &parameters, &Patch::Apply(&role))
        .await
        .unwrap();
    let groups = || async {
        let groups = client.list_api_groups().await?.groups;
        let is_served = groups.iter().any(|one| one.name == "route.openshift.io");
        anyhow::ensure!(is_served, "Routes are not served yet");
        Ok(())
    };
    llsd_testbed::until("Routes are served", llsd_e2e::DEADLINE, groups)
        .await
        .unwrap();

    let operator = TestEnv::on(testbed, "openshift")
        .await
        .start_operator()
        .await;
    let mut resource = minimal();
    resource["spec"]["networking"] = json!({"expose": true});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let ingresses: Api<Ingress> = operator.api();
    assert!(
        ingresses
            .get_opt("minimal-ingress")
            .await
            .unwrap()
            .is_some()
    );
    // These denials are how the operator learns what it may use.
    operator.ignore_earlier_denials();
    operator.stop().await;
}
