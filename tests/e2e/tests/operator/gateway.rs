//! Access through the Gateway API. The control plane has its definitions, and the tests play its
//! controller.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_controller::install_definitions;
use llsd_e2e::{
    Operator, TestEnv, condition, install_gateway_api, minimal, objects_of, wait_for_object,
};
use llsd_render::objects::Kind;
use llsd_testbed::{Release, Testbed};
use serde_json::{Value, json};

async fn start(prefix: &str) -> Operator {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let testbed: &'static Testbed = Box::leak(Box::new(testbed));
    let client = testbed.client("admin").await.unwrap();
    install_definitions(&client, None).await.unwrap();
    install_gateway_api(&client).await;
    TestEnv::on(testbed, prefix).await.start_operator().await
}

fn objects(operator: &Operator, kind: Kind) -> Api<DynamicObject> {
    objects_of(operator, kind)
}

/// What the controller of a Gateway writes.
async fn answer(operator: &Operator, kind: Kind, is_accepted: bool) {
    let routes = objects(operator, kind);
    let (status, reason) = match is_accepted {
        true => ("True", "Accepted"),
        false => ("False", "NotAllowedByListeners"),
    };
    let condition = json!({
        "type": "Accepted", "status": status, "reason": reason, "message": "by the listener",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    });
    let parent = json!({
        "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public"},
        "controllerName": "example.com/gateways", "conditions": [condition],
    });
    let patch = Patch::Merge(json!({"status": {"parents": [parent]}}));
    let parameters = PatchParams::default();
    routes
        .patch_status("minimal-route", &parameters, &patch)
        .await
        .unwrap();
}

async fn wait_until_gone(operator: &Operator, kind: Kind, name: &str) {
    wait_for_object(operator, kind, name, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_gets_the_route_that_fits_the_server_and_the_status_shows_its_addresses() {
    let operator = start("gateway").await;
    let gateway = json!({
        "parentRefs": [{"name": "public"}],
        "hostnames": ["llama.example.com", "stack.example.com"],
    });
    let mut resource = minimal();
    resource["spec"]["networking"] = json!({"expose": {"gateway": gateway}});
    operator.create(&resource).await;
    let cr = operator.wait_until_ready("minimal").await;
    assert_eq!(cr.status.unwrap().route_url.as_deref(), Some(""));
    let route = objects(&operator, Kind::HTTPRoute)
        .get("minimal-route")
        .await
        .unwrap();
    let backend = &route.data["spec"]["rules"][0]["backendRefs"][0];
    assert_eq!(
        (&backend["name"], &backend["port"]),
        (&json!("minimal-service"), &json!(8321))
    );

    answer(&operator, Kind::HTTPRoute, false).await;
    let is_rejected = |cr: &Distribution| {
        condition(cr, "RouteAccepted").is_some_and(|(status, _, message)| {
            status == "False" && message.contains("NotAllowedByListeners")
        })
    };
    operator.wait_for("minimal", "rejected", is_rejected).await;
    answer(&operator, Kind::HTTPRoute, true).await;
    let is_accepted = |cr: &Distribution| {
        let shown = condition(cr, "RouteAccepted").is_some_and(|(status, _, message)| {
            status == "True" && message.contains("https://stack.example.com")
        });
        let url = cr.status.as_ref().unwrap().route_url.as_deref();
        shown && url == Some("https://llama.example.com")
    };
    operator.wait_for("minimal", "accepted", is_accepted).await;

    // With TLS the connections are passed through, or encrypted again.
    operator
        .apply_secret("serving", &[("tls.crt", "c"), ("tls.key", "k")])
        .await;
    let tls = json!({"spec": {"networking": {"tls": {"secretName": "serving"}}}});
    operator.edit("minimal", tls).await;
    wait_until_gone(&operator, Kind::HTTPRoute, "minimal-route").await;
    wait_for_object(&operator, Kind::TLSRoute, "minimal-route", true).await;

    let again = json!({"backendTLS": {"caConfigMapName": "ca"}});
    operator
        .edit(
            "minimal",
            json!({"spec": {"networking": {"expose": {"gateway": again}}}}),
        )
        .await;
    wait_until_gone(&operator, Kind::TLSRoute, "minimal-route").await;
    let name = "minimal-backend-tls";
    wait_for_object(&operator, Kind::BackendTLSPolicy, name, true).await;
    let policies = objects(&operator, Kind::BackendTLSPolicy);
    let policy = policies.get(name).await.unwrap();
    let validation = &policy.data["spec"]["validation"];
    assert_eq!(validation["caCertificateRefs"][0]["name"], "ca");

    let none = json!({"spec": {"networking": {"expose": Value::Null}}});
    operator.edit("minimal", none).await;
    wait_until_gone(&operator, Kind::HTTPRoute, "minimal-route").await;
    wait_until_gone(&operator, Kind::BackendTLSPolicy, name).await;
    let is_over = |cr: &Distribution| {
        let url = &cr.status.as_ref().unwrap().route_url;
        url.is_none() && condition(cr, "RouteAccepted").is_none()
    };
    operator.wait_for("minimal", "not exposed", is_over).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_rejected_on_a_cluster_without_the_gateway_api() {
    let operator = Operator::start("no-gateway").await;
    let mut resource = minimal();
    let gateway = json!({"parentRefs": [{"name": "public"}]});
    resource["spec"]["networking"] = json!({"expose": {"gateway": gateway}});
    operator.create(&resource).await;
    let is_rejected = |cr: &Distribution| {
        let field = "spec.networking.expose.gateway: ";
        let conditions = &cr.status.as_ref().unwrap().conditions;
        conditions.iter().any(|one| one.message.contains(field))
    };
    operator.wait_for("minimal", "rejected", is_rejected).await;
    operator.stop().await;
}
