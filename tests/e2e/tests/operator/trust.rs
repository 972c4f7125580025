//! CA bundles: of a resource, and of the platform.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, condition, minimal, named};
use llsd_testbed::{CertificateAuthority, eventually};
use serde_json::json;

/// A self-signed CA certificate.
const CA_CERTIFICATE: &str = include_str!("../../../../host/render/tests/ca.pem");

#[tokio::test(flavor = "multi_thread")]
async fn ca_bundle_keys_are_merged_once_and_an_unchanged_bundle_replaces_no_pods() {
    let operator = Operator::start("trust").await;
    let with_keys = |keys: &[(&str, &str)]| {
        let data: BTreeMap<_, _> = keys.iter().copied().collect();
        let map = json!({"metadata": {"name": "cas"}, "data": data});
        serde_json::from_value::<ConfigMap>(map).unwrap()
    };
    let maps = operator.api::<ConfigMap>();
    maps.create(
        &PostParams::default(),
        &with_keys(&[("b.crt", CA_CERTIFICATE), ("a.crt", "no certificate")]),
    )
    .await
    .unwrap();
    let mut resource = minimal();
    let bundle = json!({"configMapName": "cas", "configMapKeys": ["b.crt", "a.crt"]});
    resource["spec"]["networking"] = json!({"tls": {"caBundle": bundle}});
    operator.create(&resource).await;
    let is_rejected = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, _, message)| {
            message.contains("failed to find valid certificates in key \"a.crt\"")
        })
    };
    operator.wait_for("minimal", "rejected", is_rejected).await;

    maps.replace(
        "cas",
        &PostParams::default(),
        &with_keys(&[("b.crt", CA_CERTIFICATE), ("a.crt", CA_CERTIFICATE)]),
    )
    .await
    .unwrap();
    operator.wait_until_ready("minimal").await;
    let bundle = maps.get("minimal-ca-bundle").await.unwrap();
    let text = &bundle.data.unwrap()["ca-bundle.crt"];
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
    let variables = operator
        .pod("minimal")
        .await
        .containers
        .remove(0)
        .env
        .unwrap();
    let variable = variables.iter().find(|one| one.name == "SSL_CERT_FILE");
    assert_eq!(
        variable.unwrap().value.as_deref(),
        Some("/etc/ssl/certs/ca-bundle/ca-bundle.crt")
    );

    // Another reconciliation with the same keys changes nothing.
    operator
        .edit("minimal", json!({"spec": {"workload": {"replicas": 2}}}))
        .await;
    operator.wait_until_ready("minimal").await;
    let again = maps.get("minimal-ca-bundle").await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        bundle.metadata.resource_version
    );

    operator
        .edit("minimal", json!({"spec": {"networking": null}}))
        .await;
    operator
        .wait_until_deleted::<ConfigMap>("minimal-ca-bundle")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ca_bundle_of_the_platform_is_trusted_and_a_new_one_replaces_the_pods_once() {
    let operator = Operator::start("platform").await;
    let certificate = || {
        CertificateAuthority::generate()
            .unwrap()
            .certificate()
            .to_owned()
    };
    let bundle = |keys: &[(&str, &str)]| {
        let data: BTreeMap<_, _> = keys.iter().copied().collect();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "odh-trusted-ca-bundle"}, "data": data,
        })
    };
    // The platform creates blank keys when no CA is configured.
    operator
        .apply(&[bundle(&[
            ("ca-bundle.crt", ""),
            ("odh-ca-bundle.crt", " \n"),
        ])])
        .await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let maps: Api<ConfigMap> = operator.api();
    assert!(maps.get_opt("minimal-ca-bundle").await.unwrap().is_none());

    let (first, second) = (certificate(), certificate());
    operator
        .apply(&[bundle(&[
            ("ca-bundle.crt", &first),
            ("odh-ca-bundle.crt", " \n"),
        ])])
        .await;
    let holds = |count: usize| {
        move |one: Option<&ConfigMap>| {
            let text = one.and_then(|one| one.data.as_ref()?.get("ca-bundle.crt"));
            text.is_some_and(|text| text.matches("BEGIN CERTIFICATE").count() == count)
        }
    };
    let deployments: Api<Deployment> = operator.api();
    let replaced = |generation: i64| {
        move |one: Option<&Deployment>| {
            one.and_then(|one| one.metadata.generation) == Some(generation)
        }
    };
    for (count, keys) in [
        (1, None),
        (
            2,
            Some([("ca-bundle.crt", &*first), ("odh-ca-bundle.crt", &*second)]),
        ),
    ] {
        if let Some(keys) = keys {
            operator.apply(&[bundle(&keys)]).await;
        }
        eventually(&maps, "minimal-ca-bundle", DEADLINE, "merged", holds(count))
            .await
            .unwrap();
        let generation = i64::try_from(count).unwrap() + 1;
        eventually(
            &deployments,
            "minimal",
            DEADLINE,
            "replaced",
            replaced(generation),
        )
        .await
        .unwrap();
        operator.wait_until_ready("minimal").await;
    }
    // With both keys unchanged, another reconciliation replaces no pods.
    operator
        .edit(
            "minimal",
            json!({"metadata": {"labels": {"touched": "yes"}}}),
        )
        .await;
    operator.create(&named("later")).await;
    operator.wait_until_ready("later").await;
    assert_eq!(
        operator.deployment("minimal").await.metadata.generation,
        Some(3)
    );
}
