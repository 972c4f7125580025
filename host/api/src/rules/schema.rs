//! Rules that the schema enforces: types, bounds, enums.

use super::{Layer, Rule, example};

const fn rule(
    id: &'static str,
    (problem, fix): (&'static str, &'static str),
    examples: &'static [super::Example],
) -> Rule {
    Rule {
        id,
        layer: Layer::Schema,
        problem,
        fix,
        expression: None,
        examples,
    }
}

pub(super) const RULES: &[Rule] = &[
    rule(
        "required",
        ("is missing", "add it"),
        &[
            example(
                "{providers: {inference: {provider: vllm}}}",
                "spec.distribution",
            ),
            example(
                "{distribution: {name: starter}, overrideConfig: {}}",
                "spec.overrideConfig.configMapName",
            ),
            example(
                "{distribution: {name: starter, baseConfig: {key: a}}}",
                "spec.distribution.baseConfig.configMapName",
            ),
            example(
                "{distribution: {name: starter}, workload: {autoscaling: {minReplicas: 1}}}",
                "spec.workload.autoscaling.maxReplicas",
            ),
            example(
                "{distribution: {name: starter}, externalProviders: {inference: [{providerId: a}]}}",
                "spec.externalProviders.inference[0].image",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: redis, endpoint: 'r:1', password: {secretKeyRef: {name: a}}}}}",
                "spec.storage.kv.password.secretKeyRef.key",
            ),
        ],
    ),
    rule(
        "type",
        ("has the wrong type", "use the type of the field"),
        &[
            example("{distribution: starter}", "spec.distribution"),
            example("{distribution: {name: 7}}", "spec.distribution.name"),
            example(
                "{distribution: {name: starter}, workload: {replicas: '2'}}",
                "spec.workload.replicas",
            ),
            example(
                "{distribution: {name: starter}, workload: {replicas: 1.5}}",
                "spec.workload.replicas",
            ),
            example(
                "{distribution: {name: starter}, disabled: eval}",
                "spec.disabled",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: m}}",
                "spec.resources.models",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, connectionString: 'postgresql://u:p@h/d'}}}",
                "spec.storage.sql.connectionString",
            ),
            example(
                "{distribution: {name: starter}, networking: {tls: {enabled: 'yes'}}}",
                "spec.networking.tls.enabled",
            ),
            example(
                "{distribution: {name: starter}, networking: {allowedFrom: {namespaces: [1]}}}",
                "spec.networking.allowedFrom.namespaces[0]",
            ),
        ],
    ),
    rule(
        "unknown-field",
        ("unknown field", "use a field of the schema"),
        &[
            example(
                "{distribution: {name: starter}, provider: {}}",
                "spec.provider",
            ),
            example(
                "{distribution: {name: starter, imge: a}}",
                "spec.distribution.imge",
            ),
            example(
                "{distribution: {name: starter}, providers: {vectorio: {provider: faiss}}}",
                "spec.providers.vectorio",
            ),
            example(
                "{distribution: {name: starter}, workload: {replica: 1}}",
                "spec.workload.replica",
            ),
        ],
    ),
    rule(
        "quantity",
        (
            "is not a valid quantity",
            "use a quantity such as 500m, 2 or 10Gi",
        ),
        &[
            example(
                "{distribution: {name: starter}, workload: {storage: {size: 10GB}}}",
                "spec.workload.storage.size",
            ),
            example(
                "{distribution: {name: starter}, workload: {resources: {limits: {cpu: lots}}}}",
                "spec.workload.resources.limits.cpu",
            ),
        ],
    ),
    rule(
        "choice",
        ("is not a valid value", "use one of the values of the enum"),
        &[
            example(
                "{distribution: {name: starter}, storage: {kv: {type: etcd}}}",
                "spec.storage.kv.type",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: mysql}}}",
                "spec.storage.sql.type",
            ),
            example(
                "{distribution: {name: starter}, externalProviders: {safety: [{providerId: a, image: b, imagePullPolicy: Sometimes}]}}",
                "spec.externalProviders.safety[0].imagePullPolicy",
            ),
        ],
    ),
    rule(
        "range",
        ("is out of range", "use a number in the range"),
        &[
            example(
                "{distribution: {name: starter}, networking: {port: 0}}",
                "spec.networking.port",
            ),
            example(
                "{distribution: {name: starter}, networking: {port: 65536}}",
                "spec.networking.port",
            ),
            example(
                "{distribution: {name: starter}, workload: {replicas: -1}}",
                "spec.workload.replicas",
            ),
            example(
                "{distribution: {name: starter}, workload: {workers: 0}}",
                "spec.workload.workers",
            ),
            example(
                "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 0}}}",
                "spec.workload.autoscaling.maxReplicas",
            ),
            example(
                "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 0}}}",
                "spec.workload.autoscaling.targetCPUUtilizationPercentage",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {terminationGracePeriodSeconds: -1}}}",
                "spec.workload.overrides.terminationGracePeriodSeconds",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {runAsUser: 0}}}",
                "spec.workload.overrides.runAsUser",
            ),
        ],
    ),
    rule(
        "length",
        ("is too short or too long", "use a length in the range"),
        &[
            example("{distribution: {name: ''}}", "spec.distribution.name"),
            example("{distribution: {image: ''}}", "spec.distribution.image"),
            example(
                "{distribution: {name: starter}, overrideConfig: {configMapName: ''}}",
                "spec.overrideConfig.configMapName",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: redis, endpoint: ''}}}",
                "spec.storage.kv.endpoint",
            ),
        ],
    ),
    rule(
        "repetition",
        ("duplicates an earlier item", "remove one of the two"),
        &[
            example(
                "{distribution: {name: starter}, disabled: [eval, scoring, eval]}",
                "spec.disabled[2]",
            ),
            example(
                "{distribution: {name: starter}, externalProviders: {eval: [{providerId: a, image: b}, {providerId: a, image: c}]}}",
                "spec.externalProviders.eval[1]",
            ),
        ],
    ),
];
