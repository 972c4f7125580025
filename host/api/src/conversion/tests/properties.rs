//! Properties of the conversion, tested with generated resources.

use proptest::prelude::*;

use super::*;

/// A value of a field: of its own type, empty, or of another type.
fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-1_i64..5).prop_map(Value::from),
        prop_oneof![Just(""), Just("llama-stack"), Just("a"), Just("a/b~c")].prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{ "name": "a", "value": "" }])),
        Just(json!({ "hostname": "h", "enabled": false })),
    ]
}

/// An object with a subset of these fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| {
            proptest::option::weighted(0.4, value).prop_map(move |value| (name, value))
        })
        .collect();
    let object = fields.prop_map(|fields| {
        Value::Object(
            fields
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
        )
    });
    prop_oneof![12 => object, 1 => leaf()].boxed()
}

fn leaves(names: &[&'static str]) -> Vec<(&'static str, BoxedStrategy<Value>)> {
    names.iter().map(|name| (*name, leaf().boxed())).collect()
}

fn with(
    names: &[&'static str],
    more: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let mut fields = leaves(names);
    fields.extend(more);
    object(fields)
}

fn v1alpha1_spec() -> BoxedStrategy<Value> {
    let server = with(
        &["workers", "topologySpreadConstraints", "unknown"],
        vec![
            ("distribution", with(&["name", "image"], vec![])),
            (
                "containerSpec",
                with(
                    &["name", "port", "resources", "env", "command", "args"],
                    vec![],
                ),
            ),
            (
                "podOverrides",
                with(
                    &[
                        "serviceAccountName",
                        "terminationGracePeriodSeconds",
                        "volumes",
                        "volumeMounts",
                    ],
                    vec![],
                ),
            ),
            (
                "podDisruptionBudget",
                with(&["minAvailable", "maxUnavailable"], vec![]),
            ),
            (
                "autoscaling",
                with(
                    &[
                        "minReplicas",
                        "maxReplicas",
                        "targetCPUUtilizationPercentage",
                    ],
                    vec![],
                ),
            ),
            ("storage", with(&["size", "mountPath"], vec![])),
            (
                "userConfig",
                with(&["configMapName", "configMapNamespace"], vec![]),
            ),
            (
                "tlsConfig",
                object(vec![(
                    "caBundle",
                    with(
                        &["configMapName", "configMapNamespace", "configMapKeys"],
                        vec![],
                    ),
                )]),
            ),
        ],
    );
    let network = with(
        &["exposeRoute"],
        vec![("allowedFrom", with(&["namespaces", "labels"], vec![]))],
    );
    with(
        &["replicas"],
        vec![("server", server), ("network", network)],
    )
}

fn v1alpha2_spec() -> BoxedStrategy<Value> {
    let networking = with(
        &["port", "expose", "egress"],
        vec![
            (
                "tls",
                with(
                    &["enabled", "secretName"],
                    vec![(
                        "caBundle",
                        with(&["configMapName", "configMapKeys"], vec![]),
                    )],
                ),
            ),
            (
                "allowedFrom",
                with(&["namespaces", "labels", "peers"], vec![]),
            ),
        ],
    );
    let autoscaling = with(
        &[
            "minReplicas",
            "maxReplicas",
            "targetCPUUtilization",
            "targetCPUUtilizationPercentage",
        ],
        vec![],
    );
    let workload = with(
        &[
            "replicas",
            "workers",
            "resources",
            "topologySpreadConstraints",
            "podTemplate",
        ],
        vec![
            ("autoscaling", autoscaling),
            (
                "storage",
                with(
                    &[
                        "size",
                        "mountPath",
                        "storageClassName",
                        "accessModes",
                        "existingClaim",
                        "retainPolicy",
                    ],
                    vec![],
                ),
            ),
            (
                "podDisruptionBudget",
                with(&["minAvailable", "maxUnavailable"], vec![]),
            ),
            (
                "overrides",
                with(
                    &[
                        "serviceAccountName",
                        "containerName",
                        "env",
                        "imagePullSecrets",
                        "volumes",
                    ],
                    vec![],
                ),
            ),
        ],
    );
    with(
        &[
            "providers",
            "resources",
            "storage",
            "disabled",
            "externalProviders",
            "configPatch",
            "paused",
            "access",
            "telemetry",
            "unknown",
        ],
        vec![
            (
                "distribution",
                with(&["name", "image", "schema", "baseConfig"], vec![]),
            ),
            (
                "overrideConfig",
                with(&["configMapName", "configMapNamespace"], vec![]),
            ),
            ("networking", networking),
            ("workload", workload),
        ],
    )
}

fn document(version: Version, spec: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let status = with(
        &[
            "phase",
            "conditions",
            "observedGeneration",
            "configGeneration",
            "routeURL",
        ],
        vec![],
    );
    let annotations = prop_oneof![
        Just(None),
        Just(Some(json!({}))),
        Just(Some(json!({ "a": "b" })))
    ];
    (proptest::option::weighted(0.95, spec), proptest::option::of(status), annotations).prop_map(
        move |(spec, status, annotations)| {
            let mut document = json!({ "apiVersion": version.api_version(), "kind": KIND, "metadata": { "name": "n" } });
            let parts = [("spec", spec), ("status", status)];
            for (name, part) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
                document[name] = part;
            }
            if let Some(annotations) = annotations {
                document["metadata"]["annotations"] = annotations;
            }
            document
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn v1alpha1_survives_a_round_trip(document in document(Version::V1Alpha1, v1alpha1_spec())) {
        let there = up(&document);
        prop_assert_eq!(&down(&there), &document);
        // A second round trip writes the same annotation.
        prop_assert_eq!(&up(&down(&there)), &there);
    }

    #[test]
    fn v1alpha2_survives_a_round_trip(document in document(Version::V1Alpha2, v1alpha2_spec())) {
        let there = down(&document);
        prop_assert_eq!(&up(&there), &document);
        prop_assert_eq!(&down(&up(&there)), &there);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn v1alpha1_shows_an_edit_through_v1alpha1(
        document in document(Version::V1Alpha2, v1alpha2_spec()),
        edited in v1alpha1_spec(),
    ) {
        let mut old = down(&document);
        old["spec"] = edited.clone();
        let shown = down(&up(&old));
        prop_assert_eq!(&shown["spec"], &edited);
    }
}
