//! The manifests: kustomize and Helm render the same objects, and Kubernetes accepts them.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_install::{Objects, chart, chart_in, kustomization, program};
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use llsd_testbed::{Invocation, Testbed};
use serde_json::{Value, json};

const NAMESPACE: &str = "llsd-system";

/// Removes the namespace, which is not part of the chart: Helm could not install it into an existing one.
fn without_namespace(mut objects: Objects) -> Objects {
    objects.remove(&format!("Namespace /{NAMESPACE}")).unwrap();
    objects
}

fn assert_equal(manifests: &Objects, chart: &Objects) {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(manifests), names(chart));
    for (name, object) in manifests {
        assert_eq!(object, &chart[name], "{name}");
    }
}

#[tokio::test]
async fn the_chart_without_values_equals_the_default_manifests() {
    let manifests = without_namespace(kustomization("default").await.unwrap());
    assert_equal(&manifests, &chart(&[]).await.unwrap());
}

#[tokio::test]
async fn every_overlay_equals_the_chart_with_one_value() {
    let overrides = std::fs::read_to_string(
        llsd_install::checkout().join("deploy/kustomize/overlays/air-gap/settings.yaml"),
    )
    .unwrap();
    let settings = &llsd_install::parse(&overrides).unwrap()
        [&format!("ConfigMap {NAMESPACE}/llama-stack-operator-config")]["data"];
    let image_overrides = settings["image-overrides"].as_str().unwrap();
    let air_gap = format!("settings.image-overrides={image_overrides}");
    for (overlay, values) in [
        ("cert-manager", &["certManager.enabled=true"][..]),
        ("openshift", &["openshift.enabled=true"]),
        ("namespaced", &["watchNamespace=llama-stack"]),
        ("monitoring", &["monitoring.enabled=true"]),
        (
            "air-gap",
            &[
                "image.repository=registry.internal/llsd-project/llsd",
                &air_gap,
            ],
        ),
    ] {
        let manifests = kustomization(&format!("overlays/{overlay}")).await.unwrap();
        assert_equal(&without_namespace(manifests), &chart(values).await.unwrap());
    }
}

#[tokio::test]
async fn the_bundle_for_olm_passes_the_validators_of_the_operator_framework_without_a_warning() {
    let bundle = llsd_install::checkout().join("deploy/olm");
    let validator = ensure_built(&cache_dir().unwrap(), &[Tool::OlmBundle]).unwrap();
    let validator = || Invocation::new(&validator[0]);
    let valid = validator().arg(&bundle).run().await.unwrap();
    valid.success().unwrap();

    // The validators do find what is wrong.
    // Hidden folders are not read.
    let folder = tempfile::Builder::new().prefix("bundle").tempdir().unwrap();
    for part in ["manifests", "metadata"] {
        let copy = folder.path().join(part);
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(bundle.join(part)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let definition = "manifests/schemaplugins.llamastack.io.crd.yaml";
    std::fs::remove_file(folder.path().join(definition)).unwrap();
    let invalid = validator().arg(folder.path()).run().await.unwrap();
    let problems = invalid.failure().unwrap();
    assert!(problems.contains("SchemaPlugin"), "{problems}");
}

#[tokio::test]
async fn every_object_is_accepted_by_both_releases_without_a_warning() {
    for testbed in [
        Testbed::shared().await.unwrap(),
        Testbed::shared_oldest().await.unwrap(),
    ] {
        for overlay in [
            "default",
            "overlays/openshift",
            "overlays/namespaced",
            "overlays/air-gap",
        ] {
            dry_run(testbed, kustomization(overlay).await.unwrap()).await;
        }
    }
}

/// Applies all objects in a dry run.
async fn dry_run(testbed: &Testbed, mut objects: Objects) {
    // A dry run needs an existing namespace. Use one for all objects, with the labels of ours.
    let namespace = testbed.namespace("install").await.unwrap();
    let labels =
        objects.remove(&format!("Namespace /{NAMESPACE}")).unwrap()["metadata"]["labels"].clone();
    let kubectl = || testbed.kubectl("admin").unwrap();
    let patch = json!({"metadata": {"labels": labels}}).to_string();
    let labelled = kubectl().args(["patch", "namespace", namespace.name(), "--patch", &patch]);
    labelled.run().await.unwrap().success().unwrap();

    let items: Vec<Value> = objects
        .into_values()
        .map(|mut object| {
            if object["metadata"].get("namespace").is_some() {
                object["metadata"]["namespace"] = namespace.name().into();
            }
            object
        })
        .collect();
    let count = items.len();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let applied = kubectl()
        .args([
            "apply",
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
            "--filename=-",
        ])
        .input(list.to_string())
        .run()
        .await
        .unwrap();
    assert!(!applied.stderr.contains("Warning"), "{}", applied.stderr);
    let accepted = applied.success().unwrap();
    assert_eq!(accepted.lines().count(), count, "{accepted}");
}

#[tokio::test]
async fn one_namespace_setting_changes_every_object_of_the_namespaced_installation() {
    let copy = tempfile::tempdir().unwrap();
    let source = llsd_install::checkout().join("deploy/kustomize");
    let copied = std::process::Command::new("cp")
        .arg("-R")
        .arg(&source)
        .arg(copy.path())
        .status();
    assert!(copied.unwrap().success());
    let overlay = copy.path().join("kustomize/overlays/namespaced");
    let file = overlay.join("rolebinding.yaml");
    let binding = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        binding.replace("namespace: llama-stack", "namespace: ml"),
    )
    .unwrap();

    let objects = kustomization(overlay.to_str().unwrap()).await.unwrap();
    assert!(objects.contains_key("RoleBinding ml/llsd-operator-resources"));
    assert!(!objects.contains_key("ClusterRoleBinding /llsd-operator-resources"));
    let chart = chart(&["watchNamespace=ml"]).await.unwrap();
    assert_equal(&without_namespace(objects), &chart);
}

#[tokio::test]
async fn the_chart_follows_its_release_into_any_namespace() {
    let text = |objects: &Objects| serde_json::to_string(objects).unwrap();
    let default = text(&chart(&[]).await.unwrap());
    let other = chart_in(
        "elsewhere",
        &["certManager.enabled=true", "monitoring.enabled=true"],
    );
    let other = text(&other.await.unwrap());
    assert!(default.contains(NAMESPACE));
    assert!(!other.contains(NAMESPACE), "{other}");
}

#[tokio::test]
async fn chart_values_for_digest_and_settings_reach_the_pod() {
    let objects = chart(&[
        "image.digest=sha256:abc",
        "extraArgs={--workers=8}",
        "nodeSelector.disk=ssd",
        "imagePullSecrets[0].name=mirror",
    ])
    .await
    .unwrap();
    let pod = &objects["Deployment llsd-system/llsd-operator"]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "ghcr.io/llsd-project/llsd@sha256:abc");
    let arguments = container["args"].as_array().unwrap();
    assert_eq!(arguments.first(), Some(&json!("operator")));
    assert_eq!(arguments.last(), Some(&json!("--workers=8")));
    assert_eq!(pod["nodeSelector"]["disk"], "ssd");
    let account = &objects["ServiceAccount llsd-system/llsd-operator"];
    assert_eq!(account["imagePullSecrets"][0]["name"], "mirror");
}

/// Issue I, row 16.
#[tokio::test]
async fn the_any_uid_permission_exists_only_in_the_namespaces_that_the_installer_lists() {
    let bound = |objects: &Objects| -> Vec<String> {
        let binds = |object: &Value| object["roleRef"]["name"] == "llsd-operator-anyuid";
        let bindings = objects.iter().filter(|(_, object)| binds(object));
        bindings.map(|(name, _)| name.clone()).collect()
    };
    let default = chart(&["openshift.enabled=true"]).await.unwrap();
    assert_eq!(bound(&default), [""; 0]);
    for object in default
        .values()
        .filter(|object| object["metadata"]["name"] != "llsd-operator-anyuid")
    {
        assert!(!object.to_string().contains("\"bind\""), "{object}");
    }

    let listed = chart(&["openshift.enabled=true", "openshift.anyuidNamespaces={ml}"]);
    let listed = listed.await.unwrap();
    assert_eq!(bound(&listed), ["RoleBinding ml/llsd-operator-anyuid"]);
    let settings = &listed["ConfigMap llsd-system/llama-stack-operator-config"]["data"];
    let openshift: Value = serde_saphyr::from_str(settings["openshift"].as_str().unwrap()).unwrap();
    assert_eq!(openshift, json!({"anyuidNamespaces": ["ml"]}));
}

#[tokio::test]
async fn an_unknown_chart_value_is_rejected_by_name() {
    let error = chart(&["watchNamespaces=ml"]).await.unwrap_err();
    assert!(
        format!("{error:#}").contains("watchNamespaces"),
        "{error:#}"
    );
}

#[tokio::test]
async fn nothing_is_trusted_by_default() {
    let objects = kustomization("default").await.unwrap();
    let kinds: Vec<&str> = objects
        .values()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"CustomResourceDefinition"));
    assert!(!kinds.contains(&"SchemaPlugin"));
    for object in objects
        .values()
        .filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role")
    {
        let rules = object["rules"].as_array().unwrap();
        assert!(
            rules.iter().all(|rule| !rule.to_string().contains("\"*\"")),
            "{object}"
        );
    }
}

#[tokio::test]
async fn alerts_and_dashboard_query_only_metrics_that_the_operations_guide_lists() {
    let objects = kustomization("overlays/monitoring").await.unwrap();
    let rules = objects["PrometheusRule llsd-system/llsd-operator"].to_string();
    let dashboard = &objects["ConfigMap llsd-system/llsd-dashboard"]["data"]["llsd-operator.json"];
    let dashboard: Value = serde_json::from_str(dashboard.as_str().unwrap()).unwrap();
    let guide = llsd_install::checkout().join("docs/operations.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let mut queried = 0;
    for text in [rules, dashboard["panels"].to_string()] {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for metric in words.filter(|word| word.starts_with("llsd_")) {
            let metric = metric.trim_end_matches("_bucket");
            assert!(guide.contains(&format!("`{metric}`")), "{metric}");
            queried += 1;
        }
    }
    assert!(queried > 8);
}

#[tokio::test]
async fn the_first_sample_works_with_the_settings_of_the_air_gap_overlay() {
    let checkout = llsd_install::checkout();
    let render = Invocation::new(&program("LLSD_BIN").unwrap())
        .args(["render", "--filename"])
        .arg(checkout.join("samples/minimal.yaml"))
        .arg("--settings")
        .arg(checkout.join("deploy/kustomize/overlays/air-gap/settings.yaml"));
    let rendered = render.run().await.unwrap().success().unwrap();
    assert!(rendered.contains("providers:"), "{rendered}");
}

#[tokio::test]
async fn the_argo_cd_settings_contain_the_health_check() {
    let folder = llsd_install::checkout().join("deploy/argocd");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let settings = llsd_install::parse(&read("argocd-cm.yaml")).unwrap();
    let key = "resource.customizations.health.llamastack.io_LlamaStackDistribution";
    assert_eq!(
        settings["ConfigMap argocd/argocd-cm"]["data"][key],
        json!(read("health.lua"))
    );
}
