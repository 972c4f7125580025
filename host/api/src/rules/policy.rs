//! Rules over the parts of a resource that may have several shapes, in the words of a
//! ValidatingAdmissionPolicy.
//!
//! To a policy the object has no types, so it sees what the API server's own rules cannot. An
//! expression that errors is refused with its own text for a message: each asks for the type first
//! and leaves other shapes to the rule about the shape.

use super::{Example, Expression, Layer, Rule, example, named_example};

/// The providers of the API `k`, as a list.
macro_rules! entries {
    () => {
        "(type(variables.providers[k]) == list ? variables.providers[k] : [variables.providers[k]])"
    };
}

/// Nothing is asked again of a resource whose spec did not change: finalizers and labels of a
/// resource that is older than a rule can always be edited.
pub(crate) const MATCH_CONDITION: &str =
    "request.operation == 'CREATE' || object.spec != oldObject.spec";

/// Names for what several rules look at.
pub(crate) const POLICY_VARIABLES: &[(&str, &str)] = &[
    (
        "providers",
        "has(object.spec.providers) ? object.spec.providers : {}",
    ),
    (
        "models",
        "has(object.spec.resources) && has(object.spec.resources.models) ? object.spec.resources.models : []",
    ),
    (
        "tools",
        "has(object.spec.resources) && has(object.spec.resources.tools) ? object.spec.resources.tools : []",
    ),
    (
        "shields",
        "has(object.spec.resources) && has(object.spec.resources.shields) ? object.spec.resources.shields : []",
    ),
    (
        "sql",
        "has(object.spec.storage) && has(object.spec.storage.sql) ? object.spec.storage.sql : {}",
    ),
    (
        "ids",
        concat!(
            "variables.providers.map(k, ",
            entries!(),
            ".filter(e, type(e) == map).map(e, has(e.id) ? (type(e.id) == string ? e.id : '') : ",
            "(has(e.provider) && type(e.provider) == string ? e.provider.split('::')[e.provider.split('::').size() - 1] : '')",
            ").filter(id, id != ''))",
        ),
    ),
    (
        "repeated",
        "variables.ids.map(l, l.filter(id, variables.ids.map(m, m.filter(other, other == id).size()).sum() > 1).join(', ')).filter(text, text != '').join(', ')",
    ),
];

/// True of every provider of the API `k` that is an object.
macro_rules! each_entry {
    ($($condition:expr),+) => {
        concat!(entries!(), ".all(e, type(e) != map || (", $($condition),+, "))")
    };
}

/// `{name, key}` with texts.
macro_rules! key_of_secret {
    ($x:expr) => {
        concat!(
            "(has(",
            $x,
            ".name) && type(",
            $x,
            ".name) == string && ",
            $x,
            ".name != '' && ",
            "has(",
            $x,
            ".key) && type(",
            $x,
            ".key) == string && ",
            $x,
            ".key != '' && ",
            $x,
            ".all(f, f in ['name', 'key']))"
        )
    };
}

/// A secret reference in either form.
macro_rules! reference {
    ($x:expr) => {
        concat!(
            "(type(",
            $x,
            ") == map && (has(",
            $x,
            ".secretKeyRef) ? ",
            "(",
            $x,
            ".all(f, f == 'secretKeyRef') && type(",
            $x,
            ".secretKeyRef) == map && ",
            key_of_secret!(concat!($x, ".secretKeyRef")),
            ") : ",
            key_of_secret!($x),
            "))"
        )
    };
}

/// A text with something in it.
macro_rules! text {
    ($x:expr) => {
        concat!("(type(", $x, ") == string && ", $x, ".trim() != '')")
    };
}

/// A text, or an object that has a name and known fields only.
macro_rules! named {
    ($list:literal, $fields:literal) => {
        concat!(
            "variables.",
            $list,
            ".all(m, type(m) == string ? m.trim() != '' : ",
            "(type(m) == map && has(m.name) && ",
            text!("m.name"),
            " && m.all(f, f in [",
            $fields,
            "]) && ",
            "(!has(m.provider) || ",
            text!("m.provider"),
            ")))"
        )
    };
}

const fn rule(
    id: &'static str,
    expression: Expression,
    (problem, fix): (&'static str, &'static str),
    examples: &'static [Example],
) -> Rule {
    Rule {
        id,
        layer: Layer::Policy,
        problem,
        fix,
        expression: Some(expression),
        examples,
    }
}

const fn per_api(rule: &'static str, suffix: &'static str) -> Expression {
    Expression::PolicyPerApi { rule, suffix }
}

const fn whole(rule: &'static str, field: &'static str) -> Expression {
    Expression::Policy {
        rule,
        field,
        culprits: None,
    }
}

const REFERENCE: (&str, &str) = (
    "is no reference to a key of a Secret",
    "write {name: <secret>, key: <key in it>}",
);

pub(super) const RULES: &[Rule] = &[
    rule(
        "resource-name",
        whole(
            "request.operation != 'CREATE' || !has(object.metadata.name) || object.metadata.name == '' || (object.metadata.name.size() <= 48 && object.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
            "metadata.name",
        ),
        (
            "cannot be the beginning of the names of other objects",
            "use at most 48 lower-case letters, digits and \"-\"",
        ),
        &[
            named_example(
                "a-name-that-is-longer-than-its-children-can-have-x",
                "metadata.name",
            ),
            named_example("a.name", "metadata.name"),
        ],
    ),
    rule(
        "provider-shape",
        per_api(
            "type(variables.providers[k]) == map || (type(variables.providers[k]) == list && variables.providers[k].size() <= 256 && variables.providers[k].all(e, type(e) == map))",
            "",
        ),
        (
            "must be a provider or a list of them",
            "write {provider: …} or a list of such objects",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: vllm}}",
                "spec.providers.inference",
            ),
            example(
                "{distribution: {name: starter}, providers: {safety: true}}",
                "spec.providers.safety",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: [vllm]}}",
                "spec.providers.inference[0]",
            ),
        ],
    ),
    rule(
        "provider-fields",
        per_api(
            each_entry!(
                "e.all(f, f in ['id', 'provider', 'endpoint', 'apiKey', 'host', 'settings', 'secretRefs'])"
            ),
            "",
        ),
        (
            "has a field that providers do not have",
            "use id, provider, endpoint, apiKey, host, settings, secretRefs; everything else belongs below settings",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, apikey: {name: s, key: k}}}}",
                "spec.providers.inference.apikey",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: [{provider: vllm, url: 'http://a'}]}}",
                "spec.providers.inference[0].url",
            ),
        ],
    ),
    rule(
        "provider-name",
        per_api(
            each_entry!(
                "has(e.provider) && type(e.provider) == string && e.provider.size() <= 128 && ",
                "e.provider.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(::[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)*$')"
            ),
            ".provider",
        ),
        (
            "does not name a provider",
            "name the kind of provider, for example vllm or remote::vllm",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: {endpoint: 'http://a'}}}",
                "spec.providers.inference.provider",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: ''}}}",
                "spec.providers.inference.provider",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: 'remote::'}}}",
                "spec.providers.inference.provider",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: 7}}}",
                "spec.providers.inference.provider",
            ),
        ],
    ),
    rule(
        "provider-id",
        per_api(
            each_entry!(
                "!has(e.id) || (type(e.id) == string && e.id.size() <= 63 && ",
                "e.id.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$'))"
            ),
            ".id",
        ),
        (
            "is no provider id",
            "use up to 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit first and last",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: {id: 'a b', provider: vllm}}}",
                "spec.providers.inference.id",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {id: 1, provider: vllm}}}",
                "spec.providers.inference.id",
            ),
        ],
    ),
    rule(
        "id-in-list",
        per_api(
            concat!(
                "type(variables.providers[k]) != list || variables.providers[k].size() < 2 || ",
                "variables.providers[k].all(e, type(e) != map || has(e.id))"
            ),
            "[*].id",
        ),
        (
            "is missing, and more than one provider is listed there",
            "give each provider an id of its own",
        ),
        &[example(
            "{distribution: {name: starter}, providers: {inference: [{id: a, provider: vllm}, {provider: ollama}]}}",
            "spec.providers.inference[1].id",
        )],
    ),
    rule(
        "unique-ids",
        Expression::Policy {
            rule: "variables.repeated == ''",
            field: "spec.providers",
            culprits: Some("variables.repeated"),
        },
        (
            "the same id is given to more than one provider",
            "give each provider its own id",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: [{id: a, provider: vllm}, {id: a, provider: ollama}]}}",
                "spec.providers.inference[1].id",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {id: a, provider: vllm}, safety: {id: a, provider: llama-guard}}}",
                "spec.providers.safety.id",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: bedrock}, safety: {provider: 'remote::bedrock'}}}",
                "spec.providers.safety.id",
            ),
        ],
    ),
    rule(
        "endpoint",
        per_api(
            each_entry!(
                r"!has(e.endpoint) || (type(e.endpoint) == string && e.endpoint.size() <= 2048 && e.endpoint.matches('^\\S+$'))"
            ),
            ".endpoint",
        ),
        ("is no address", "give an address such as http://vllm:8000"),
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, endpoint: ''}}}",
                "spec.providers.inference.endpoint",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, endpoint: 'http://a b'}}}",
                "spec.providers.inference.endpoint",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, endpoint: 8000}}}",
                "spec.providers.inference.endpoint",
            ),
        ],
    ),
    rule(
        "api-key",
        per_api(
            each_entry!("!has(e.apiKey) || ", reference!("e.apiKey")),
            ".apiKey",
        ),
        REFERENCE,
        &[
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: secret-value}}}",
                "spec.providers.inference.apiKey",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: {name: s}}}}",
                "spec.providers.inference.apiKey.key",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: {secretKeyRef: {key: k}}}}}",
                "spec.providers.inference.apiKey.secretKeyRef.name",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: {name: a, key: k, secretKeyRef: {name: s, key: k}}}}}",
                "spec.providers.inference.apiKey",
            ),
            example(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: {secretKeyRef: s}}}}",
                "spec.providers.inference.apiKey.secretKeyRef",
            ),
        ],
    ),
    rule(
        "host",
        per_api(
            each_entry!(
                "!has(e.host) || ",
                text!("e.host"),
                " || ",
                reference!("e.host")
            ),
            ".host",
        ),
        (
            "is neither a host name nor a reference to a key of a Secret",
            "write a host name, or {name: <secret>, key: <key in it>}",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {vectorIo: {provider: pgvector, host: 5}}}",
                "spec.providers.vectorIo.host",
            ),
            example(
                "{distribution: {name: starter}, providers: {vectorIo: {provider: pgvector, host: ''}}}",
                "spec.providers.vectorIo.host",
            ),
        ],
    ),
    rule(
        "settings",
        per_api(
            each_entry!("!has(e.settings) || type(e.settings) == map"),
            ".settings",
        ),
        ("must be an object", "write name: value pairs below it"),
        &[example(
            "{distribution: {name: starter}, providers: {inference: {provider: vllm, settings: [a]}}}",
            "spec.providers.inference.settings",
        )],
    ),
    rule(
        "secret-refs",
        per_api(
            each_entry!(
                "!has(e.secretRefs) || (type(e.secretRefs) == map && e.secretRefs.all(n, ",
                reference!("e.secretRefs[n]"),
                "))"
            ),
            ".secretRefs",
        ),
        (
            "must hold references to keys of Secrets",
            "write <name>: {name: <secret>, key: <key in it>} below it",
        ),
        &[
            example(
                "{distribution: {name: starter}, providers: {vectorIo: {provider: pgvector, secretRefs: {password: p}}}}",
                "spec.providers.vectorIo.secretRefs.password",
            ),
            example(
                "{distribution: {name: starter}, providers: {vectorIo: {provider: pgvector, secretRefs: [a]}}}",
                "spec.providers.vectorIo.secretRefs",
            ),
        ],
    ),
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
