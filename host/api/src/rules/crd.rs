//! CEL rules of the CustomResourceDefinition, for typed fields.

use super::{Example, Expression, Layer, Rule, example};

const fn rule(
    id: &'static str,
    at: &'static [&'static str],
    (rule, field_path): (&'static str, Option<&'static str>),
    (problem, fix): (&'static str, &'static str),
    examples: &'static [Example],
) -> Rule {
    let expression = Some(Expression::Crd {
        at,
        rule,
        field_path,
    });
    Rule {
        id,
        layer: Layer::Crd,
        problem,
        fix,
        expression,
        examples,
    }
}

pub(super) const RULES: &[Rule] = &[
    ONE_SOURCE,
    SOME_SOURCE,
    OVERRIDE_WITHOUT_PROVIDERS,
    OVERRIDE_WITHOUT_RESOURCES,
    OVERRIDE_WITHOUT_STORAGE,
    OVERRIDE_WITHOUT_DISABLED,
    OVERRIDE_WITHOUT_BASE,
    OVERRIDE_WITHOUT_PATCH,
    OVERRIDE_WITHOUT_ACCESS,
    OVERRIDE_WITHOUT_TELEMETRY,
    ONE_AUTHENTICATION,
    ONE_TOKEN_CHECK,
    TLS_NEEDS_SECRET,
    REDIS_NEEDS_ENDPOINT,
    KV_NEEDS_TYPE,
    REFERENCE_FORM,
    ONE_BUDGET,
    SOME_BUDGET,
    MAX_OVER_MIN,
    ONE_CPU_TARGET,
    ABSOLUTE_MOUNT,
    EXISTING_CLAIM,
];

pub(crate) const ONE_SOURCE: Rule = rule(
    "one-source",
    &["spec.distribution"],
    ("!(has(self.name) && has(self.image))", None),
    ("has both name and image", "keep one of them"),
    &[example(
        "{distribution: {name: starter, image: quay.io/a/b:1}}",
        "spec.distribution",
    )],
);

pub(crate) const SOME_SOURCE: Rule = rule(
    "some-source",
    &["spec.distribution"],
    ("has(self.name) || has(self.image)", None),
    (
        "has neither name nor image",
        "add name: starter, or an image",
    ),
    &[
        example("{distribution: {}}", "spec.distribution"),
        example(
            "{distribution: {schema: llama-stack/0.7}}",
            "spec.distribution",
        ),
    ],
);

const BESIDE_OVERRIDE: (&str, &str) = (
    "cannot be combined with overrideConfig, which is a complete configuration",
    "remove it, or remove overrideConfig",
);

pub(crate) const OVERRIDE_WITHOUT_PROVIDERS: Rule = rule(
    "override-without-providers",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.providers))",
        Some(".providers"),
    ),
    BESIDE_OVERRIDE,
    &[
        example(
            "{distribution: {name: starter}, overrideConfig: {configMapName: c}, providers: {inference: {provider: vllm}}}",
            "spec.providers",
        ),
        example(
            "{distribution: {name: starter}, overrideConfig: {configMapName: c}, providers: {}}",
            "spec.providers",
        ),
    ],
);

pub(crate) const OVERRIDE_WITHOUT_RESOURCES: Rule = rule(
    "override-without-resources",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.resources))",
        Some(".resources"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter}, overrideConfig: {configMapName: c}, resources: {models: [m]}}",
        "spec.resources",
    )],
);

pub(crate) const OVERRIDE_WITHOUT_STORAGE: Rule = rule(
    "override-without-storage",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.storage))",
        Some(".storage"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter}, overrideConfig: {configMapName: c}, storage: {kv: {type: sqlite}}}",
        "spec.storage",
    )],
);

pub(crate) const OVERRIDE_WITHOUT_DISABLED: Rule = rule(
    "override-without-disabled",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.disabled))",
        Some(".disabled"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter}, overrideConfig: {configMapName: c}, disabled: [eval]}",
        "spec.disabled",
    )],
);

pub(crate) const OVERRIDE_WITHOUT_BASE: Rule = rule(
    "override-without-base",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.distribution.baseConfig))",
        Some(".distribution.baseConfig"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter, baseConfig: {configMapName: b}}, overrideConfig: {configMapName: c}}",
        "spec.distribution.baseConfig",
    )],
);

pub(crate) const OVERRIDE_WITHOUT_PATCH: Rule = rule(
    "override-without-patch",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.configPatch))",
        Some(".configPatch"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter}, overrideConfig: {configMapName: c}, configPatch: {logging: {}}}",
        "spec.configPatch",
    )],
);

pub(crate) const OVERRIDE_WITHOUT_ACCESS: Rule = rule(
    "override-without-access",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.access))",
        Some(".access"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter}, overrideConfig: {configMapName: c}, access: {kubernetes: {}}}",
        "spec.access",
    )],
);

pub(crate) const OVERRIDE_WITHOUT_TELEMETRY: Rule = rule(
    "override-without-telemetry",
    &["spec"],
    (
        "!(has(self.overrideConfig) && has(self.telemetry))",
        Some(".telemetry"),
    ),
    BESIDE_OVERRIDE,
    &[example(
        "{distribution: {name: starter}, overrideConfig: {configMapName: c}, telemetry: {metrics: {}}}",
        "spec.telemetry",
    )],
);

pub(crate) const ONE_AUTHENTICATION: Rule = rule(
    "one-authentication",
    &["spec.access"],
    (
        "(has(self.kubernetes) ? 1 : 0) + (has(self.oauth2) ? 1 : 0) + (has(self.github) ? 1 : 0) + (has(self.apiKeys) ? 1 : 0) + (has(self.upstreamHeader) ? 1 : 0) + (has(self.custom) ? 1 : 0) == 1",
        None,
    ),
    (
        "must have exactly one way to authenticate clients",
        "set one of kubernetes, oauth2, github, apiKeys, upstreamHeader and custom",
    ),
    &[
        example("{distribution: {name: starter}, access: {}}", "spec.access"),
        example(
            "{distribution: {name: starter}, access: {kubernetes: {}, github: {}}}",
            "spec.access",
        ),
        example(
            "{distribution: {name: starter}, access: {policy: [{permit: {actions: [read]}}]}}",
            "spec.access",
        ),
    ],
);

pub(crate) const ONE_TOKEN_CHECK: Rule = rule(
    "one-token-check",
    &["spec.access.oauth2"],
    ("has(self.jwks) != has(self.introspection)", None),
    (
        "must have either jwks or introspection, by which the server checks tokens",
        "set one of the two",
    ),
    &[
        example(
            "{distribution: {name: starter}, access: {oauth2: {issuer: 'https://login.example.com'}}}",
            "spec.access.oauth2",
        ),
        example(
            "{distribution: {name: starter}, access: {oauth2: {jwks: {uri: 'https://a/keys'}, introspection: {url: 'https://a/check', clientId: llsd, clientSecret: {name: s, key: k}}}}}",
            "spec.access.oauth2",
        ),
    ],
);

pub(crate) const TLS_NEEDS_SECRET: Rule = rule(
    "tls-needs-secret",
    &["spec.networking.tls"],
    (
        "!(has(self.enabled) && self.enabled) || has(self.secretName)",
        Some(".secretName"),
    ),
    (
        "is missing, but required when tls.enabled is true",
        "set it to the name of a Secret of type kubernetes.io/tls",
    ),
    &[example(
        "{distribution: {name: starter}, networking: {tls: {enabled: true}}}",
        "spec.networking.tls.secretName",
    )],
);

pub(crate) const REDIS_NEEDS_ENDPOINT: Rule = rule(
    "redis-needs-endpoint",
    &["spec.storage.kv"],
    (
        "!(has(self.type) && self.type == 'redis') || has(self.endpoint)",
        Some(".endpoint"),
    ),
    (
        "is missing, but required for type redis",
        "add endpoint: redis://<host>:6379",
    ),
    &[
        example(
            "{distribution: {name: starter}, storage: {kv: {type: redis}}}",
            "spec.storage.kv.endpoint",
        ),
        example(
            "{distribution: {name: starter}, storage: {kv: {type: redis, password: {name: r, key: p}}}}",
            "spec.storage.kv.endpoint",
        ),
    ],
);

pub(crate) const KV_NEEDS_TYPE: Rule = rule(
    "kv-needs-type",
    &["spec.storage.kv"],
    (
        "has(self.type) || !(has(self.endpoint) || has(self.password) || has(self.connectionString))",
        Some(".type"),
    ),
    (
        "is missing, so it defaults to sqlite, which has no connection settings",
        "add type: redis, type: postgres or type: mongodb",
    ),
    &[example(
        "{distribution: {name: starter}, storage: {kv: {endpoint: 'redis://r:6379'}}}",
        "spec.storage.kv.type",
    )],
);

pub(crate) const REFERENCE_FORM: Rule = rule(
    "reference-form",
    &[
        "spec.access.apiKeys[]",
        "spec.access.oauth2.introspection.clientSecret",
        "spec.access.oauth2.jwks.token",
        "spec.storage.kv.connectionString",
        "spec.storage.kv.password",
        "spec.storage.sql.connectionString",
        "spec.storage.sql.password",
        "spec.telemetry.otlp.headers",
    ],
    (
        "has(self.secretKeyRef) ? !has(self.name) && !has(self.key) : has(self.name) && has(self.key)",
        None,
    ),
    (
        "is not a valid secret reference",
        "write {name: <secret>, key: <key in it>}",
    ),
    &[
        example(
            "{distribution: {name: starter}, access: {apiKeys: [{name: a}]}}",
            "spec.access.apiKeys[0]",
        ),
        example(
            "{distribution: {name: starter}, access: {oauth2: {jwks: {uri: 'https://a/keys', token: {name: a}}}}}",
            "spec.access.oauth2.jwks.token",
        ),
        example(
            "{distribution: {name: starter}, storage: {kv: {type: redis, endpoint: 'r:1', password: {name: r}}}}",
            "spec.storage.kv.password",
        ),
        example(
            "{distribution: {name: starter}, storage: {sql: {type: postgres, connectionString: {}}}}",
            "spec.storage.sql.connectionString",
        ),
        example(
            "{distribution: {name: starter}, storage: {sql: {type: postgres, connectionString: {name: a, key: b, secretKeyRef: {name: a, key: b}}}}}",
            "spec.storage.sql.connectionString",
        ),
        example(
            "{distribution: {name: starter}, telemetry: {otlp: {endpoint: 'http://otel:4318', headers: {key: b}}}}",
            "spec.telemetry.otlp.headers",
        ),
    ],
);

pub(crate) const ONE_BUDGET: Rule = rule(
    "one-budget",
    &["spec.workload.podDisruptionBudget"],
    (
        "!(has(self.minAvailable) && has(self.maxUnavailable))",
        None,
    ),
    (
        "has both minAvailable and maxUnavailable",
        "keep one of them",
    ),
    &[example(
        "{distribution: {name: starter}, workload: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 50%}}}",
        "spec.workload.podDisruptionBudget",
    )],
);

pub(crate) const SOME_BUDGET: Rule = rule(
    "some-budget",
    &["spec.workload.podDisruptionBudget"],
    ("has(self.minAvailable) || has(self.maxUnavailable)", None),
    (
        "has neither minAvailable nor maxUnavailable",
        "add one of them, or remove podDisruptionBudget",
    ),
    &[example(
        "{distribution: {name: starter}, workload: {podDisruptionBudget: {}}}",
        "spec.workload.podDisruptionBudget",
    )],
);

pub(crate) const MAX_OVER_MIN: Rule = rule(
    "max-over-min",
    &["spec.workload.autoscaling"],
    (
        "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
        Some(".maxReplicas"),
    ),
    ("is less than minReplicas", "raise it, or lower minReplicas"),
    &[example(
        "{distribution: {name: starter}, workload: {autoscaling: {minReplicas: 5, maxReplicas: 2}}}",
        "spec.workload.autoscaling.maxReplicas",
    )],
);

pub(crate) const ONE_CPU_TARGET: Rule = rule(
    "one-cpu-target",
    &["spec.workload.autoscaling"],
    (
        "!has(self.targetCPUUtilization) || !has(self.targetCPUUtilizationPercentage) || self.targetCPUUtilization == self.targetCPUUtilizationPercentage",
        Some(".targetCPUUtilization"),
    ),
    (
        "differs from targetCPUUtilizationPercentage, which sets the same value",
        "remove it",
    ),
    &[example(
        "{distribution: {name: starter}, workload: {autoscaling: {maxReplicas: 2, targetCPUUtilization: 70, targetCPUUtilizationPercentage: 80}}}",
        "spec.workload.autoscaling.targetCPUUtilization",
    )],
);

pub(crate) const ABSOLUTE_MOUNT: Rule = rule(
    "absolute-mount",
    &["spec.workload.storage"],
    (
        "!has(self.mountPath) || self.mountPath == '' || self.mountPath.startsWith('/')",
        Some(".mountPath"),
    ),
    (
        "is not a valid mount path",
        "use an absolute path without a colon, for example /data",
    ),
    &[example(
        "{distribution: {name: starter}, workload: {storage: {mountPath: data}}}",
        "spec.workload.storage.mountPath",
    )],
);

pub(crate) const EXISTING_CLAIM: Rule = rule(
    "existing-claim",
    &["spec.workload.storage"],
    (
        "!has(self.existingClaim) || !(has(self.size) || has(self.storageClassName) || has(self.retainPolicy))",
        Some(".existingClaim"),
    ),
    (
        "is a claim of your own, so it cannot be combined with size, storageClassName or retainPolicy",
        "remove them, or remove existingClaim",
    ),
    &[
        example(
            "{distribution: {name: starter}, workload: {storage: {existingClaim: data, size: 5Gi}}}",
            "spec.workload.storage.existingClaim",
        ),
        example(
            "{distribution: {name: starter}, workload: {storage: {existingClaim: data, retainPolicy: Retain}}}",
            "spec.workload.storage.existingClaim",
        ),
    ],
);
