//! Pod templates and overrides, and what they may do.

use llsd_render::objects::{
    Cluster, DerivedValues, Desired, GatewayApi, Kind, ObjectInputs, Privileges, build_objects,
};
use serde_json::{Value, json};

use crate::{IMAGE, checked, generated, golden, inputs, with};

/// Issue I, row 16.
#[test]
fn on_openshift_the_pods_may_not_run_as_any_user_unless_the_installer_allows_it() {
    let checked = checked(with(json!({})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let openshift = Cluster {
        has_routes: true,
        has_pod_monitors: false,
        gateway_api: GatewayApi::default(),
        has_any_uid: true,
        operator_namespace: None,
    };
    for allows_any_uid in [false, true] {
        let desired = build_objects(&ObjectInputs {
            allows_any_uid,
            ..inputs(&checked, &plan, &openshift, &derived)
        })
        .unwrap();
        let is_bound = desired
            .children()
            .any(|child| child.kind == Kind::RoleBinding);
        let is_retired = desired
            .retired
            .iter()
            .any(|one| one.kind == Kind::RoleBinding && one.name == "minimal-rb");
        let pod = &desired.deployment.object["spec"]["template"]["spec"];
        let group = &pod["securityContext"]["fsGroup"];
        assert_eq!(is_bound, allows_any_uid);
        assert_eq!(is_retired, !allows_any_uid);
        assert_eq!(*group == 1001, allows_any_uid, "{group}");
    }
}

/// Objects with a pod template, built with or without the consent of the installer.
fn with_template(template: Value, allows_privileged_pods: bool) -> Result<Desired, Vec<String>> {
    let checked = checked(with(json!({"workload": {"podTemplate": template}})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let cluster = Cluster::default();
    let built = build_objects(&ObjectInputs {
        allows_privileged_pods,
        ..inputs(&checked, &plan, &cluster, &derived)
    });
    built.map_err(|problems| problems.iter().map(|one| one.field.to_string()).collect())
}

#[test]
fn the_objects_of_a_resource_with_a_pod_template() {
    let desired = with_template(
        json!({
            "metadata": {"labels": {"team": "ml"}, "annotations": {"prometheus.io/scrape": "true"}},
            "spec": {
                "nodeSelector": {"gpu": "true"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "runtimeClassName": "nvidia",
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                "securityContext": {"runAsUser": 1001},
                "volumes": [{"name": "models", "emptyDir": {}}],
                "initContainers": [{"name": "download", "image": "fetch:1"}],
                "containers": [
                    {
                        "name": "llama-stack",
                        "envFrom": [{"secretRef": {"name": "more"}}],
                        "resources": {"claims": [{"name": "gpu"}]},
                        "readinessProbe": {"tcpSocket": {"port": 8321}, "periodSeconds": 3},
                        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
                    },
                    {"name": "proxy", "image": "proxy:1"},
                ],
            },
        }),
        false,
    );
    let desired = desired.unwrap();
    let template = &desired.deployment.object["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["app"], "llama-stack");
    let server = &template["spec"]["containers"][0];
    assert_eq!(server["image"], IMAGE);
    let probe = &server["readinessProbe"];
    assert_eq!(
        (&probe["httpGet"], &probe["periodSeconds"]),
        (&Value::Null, &json!(3))
    );
    golden("pod_template", &desired);
}

#[test]
fn a_pod_template_is_rejected_where_the_operator_uses_the_name_or_the_path() {
    let colliding = json!({"spec": {
        "volumes": [{"name": "lls-storage", "emptyDir": {}}],
        "containers": [{"name": "llama-stack", "volumeMounts": [
            {"name": "a", "mountPath": "/etc/../etc//llama-stack/config.yaml"},
            {"name": "a", "mountPath": "/.llama"},
            {"name": "a", "mountPath": "/.llama/models"},
        ]}],
    }});
    let expected = [
        "volumes[0].name",
        "containers[0].volumeMounts[0].mountPath",
        "containers[0].volumeMounts[1].mountPath",
    ];
    let mut expected = expected.map(|field| format!("spec.workload.podTemplate.spec.{field}"));
    expected.sort();
    let mut found = with_template(colliding, true).unwrap_err();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn pods_have_privileges_only_with_the_consent_of_the_installer() {
    let template = json!({"spec": {
        "hostNetwork": true, "serviceAccountName": "admin",
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        "containers": [{"name": "llama-stack", "securityContext": {"privileged": true}}],
    }});
    let fields = [
        "containers[0].securityContext.privileged",
        "hostNetwork",
        "serviceAccountName",
        "volumes[0].hostPath",
    ];
    let mut found = with_template(template.clone(), false).unwrap_err();
    found.sort();
    assert_eq!(
        found,
        fields.map(|field| format!("spec.workload.podTemplate.spec.{field}"))
    );
    let pod = with_template(template, true).unwrap().deployment.object["spec"]["template"]["spec"]
        .clone();
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["containers"][0]["securityContext"]["privileged"], true);
}

/// The fields of overrides that are rejected in a namespace that the installer did not list.
fn denied_overrides(overrides: Value, kept: &Privileges, is_listed: bool) -> Vec<String> {
    let checked = checked(with(json!({"workload": {"overrides": overrides}})));
    let (plan, derived) = (generated(Vec::new()), DerivedValues::default());
    let cluster = Cluster::default();
    let built = build_objects(&ObjectInputs {
        allows_privileged_pods: is_listed,
        kept_privileges: kept,
        ..inputs(&checked, &plan, &cluster, &derived)
    });
    let problems = built.err();
    let problems = problems.iter().flat_map(|all| all.iter());
    problems.map(|one| one.field.to_string()).collect()
}

#[test]
fn host_paths_and_accounts_in_overrides_need_the_consent_of_the_installer_or_ran_before() {
    let overrides = json!({
        "serviceAccountName": "runner",
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "models", "hostPath": {"path": "/models"}},
            {"name": "root", "hostPath": {"path": "/"}},
        ],
    });
    let fields = |names: &[&str]| -> Vec<String> {
        let names = names.iter();
        names
            .map(|name| format!("spec.workload.overrides.{name}"))
            .collect()
    };
    let denied = |kept: &Privileges| denied_overrides(overrides.clone(), kept, false);
    let all = [
        "serviceAccountName",
        "volumes[1].hostPath",
        "volumes[2].hostPath",
    ];
    assert_eq!(denied(&Privileges::default()), fields(&all));
    assert_eq!(
        denied_overrides(overrides.clone(), &Privileges::default(), true),
        fields(&[])
    );
    let of_pods = |account: &str| {
        Privileges::of_template(&json!({"spec": {
            "serviceAccountName": account,
            "volumes": [{"name": "other", "hostPath": {"path": "/models"}}],
        }}))
    };
    assert_eq!(denied(&of_pods("runner")), fields(&all[2..]));
    assert_eq!(denied(&of_pods("other")), fields(&[all[0], all[2]]));
    for name in ["", "minimal-sa"] {
        let own = json!({"serviceAccountName": name});
        assert_eq!(
            denied_overrides(own, &Privileges::default(), false),
            fields(&[])
        );
    }
}
