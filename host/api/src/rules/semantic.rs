//! Rules that only [`crate::check`] enforces: the syntax of names, and rules that span several fields.

use super::{Layer, Rule, example};

const fn rule(
    id: &'static str,
    (problem, fix): (&'static str, &'static str),
    examples: &'static [super::Example],
) -> Rule {
    Rule {
        id,
        layer: Layer::Webhook,
        problem,
        fix,
        expression: None,
        examples,
    }
}

pub(crate) const SHORT_EXTERNAL_ID: Rule = rule(
    "short-external-id",
    (
        "is longer than 46 characters, too long for the name of the init container",
        "use at most 46 lower-case letters, digits and \"-\"",
    ),
    &[example(
        "{distribution: {name: starter}, externalProviders: {inference: [{providerId: a23456789-123456789-123456789-123456789-1234567, image: a}]}}",
        "spec.externalProviders.inference[0].providerId",
    )],
);

pub(super) const RULES: &[Rule] = &[
    SHORT_EXTERNAL_ID,
    rule(
        "names",
        (
            "is not a valid Kubernetes name",
            "use lower-case letters, digits, \"-\" and \".\"",
        ),
        &[
            example(
                "{distribution: {name: starter}, overrideConfig: {configMapName: My_Config}}",
                "spec.overrideConfig.configMapName",
            ),
            example(
                "{distribution: {name: starter, baseConfig: {configMapName: a/b}}}",
                "spec.distribution.baseConfig.configMapName",
            ),
            example(
                "{distribution: {name: starter, baseConfig: {configMapName: a, key: a/b}}}",
                "spec.distribution.baseConfig.key",
            ),
            example(
                "{distribution: {name: starter}, networking: {tls: {secretName: Tls}}}",
                "spec.networking.tls.secretName",
            ),
            example(
                "{distribution: {name: starter}, networking: {tls: {caBundle: {configMapName: Ca}}}}",
                "spec.networking.tls.caBundle.configMapName",
            ),
            example(
                "{distribution: {name: starter}, networking: {tls: {caBundle: {configMapName: ca, configMapKeys: ['../x']}}}}",
                "spec.networking.tls.caBundle.configMapKeys[0]",
            ),
            example(
                "{distribution: {name: starter}, networking: {allowedFrom: {namespaces: [ok, not ok]}}}",
                "spec.networking.allowedFrom.namespaces[1]",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {hostname: a234567890123456789012345678901234567890123456789012345678901234.example.com}}}",
                "spec.networking.expose.hostname",
            ),
            example(
                "{distribution: {name: starter}, networking: {allowedFrom: {labels: ['team=frontend']}}}",
                "spec.networking.allowedFrom.labels[0]",
            ),
            example(
                "{distribution: {name: starter}, workload: {storage: {storageClassName: Fast_SSD}}}",
                "spec.workload.storage.storageClassName",
            ),
            example(
                "{distribution: {name: starter}, workload: {storage: {existingClaim: My Data}}}",
                "spec.workload.storage.existingClaim",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {serviceAccountName: My SA}}}",
                "spec.workload.overrides.serviceAccountName",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {imagePullSecrets: [{name: A}]}}}",
                "spec.workload.overrides.imagePullSecrets[0].name",
            ),
            example(
                "{distribution: {name: starter}, externalProviders: {inference: [{providerId: My_Id, image: a}]}}",
                "spec.externalProviders.inference[0].providerId",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: redis, endpoint: 'r:1', password: {name: R, key: p}}}}",
                "spec.storage.kv.password.name",
            ),
        ],
    ),
    rule(
        "image-reference",
        (
            "is not a valid image reference",
            "use registry/repository:tag or repository@digest",
        ),
        &[
            example(
                "{distribution: {image: 'https://quay.io/a/b'}}",
                "spec.distribution.image",
            ),
            example(
                "{distribution: {image: 'quay.io/a b'}}",
                "spec.distribution.image",
            ),
            example(
                "{distribution: {name: starter}, externalProviders: {inference: [{providerId: a, image: 'a b'}]}}",
                "spec.externalProviders.inference[0].image",
            ),
        ],
    ),
    rule(
        "schema-id",
        (
            "is not a valid schema id",
            "use a schema such as llama-stack/0.7",
        ),
        &[example(
            "{distribution: {name: starter, schema: '0.7'}}",
            "spec.distribution.schema",
        )],
    ),
    rule(
        "amount",
        (
            "is not a valid amount",
            "use a size such as 10Gi, or a number of pods",
        ),
        &[
            example(
                "{distribution: {name: starter}, workload: {storage: {size: 0Gi}}}",
                "spec.workload.storage.size",
            ),
            example(
                "{distribution: {name: starter}, workload: {podDisruptionBudget: {minAvailable: most}}}",
                "spec.workload.podDisruptionBudget.minAvailable",
            ),
        ],
    ),
    rule(
        "variables",
        (
            "needs an environment variable that is already used",
            "change the name or id of one of the two",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: [{id: a-b, provider: vllm, apiKey: {name: s, key: k}}, {id: a_b, provider: vllm, apiKey: {name: s, key: k}}]}}",
                "spec.providers.inference[1].apiKey",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {id: kv, provider: vllm, secretRefs: {password: {name: s, key: k}}}}, storage: {kv: {type: redis, endpoint: 'r:1', password: {name: s, key: k}}}}",
                "spec.storage.kv.password",
            ),
            example(
                "{distribution: {name: starter}, providers: {vectorIo: {id: sql, provider: pgvector, host: {name: s, key: k}}}, storage: {sql: {type: postgres, connectionString: {name: s, key: k}}}}",
                "spec.providers.vectorIo.host",
            ),
            example(
                "{distribution: {name: starter}, providers: {vectorIo: {id: sql, provider: pgvector, secretRefs: {db: {name: s, key: k}}}}, storage: {sql: {type: postgres, connectionString: {name: s, key: k}}}}",
                "spec.providers.vectorIo.secretRefs.db",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {env: [{name: LLSD_VLLM_API_KEY, value: x}]}}}",
                "spec.workload.overrides.env[0].name",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {env: [{name: 'A=B', value: x}]}}}",
                "spec.workload.overrides.env[0].name",
            ),
        ],
    ),
    rule(
        "settings-or-secret",
        (
            "is set in both settings and secretRefs",
            "remove one of the two",
        ),
        &[example(
            "{distribution: {name: starter}, providers: {vectorIo: {provider: pgvector, settings: {password: a}, secretRefs: {password: {name: s, key: k}}}}}",
            "spec.providers.vectorIo.secretRefs.password",
        )],
    ),
    rule(
        "secret-files",
        (
            "is not a file with a key of a Secret",
            "write {name: <secret>, key: <key in it>, setting: <setting of the provider>}",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, secretFiles: {name: ca}}}}",
                "spec.providers.inference.secretFiles",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, secretFiles: [{name: ca, setting: tls_verify}]}}}",
                "spec.providers.inference.secretFiles[0].key",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, secretFiles: [{name: ca, key: ca.crt}]}}}",
                "spec.providers.inference.secretFiles[0]",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, secretFiles: [{name: ca, key: ca.crt, path: ca.crt}]}}}",
                "spec.providers.inference.secretFiles[0].path",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, secretFiles: [{name: ca, key: ca.crt, env: LLSD_CA}]}}}",
                "spec.providers.inference.secretFiles[0].env",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, settings: {tls_verify: true}, secretFiles: [{name: ca, key: ca.crt, setting: tls_verify}]}}}",
                "spec.providers.inference.secretFiles[0].setting",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, secretFiles: [{name: a, key: k, path: /k}, {name: b, key: k, path: /k}]}}}",
                "spec.providers.inference.secretFiles[1].path",
            ),
        ],
    ),
    rule(
        "unique-resources",
        ("duplicates an earlier item", "remove one of the two"),
        &[
            example(
                "{distribution: {name: starter}, resources: {models: [m, {name: m}]}}",
                "spec.resources.models[1]",
            ),
            example(
                "{distribution: {name: starter}, resources: {tools: [rag, rag]}}",
                "spec.resources.tools[1]",
            ),
            example(
                "{distribution: {name: starter}, resources: {shields: [a, {name: a, model: m}]}}",
                "spec.resources.shields[1]",
            ),
            example(
                "{distribution: {name: starter}, disabled: [postTraining, post_training]}",
                "spec.disabled[1]",
            ),
            example(
                "{distribution: {name: starter}, externalProviders: {inference: [{providerId: a, image: b}], safety: [{providerId: a, image: c}]}}",
                "spec.externalProviders.safety[0].providerId",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}}}",
                "spec.workload.overrides.volumes[1].name",
            ),
            example(
                "{distribution: {name: starter}, workload: {overrides: {volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]}}}",
                "spec.workload.overrides.volumeMounts[1].mountPath",
            ),
        ],
    ),
    rule(
        "disabled-form",
        (
            "is not an API or a provider",
            "use an API such as eval, or a provider such as inference/ollama",
        ),
        &[
            example(
                "{distribution: {name: starter}, disabled: ['inference/ollama/x']}",
                "spec.disabled[0]",
            ),
            example(
                "{distribution: {name: starter}, disabled: ['two words']}",
                "spec.disabled[0]",
            ),
        ],
    ),
    rule(
        "config-patch",
        (
            "cannot be part of the patch",
            "use the field of the resource for it, or name each provider by its provider_id",
        ),
        &[
            example(
                "{distribution: {name: starter}, configPatch: {server: {port: 9000}}}",
                "spec.configPatch.server.port",
            ),
            example(
                "{distribution: {name: starter}, configPatch: {server: {tls_certfile: null}}}",
                "spec.configPatch.server.tls_certfile",
            ),
            example(
                "{distribution: {name: starter}, configPatch: {server: null}}",
                "spec.configPatch.server",
            ),
            example(
                "{distribution: {name: starter}, configPatch: {providers: [a]}}",
                "spec.configPatch.providers",
            ),
            example(
                "{distribution: {name: starter}, configPatch: {providers: {inference: {provider_id: a}}}}",
                "spec.configPatch.providers.inference",
            ),
            example(
                "{distribution: {name: starter}, configPatch: {providers: {inference: [{config: {}}]}}}",
                "spec.configPatch.providers.inference[0].provider_id",
            ),
            example(
                "{distribution: {name: starter}, configPatch: {providers: {inference: [{provider_id: a}, {provider_id: a}]}}}",
                "spec.configPatch.providers.inference[1].provider_id",
            ),
        ],
    ),
    rule(
        "pod-template",
        (
            "belongs to the operator, or is not a pod template",
            "use the field of the resource for it, or a field of a pod template",
        ),
        &[
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {nodeSelectors: {a: b}}}}}",
                "spec.workload.podTemplate.spec.nodeSelectors",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {tolerations: gpu}}}}",
                "spec.workload.podTemplate",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {metadata: {labels: {app: mine}}}}}",
                "spec.workload.podTemplate.metadata.labels.app",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {containers: [{name: llama-stack, image: other}]}}}}",
                "spec.workload.podTemplate.spec.containers[0].image",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {containers: [{name: llama-stack, command: [sh]}]}}}}",
                "spec.workload.podTemplate.spec.containers[0].command",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {containers: [{name: llama-stack, env: [{name: A}]}]}}}}",
                "spec.workload.podTemplate.spec.containers[0].env",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {containers: [{name: side-car}]}}}}",
                "spec.workload.podTemplate.spec.containers[0].image",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {initContainers: [{name: A_B, image: i}]}}}}",
                "spec.workload.podTemplate.spec.initContainers[0].name",
            ),
            example(
                "{distribution: {name: starter}, workload: {podTemplate: {spec: {ephemeralContainers: [{name: a, image: i}]}}}}",
                "spec.workload.podTemplate.spec.ephemeralContainers",
            ),
        ],
    ),
    rule(
        "gateway",
        (
            "is not a valid reference to a Gateway",
            "write {parentRefs: [{name: public}], hostnames: [llama.example.com]}",
        ),
        &[
            example(
                "{distribution: {name: starter}, networking: {expose: {gateway: public}}}",
                "spec.networking.expose.gateway",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {gateway: {hostnames: [a.example.com]}}}}",
                "spec.networking.expose.gateway.parentRefs",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {gateway: {parentRefs: [{name: Bad Name}]}}}}",
                "spec.networking.expose.gateway.parentRefs[0].name",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {gateway: {parentRefs: [{name: a, port: 70000}]}}}}",
                "spec.networking.expose.gateway.parentRefs[0].port",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {gateway: {parentRefs: [{name: a}], hostnames: [a_b]}}}}",
                "spec.networking.expose.gateway.hostnames[0]",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {hostname: a.example.com, gateway: {parentRefs: [{name: a}]}}}}",
                "spec.networking.expose.hostname",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {gateway: {parentRefs: [{name: a}], backendTLS: {}}}}}",
                "spec.networking.expose.gateway.backendTLS",
            ),
            example(
                "{distribution: {name: starter}, networking: {tls: {secretName: t}, expose: {gateway: {parentRefs: [{name: a}]}}}}",
                "spec.networking.expose.gateway.hostnames",
            ),
        ],
    ),
    rule(
        "access-address",
        (
            "is not a valid address",
            "use an http or https URL, the name of a header, or a range such as 10.0.0.0/8",
        ),
        &[
            example(
                "{distribution: {name: starter}, access: {kubernetes: {apiServerUrl: 'kubernetes.default'}}}",
                "spec.access.kubernetes.apiServerUrl",
            ),
            example(
                "{distribution: {name: starter}, access: {oauth2: {jwks: {uri: 'keys'}}}}",
                "spec.access.oauth2.jwks.uri",
            ),
            example(
                "{distribution: {name: starter}, access: {oauth2: {introspection: {url: 'ldap://a', clientId: llsd, clientSecret: {name: s, key: k}}}}}",
                "spec.access.oauth2.introspection.url",
            ),
            example(
                "{distribution: {name: starter}, access: {github: {githubApiBaseUrl: github}}}",
                "spec.access.github.githubApiBaseUrl",
            ),
            example(
                "{distribution: {name: starter}, access: {custom: {endpoint: 'auth:80'}}}",
                "spec.access.custom.endpoint",
            ),
            example(
                "{distribution: {name: starter}, access: {upstreamHeader: {principalHeader: 'x user'}}}",
                "spec.access.upstreamHeader.principalHeader",
            ),
            example(
                "{distribution: {name: starter}, access: {upstreamHeader: {principalHeader: x-user, attributeHeaders: {teams: 'a:b'}}}}",
                "spec.access.upstreamHeader.attributeHeaders.teams",
            ),
            example(
                "{distribution: {name: starter}, access: {upstreamHeader: {principalHeader: x-user, trustedProxyCidrs: [10.0.0.0/33]}}}",
                "spec.access.upstreamHeader.trustedProxyCidrs[0]",
            ),
        ],
    ),
    rule(
        "access-rule",
        (
            "is not a valid rule",
            "set either permit or forbid, and at most one of when and unless, with conditions that the server knows",
        ),
        &[
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, policy: [{when: [user is owner]}]}}",
                "spec.access.policy[0]",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, policy: [{permit: {actions: [read]}, forbid: {actions: [read]}}]}}",
                "spec.access.policy[0]",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, policy: [{permit: {actions: [read]}, when: [user is owner], unless: [user is owner]}]}}",
                "spec.access.policy[0].unless",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, policy: [{permit: {actions: [read]}, when: [user is admin]}]}}",
                "spec.access.policy[0].when[0]",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, policy: [{permit: {actions: [read], resource: llama}}]}}",
                "spec.access.policy[0].permit.resource",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, routePolicy: [{}]}}",
                "spec.access.routePolicy[0]",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, routePolicy: [{permit: {paths: ['*']}, when: [user is owner]}]}}",
                "spec.access.routePolicy[0].when[0]",
            ),
            example(
                "{distribution: {name: starter}, access: {kubernetes: {}, routePolicy: [{forbid: {paths: [v1/models]}}]}}",
                "spec.access.routePolicy[0].forbid.paths[0]",
            ),
        ],
    ),
    rule(
        "registrations",
        (
            "is not a resource that can be registered",
            "use a unique name and the id of a provider",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {datasets: [{name: a, purpose: eval/question-answer, uri: 'https://a'}, {name: a, purpose: eval/question-answer, uri: 'https://b'}]}}",
                "spec.resources.datasets[1]",
            ),
            example(
                "{distribution: {name: starter}, resources: {vectorStores: [{name: a, embeddingModel: m, embeddingDimension: 8, provider: 'a b'}]}}",
                "spec.resources.vectorStores[0].provider",
            ),
        ],
    ),
    rule(
        "telemetry",
        (
            "is not a valid address for telemetry",
            "use the URL of a collector, and a port that the server does not use otherwise",
        ),
        &[
            example(
                "{distribution: {name: starter}, telemetry: {otlp: {endpoint: 'otel-collector:4317'}}}",
                "spec.telemetry.otlp.endpoint",
            ),
            example(
                "{distribution: {name: starter}, networking: {port: 9464}, telemetry: {metrics: {}}}",
                "spec.telemetry.metrics.port",
            ),
        ],
    ),
    rule(
        "network-peer",
        (
            "is not a peer of a NetworkPolicy",
            "use podSelector and namespaceSelector, or ipBlock",
        ),
        &[
            example(
                "{distribution: {name: starter}, networking: {allowedFrom: {peers: [{}]}}}",
                "spec.networking.allowedFrom.peers[0]",
            ),
            example(
                "{distribution: {name: starter}, networking: {egress: [{to: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]}}",
                "spec.networking.egress[0].to[0].ipBlock",
            ),
        ],
    ),
    rule(
        "tool-endpoint",
        (
            "is not a valid address of an MCP server",
            "use the URL of an MCP server, without a credential",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {tools: [{name: files, endpoint: 'mcp:8000'}]}}",
                "spec.resources.tools[0].endpoint",
            ),
            example(
                "{distribution: {name: starter}, resources: {tools: [{name: files, endpoint: 'http://mcp', apiKey: {name: s, key: k}}]}}",
                "spec.resources.tools[0].apiKey",
            ),
        ],
    ),
    rule(
        "kv-postgres",
        (
            "is not a complete connection to PostgreSQL",
            "add connectionString, or host and user",
        ),
        &[
            example(
                "{distribution: {name: starter}, storage: {kv: {type: postgres}}}",
                "spec.storage.kv.connectionString",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: postgres, host: pg}}}",
                "spec.storage.kv.user",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: postgres, connectionString: {name: s, key: k}, host: pg}}}",
                "spec.storage.kv.host",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: postgres, host: pg, user: u, endpoint: 'redis://r'}}}",
                "spec.storage.kv.endpoint",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: redis, endpoint: 'redis://r', user: u}}}",
                "spec.storage.kv.user",
            ),
        ],
    ),
    rule(
        "kv-mongodb",
        (
            "is not a complete connection to MongoDB",
            "add host, and user and password or neither of them",
        ),
        &[
            example(
                "{distribution: {name: starter}, storage: {kv: {type: mongodb, user: u, password: {name: s, key: k}}}}",
                "spec.storage.kv.host",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: mongodb, host: m, user: u}}}",
                "spec.storage.kv.password",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: mongodb, host: m, password: {name: s, key: k}}}}",
                "spec.storage.kv.user",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: mongodb, host: m, connectionString: {name: s, key: k}}}}",
                "spec.storage.kv.connectionString",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: mongodb, host: m, endpoint: 'redis://r'}}}",
                "spec.storage.kv.endpoint",
            ),
            example(
                "{distribution: {name: starter}, storage: {kv: {type: mongodb, host: m, tlsMode: require}}}",
                "spec.storage.kv.tlsMode",
            ),
        ],
    ),
    rule(
        "embedding-dimension",
        (
            "is set for a model of type \"llm\"",
            "set modelType: embedding, or remove the field",
        ),
        &[example(
            "{distribution: {name: starter}, resources: {models: [{name: m, modelType: llm, embeddingDimension: 4}]}}",
            "spec.resources.models[0].embeddingDimension",
        )],
    ),
];
