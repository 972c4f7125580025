//! Properties of the pod template that only a node can show: each was a pod that did not start, lost its
//! data, or lost requests.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use llsd_api::checked::{Checked, check_document};
use llsd_render::objects::{
    Cluster, ConfigPlan, DerivedValues, ObjectInputs, Owner, Privileges, build_objects,
};
use llsd_render::{EntryPoint, ServerFacts, data_folders};
use serde_json::{Value, json};

#[test]
fn variables_of_services_and_a_token_of_the_api_server_are_not_in_the_pod() {
    let pod = pod(json!({}), &default(), &ServerFacts::default());
    assert_eq!(pod["enableServiceLinks"], false);
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["serviceAccountName"], "demo-sa");
}

#[test]
fn a_service_account_of_the_user_keeps_its_token() {
    let overrides = json!({"workload": {"overrides": {"serviceAccountName": "mine"}}});
    let pod = pod(overrides, &default(), &ServerFacts::default());
    assert_eq!(pod["serviceAccountName"], "mine");
    assert_eq!(pod.get("automountServiceAccountToken"), None);
}

#[test]
fn an_ending_server_accepts_connections_until_nothing_is_routed_to_it() {
    let sleep = |overrides: Value| {
        let spec = json!({"workload": {"overrides": overrides}});
        let pod = pod(spec, &default(), &ServerFacts::default());
        pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"].clone()
    };
    let within = |grace: i64| sleep(json!({"terminationGracePeriodSeconds": grace}));
    assert_eq!(sleep(json!({})), 5);
    assert_eq!(within(120), 5);
    // The API server rejects a delay of zero, or one longer than the grace period.
    assert_eq!(within(4), 2);
    assert_eq!(within(1), json!(null));
    assert_eq!(within(0), json!(null));
}

#[test]
fn the_end_of_the_log_of_every_failed_container_is_kept() {
    let external = json!({"vectorIo": [{"providerId": "own", "image": "acme/own:1"}]});
    let spec = json!({"externalProviders": external});
    let pod = pod(spec, &default(), &ServerFacts::default());
    let containers = ["initContainers", "containers"].map(|list| pod[list].as_array().unwrap());
    let policies: Vec<_> = containers
        .into_iter()
        .flatten()
        .map(|container| container["terminationMessagePolicy"].clone())
        .collect();
    assert_eq!(policies, ["FallbackToLogsOnError"; 3]);
}

#[test]
fn a_rollout_has_as_long_as_a_server_may_take_to_start() {
    let deployment = deployment(json!({}), &default(), &ServerFacts::default());
    let probe = &deployment["spec"]["template"]["spec"]["containers"][0]["startupProbe"];
    let allowed = ["periodSeconds", "failureThreshold"].map(|field| probe[field].as_i64().unwrap());
    let deadline = &deployment["spec"]["progressDeadlineSeconds"];
    assert!(deadline.as_i64().unwrap() > allowed[0] * allowed[1]);
}

/// Every container meets the restricted Pod Security Standard if the user of the image is known,
/// whatever the source of the configuration.
#[test]
fn pods_are_restricted_in_every_mode_and_not_root_if_the_user_is_known() {
    let external = json!({"vectorIo": [{"providerId": "own", "image": "acme/own:1"}]});
    let of_resource = json!({"workload": {"overrides": {"runAsUser": 1234}}});
    let user = |user: &str| ServerFacts {
        user: Some(user.to_owned()),
        ..ServerFacts::default()
    };
    for plan in [default(), overriding()] {
        for (mut spec, facts, expected) in [
            (json!({}), user("1001:0"), json!(true)),
            (json!({}), user("0"), json!(null)),
            (json!({}), user("llama"), json!(null)),
            (json!({}), ServerFacts::default(), json!(null)),
            (of_resource.clone(), user("0"), json!(true)),
        ] {
            spec["externalProviders"] = external.clone();
            let run_as_user = spec["workload"]["overrides"]["runAsUser"].clone();
            let pod = pod(spec, &plan, &facts);
            assert_eq!(pod["securityContext"]["runAsUser"], run_as_user);
            assert_eq!(
                pod["securityContext"]["seccompProfile"]["type"],
                "RuntimeDefault"
            );
            let contexts = [&pod["containers"][0], &pod["initContainers"][1]];
            for context in contexts.map(|container| &container["securityContext"]) {
                assert_eq!(context["allowPrivilegeEscalation"], false);
                assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
                assert_eq!(context["runAsNonRoot"], expected, "{facts:?}");
            }
            let copy = &pod["initContainers"][0]["securityContext"];
            assert_eq!(
                (&copy["runAsNonRoot"], &copy["runAsUser"]),
                (&json!(true), &json!(1001))
            );
        }
    }
}

#[test]
fn port_and_workers_are_set_for_both_products_without_a_generated_configuration() {
    let spec = json!({"networking": {"port": 9000}, "workload": {"workers": 3}});
    for plan in [default(), overriding()] {
        let pod = pod(spec.clone(), &plan, &ServerFacts::default());
        assert_eq!(variable(&pod, "LLAMA_STACK_PORT"), "9000");
        assert_eq!(variable(&pod, "OGX_PORT"), "9000");
        assert_eq!(variable(&pod, "OGX_WORKERS"), "3");
    }
    let pod = pod(json!({}), &default(), &ServerFacts::default());
    assert_eq!(variable(&pod, "OGX_PORT"), json!(null));
}

#[test]
fn the_volume_holds_the_data_of_a_server_whose_configuration_is_known() {
    let text = "db: ${env.SQLITE_STORE_DIR:=~/.llama/distributions/mine}/kv.db";
    let facts = ServerFacts {
        data_folders: data_folders(text),
        ..ServerFacts::default()
    };
    let storage = json!({"workload": {"storage": {"mountPath": "/data/"}}});
    for plan in [default(), overriding()] {
        let with_volume = pod(storage.clone(), &plan, &facts);
        assert_eq!(
            variable(&with_volume, "SQLITE_STORE_DIR"),
            "/data/distributions/mine"
        );
        assert_eq!(variable(&with_volume, "LLAMA_STACK_CONFIG_DIR"), "/data");
        assert_eq!(variable(&with_volume, "OGX_CONFIG_DIR"), "/data");
        assert!(!mounts(&with_volume).contains(&"/root/.llama".to_owned()));
        let without = pod(json!({}), &plan, &facts);
        assert_eq!(variable(&without, "SQLITE_STORE_DIR"), json!(null));
    }
}

#[test]
fn the_volume_holds_the_data_of_a_server_that_runs_as_root_with_an_unknown_configuration() {
    let facts = ServerFacts::default();
    let spec = |overrides: Value| json!({"workload": {"storage": {}, "overrides": overrides}});
    let all = mounts(&pod(spec(json!({})), &default(), &facts));
    assert_eq!(all, ["/.llama", "/root/.llama", "/root/.ogx"]);
    let overrides = json!({
        "volumes": [{"name": "home", "emptyDir": {}}],
        "volumeMounts": [{"name": "home", "mountPath": "/root"}],
    });
    let all = mounts(&pod(spec(overrides), &default(), &facts));
    assert_eq!(all, ["/.llama", "/root"]);
}

#[test]
fn an_override_takes_effect_whether_or_not_the_image_reads_the_variable() {
    let facts = |entry_point| ServerFacts {
        entry_point,
        ..ServerFacts::default()
    };
    let file = "/etc/llama-stack/config.yaml";
    let image_file = "/app/run.yaml".to_owned();

    let known = pod(json!({}), &overriding(), &facts(EntryPoint::Variable));
    assert_eq!(variable(&known, "RUN_CONFIG_PATH"), file);
    assert!(!mounts(&known).contains(&image_file));
    assert_eq!(known["containers"][0].get("command"), None);

    let old = pod(
        json!({"networking": {"port": 9000}}),
        &overriding(),
        &facts(EntryPoint::Fixed),
    );
    let command = json!(["llama", "stack", "run", file, "--port", "9000"]);
    assert_eq!(old["containers"][0]["command"], command);
    let own = json!({"workload": {"overrides": {"command": ["serve"]}}});
    let own = pod(own, &overriding(), &facts(EntryPoint::Fixed));
    assert_eq!(own["containers"][0]["command"], json!(["serve"]));

    let unknown = pod(json!({}), &overriding(), &facts(EntryPoint::Unknown));
    assert_eq!(variable(&unknown, "RUN_CONFIG_PATH"), file);
    let all = unknown["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = all
        .iter()
        .find(|one| one["mountPath"] == image_file.as_str());
    let expected = json!({"name": "user-config", "mountPath": image_file, "subPath": "config.yaml", "readOnly": true});
    assert_eq!(mount, Some(&expected));
    // Who already replaces the file keeps doing so.
    let mine = json!({
        "volumes": [{"name": "mine", "configMap": {"name": "mine"}}],
        "volumeMounts": [{"name": "mine", "mountPath": "/app/run.yaml", "subPath": "config.yaml"}],
    });
    let mine = json!({"workload": {"overrides": mine}});
    let mine = mounts(&pod(mine, &overriding(), &facts(EntryPoint::Unknown)));
    assert_eq!(mine.iter().filter(|path| **path == image_file).count(), 1);
}

fn default() -> ConfigPlan {
    ConfigPlan::DistributionDefault
}

fn overriding() -> ConfigPlan {
    ConfigPlan::Override {
        config_map: "mine".to_owned(),
        digest: "sha256:00".to_owned(),
    }
}

fn checked(spec: Value) -> Checked {
    let mut document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": "demo"},
        "spec": {"distribution": {"image": "acme/stack:1"}},
    });
    let more = spec.as_object().unwrap().clone();
    document["spec"].as_object_mut().unwrap().extend(more);
    check_document(document).result.unwrap()
}

fn deployment(spec: Value, plan: &ConfigPlan, server: &ServerFacts) -> Value {
    let owner = Owner {
        namespace: "ml".to_owned(),
        name: "demo".to_owned(),
        uid: "1".to_owned(),
        pod_app: llsd_api::labels::PRODUCT,
    };
    let inputs = ObjectInputs {
        checked: &checked(spec),
        image: "acme/stack:1",
        server,
        plan,
        secrets_digest: None,
        owner: &owner,
        cluster: &Cluster::default(),
        ca_bundle: None,
        derived: &DerivedValues::default(),
        network_policy: None,
        allows_any_uid: false,
        // The tests are about the pods, not about who may have them.
        allows_privileged_pods: true,
        kept_privileges: &Privileges::default(),
    };
    build_objects(&inputs).unwrap().deployment.object
}

fn pod(spec: Value, plan: &ConfigPlan, server: &ServerFacts) -> Value {
    deployment(spec, plan, server)["spec"]["template"]["spec"].clone()
}

fn variable(pod: &Value, name: &str) -> Value {
    let all = pod["containers"][0]["env"].as_array().unwrap().iter();
    let found = all.clone().find(|one| one["name"] == name);
    found.map_or(Value::Null, |one| one["value"].clone())
}

fn mounts(pod: &Value) -> Vec<String> {
    let all = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    all.iter()
        .map(|one| one["mountPath"].as_str().unwrap().to_owned())
        .collect()
}
