//! Edits through one version, and the fields that only the other version has.

use super::*;

#[test]
fn an_edit_through_v1alpha1_keeps_the_fields_of_v1alpha2() {
    let document = v1alpha2(
        "{distribution: {name: starter, schema: llama-stack/0.7}, providers: {inference: {provider: vllm}}, networking: {port: 9000, expose: {gateway: {parentRefs: [{name: public}], hostnames: [h]}}}, workload: {overrides: {imagePullSecrets: [{name: p}]}}}",
    );
    let mut old = down(&document);
    old["spec"]["server"]["distribution"]["name"] = json!("remote-vllm");
    old["spec"]["server"]["containerSpec"] =
        json!({ "port": 9001, "env": [{ "name": "A", "value": "b" }] });
    let edited = up(&old);
    assert_eq!(
        edited["spec"],
        yaml(
            "{distribution: {name: remote-vllm, schema: llama-stack/0.7}, providers: {inference: {provider: vllm}}, networking: {port: 9001, expose: {gateway: {parentRefs: [{name: public}], hostnames: [h]}}}, workload: {overrides: {imagePullSecrets: [{name: p}], env: [{name: A, value: b}]}}}"
        )
    );
    assert_eq!(annotation(&edited, CONFLICTS), None);
}

#[test]
fn an_edit_of_a_preserved_field_wins_and_is_recorded() {
    let document = v1alpha2(
        "{distribution: {name: starter}, networking: {expose: {hostname: h}}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
    );
    let mut old = down(&document);
    assert_eq!(
        old["spec"]["server"]["autoscaling"]["targetCPUUtilizationPercentage"],
        80
    );
    old["spec"]["network"]["exposeRoute"] = json!(false);
    old["spec"]["server"]["autoscaling"]["targetCPUUtilizationPercentage"] = json!(90);
    let edited = up(&old);
    assert_eq!(
        edited["spec"],
        yaml(
            "{distribution: {name: starter}, networking: {expose: false}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 90}}}"
        )
    );
    let conflicts: Value = serde_json::from_str(annotation(&edited, CONFLICTS).unwrap()).unwrap();
    assert_eq!(
        conflicts["/spec/networking/expose"],
        json!({ "hostname": "h" })
    );
    // The v1alpha1 resource is still returned unchanged.
    assert_eq!(down(&edited)["spec"], old["spec"]);
}

#[test]
fn a_second_conflict_is_added_to_the_first() {
    let document = v1alpha2(
        "{distribution: {name: starter}, networking: {expose: {hostname: h}}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
    );
    let mut old = down(&document);
    old["spec"]["network"]["exposeRoute"] = json!(false);
    let first = up(&old);
    let mut old = down(&first);
    old["spec"]["server"]["autoscaling"]["targetCPUUtilizationPercentage"] = json!(90);
    let second = up(&old);
    let pointers = |document: &Value| -> Vec<String> {
        let text = annotation(document, CONFLICTS).unwrap();
        let conflicts: Map<String, Value> = serde_json::from_str(text).unwrap();
        conflicts.keys().cloned().collect()
    };
    assert_eq!(pointers(&first), ["/spec/networking/expose"]);
    assert_eq!(
        pointers(&second),
        [
            "/spec/networking/expose",
            "/spec/workload/autoscaling/targetCPUUtilization",
            "/spec/workload/autoscaling/targetCPUUtilizationPercentage"
        ]
    );
}

#[test]
fn a_field_is_not_restored_without_the_sibling_it_depends_on() {
    let document = v1alpha2(
        "{distribution: {name: s}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
    );
    let mut old = down(&document);
    old["spec"]["server"]
        .as_object_mut()
        .unwrap()
        .remove("autoscaling");
    assert_eq!(
        up(&old)["spec"],
        yaml("{distribution: {name: s}, workload: {}}")
    );

    let document = v1alpha1(
        "{server: {distribution: {name: s}, autoscaling: {minReplicas: 0, maxReplicas: 2}}}",
    );
    let mut new = up(&document);
    new["spec"].as_object_mut().unwrap().remove("workload");
    assert_eq!(
        down(&new)["spec"],
        yaml("{server: {distribution: {name: s}}}")
    );
}

#[test]
fn a_removed_field_stays_removed_even_without_its_parents() {
    let mut old = down(&v1alpha2(
        "{distribution: {name: s}, networking: {tls: {secretName: a}}}",
    ));
    let preserved =
        json!({ "/spec/providers/inference": { "was": { "provider": "a" } }, "/spec/x/y": {} })
            .to_string();
    old["metadata"]["annotations"][V1ALPHA2_FIELDS] = json!(preserved);
    assert_eq!(
        up(&old)["spec"],
        yaml("{distribution: {name: s}, workload: {replicas: 1}}")
    );
}

#[test]
fn an_edit_through_v1alpha2_keeps_the_fields_of_v1alpha1() {
    let document = v1alpha1(
        "{server: {distribution: {name: s}, containerSpec: {name: llama-stack, port: 0}, podOverrides: {}}}",
    );
    let mut new = up(&document);
    new["spec"]["networking"] = json!({ "port": 9000 });
    new["spec"]["workload"] = json!({ "overrides": { "serviceAccountName": "sa" } });
    assert_eq!(
        down(&new)["spec"],
        yaml(
            "{server: {distribution: {name: s}, containerSpec: {name: llama-stack, port: 9000}, podOverrides: {serviceAccountName: sa}}}"
        )
    );
}

#[test]
fn a_contradiction_elsewhere_is_left_to_the_rules() {
    let mut old = down(&v1alpha2(
        "{distribution: {name: starter}, providers: {inference: {provider: vllm}}}",
    ));
    old["spec"]["server"]["userConfig"] = json!({ "configMapName": "c" });
    let errors = crate::check_document(up(&old)).result.unwrap_err();
    assert_eq!(
        errors.iter().next().unwrap().field.as_str(),
        "spec.providers"
    );
}

#[test]
fn a_value_that_blocks_a_preserved_field_stays() {
    let mut old = down(&v1alpha2(
        "{distribution: {name: s}, networking: {tls: {secretName: a}}}",
    ));
    let preserved = json!({ "/spec/networking/port/x": { "is": 1 }, "/spec/gone": { "was": 1 }, "": { "is": 1 } }).to_string();
    old["metadata"]["annotations"][V1ALPHA2_FIELDS] = json!(preserved);
    old["spec"]["server"]["containerSpec"] = json!({ "port": 80 });
    let converted = up(&old);
    assert_eq!(
        converted["spec"],
        yaml("{distribution: {name: s}, networking: {port: 80}, workload: {replicas: 1}}")
    );
    let conflicts: Value =
        serde_json::from_str(annotation(&converted, CONFLICTS).unwrap()).unwrap();
    assert_eq!(
        conflicts.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["", "/spec/networking/port/x"]
    );
}

#[test]
fn defaults_of_v1alpha1_are_not_taken_for_an_edit() {
    let document =
        v1alpha2("{distribution: {name: s}, networking: {allowedFrom: {namespaces: [a]}}}");
    let shown = down(&document);
    assert_eq!(shown["spec"]["replicas"], 1);
    assert_eq!(shown["spec"]["network"]["exposeRoute"], false);
    assert_eq!(up(&shown), document);
    let mut scaled = shown.clone();
    scaled["spec"]["replicas"] = json!(2);
    assert_eq!(up(&scaled)["spec"]["workload"], json!({"replicas": 2}));
    let mut busy = shown;
    busy["spec"]["server"]["workers"] = json!(4);
    let edited = up(&busy);
    assert_eq!(edited["spec"]["workload"], json!({"workers": 4}));
    assert_eq!(annotation(&edited, CONFLICTS), None);
}

/// Issue I: the converted value would overflow the stack when it is dropped.
#[test]
fn a_preserved_field_cannot_be_nested_deeper_than_a_resource() {
    let mut old = v1alpha1("{server: {distribution: {name: starter}}}");
    let deep = format!("/spec{}", "/a".repeat(100_000));
    let preserved = json!({ deep: { "is": 1 }, "/spec/providers": { "is": {"inference": {"provider": "vllm"}} } });
    old["metadata"]["annotations"] = json!({ V1ALPHA2_FIELDS: preserved.to_string() });
    let new = up(&old);
    assert_eq!(
        new["spec"],
        yaml("{distribution: {name: starter}, providers: {inference: {provider: vllm}}}")
    );
    assert!(new.to_string().len() > 100_000, "the value is not lost");
}
