//! Every behaviour of the first operator that its own tests show (A, E), and every mistake of its that
//! was reproduced (W): which test shows ours, or why there is none.
//!
//! A name in this table that is no test, or an identifier that is not in it, fails.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llsd_api::checked::review;
use llsd_render::distributions;
use serde_json::json;

/// An identifier, and the tests that show the behaviour.
const SHOWN: &[(&str, &[&str])] = &[
    (
        "A01",
        &[
            "a_resource_that_asks_for_nothing_gets_the_pods_of_the_first_operator_with_more_time_to_start",
        ],
    ),
    ("A02", &["a_claim_has_its_defaults_and_is_never_changed"]),
    (
        "A03",
        &["the_objects_of_a_resource_with_storage_secrets_and_several_pods"],
    ),
    (
        "A04",
        &["an_override_waits_for_its_config_map_and_new_content_replaces_the_pods"],
    ),
    (
        "A05",
        &["every_child_has_one_owner_and_the_service_selects_exactly_the_pods"],
    ),
    ("A06", &["a_minimal_resource_becomes_a_ready_server"]),
    (
        "A07",
        &["the_objects_of_a_server_with_tls_that_is_exposed_and_guarded"],
    ),
    (
        "A08",
        &["every_child_has_one_owner_and_the_service_selects_exactly_the_pods"],
    ),
    (
        "A09",
        &[
            "a_server_is_heard_costs_nothing_at_rest_and_its_silence_blocks_nothing",
            "a_server_says_its_release_and_its_providers_and_no_configuration",
        ],
    ),
    (
        "A10",
        &[
            "the_switch_of_the_first_operator_decides_about_the_network_policy",
            "objects_come_and_go_with_their_fields_and_keep_what_others_add",
        ],
    ),
    (
        "A11",
        &["keys_that_lead_elsewhere_are_refused_by_their_path"],
    ),
    (
        "A12",
        &["authorities_are_gathered_once_and_two_keys_roll_no_pods_by_themselves"],
    ),
    (
        "A13",
        &["the_platforms_authorities_are_trusted_and_new_ones_replace_the_pods_once"],
    ),
    (
        "A14",
        &["an_empty_key_is_no_mistake_and_a_key_without_certificates_is"],
    ),
    ("A15", &["a_broken_certificate_is_named_by_its_key"]),
    (
        "A16",
        &["an_empty_key_is_no_mistake_and_a_key_without_certificates_is"],
    ),
    (
        "A17",
        &["an_overridden_image_concerns_its_own_resources_and_a_mistake_changes_nothing"],
    ),
    (
        "A18",
        &[
            "an_overridden_image_concerns_its_own_resources_and_a_mistake_changes_nothing",
            "the_switch_decides_about_the_policies_of_resources_made_through_v1alpha1",
        ],
    ),
    (
        "A20",
        &["an_override_waits_for_its_config_map_and_new_content_replaces_the_pods"],
    ),
    (
        "A21",
        &[
            "a_resource_that_asks_for_nothing_gets_the_pods_of_the_first_operator_with_more_time_to_start",
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
            "what_is_taken_out_of_a_resource_is_taken_out_of_its_pods",
        ],
    ),
    (
        "A24",
        &["what_is_taken_out_of_a_resource_is_taken_out_of_its_pods"],
    ),
    (
        "A25",
        &[
            "a_distribution_that_nobody_knows_is_refused_with_those_that_there_are",
            "many_resources_on_one_private_image_read_it_once",
        ],
    ),
    (
        "A26",
        &[
            "several_pods_are_spread_and_guarded_and_the_guard_can_change_its_kind",
            "what_is_taken_out_of_a_resource_is_taken_out_of_its_pods",
        ],
    ),
    (
        "A27",
        &["several_pods_are_spread_and_guarded_and_the_guard_can_change_its_kind"],
    ),
    ("A28", &["the_objects_of_a_server_that_scales_by_load"]),
    (
        "A29",
        &["the_objects_of_a_server_with_tls_that_is_exposed_and_guarded"],
    ),
    (
        "A30",
        &[
            "an_object_of_somebody_else_is_left_alone_and_named",
            "an_optional_object_of_somebody_else_is_left_alone_and_the_server_runs",
        ],
    ),
    ("A31", &["a_claim_has_its_defaults_and_is_never_changed"]),
    (
        "A32",
        &["an_autoscaler_takes_over_the_number_of_pods_and_gives_it_back"],
    ),
    (
        "A33",
        &["an_autoscaler_takes_over_the_number_of_pods_and_gives_it_back"],
    ),
    (
        "A35",
        &["a_file_that_is_no_longer_named_leaves_an_owned_deployment_with_what_others_added"],
    ),
    (
        "A36",
        &["storage_added_to_a_running_server_and_removed_again_is_followed"],
    ),
    (
        "A37",
        &["the_objects_of_a_server_with_tls_that_is_exposed_and_guarded"],
    ),
    (
        "A38",
        &["names_that_children_can_have_work_and_others_are_refused_with_the_reason"],
    ),
    (
        "A39",
        &["defaults_of_the_api_server_are_no_difference_and_changed_values_are"],
    ),
    (
        "A40",
        &["every_distribution_that_is_built_in_has_an_image_and_a_schema"],
    ),
    (
        "E01",
        &["every_object_is_accepted_by_both_releases_without_a_warning"],
    ),
    ("E02", &["every_right_that_is_shipped_is_used"]),
    ("E03", &["a_claim_has_its_defaults_and_is_never_changed"]),
    ("E04", &["a_deployment_changed_by_hand_is_put_right"]),
    ("E05", &["a_minimal_resource_becomes_a_ready_server"]),
    (
        "E06",
        &["several_pods_are_spread_and_guarded_and_the_guard_can_change_its_kind"],
    ),
    (
        "E07",
        &["what_is_taken_out_of_a_resource_is_taken_out_of_its_pods"],
    ),
    (
        "E08",
        &["an_overridden_image_concerns_its_own_resources_and_a_mistake_changes_nothing"],
    ),
    (
        "E09",
        &["authorities_are_gathered_once_and_two_keys_roll_no_pods_by_themselves"],
    ),
    ("E10", &["a_deleted_resource_takes_its_objects_with_it"]),
    (
        "W1",
        &[
            "a_file_that_is_no_longer_named_leaves_an_owned_deployment_with_what_others_added",
            "a_deployment_that_the_first_operator_orphaned_belongs_to_its_resource_again",
        ],
    ),
    (
        "W2",
        &["another_port_moves_the_service_and_the_pods_and_leaves_nothing_of_the_old_one"],
    ),
    (
        "W3",
        &["storage_added_to_a_running_server_and_removed_again_is_followed"],
    ),
    (
        "W4",
        &["storage_added_to_a_running_server_and_removed_again_is_followed"],
    ),
    (
        "W5",
        &["what_is_taken_out_of_a_resource_is_taken_out_of_its_pods"],
    ),
    (
        "W6",
        &["several_pods_are_spread_and_guarded_and_the_guard_can_change_its_kind"],
    ),
    (
        "W7",
        &["authorities_are_gathered_once_and_two_keys_roll_no_pods_by_themselves"],
    ),
    (
        "W8",
        &["a_resource_with_storage_is_taken_over_and_a_removed_variable_then_goes"],
    ),
    (
        "W9",
        &["an_autoscaler_takes_over_the_number_of_pods_and_gives_it_back"],
    ),
    (
        "W10",
        &[
            "story_1_a_distribution_alone_runs_with_the_file_of_its_image",
            "a_resource_without_a_service_is_taken_over_and_gets_one",
        ],
    ),
    (
        "W11",
        &["names_that_children_can_have_work_and_others_are_refused_with_the_reason"],
    ),
    (
        "W12",
        &["the_platforms_authorities_are_trusted_and_new_ones_replace_the_pods_once"],
    ),
    (
        "W13",
        &["a_file_from_another_namespace_is_refused_by_its_path"],
    ),
    (
        "W14",
        &["an_override_waits_for_its_config_map_and_new_content_replaces_the_pods"],
    ),
];

/// An identifier, and why no test shows it.
const NOT_SHOWN: &[(&str, &str)] = &[
    (
        "A19",
        "a pass schedules no other: watches tell of changes, and at rest nothing is asked",
    ),
    (
        "A34",
        "none of the clusters that we have a record of holds such volumes; what is no longer wanted goes, see W5",
    ),
    (
        "E11",
        "needs kubelets that attach volumes; that pods are recreated is shown by A36",
    ),
];

#[test]
fn every_behaviour_of_the_first_operator_is_shown_by_a_test_or_has_a_reason() {
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
    let shown = SHOWN.iter().map(|(id, _)| *id);
    let mut listed: Vec<&str> = shown.chain(NOT_SHOWN.iter().map(|(id, _)| *id)).collect();
    listed.sort_unstable();
    let mut expected: Vec<&str> = all.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(listed, expected, "each identifier once");

    let tests = tests_of_the_workspace();
    assert!(tests.len() > 500, "only {} tests were found", tests.len());
    let missing: Vec<_> = SHOWN
        .iter()
        .flat_map(|(id, names)| names.iter().map(move |name| (id, name)))
        .filter(|(_, name)| !tests.contains(**name))
        .collect();
    assert!(missing.is_empty(), "named here and no test: {missing:#?}");
}

#[test]
fn keys_that_lead_elsewhere_are_refused_by_their_path() {
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
        let refused = review(resource).result.err();
        let fields = refused.iter().flat_map(|all| all.iter());
        fields.map(|one| one.field.to_string()).collect()
    };
    // The last one was refused by the first operator; Kubernetes takes it, and no key becomes a path.
    for good in ["ca-bundle.crt", "root_ca.pem", "A.1", "ca..bundle.crt"] {
        assert_eq!(fields(good), Vec::<String>::new(), "{good}");
    }
    let long = "a".repeat(254);
    for bad in [
        "../etc/passwd",
        "path/to/cert.crt",
        "",
        "a b",
        "$(id)",
        &long,
    ] {
        let mut fields = fields(bad);
        fields.dedup();
        let path = "spec.networking.tls.caBundle.configMapKeys[0]";
        assert_eq!(fields, [path], "{bad}");
    }
}

#[test]
fn every_distribution_that_is_built_in_has_an_image_and_a_schema() {
    let all = distributions::builtin();
    assert!(all.contains_key("starter"));
    for (name, known) in all {
        assert!(
            !name.is_empty() && known.image.contains('/'),
            "{name}: {}",
            known.image
        );
        assert!(known.schema.is_some(), "{name}");
    }
}

/// The names of all functions that are marked as tests.
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
