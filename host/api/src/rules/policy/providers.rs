//! Rules for `spec.providers`, and for the name of the resource.

use super::depth::DEPTH;
use super::{REFERENCE, per_api, rule, whole};
use crate::limits::TOO_DEEP;
use crate::rules::{Expression, Rule, example, named_example};

pub(crate) const RULES: &[Rule] = &[
    rule(
        "resource-name",
        whole(
            "request.operation != 'CREATE' || !has(object.metadata.name) || object.metadata.name == '' || (object.metadata.name.size() <= 48 && object.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
            "metadata.name",
        ),
        (
            "is not valid as the prefix of the names of child objects",
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
        "spec-depth",
        whole(DEPTH, "spec"),
        TOO_DEEP,
        &[example(
            concat!(
                "{distribution: {name: starter}, providers: {inference: {provider: vllm, settings: ",
                "{a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: ",
                "[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]",
                "}}}}}}}}}}}}}}}}}}",
            ),
            "spec.providers.inference.settings",
        )],
    ),
    rule(
        "provider-shape",
        per_api(
            "type(variables.providers[k]) == map || (type(variables.providers[k]) == list && variables.providers[k].size() <= 256 && variables.providers[k].all(e, type(e) == map))",
            "",
        ),
        (
            "must be an object or a list of objects",
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
                "e.all(f, f in ['id', 'provider', 'endpoint', 'apiKey', 'host', 'settings', 'secretRefs', 'secretFiles'])"
            ),
            "",
        ),
        (
            "has an unknown field",
            "use id, provider, endpoint, apiKey, host, settings, secretRefs, secretFiles; put all other fields under settings",
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
            "is missing or not a valid provider type",
            "set the provider type, for example vllm or remote::vllm",
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
            "is not a valid provider id",
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
            "is missing, but more than one provider is listed",
            "set an id for each provider",
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
            offenders: Some("variables.repeated"),
        },
        (
            "more than one provider has the same id",
            "use a unique id for each provider",
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
        (
            "is not a valid address",
            "use an address such as http://vllm:8000",
        ),
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
                string!("e.host"),
                " || ",
                reference!("e.host")
            ),
            ".host",
        ),
        (
            "is not a valid host name or secret reference",
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
        ("must be an object", "use name: value pairs"),
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
            "must contain only secret references",
            "write <name>: {name: <secret>, key: <key in it>}",
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
];
