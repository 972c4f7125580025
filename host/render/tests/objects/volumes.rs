//! Volumes, claims and files of Secrets.

use llsd_api::checked::Checked;
use llsd_render::objects::{ConfigPlan, Desired, Kind};
use serde_json::{Value, json};

use crate::{built, checked, child, generated, golden, owner, with};

#[test]
fn volumes_and_mounts_of_the_user_that_collide_with_the_operators_are_errors() {
    let overrides = |volumes: Value, mounts: Value| {
        let overrides = json!({"volumes": volumes, "volumeMounts": mounts});
        checked(with(json!({"workload": {"overrides": overrides}})))
    };
    let fields = |checked: &Checked, plan: &ConfigPlan| -> Vec<String> {
        let errors = built(checked, plan).err().into_iter().flatten();
        errors.map(|one| one.field.to_string()).collect()
    };
    let clash = overrides(
        json!([{"name": "mine", "emptyDir": {}}, {"name": "user-config", "emptyDir": {}}]),
        json!([{"name": "mine", "mountPath": "/mine"}, {"name": "mine", "mountPath": "/etc/llama-stack/"}]),
    );
    assert_eq!(
        fields(&clash, &generated(Vec::new())),
        [
            "spec.workload.overrides.volumeMounts[1].mountPath",
            "spec.workload.overrides.volumes[1].name",
        ]
    );
    // Without a generated configuration, the operator uses neither the name nor the path.
    assert_eq!(fields(&clash, &ConfigPlan::DistributionDefault), [""; 0]);
    // The API server accepts another mount of the operator's volume, and a path in another spelling.
    let again = overrides(
        json!([]),
        json!([{"name": "lls-storage", "mountPath": "/elsewhere"}, {"name": "lls-storage", "mountPath": "/.llama/"}]),
    );
    assert_eq!(fields(&again, &generated(Vec::new())), [""; 0]);
}

fn with_storage(storage: Value) -> Desired {
    let checked = checked(with(json!({"workload": {"storage": storage}})));
    built(&checked, &generated(Vec::new())).unwrap()
}

#[test]
fn a_volume_has_the_class_and_the_modes_of_the_resource() {
    let desired = with_storage(json!({
        "storageClassName": "fast", "accessModes": ["ReadWriteMany"], "retainPolicy": "Retain",
    }));
    let claim = child(&desired, Kind::PersistentVolumeClaim).unwrap();
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    // Without an owner it survives the resource.
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
    let strategy = &desired.deployment.object["spec"]["strategy"]["type"];
    assert_eq!(strategy, "RollingUpdate", "pods can share the volume");

    let desired = with_storage(json!({"retainPolicy": "Delete"}));
    let claim = child(&desired, Kind::PersistentVolumeClaim).unwrap();
    assert_eq!(
        claim["metadata"]["ownerReferences"][0]["name"],
        owner().name
    );
    assert_eq!(claim["spec"]["storageClassName"], Value::Null);
}

#[test]
fn a_secret_file_is_mounted_and_its_path_is_a_setting_and_a_variable() {
    let checked = checked(with(json!({
        "providers": {"inference": [
            {"id": "vllm", "provider": "vllm", "endpoint": "http://vllm:8000", "secretFiles": [
                {"name": "ca", "key": "ca.crt", "setting": "network.tls.verify"},
                {"name": "client", "key": "tls.key", "path": "/certs/key.pem"},
            ]},
            {"id": "vertex", "provider": "vertexai", "settings": {"project": "p"}, "secretFiles": [
                {"name": "gcp", "key": "key.json", "env": "GOOGLE_APPLICATION_CREDENTIALS"},
            ]},
        ]},
    })));
    let default = "/etc/llama-stack-files/vllm/ca/ca.crt";
    assert_eq!(
        checked.providers[0].settings["network"]["tls"]["verify"],
        default
    );
    let desired = built(&checked, &generated(Vec::new())).unwrap();
    golden("secret_files", &desired);
    let server = &desired.deployment.object["spec"]["template"]["spec"]["containers"][0];
    let variables = server["env"].as_array().unwrap();
    let variable = json!({
        "name": "GOOGLE_APPLICATION_CREDENTIALS",
        "value": "/etc/llama-stack-files/vertex/gcp/key.json",
    });
    assert!(variables.contains(&variable), "{variables:?}");
    let mounts = server["volumeMounts"].as_array().unwrap();
    let own = json!({
        "name": "secret-files", "mountPath": "/certs/key.pem", "subPath": "vllm/client/tls.key",
        "readOnly": true,
    });
    assert!(mounts.contains(&own), "{mounts:?}");
    let folder = json!({
        "name": "secret-files", "mountPath": "/etc/llama-stack-files", "readOnly": true,
    });
    assert!(mounts.contains(&folder), "{mounts:?}");
    let source = |secret: &str, key: &str, path: &str| json!({"secret": {"name": secret, "items": [{"key": key, "path": path}]}});
    let volume = json!({"name": "secret-files", "projected": {"sources": [
        source("gcp", "key.json", "vertex/gcp/key.json"),
        source("ca", "ca.crt", "vllm/ca/ca.crt"),
        source("client", "tls.key", "vllm/client/tls.key"),
    ]}});
    let volumes = &desired.deployment.object["spec"]["template"]["spec"]["volumes"];
    assert!(volumes.as_array().unwrap().contains(&volume), "{volumes}");
}

#[test]
fn a_secret_file_cannot_be_in_a_directory_that_the_operator_mounts() {
    let file = json!({"name": "s", "key": "k", "path": "/etc/llama-stack/key"});
    let checked = checked(with(json!({"providers": {"inference": {
        "provider": "vllm", "endpoint": "http://vllm:8000", "secretFiles": [file],
    }}})));
    let problems = built(&checked, &generated(Vec::new())).unwrap_err();
    let fields: Vec<String> = problems.iter().map(|one| one.field.to_string()).collect();
    assert_eq!(fields, ["spec.providers.inference.secretFiles[0].path"]);
}

#[test]
fn an_existing_claim_is_mounted_and_none_is_created() {
    let desired = with_storage(json!({"existingClaim": "models", "mountPath": "/models"}));
    assert!(child(&desired, Kind::PersistentVolumeClaim).is_none());
    let pod = &desired.deployment.object["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let names = volumes
        .iter()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["models"]);
    let strategy = &desired.deployment.object["spec"]["strategy"]["type"];
    assert_eq!(strategy, "Recreate");
}
