//! Round trips: absent, empty and zero values stay as they are.

use super::*;

#[test]
fn absent_empty_and_zero_survive_a_round_trip() {
    let specs = [
        "{server: {distribution: {name: starter}}}",
        "{replicas: 0, server: {distribution: {name: starter}}}",
        "{server: {distribution: {}}}",
        "{server: {distribution: {name: ''}}}",
        "{server: {distribution: {name: s}, containerSpec: {}}}",
        "{server: {distribution: {name: s}, containerSpec: {name: llama-stack}}}",
        "{server: {distribution: {name: s}, containerSpec: {name: other, port: 0, env: [], command: [], args: []}}}",
        "{server: {distribution: {name: s}, containerSpec: {resources: {claims: [{name: a}]}}}}",
        "{server: {distribution: {name: s}, containerSpec: {resources: {}}}}",
        "{server: {distribution: {name: s}, podOverrides: {}}}",
        "{server: {distribution: {name: s}, podOverrides: {terminationGracePeriodSeconds: 0, serviceAccountName: ''}}}",
        "{server: {distribution: {name: s}, podDisruptionBudget: {}}}",
        "{server: {distribution: {name: s}, podDisruptionBudget: {minAvailable: 0}}}",
        "{server: {distribution: {name: s}, autoscaling: {minReplicas: 0, maxReplicas: 0}}}",
        "{server: {distribution: {name: s}, storage: {}}}",
        "{server: {distribution: {name: s}, storage: {size: 20Gi, mountPath: ''}}}",
        "{server: {distribution: {name: s}, userConfig: {configMapName: '', configMapNamespace: other}}}",
        "{server: {distribution: {name: s}, userConfig: {configMapName: c, configMapNamespace: other}}}",
        "{server: {distribution: {name: s}, tlsConfig: {}}}",
        "{server: {distribution: {name: s}, tlsConfig: {caBundle: {configMapName: c, configMapNamespace: n, configMapKeys: []}}}}",
        "{server: {distribution: {name: s}}, network: {}}",
        "{server: {distribution: {name: s}}, network: {exposeRoute: false}}",
        "{server: {distribution: {name: s}}, network: {allowedFrom: {}}}",
        "{server: {distribution: {name: s}}, network: {exposeRoute: true, allowedFrom: {namespaces: [], labels: [a]}}}",
        "{server: {distribution: {name: s}, topologySpreadConstraints: [], workers: 4}}",
    ];
    for spec in specs {
        let document = v1alpha1(spec);
        let converted = up(&document);
        assert_eq!(converted["apiVersion"], API_VERSION_V1ALPHA2);
        assert_eq!(down(&converted), document, "{spec}\n{converted:#}");
    }
}

#[test]
fn a_value_that_both_versions_support_is_a_field_and_not_an_annotation() {
    let converted = up(&v1alpha1(
        "{replicas: 0, server: {distribution: {name: s}, containerSpec: {port: 9000, name: other}, storage: {}, podOverrides: {terminationGracePeriodSeconds: 0}, userConfig: {configMapName: c, configMapNamespace: n}, tlsConfig: {caBundle: {configMapName: ca, configMapNamespace: n, configMapKeys: [k]}}}, network: {exposeRoute: false}}",
    ));
    assert_eq!(annotation(&converted, V1ALPHA1_FIELDS), Some("{}"));
    assert_eq!(
        converted["spec"],
        yaml(
            "{distribution: {name: s}, overrideConfig: {configMapName: c, configMapNamespace: n}, networking: {port: 9000, expose: false, tls: {caBundle: {configMapName: ca, configMapNamespace: n, configMapKeys: [k]}}}, workload: {replicas: 0, storage: {}, overrides: {containerName: other, terminationGracePeriodSeconds: 0}}}"
        )
    );
}

#[test]
fn edits_do_not_change_the_version_that_a_resource_was_created_in() {
    let is_older = |document: &Value| {
        let annotations = document["metadata"]["annotations"].clone();
        was_made_in_v1alpha1(&serde_json::from_value(annotations).unwrap_or_default())
    };
    let mut older = v1alpha1("{server: {distribution: {name: s}}}");
    for _ in 0..2 {
        let mut converted = up(&older);
        assert!(is_older(&converted));
        converted["spec"]["providers"] = json!({ "inference": { "provider": "vllm" } });
        older = down(&converted);
        older["spec"]["server"]["podOverrides"] = json!({});
    }
    let mut newer = v1alpha2("{distribution: {name: s}}");
    for _ in 0..2 {
        assert!(!is_older(&newer));
        let mut converted = down(&newer);
        converted["spec"]["server"]["podOverrides"] = json!({});
        newer = up(&converted);
        assert!(annotation(&newer, V1ALPHA1_FIELDS).is_some());
    }
    assert!(!is_older(&lift_env(up(&older), Some(&json!({}))).document));
}

#[test]
fn zero_and_empty_values_that_mean_absent_are_not_converted_to_v1alpha2() {
    let converted = up(&v1alpha1(
        "{server: {distribution: {name: s}, containerSpec: {port: 0, name: llama-stack}, autoscaling: {minReplicas: 0, maxReplicas: 3}, userConfig: {configMapName: '', configMapNamespace: n}}}",
    ));
    assert_eq!(
        converted["spec"],
        yaml("{distribution: {name: s}, workload: {autoscaling: {maxReplicas: 3}}}")
    );
    assert!(crate::check_document(converted).result.is_ok());
}

#[test]
fn fields_of_v1alpha2_survive_a_round_trip() {
    let specs = [
        "{distribution: {name: starter, schema: llama-stack/0.7, baseConfig: {configMapName: b}}, providers: {inference: {provider: vllm}}, resources: {models: [m]}, storage: {kv: {}}, disabled: []}",
        "{distribution: {name: starter}, networking: {expose: {}}}",
        "{distribution: {name: starter}, networking: {expose: {enabled: false, hostname: h}}}",
        "{distribution: {name: starter}, networking: {expose: 'a string'}}",
        "{distribution: {name: starter}, networking: {}}",
        "{distribution: {name: starter}, networking: {allowedFrom: {}, tls: {enabled: false, caBundle: {}}}}",
        "{distribution: {name: starter}, workload: {}}",
        "{distribution: {name: starter}, workload: {overrides: {imagePullSecrets: []}, storage: {}}}",
        "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80}}}",
        "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 80, targetCPUUtilizationPercentage: 70}}}",
        "{distribution: {name: starter}, overrideConfig: {}}",
        "{distribution: {name: starter}, externalProviders: {inference: [{providerId: a, image: b}]}}",
        "{}",
    ];
    for spec in specs {
        let document = v1alpha2(spec);
        let converted = down(&document);
        assert_eq!(converted["apiVersion"], API_VERSION_V1ALPHA1);
        assert_eq!(up(&converted), document, "{spec}\n{converted:#}");
    }
}

#[test]
fn the_status_of_both_versions_survives_a_round_trip() {
    let mut old = v1alpha1("{server: {distribution: {name: s}}}");
    old["status"] = json!({
        "phase": "Ready", "availableReplicas": 0, "routeURL": "", "version": {},
        "conditions": [{ "type": "DeploymentReady" }], "distributionConfig": { "providers": [] },
    });
    let converted = up(&old);
    assert_eq!(converted["status"], old["status"]);
    assert_eq!(down(&converted), old);

    let mut new = v1alpha2("{distribution: {name: s}}");
    new["status"] = json!({
        "phase": "Ready", "observedGeneration": 3, "configGeneration": { "providerCount": 0 },
        "resolvedDistribution": {}, "externalProviders": [],
    });
    let converted = down(&new);
    let shared = json!({ "phase": "Ready", "observedGeneration": 3 });
    assert_eq!(converted["status"], shared);
    assert_eq!(up(&converted), new);
}

#[test]
fn other_annotations_are_not_changed() {
    let mut document = v1alpha1("{server: {distribution: {name: s}, podOverrides: {}}}");
    for annotations in [
        json!({}),
        json!({ "a": "b" }),
        json!({ V1ALPHA2_FIELDS: "no JSON" }),
        json!({ V1ALPHA2_FIELDS: "[]" }),
    ] {
        document["metadata"]["annotations"] = annotations;
        let converted = up(&document);
        assert!(annotation(&converted, V1ALPHA1_FIELDS).is_some());
        assert_eq!(down(&converted), document);
    }
    document["metadata"]["annotations"] = json!("no object");
    assert_eq!(up(&document)["metadata"]["annotations"], "no object");
    document["metadata"] = json!("no object");
    assert_eq!(up(&document)["metadata"], "no object");
}

#[test]
fn keys_with_slashes_and_tildes_survive() {
    let document = v1alpha1("{server: {distribution: {name: s}, 'a/b~c': 1}, 'x/~y': {}}");
    assert_eq!(down(&up(&document)), document);
}
