//! Maps every behaviour of llama-stack-k8s-operator that its own tests cover (A, E), and every bug of it
//! that was reproduced (W), to our tests, or to the reason why there is none.
//!
//! The test fails if the table names a test that does not exist or lacks an identifier.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llsd_api::check_document;
use llsd_render::distributions;
use serde_json::json;

/// An identifier, and the tests that cover the behaviour.
const COVERED: &[(&str, &[&str])] = &[
    (
        "A01",
        &[
            "a_minimal_resource_gets_the_pods_of_llama_stack_k8s_operator_with_a_longer_startup_probe",
        ],
    ),
    (
        "A02",
        &["a_volume_claim_gets_defaults_and_is_never_changed"],
    ),
    (
        "A03",
        &["the_objects_of_a_resource_with_storage_secrets_and_several_pods"],
    ),
    (
        "A04",
        &["an_override_config_waits_for_its_config_map_and_new_content_replaces_the_pods"],
    ),
    (
        "A05",
        &["every_child_has_one_owner_and_the_service_selects_exactly_the_pods"],
    ),
    ("A06", &["a_minimal_resource_becomes_a_ready_server"]),
    (
        "A07",
        &["the_objects_of_a_server_with_tls_an_ingress_and_a_network_policy"],
    ),
    (
        "A08",
        &["every_child_has_one_owner_and_the_service_selects_exactly_the_pods"],
    ),
    (
        "A09",
        &[
            "the_status_shows_what_the_server_reports_and_an_unresponsive_server_blocks_nothing",
            "version_and_providers_are_read_without_provider_configuration",
        ],
    ),
    (
        "A10",
        &[
            "the_operator_setting_overrides_the_resource_for_the_network_policy",
            "optional_objects_follow_their_fields_and_keep_the_fields_of_other_managers",
        ],
    ),
    (
        "A11",
        &["invalid_ca_bundle_keys_are_rejected_by_their_path"],
    ),
    (
        "A12",
        &["ca_bundle_keys_are_merged_once_and_an_unchanged_bundle_replaces_no_pods"],
    ),
    (
        "A13",
        &["the_ca_bundle_of_the_platform_is_trusted_and_a_new_one_replaces_the_pods_once"],
    ),
    (
        "A14",
        &["an_empty_key_is_valid_and_a_key_without_certificates_is_not"],
    ),
    (
        "A15",
        &["the_error_for_an_invalid_certificate_names_its_key"],
    ),
    (
        "A16",
        &["an_empty_key_is_valid_and_a_key_without_certificates_is_not"],
    ),
    (
        "A17",
        &["an_image_override_affects_only_its_distribution_and_an_invalid_one_changes_nothing"],
    ),
    (
        "A18",
        &[
            "an_image_override_affects_only_its_distribution_and_an_invalid_one_changes_nothing",
            "the_network_policy_switch_applies_to_v1alpha1_resources",
        ],
    ),
    (
        "A20",
        &["an_override_config_waits_for_its_config_map_and_new_content_replaces_the_pods"],
    ),
    (
        "A21",
        &[
            "a_minimal_resource_gets_the_pods_of_llama_stack_k8s_operator_with_a_longer_startup_probe",
        ],
    ),
    (
        "A22",
        &["the_objects_of_a_resource_with_storage_secrets_and_several_pods"],
    ),
    (
        "A23",
        &[
            "the_objects_of_a_resource_with_storage_secrets_and_several_pods",
            "fields_removed_from_a_resource_are_removed_from_its_pods",
        ],
    ),
    (
        "A24",
        &["fields_removed_from_a_resource_are_removed_from_its_pods"],
    ),
    (
        "A25",
        &[
            "an_unknown_distribution_is_rejected_with_a_list_of_the_known_ones",
            "many_resources_with_one_private_image_pull_it_once",
        ],
    ),
    (
        "A26",
        &[
            "replicas_are_spread_and_protected_by_a_disruption_budget_that_can_change",
            "fields_removed_from_a_resource_are_removed_from_its_pods",
        ],
    ),
    (
        "A27",
        &["replicas_are_spread_and_protected_by_a_disruption_budget_that_can_change"],
    ),
    ("A28", &["the_objects_of_a_server_with_an_autoscaler"]),
    (
        "A29",
        &["the_objects_of_a_server_with_tls_an_ingress_and_a_network_policy"],
    ),
    (
        "A30",
        &[
            "an_object_of_another_owner_is_not_changed_and_is_named",
            "an_optional_object_of_another_owner_is_not_changed_and_the_server_runs",
        ],
    ),
    (
        "A31",
        &["a_volume_claim_gets_defaults_and_is_never_changed"],
    ),
    (
        "A32",
        &["an_autoscaler_controls_the_replicas_until_it_is_removed"],
    ),
    (
        "A33",
        &["an_autoscaler_controls_the_replicas_until_it_is_removed"],
    ),
    (
        "A35",
        &["removing_an_override_config_keeps_the_owner_and_the_fields_of_other_managers"],
    ),
    (
        "A36",
        &["storage_can_be_added_to_and_removed_from_a_running_server"],
    ),
    (
        "A37",
        &["the_objects_of_a_server_with_tls_an_ingress_and_a_network_policy"],
    ),
    (
        "A38",
        &["names_that_are_valid_for_every_child_work_and_others_are_rejected_with_the_reason"],
    ),
    (
        "A39",
        &["defaults_of_the_api_server_are_ignored_and_changed_values_are_not"],
    ),
    (
        "A40",
        &["every_built_in_distribution_has_an_image_and_a_schema"],
    ),
    (
        "E01",
        &["every_object_is_accepted_by_both_releases_without_a_warning"],
    ),
    ("E02", &["every_shipped_permission_is_used"]),
    (
        "E03",
        &["a_volume_claim_gets_defaults_and_is_never_changed"],
    ),
    ("E04", &["a_manual_change_to_a_deployment_is_reverted"]),
    ("E05", &["a_minimal_resource_becomes_a_ready_server"]),
    (
        "E06",
        &["replicas_are_spread_and_protected_by_a_disruption_budget_that_can_change"],
    ),
    (
        "E07",
        &["fields_removed_from_a_resource_are_removed_from_its_pods"],
    ),
    (
        "E08",
        &["an_image_override_affects_only_its_distribution_and_an_invalid_one_changes_nothing"],
    ),
    (
        "E09",
        &["ca_bundle_keys_are_merged_once_and_an_unchanged_bundle_replaces_no_pods"],
    ),
    ("E10", &["deleting_a_resource_deletes_its_objects"]),
    (
        "W1",
        &[
            "removing_an_override_config_keeps_the_owner_and_the_fields_of_other_managers",
            "a_deployment_that_upstream_orphaned_gets_its_owner_back",
        ],
    ),
    ("W2", &["a_changed_port_updates_the_service_and_the_pods"]),
    (
        "W3",
        &["storage_can_be_added_to_and_removed_from_a_running_server"],
    ),
    (
        "W4",
        &["storage_can_be_added_to_and_removed_from_a_running_server"],
    ),
    (
        "W5",
        &["fields_removed_from_a_resource_are_removed_from_its_pods"],
    ),
    (
        "W6",
        &["replicas_are_spread_and_protected_by_a_disruption_budget_that_can_change"],
    ),
    (
        "W7",
        &["ca_bundle_keys_are_merged_once_and_an_unchanged_bundle_replaces_no_pods"],
    ),
    (
        "W8",
        &["an_upstream_resource_with_storage_is_adopted_and_removed_variables_are_pruned"],
    ),
    (
        "W9",
        &["an_autoscaler_controls_the_replicas_until_it_is_removed"],
    ),
    (
        "W10",
        &[
            "story_1_a_distribution_alone_runs_with_the_configuration_of_its_image",
            "an_upstream_resource_without_a_service_is_adopted_and_gets_one",
        ],
    ),
    (
        "W11",
        &["names_that_are_valid_for_every_child_work_and_others_are_rejected_with_the_reason"],
    ),
    (
        "W12",
        &["the_ca_bundle_of_the_platform_is_trusted_and_a_new_one_replaces_the_pods_once"],
    ),
    ("W13", &["a_config_map_in_another_namespace_is_an_error"]),
    (
        "W14",
        &["an_override_config_waits_for_its_config_map_and_new_content_replaces_the_pods"],
    ),
];

/// An identifier, and why no test covers it.
const NOT_COVERED: &[(&str, &str)] = &[
    (
        "A19",
        "a reconciliation does not schedule another: watches report changes, and an idle operator sends no requests",
    ),
    (
        "A34",
        "none of the recorded clusters has such volumes; unwanted volumes are removed, see W5",
    ),
    (
        "E11",
        "needs kubelets that attach volumes; A36 covers that pods are recreated",
    ),
];

#[test]
fn every_upstream_behaviour_is_covered_by_a_test_or_has_a_reason() {
    let numbered = |letter: &str, width: usize, last: usize| -> Vec<String> {
        (1..=last)
            .map(|number| format!("{letter}{number:0width$}"))
            .collect()
    };
    let all = [
        numbered("A", 2, 40),
        numbered("E", 2, 11),
        numbered("W", 1, 14),
    ]
    .concat();
    let covered = COVERED.iter().map(|(id, _)| *id);
    let mut listed: Vec<&str> = covered
        .chain(NOT_COVERED.iter().map(|(id, _)| *id))
        .collect();
    listed.sort_unstable();
    let mut expected: Vec<&str> = all.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(listed, expected, "every identifier must be listed once");

    let tests = tests_of_the_workspace();
    assert!(tests.len() > 500, "only {} tests were found", tests.len());
    let missing: Vec<_> = COVERED
        .iter()
        .flat_map(|(id, names)| names.iter().map(move |name| (id, name)))
        .filter(|(_, name)| !tests.contains(**name))
        .collect();
    assert!(missing.is_empty(), "these tests do not exist: {missing:#?}");
}

#[test]
fn invalid_ca_bundle_keys_are_rejected_by_their_path() {
    let fields = |key: &str| -> Vec<String> {
        let bundle = json!({"configMapName": "cas", "configMapKeys": [key]});
        let resource = json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": {"name": "keys"},
            "spec": {
                "distribution": {"name": "starter"},
                "networking": {"tls": {"caBundle": bundle}},
            },
        });
        let rejected = check_document(resource).result.err();
        let fields = rejected.iter().flat_map(|all| all.iter());
        fields.map(|one| one.field.to_string()).collect()
    };
    // Upstream rejects the last key. Kubernetes accepts it, and no key is used as a path.
    for valid in ["ca-bundle.crt", "root_ca.pem", "A.1", "ca..bundle.crt"] {
        assert_eq!(fields(valid), Vec::<String>::new(), "{valid}");
    }
    let long = "a".repeat(254);
    for invalid in [
        "../etc/passwd",
        "path/to/cert.crt",
        "",
        "a b",
        "$(id)",
        &long,
    ] {
        let mut fields = fields(invalid);
        fields.dedup();
        let path = "spec.networking.tls.caBundle.configMapKeys[0]";
        assert_eq!(fields, [path], "{invalid}");
    }
}

#[test]
fn every_built_in_distribution_has_an_image_and_a_schema() {
    let all = distributions::builtin();
    assert_eq!(all["starter"].schema.as_deref(), Some("llama-stack/0.7"));
    assert_eq!(all["ogx-starter"].schema.as_deref(), Some("ogx/1.0"));
    for (name, known) in all {
        assert!(
            !name.is_empty() && known.image.contains('/'),
            "{name}: {}",
            known.image
        );
        assert!(known.schema.is_some(), "{name}");
    }
}

/// The names of all test functions.
fn tests_of_the_workspace() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> = ["host", "tests", "plugins", "guest-sdk"]
        .map(|folder| root.join(folder))
        .to_vec();
    let mut tests = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                tests.extend(tests_of(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    tests
}

fn tests_of(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut is_marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_marked) {
            tests.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
            is_marked = false;
        }
    }
    tests
}
