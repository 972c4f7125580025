//! Generates specs in which every field is absent, empty, zero or set. The generator is seeded, so every
//! run produces the same specs.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// The name of a field, and a generator of its values.
type Field = (&'static str, fn(&mut Rng) -> Value);

/// A v1alpha1 spec. Fields with a schema default are always set.
pub(crate) fn v1alpha1(rng: &mut Rng) -> Value {
    let mut server = random_subset(
        rng,
        &[
            ("workers", |rng| pick(rng, &[json!(1), json!(4)])),
            ("containerSpec", |rng| {
                let mut container = random_subset(
                    rng,
                    &[
                        ("port", |rng| {
                            pick(rng, &[json!(0), json!(8321), json!(9000)])
                        }),
                        ("env", |rng| {
                            pick(rng, &[json!([]), json!([{"name": "A", "value": "b"}])])
                        }),
                        ("command", |rng| pick(rng, &[json!([]), json!(["run"])])),
                        ("args", |rng| pick(rng, &[json!([]), json!(["--x"])])),
                        ("resources", |rng| {
                            pick(
                                rng,
                                &[
                                    json!({}),
                                    json!({"claims": [{"name": "gpu"}]}),
                                    json!({"limits": {"cpu": "2"}}),
                                ],
                            )
                        }),
                    ],
                );
                container["name"] = pick(rng, &[json!("llama-stack"), json!("other")]);
                container
            }),
            ("podOverrides", |rng| {
                random_subset(
                    rng,
                    &[
                        ("serviceAccountName", |_| json!("sa")),
                        ("terminationGracePeriodSeconds", |rng| {
                            pick(rng, &[json!(0), json!(60)])
                        }),
                        ("volumes", |rng| {
                            pick(rng, &[json!([]), json!([{"name": "v", "emptyDir": {}}])])
                        }),
                    ],
                )
            }),
            ("storage", |rng| {
                random_subset(
                    rng,
                    &[
                        ("size", |_| json!("5Gi")),
                        ("mountPath", |_| json!("/data")),
                    ],
                )
            }),
            ("userConfig", |rng| {
                let mut config =
                    random_subset(rng, &[("configMapNamespace", |_| json!("elsewhere"))]);
                config["configMapName"] = json!("config");
                config
            }),
            ("tlsConfig", |rng| {
                let mut bundle = random_subset(
                    rng,
                    &[
                        ("configMapNamespace", |_| json!("elsewhere")),
                        ("configMapKeys", |rng| {
                            pick(rng, &[json!([]), json!(["a.crt", "b.crt"])])
                        }),
                    ],
                );
                bundle["configMapName"] = json!("ca");
                json!({ "caBundle": bundle })
            }),
            ("autoscaling", |rng| {
                let mut scaling = random_subset(
                    rng,
                    &[
                        ("minReplicas", |_| json!(1)),
                        ("targetCPUUtilizationPercentage", |_| json!(70)),
                        ("targetMemoryUtilizationPercentage", |_| json!(80)),
                    ],
                );
                scaling["maxReplicas"] = json!(5);
                scaling
            }),
            ("podDisruptionBudget", |rng| {
                pick(
                    rng,
                    &[json!({"minAvailable": 1}), json!({"maxUnavailable": "50%"})],
                )
            }),
        ],
    );
    server["distribution"] = json!({"name": "starter"});
    let mut spec = random_subset(
        rng,
        &[("network", |rng| {
            random_subset(
                rng,
                &[("allowedFrom", |rng| {
                    random_subset(
                        rng,
                        &[
                            ("namespaces", |rng| {
                                pick(rng, &[json!([]), json!(["*"]), json!(["a", "b"])])
                            }),
                            ("labels", |_| json!(["team"])),
                        ],
                    )
                })],
            )
        })],
    );
    if let Some(network) = spec.get_mut("network") {
        network["exposeRoute"] = json!(rng.bool());
    }
    spec["replicas"] = pick(rng, &[json!(0), json!(1), json!(3)]);
    spec["server"] = server;
    spec
}

/// A v1alpha2 spec that every layer accepts.
pub(crate) fn v1alpha2(rng: &mut Rng) -> Value {
    let mut spec = random_subset(
        rng,
        &[
            ("providers", |rng| {
                pick(
                    rng,
                    &[
                        json!({"inference": {"provider": "vllm", "endpoint": "http://vllm:8000", "settings": {"max_tokens": 1, "nested": {"a": [1, null, {}]}}}}),
                        json!({"inference": [{"id": "a", "provider": "vllm", "endpoint": "http://a"}, {"id": "b", "provider": "ollama", "endpoint": "http://b"}]}),
                    ],
                )
            }),
            ("resources", |rng| {
                random_subset(
                    rng,
                    &[("models", |rng| {
                        pick(
                            rng,
                            &[
                                json!([]),
                                json!(["m"]),
                                json!([{"name": "m", "contextLength": 4096}, "n"]),
                            ],
                        )
                    })],
                )
            }),
            ("storage", |rng| {
                random_subset(
                    rng,
                    &[("kv", |rng| {
                        pick(
                            rng,
                            &[
                                json!({}),
                                json!({"type": "sqlite"}),
                                json!({"type": "redis", "endpoint": "redis://r:6379"}),
                            ],
                        )
                    })],
                )
            }),
            ("disabled", |rng| {
                pick(
                    rng,
                    &[json!([]), json!(["eval"]), json!(["postTraining", "eval"])],
                )
            }),
            ("networking", |rng| {
                random_subset(
                    rng,
                    &[
                        ("port", |_| json!(9000)),
                        ("expose", |rng| {
                            pick(
                                rng,
                                &[
                                    json!(true),
                                    json!(false),
                                    json!({}),
                                    json!({"hostname": "a.example.com"}),
                                    json!({"enabled": false}),
                                    json!({"gateway": {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com"]}}),
                                ],
                            )
                        }),
                        ("allowedFrom", |rng| {
                            random_subset(rng, &[("namespaces", |_| json!(["a"]))])
                        }),
                        ("tls", |rng| {
                            pick(
                                rng,
                                &[
                                    json!({}),
                                    json!({"enabled": true, "secretName": "tls"}),
                                    json!({"caBundle": {"configMapName": "ca"}}),
                                ],
                            )
                        }),
                    ],
                )
            }),
            ("workload", |rng| {
                random_subset(
                    rng,
                    &[
                        ("replicas", |rng| pick(rng, &[json!(0), json!(2)])),
                        ("autoscaling", |rng| {
                            pick(
                                rng,
                                &[
                                    json!({"maxReplicas": 3}),
                                    json!({"maxReplicas": 3, "targetCPUUtilization": 60}),
                                ],
                            )
                        }),
                        ("storage", |rng| {
                            random_subset(rng, &[("size", |_| json!("5Gi"))])
                        }),
                        ("overrides", |rng| {
                            random_subset(
                                rng,
                                &[
                                    ("env", |rng| {
                                        pick(rng, &[json!([]), json!([{"name": "A", "value": ""}])])
                                    }),
                                    ("terminationGracePeriodSeconds", |_| json!(0)),
                                ],
                            )
                        }),
                    ],
                )
            }),
        ],
    );
    spec["distribution"] = json!({"name": "starter"});
    if spec.get("providers").is_none() {
        // Without providers nothing would serve the models.
        spec["resources"] = json!({});
    }
    spec
}

/// An object with a random half of the fields.
fn random_subset(rng: &mut Rng, fields: &[Field]) -> Value {
    let mut object = Map::new();
    for (name, value) in fields {
        if rng.bool() {
            object.insert((*name).to_owned(), value(rng));
        }
    }
    Value::Object(object)
}

fn pick(rng: &mut Rng, values: &[Value]) -> Value {
    values[rng.usize(..values.len())].clone()
}
