//! Rules over models, tools, shields, exposure and the parts of a database's address.

use super::{rule, whole};
use crate::rules::{Rule, example};

pub(crate) const RULES: &[Rule] = &[
    rule(
        "models",
        whole(
            named!(
                "models",
                "'name', 'provider', 'modelType', 'contextLength', 'quantization', 'embeddingDimension', 'metadata'"
            ),
            "spec.resources.models",
        ),
        (
            "holds something that is neither a name nor a model",
            "write a name, or an object with name and any of provider, modelType, contextLength, quantization, embeddingDimension, metadata",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {models: [7]}}",
                "spec.resources.models[0]",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: [a, {provider: vllm}]}}",
                "spec.resources.models[1].name",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: ['']}}",
                "spec.resources.models[0]",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: [{name: m, context_length: 4096}]}}",
                "spec.resources.models[0].context_length",
            ),
        ],
    ),
    rule(
        "model-numbers",
        whole(
            "variables.models.all(m, type(m) != map || ['contextLength', 'embeddingDimension'].all(f, !(f in m) || (type(m[f]) == int && m[f] >= 1 && m[f] <= 100000000)))",
            "spec.resources.models",
        ),
        (
            "contextLength or embeddingDimension is no number from 1 to 100000000",
            "use a whole number, without quotes",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {models: [{name: m, contextLength: '4096'}]}}",
                "spec.resources.models[0].contextLength",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: [{name: m, embeddingDimension: 0}]}}",
                "spec.resources.models[0].embeddingDimension",
            ),
        ],
    ),
    rule(
        "tools",
        whole(
            named!("tools", "'name', 'provider'"),
            "spec.resources.tools",
        ),
        (
            "holds something that is neither a name nor a tool",
            "write a name, or an object with name and provider",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {tools: [[rag]]}}",
                "spec.resources.tools[0]",
            ),
            example(
                "{distribution: {name: starter}, resources: {tools: [{name: rag, providr: a}]}}",
                "spec.resources.tools[0].providr",
            ),
        ],
    ),
    rule(
        "shields",
        whole(
            named!("shields", "'name', 'provider', 'model'"),
            "spec.resources.shields",
        ),
        (
            "holds something that is neither a name nor a shield",
            "write a name, or an object with name, provider and model",
        ),
        &[example(
            "{distribution: {name: starter}, resources: {shields: [{model: m}]}}",
            "spec.resources.shields[0].name",
        )],
    ),
    rule(
        "expose",
        whole(
            concat!(
                "!has(object.spec.networking) || !has(object.spec.networking.expose) || type(object.spec.networking.expose) == bool || ",
                "(type(object.spec.networking.expose) == map && ",
                "object.spec.networking.expose.all(f, f in ['enabled', 'hostname', 'ingressClassName', 'tlsSecretName', 'annotations']) && ",
                "(!has(object.spec.networking.expose.enabled) || type(object.spec.networking.expose.enabled) == bool) && ",
                "['hostname', 'ingressClassName', 'tlsSecretName'].all(f, !(f in object.spec.networking.expose) || ",
                "(type(object.spec.networking.expose[f]) == string && object.spec.networking.expose[f] != '')))"
            ),
            "spec.networking.expose",
        ),
        (
            "must be true, false or an object",
            "write true, or {hostname: llama.example.com}",
        ),
        &[
            example(
                "{distribution: {name: starter}, networking: {expose: 'true'}}",
                "spec.networking.expose",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {hostname: 5}}}",
                "spec.networking.expose.hostname",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {host: a.example.com}}}",
                "spec.networking.expose.host",
            ),
            example(
                "{distribution: {name: starter}, networking: {expose: {enabled: 'no'}}}",
                "spec.networking.expose.enabled",
            ),
        ],
    ),
    SQL_NEEDS_TYPE,
    rule(
        "postgres-needs-address",
        whole(
            "!has(variables.sql.type) || variables.sql.type != 'postgres' || has(variables.sql.connectionString) || (has(variables.sql.host) && has(variables.sql.user))",
            "spec.storage.sql",
        ),
        (
            "postgres needs connectionString, or host and user",
            "add connectionString: {name: <secret>, key: <key in it>}, or host and user",
        ),
        &[
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres}}}",
                "spec.storage.sql.connectionString",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: db}}}",
                "spec.storage.sql.user",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, user: u, database: d}}}",
                "spec.storage.sql.host",
            ),
        ],
    ),
    rule(
        "postgres-one-address",
        whole(
            "!has(variables.sql.type) || variables.sql.type != 'postgres' || !has(variables.sql.connectionString) || !['host', 'port', 'database', 'user', 'password'].exists(f, f in variables.sql)",
            "spec.storage.sql",
        ),
        (
            "has connectionString and parts of an address, which say the same",
            "keep connectionString or the parts",
        ),
        &[example(
            "{distribution: {name: starter}, storage: {sql: {type: postgres, connectionString: {name: a, key: b}, host: db}}}",
            "spec.storage.sql.host",
        )],
    ),
    rule(
        "postgres-parts",
        whole(
            concat!(
                "['host', 'database', 'user'].all(f, !(f in variables.sql) || ",
                text!("variables.sql[f]"),
                " || ",
                reference!("variables.sql[f]"),
                ") && ",
                "(!has(variables.sql.port) || (type(variables.sql.port) == int && variables.sql.port >= 1 && variables.sql.port <= 65535) || ",
                "(type(variables.sql.port) == string && variables.sql.port.matches('^[1-9][0-9]{0,4}$')) || ",
                reference!("variables.sql.port"),
                ")"
            ),
            "spec.storage.sql",
        ),
        (
            "host, port, database or user is neither a text nor a reference",
            "write a text, or {name: <secret>, key: <key in it>}",
        ),
        &[
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: true, user: u}}}",
                "spec.storage.sql.host",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: h, user: {name: s}}}}",
                "spec.storage.sql.user.key",
            ),
            example(
                "{distribution: {name: starter}, storage: {sql: {type: postgres, host: h, user: u, port: 0}}}",
                "spec.storage.sql.port",
            ),
        ],
    ),
];

pub(crate) const SQL_NEEDS_TYPE: Rule = rule(
    "sql-needs-type",
    whole(
        "has(variables.sql.type) || !['connectionString', 'host', 'port', 'database', 'user', 'password'].exists(f, f in variables.sql)",
        "spec.storage.sql.type",
    ),
    (
        "is missing, so that it is sqlite, which is a file and has no address",
        "add type: postgres",
    ),
    &[
        example(
            "{distribution: {name: starter}, storage: {sql: {connectionString: {name: a, key: b}}}}",
            "spec.storage.sql.type",
        ),
        example(
            "{distribution: {name: starter}, storage: {sql: {host: db}}}",
            "spec.storage.sql.type",
        ),
    ],
);
